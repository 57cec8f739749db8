"""A microphone and a loudspeaker that are open, through PortAudio.

The devices' threads only copy samples into buffers and count what was lost. Everything else happens on the
event loop, which looks at the buffers every few milliseconds. These threads need the interpreter, so they and
the sound system's own threads run in real time where the system allows it; elsewhere the devices' buffers are
twice as long.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import UsageError
from live_eval.live.c_messages import no_c_messages
from live_eval.live.devices import SoundDevice, find_device, list_devices, sounddevice
from live_eval.live.playout import PlayoutBuffer
from live_eval.live.updates import SoundSide

__all__ = ["SoundCard", "open_sound_card"]

_RATES_HZ = (48_000, 44_100, 24_000, 16_000)
_BLOCK_MS = 10
_MOST_BLOCKS = 300  # three seconds: the event loop has stood still
_LATENCY_S = 0.06
_LATENCY_WITHOUT_REAL_TIME_S = 0.12
_REAL_TIME = 2  # before the event loop, see `live_eval.session.event_loop`
_SETTLES_NS = 3_000_000_000
_STALLED_NS = 400_000_000
_GONE_NS = 5_000_000_000
_CLOSES_S = 2.0


class _Stream:
    """One direction of a sound card.

    Args:
        device: The device.
    """

    def __init__(self, device: SoundDevice) -> None:
        self.device = device
        self.xruns = 0
        self.stream: Any = None
        self._problem = ""
        self._called_ns = time.monotonic_ns()
        self._started_ns = 0
        self._stopping = False

    def start(self) -> None:
        """Start PortAudio's stream, which calls back from then on."""
        # PulseAudio may take seconds to begin.
        self._called_ns = self._started_ns = time.monotonic_ns() + _SETTLES_NS
        self.stream.start()

    def close(self) -> None:
        """Close PortAudio's stream, if there is one."""
        self._stopping = True
        if self.stream is not None:
            self.stream.close(ignore_errors=True)

    def called(self, *, lost: bool) -> int:
        """Note that PortAudio has called back; return when."""
        self._called_ns = time.monotonic_ns()
        self.xruns += lost
        return self._called_ns

    def finished(self) -> None:
        """Note that PortAudio has stopped the stream."""
        if not self._stopping:
            self._problem = self._problem or f"{self.device.name!r} has stopped: was it unplugged?"

    @property
    def problem(self) -> str:
        """What has become of the device; empty while it works."""
        if not self._problem and time.monotonic_ns() - self._called_ns > _GONE_NS:
            seconds = _GONE_NS // 1_000_000_000
            self._problem = f"{self.device.name!r} has stood still for {seconds} s: was it unplugged?"
        return self._problem

    @property
    def stalled(self) -> bool:
        """Whether it stands still, as with some sound systems after an underrun."""
        return time.monotonic_ns() - max(self._called_ns, self._started_ns) > _STALLED_NS

    def restart(self) -> None:
        """Start it again, if it stands still."""
        if self.problem or not self.stalled:
            return
        self._stopping = True
        try:
            self.stream.abort(ignore_errors=True)
            with _real_time():
                self.stream.start()
        except sounddevice().PortAudioError as error:
            self._problem = f"{self.device.name!r} cannot be started again: {error}"
        finally:
            self._stopping = False
        self._started_ns = time.monotonic_ns()
        self.xruns += 1


