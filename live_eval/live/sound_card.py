"""Open a microphone and an output device through PortAudio.

The devices' threads only copy samples and count xruns; the event loop does the rest and polls the buffers
every few milliseconds. The threads need the interpreter, so they and the sound system's threads get real-time
priority if permitted; otherwise, the device buffers are twice as long.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import UsageError
from live_eval.live.c_messages import no_c_messages
from live_eval.live.devices import WITHOUT_DEVICES, AudioDevice, find_device, list_devices, sounddevice
from live_eval.live.jitter_buffer import PlayoutBuffer
from live_eval.live.updates import AudioSide

__all__ = ["SoundCard", "open_sound_card"]

_RATES_HZ = (48_000, 44_100, 24_000, 16_000)
_BLOCK_MS = 10
_MOST_BLOCKS = 300  # three seconds of unread audio
_LATENCY_S = 0.06
_LATENCY_WITHOUT_REAL_TIME_S = 0.12
_REAL_TIME = 2  # higher than the priority of the event loop; see `live_eval.session.event_loop`
_SETTLES_NS = 3_000_000_000
_STALLED_NS = 400_000_000
_GONE_NS = 5_000_000_000
_REOPEN_NS = 1_000_000_000
_CLOSES_S = 2.0


class _Stream:
    """One direction of a sound card."""

    def __init__(self, device: AudioDevice) -> None:
        self.device = device
        self.xruns = 0
        self.stream: Any = None
        self._open_stream: Callable[[], Any] = lambda: None
        self._problem = ""
        self._called_ns = time.monotonic_ns()
        self._started_ns = 0
        self._stopping = False

    def start(self, open_stream: Callable[[], Any]) -> None:
        """Open and start PortAudio's stream."""
        self._open_stream, self.stream = open_stream, open_stream()
        # PulseAudio may take seconds until its first callback.
        self._called_ns = self._started_ns = time.monotonic_ns() + _SETTLES_NS
        self.stream.start()

    def close(self) -> None:
        """Close PortAudio's stream, if it was opened."""
        self._stopping = True
        if self.stream is not None:
            self.stream.close(ignore_errors=True)

    def called(self, *, lost: bool) -> int:
        """Record a PortAudio callback and return its time."""
        self._called_ns = time.monotonic_ns()
        self._problem = ""
        self.xruns += lost
        return self._called_ns

    def finished(self) -> None:
        """Record that PortAudio has stopped the stream."""
        if not self._stopping:
            self._problem = self._problem or f"{self.device.name!r} has stopped: was it unplugged?"

    @property
    def problem(self) -> str:
        """The device's failure; empty while the device works."""
        if not self._problem and time.monotonic_ns() - self._called_ns > _GONE_NS:
            seconds = _GONE_NS // 1_000_000_000
            self._problem = f"{self.device.name!r} has sent nothing for {seconds} s: was it unplugged?"
        return self._problem

    @property
    def stalled(self) -> bool:
        """Whether PortAudio has stopped calling back, as some sound systems do after an underrun."""
        return time.monotonic_ns() - max(self._called_ns, self._started_ns) > _STALLED_NS

    def restart(self) -> None:
        """Restart the stream if it is stalled."""
        if self.problem or not self.stalled:
            return
        self._stopping = True
        try:
            self.stream.abort(ignore_errors=True)
            with _real_time():
                self.stream.start()
        except sounddevice().PortAudioError as error:
            self._problem = f"{self.device.name!r} cannot be restarted: {error}"
        finally:
            self._stopping = False
        self._started_ns = time.monotonic_ns()
        self.xruns += 1

    def reopen(self) -> None:
        """Open the device again after a `problem`; the problem remains until the device sends audio."""
        if time.monotonic_ns() - self._started_ns < _REOPEN_NS:
            return
        self.close()
        with contextlib.suppress(sounddevice().PortAudioError), _real_time():
            self.start(self._open_stream)
        self._started_ns = time.monotonic_ns()
        self._stopping = False