class SoundCard:
    """A microphone and a loudspeaker that are open; an `AudioSink`. See `open_sound_card`.

    Args:
        microphone: Where sound comes from; None if nobody speaks.
        loudspeaker: Where it goes.
        rate_hz: Rate of both.
    """

    def __init__(self, microphone: SoundDevice | None, loudspeaker: SoundDevice, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        """Rate of both devices."""
        self._input = _Stream(microphone) if microphone is not None else None
        self._output = _Stream(loudspeaker)
        self._streams = [each for each in (self._input, self._output) if each is not None]
        self._sides = {side: PlayoutBuffer(rate_hz) for side in SoundSide}
        self._played: deque[tuple[int, int]] = deque(maxlen=_MOST_BLOCKS)
        self._blocks: deque[tuple[NDArray[np.int16], int]] = deque(maxlen=_MOST_BLOCKS)
        self._restarting: threading.Thread | None = None

    @property
    def microphone(self) -> SoundDevice | None:
        """Where sound comes from."""
        return self._input.device if self._input is not None else None

    @property
    def loudspeaker(self) -> SoundDevice:
        """Where it goes."""
        return self._output.device

    @property
    def input_xruns(self) -> int:
        """How often samples of the microphone were dropped, by its device or because nothing read them."""
        return self._input.xruns if self._input is not None else 0

    @property
    def output_xruns(self) -> int:
        """How often the loudspeaker's device had to wait for samples."""
        return self._output.xruns

    @property
    def problem(self) -> str:
        """What has become of the devices, as when one was unplugged; empty while they work."""
        return next((each.problem for each in self._streams if each.problem), "")

    @property
    def stalled(self) -> bool:
        """Whether a stream stands still: `restart` is due."""
        return any(each.stalled for each in self._streams)

    def restart(self) -> None:
        """Start streams again that stand still, in a thread: a sound system that hangs does not answer."""
        if self._restarting is None or not self._restarting.is_alive():
            self._restarting = threading.Thread(target=self._restart, daemon=True)
            self._restarting.start()

    def _restart(self) -> None:
        for each in self._streams:
            each.restart()

    def play(self, side: SoundSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """As `AudioSink.play`."""
        self._sides[side].push(pcm, rate_hz, paced=paced)

    def drop(self) -> None:
        """As `AudioSink.drop`."""
        self._sides[SoundSide.REPLY].drop()

    def blocks(self) -> Iterator[tuple[NDArray[np.int16], int]]:
        """Yield the blocks that the microphone has captured since the last call, and when each came."""
        while self._blocks:
            yield self._blocks.popleft()

    def played(self) -> Iterator[tuple[int, int]]:
        """Yield how many samples the loudspeaker took at a time since the last call, and when."""
        while self._played:
            yield self._played.popleft()

    def began(self, side: SoundSide) -> int:
        """Return the sample, of all that the loudspeaker took, with which a side last began to sound."""
        return self._sides[side].began

    def start(self, portaudio: Any) -> None:
        """Open the devices and start them; `close` is due even if that fails.

        Args:
            portaudio: The package.

        Raises:
            PortAudioError: A device cannot be opened.
        """
        with _real_time() as granted:  # PortAudio's threads, and the sound system's, inherit it
            settings: dict[str, Any] = {
                "samplerate": self.rate_hz,
                "blocksize": self.rate_hz * _BLOCK_MS // 1000,
                "dtype": "int16",
                "latency": _LATENCY_S if granted else _LATENCY_WITHOUT_REAL_TIME_S,
            }
            self._output.stream = portaudio.OutputStream(
                **settings,
                device=self.loudspeaker.number,
                channels=min(2, self.loudspeaker.outputs),
                callback=self._wanted,
                finished_callback=self._output.finished,
            )
            if self._input is not None:
                self._input.stream = portaudio.InputStream(
                    **settings,
                    device=self._input.device.number,
                    channels=1,
                    callback=self._captured,
                    finished_callback=self._input.finished,
                )
            for each in self._streams:
                each.start()

    def close(self) -> None:
        """Close the devices; leave those that the sound system does not close in time."""
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(_CLOSES_S)
        if closing.is_alive():  # nor would PortAudio's end at exit ever return
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

    def _wanted(self, out: NDArray[np.int16], frames: int, _: object, status: Any) -> None:
        at_ns = self._output.called(lost=status.output_underflow)
        self._played.append((frames, at_ns))
        mixed = sum(side.read(frames).astype(np.int32) for side in self._sides.values())
        out[:] = np.clip(mixed, -32768, 32767).astype(np.int16)[:, np.newaxis]


@contextlib.contextmanager
def open_sound_card(
    microphone: str | None = None, loudspeaker: str | None = None, *, listens: bool = True
) -> Iterator[SoundCard]:
    """Open a microphone and a loudspeaker; what the sound system writes to C's `stderr` is discarded.

    Args:
        microphone: Its number or a part of its name; None for the default one.
        loudspeaker: The same.
        listens: Whether there must be a microphone.

    Raises:
        UsageError: PortAudio is missing, there is no such device, or it cannot be opened.
    """
    portaudio = sounddevice()
    there = list_devices()
    # ALSA's PulseAudio plugin stalls on output alone, so a microphone that nobody listens to is opened too.
    some = listens or any(device.inputs for device in there)
    source = find_device(there, microphone, SoundSide.USER) if some else None
    sink = find_device(there, loudspeaker, SoundSide.REPLY)
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
    """Let the threads that are started here run in real time, as far as they may; yield whether they do."""
    try:
        policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REAL_TIME))
    except (AttributeError, OSError):
        yield sys.platform != "linux"  # elsewhere the sound system does so by itself
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameter)


def _common_rate(portaudio: Any, source: SoundDevice | None, sink: SoundDevice, names: str) -> int:
    """Return a rate that both devices take."""
    for rate_hz in _RATES_HZ:
        with contextlib.suppress(portaudio.PortAudioError, ValueError):
            portaudio.check_output_settings(sink.number, dtype="int16", samplerate=rate_hz)
            if source is not None:
                portaudio.check_input_settings(source.number, 1, dtype="int16", samplerate=rate_hz)
            return rate_hz
    raise UsageError(f"{names}: expected a rate that both take, one of {', '.join(map(str, _RATES_HZ))} Hz")