class SoundCard:
    """Play to an open output device and, optionally, read an open microphone, as an `AudioSink`.

    Use `open_sound_card` to create one.
    """

    def __init__(self, microphone: AudioDevice | None, loudspeaker: AudioDevice, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        """Rate of both devices."""
        self._input = _Stream(microphone) if microphone is not None else None
        self._output = _Stream(loudspeaker)
        self._streams = [each for each in (self._input, self._output) if each is not None]
        self._sides = {side: PlayoutBuffer(rate_hz) for side in AudioSide}
        self._played: deque[tuple[int, int]] = deque(maxlen=_MOST_BLOCKS)
        self._blocks: deque[tuple[NDArray[np.int16], int]] = deque(maxlen=_MOST_BLOCKS)
        self._restarting: threading.Thread | None = None
        self._plays = False  # whether the last block to the output device was audible

    @property
    def microphone(self) -> AudioDevice | None:
        """The input device, if any."""
        return self._input.device if self._input is not None else None

    @property
    def loudspeaker(self) -> AudioDevice:
        """The output device."""
        return self._output.device

    @property
    def input_xruns(self) -> int:
        """Number of times that microphone samples were dropped by the device or not read in time."""
        return self._input.xruns if self._input is not None else 0

    @property
    def output_xruns(self) -> int:
        """Number of times that the output device had to wait for samples while it played audio."""
        return self._output.xruns

    def problem(self, side: AudioSide) -> str:
        """Return the failure of a side's device, such as an unplugged one; empty while it works."""
        stream = self._input if side is AudioSide.USER else self._output
        return stream.problem if stream is not None else ""

    @property
    def stalled(self) -> bool:
        """Whether a stream is stalled or a device is lost, so `restart` is needed."""
        return any(each.stalled or each.problem for each in self._streams)

    def restart(self) -> None:
        """Restart stalled streams and reopen lost devices, in a thread as the sound system may hang."""
        if self._restarting is None or not self._restarting.is_alive():
            self._restarting = threading.Thread(target=self._restart, daemon=True)
            self._restarting.start()

    def _restart(self) -> None:
        for each in self._streams:
            each.restart()
            if each.problem:
                each.reopen()

    def begin(self) -> None:
        """Discard the captured audio, and count xruns from now: nobody has read the blocks so far."""
        self._blocks.clear()
        for each in self._streams:
            each.xruns = 0

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """See `AudioSink.play`; while the output device is lost, the audio is discarded."""
        if not self._output.problem:
            self._sides[side].push(pcm, rate_hz, paced=paced)

    def drop(self) -> None:
        """See `AudioSink.drop`."""
        self._sides[AudioSide.REPLY].drop()

    def blocks(self) -> Iterator[tuple[NDArray[np.int16], int]]:
        """Yield the blocks captured since the last call, each with its arrival time."""
        while self._blocks:
            yield self._blocks.popleft()

    def played(self) -> Iterator[tuple[int, int]]:
        """Yield the size in samples and the time of each block played since the last call."""
        while self._played:
            yield self._played.popleft()

    def began(self, side: AudioSide) -> int:
        """Return the index, among all played samples, at which a side's audio last began after silence."""
        return self._sides[side].began

    def start(self, portaudio: Any) -> None:
        """Open and start the devices; call `close` even if this fails.

        Raises:
            PortAudioError: A device cannot be opened.
        """
        with _real_time() as granted:  # the threads of PortAudio and the sound system inherit the priority
            settings: dict[str, Any] = {
                "samplerate": self.rate_hz,
                "blocksize": self.rate_hz * _BLOCK_MS // 1000,
                "dtype": "int16",
                "latency": _LATENCY_S if granted else _LATENCY_WITHOUT_REAL_TIME_S,
            }
            self._output.start(
                functools.partial(
                    portaudio.OutputStream,
                    **settings,
                    device=self.loudspeaker.number,
                    channels=min(2, self.loudspeaker.outputs),
                    callback=self._requested,
                    finished_callback=self._output.finished,
                )
            )
            if self._input is not None:
                self._input.start(
                    functools.partial(
                        portaudio.InputStream,
                        **settings,
                        device=self._input.device.number,
                        channels=1,
                        callback=self._captured,
                        finished_callback=self._input.finished,
                    )
                )

    def close(self) -> None:
        """Close the devices; abandon devices that the sound system does not close in time."""
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(_CLOSES_S)
        if closing.is_alive():  # otherwise, PortAudio's exit handler would also hang
            atexit.unregister(sounddevice()._exit_handler)

    def _close(self) -> None:
        if self._restarting is not None:
            self._restarting.join()
        for each in self._streams:
            each.close()

    # -- On the devices' threads -------------------------------------------------------------------------

    def _captured(self, data: NDArray[np.int16], frames: int, _: object, status: Any) -> None:
        assert self._input is not None
        at_ns = self._input.called(lost=status.input_overflow or len(self._blocks) == _MOST_BLOCKS)
        self._blocks.append((data[:, 0].copy(), at_ns))

    def _requested(self, out: NDArray[np.int16], frames: int, _: object, status: Any) -> None:
        at_ns = self._output.called(lost=status.output_underflow and self._plays)
        self._played.append((frames, at_ns))
        mixed = sum(side.read(frames).astype(np.int32) for side in self._sides.values())
        self._plays = bool(np.any(mixed))
        out[:] = np.clip(mixed, -32768, 32767).astype(np.int16)[:, np.newaxis]


@contextlib.contextmanager
def open_sound_card(
    microphone: str | None = None, loudspeaker: str | None = None, *, listens: bool = True
) -> Iterator[SoundCard]:
    """Open a microphone and an output device, and discard the sound system's messages to C's `stderr`.

    Args:
        microphone: Device number or part of the device name; None for the default device.
        loudspeaker: Device number or part of the device name; None for the default device.
        listens: Whether a microphone is required.

    Raises:
        UsageError: PortAudio is missing, no device matches, or the device cannot be opened.
    """
    portaudio = sounddevice()
    devices = list_devices()
    # Open an unused microphone too, because ALSA's PulseAudio plugin stalls with output only.
    opens_input = listens or any(device.inputs for device in devices)
    source = find_device(devices, microphone, AudioSide.USER) if opens_input else None
    sink = find_device(devices, loudspeaker, AudioSide.REPLY)
    names = " and ".join(repr(each.name) for each in (source, sink) if each is not None)
    with no_c_messages():
        card = SoundCard(source, sink, _common_rate(portaudio, source, sink, names))
        with contextlib.closing(card):
            try:
                card.start(portaudio)
            except portaudio.PortAudioError as error:
                raise UsageError(f"cannot open {names} at {card.rate_hz} Hz: {error}") from None
            yield card


@contextlib.contextmanager
def _real_time() -> Iterator[bool]:
    """Give threads started in this context real-time priority, if permitted; yield whether it was granted."""
    try:
        policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REAL_TIME))
    except (AttributeError, OSError):
        yield sys.platform != "linux"  # other sound systems raise their own priority
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameter)


def _common_rate(portaudio: Any, source: AudioDevice | None, sink: AudioDevice, names: str) -> int:
    """Return a sample rate that both devices support."""

    def supports(what: str, device: AudioDevice, rate_hz: int) -> bool:
        with contextlib.suppress(portaudio.PortAudioError, ValueError):
            if what == "microphone":
                portaudio.check_input_settings(device.number, 1, dtype="int16", samplerate=rate_hz)
            else:
                portaudio.check_output_settings(device.number, dtype="int16", samplerate=rate_hz)
            return True
        return False

    devices = {"loudspeaker": sink, **({"microphone": source} if source is not None else {})}
    for rate_hz in _RATES_HZ:
        if all(supports(*device, rate_hz) for device in devices.items()):
            return rate_hz
    rates = f"{', '.join(map(str, _RATES_HZ))} Hz"
    for what, device in devices.items():
        if not any(supports(what, device, rate_hz) for rate_hz in _RATES_HZ):
            raise UsageError(
                f"the {what} {device.name!r} cannot be opened at any of {rates}: is it connected? Choose "
                f"another one with --{what} (--list-devices lists them), or stream recordings: "
                f"{WITHOUT_DEVICES}"
            )
    raise UsageError(f"{names}: no common sample rate among {rates}: choose other devices (--list-devices)")
