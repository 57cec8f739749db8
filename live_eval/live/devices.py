"""The sound card: a microphone and a loudspeaker through PortAudio (package ``sounddevice``).

The device's thread only copies samples into buffers and counts what it missed; everything else happens on
the event loop, which looks at the buffers every few milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import UsageError
from live_eval.live.playout import PlayoutBuffer
from live_eval.live.updates import SoundSide
from live_eval.session.event_loop import raise_priority

__all__ = ["Devices", "SoundDevice", "list_devices", "open_devices"]

_RATES_HZ = (48_000, 44_100, 24_000, 16_000)
_BLOCK_MS = 10
_MOST_BLOCKS = 300  # three seconds: the event loop has stood still
_LATENCY_S = 0.06
_NICE = -15
_SILENT_NS = 5_000_000_000
_STALLED_NS = 400_000_000

_INSTALL = (
    "PortAudio is missing. Install it: `apt-get install libportaudio2` (Debian, Ubuntu), "
    "`dnf install portaudio` (Fedora), `brew install portaudio` (macOS)"
)


@dataclass(frozen=True, slots=True)
class SoundDevice:
    """A device of the machine.

    Args:
        number: PortAudio's number for it.
        name: Its name.
        host: The sound system that offers it.
        inputs: Its input channels; 0 if it has no microphone.
        outputs: Its output channels; 0 if it has no loudspeaker.
        is_input: Whether it is the default microphone.
        is_output: Whether it is the default loudspeaker.
    """

    number: int
    name: str
    host: str
    inputs: int
    outputs: int
    is_input: bool
    is_output: bool


def _sounddevice() -> Any:
    """Import sounddevice, which loads PortAudio.

    Raises:
        UsageError: The package or the library is missing; says how to install it.
    """
    try:
        import sounddevice
    except ModuleNotFoundError:
        raise UsageError("the microphone needs sounddevice: pip install 'live-eval[mic]'") from None
    except OSError:
        raise UsageError(_INSTALL) from None
    return sounddevice


def list_devices() -> list[SoundDevice]:
    """Return the machine's sound devices.

    Raises:
        UsageError: PortAudio is missing.
    """
    sounddevice = _sounddevice()
    hosts = sounddevice.query_hostapis()
    default_input, default_output = sounddevice.default.device
    return [
        SoundDevice(
            number=number,
            name=device["name"],
            host=hosts[device["hostapi"]]["name"],
            inputs=device["max_input_channels"],
            outputs=device["max_output_channels"],
            is_input=number == default_input,
            is_output=number == default_output,
        )
        for number, device in enumerate(sounddevice.query_devices())
    ]


def find_device(devices: list[SoundDevice], wanted: str | None, side: SoundSide) -> SoundDevice:
    """Return a device by its number or a part of its name; the default one for None.

    Raises:
        UsageError: There is no such device, or several; the message lists those that there are.
    """
    what = "microphone" if side is SoundSide.USER else "loudspeaker"
    usable = [each for each in devices if (each.inputs if side is SoundSide.USER else each.outputs)]
    if not usable:
        raise UsageError(f"no {what}: this machine has no sound device that can be used as one")
    if wanted is None:
        default = [each for each in usable if (each.is_input if side is SoundSide.USER else each.is_output)]
        return (default or usable)[0]
    found = [each for each in usable if str(each.number) == wanted] or [
        each for each in usable if wanted.lower() in each.name.lower()
    ]
    exact = [each for each in found if each.name.lower() == wanted.lower()]
    if len(exact or found) == 1:
        return (exact or found)[0]
    named = ", ".join(f"{each.number} {each.name!r}" for each in found or usable)
    raise UsageError(f"{what} {wanted!r}: expected one of {named}")


class Devices:
    """A microphone and a loudspeaker that are open; an `AudioSink`. See `open_devices`.

    Args:
        microphone: Where sound comes from; None if nobody speaks.
        loudspeaker: Where it goes.
        rate_hz: Rate of both.
    """

    def __init__(self, microphone: SoundDevice | None, loudspeaker: SoundDevice, rate_hz: int) -> None:
        self.microphone = microphone
        """Where sound comes from."""
        self.loudspeaker = loudspeaker
        """Where it goes."""
        self.rate_hz = rate_hz
        """Rate of both."""
        self._sides = {side: PlayoutBuffer(rate_hz) for side in SoundSide}
        self._played: deque[tuple[int, int]] = deque(maxlen=_MOST_BLOCKS)
        self._blocks: deque[tuple[NDArray[np.int16], int]] = deque(maxlen=_MOST_BLOCKS)
        self.input_xruns = 0
        """How often the microphone's device has dropped samples, or nobody took them."""
        self.output_xruns = 0
        """How often the loudspeaker's device had to wait for samples."""
        self._ended = ""
        self._hurried: set[int] = set()  # threads of the devices
        self._streams: dict[SoundSide, Any] = {}
        self._called_ns: dict[SoundSide, int] = {}
        self._restarting = False

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

    @property
    def problem(self) -> str:
        """What has become of the devices, as when one was unplugged; empty while they work."""
        if self._ended:
            return self._ended
        for side in self._stalled(_SILENT_NS):
            device = self.microphone if side is SoundSide.USER else self.loudspeaker
            assert device is not None
            return f"{device.name!r} has stood still for {_SILENT_NS // 1_000_000_000} s: was it unplugged?"
        return ""

    @property
    def stalled(self) -> bool:
        """Whether a stream stands still, as with some sound systems after an underrun: see `restart`."""
        return not self._ended and bool(self._stalled(_STALLED_NS))

    def restart(self) -> None:
        """Start streams again that stand still. It blocks: call it off the event loop."""
        for side in self._stalled(_STALLED_NS):
            stream = self._streams[side]
            self._restarting = True
            try:
                stream.abort(ignore_errors=True)
                with _hurried():
                    stream.start()
            except _sounddevice().PortAudioError as error:
                self._ended = f"the {side} device cannot be started again: {error}"
            finally:
                self._restarting = False
            if side is SoundSide.USER:
                self.input_xruns += 1
            else:
                self.output_xruns += 1

    def start(self, streams: Mapping[SoundSide, Any]) -> None:
        """Start the streams that feed and are fed by this object."""
        for side, stream in streams.items():
            self._streams[side] = stream
            stream.start()
            self._called_ns[side] = time.monotonic_ns()

    def _stalled(self, after_ns: int) -> list[SoundSide]:
        now_ns = time.monotonic_ns()
        return [side for side, at_ns in self._called_ns.items() if now_ns - at_ns > after_ns]

    # -- On the device's thread --------------------------------------------------------------------------

    def _hurry(self) -> None:
        thread = threading.get_ident()
        if thread not in self._hurried:
            self._hurried.add(thread)
            raise_priority()

    def _captured(self, data: NDArray[np.int16], frames: int, _: object, status: Any) -> None:
        at_ns = time.monotonic_ns()
        self._hurry()
        if status.input_overflow or len(self._blocks) == _MOST_BLOCKS:
            self.input_xruns += 1
        self._blocks.append((data[:, 0].copy(), at_ns))
        self._called_ns[SoundSide.USER] = at_ns

    def _wanted(self, out: NDArray[np.int16], frames: int, _: object, status: Any) -> None:
        self._hurry()
        at_ns = self._called_ns[SoundSide.REPLY] = time.monotonic_ns()
        self._played.append((frames, at_ns))
        if status.output_underflow:
            self.output_xruns += 1
        mixed = sum(side.read(frames).astype(np.int32) for side in self._sides.values())
        out[:] = np.clip(mixed, -32768, 32767).astype(np.int16)[:, np.newaxis]

    def _finished(self, device: SoundDevice) -> Callable[[], None]:
        def finished() -> None:
            if not self._restarting:
                self._ended = self._ended or f"{device.name!r} has stopped: was it unplugged?"

        return finished


@contextlib.contextmanager
def open_devices(
    microphone: str | None = None, loudspeaker: str | None = None, *, listens: bool = True
) -> Iterator[Devices]:
    """Open a microphone and a loudspeaker.

    Args:
        microphone: Its number or a part of its name; None for the default one.
        loudspeaker: The same.
        listens: Whether there must be a microphone.

    Raises:
        UsageError: PortAudio is missing, there is no such device, or it cannot be opened.
    """
    sounddevice = _sounddevice()
    there = list_devices()
    # ALSA's PulseAudio plugin stalls on output alone, so a microphone that nobody listens to is opened too.
    some = listens or any(device.inputs for device in there)
    source = find_device(there, microphone, SoundSide.USER) if some else None
    sink = find_device(there, loudspeaker, SoundSide.REPLY)
    rate_hz = _common_rate(sounddevice, source, sink)
    devices = Devices(source, sink, rate_hz)
    settings: dict[str, Any] = {
        "samplerate": rate_hz,
        "blocksize": rate_hz * _BLOCK_MS // 1000,
        "dtype": "int16",
        "latency": _LATENCY_S,
    }
    outputs: dict[str, Any] = {
        "device": sink.number,
        "channels": min(2, sink.outputs),
        "callback": devices._wanted,
        "finished_callback": devices._finished(sink),
    }
    inputs: dict[str, Any] = {"channels": 1, "callback": devices._captured}
    if source is not None:
        inputs |= {"device": source.number, "finished_callback": devices._finished(source)}
    with contextlib.ExitStack() as stack:
        try:
            with _hurried():  # the sound system's threads inherit it
                streams = {SoundSide.REPLY: sounddevice.OutputStream(**settings, **outputs)}
                if source is not None:
                    streams[SoundSide.USER] = sounddevice.InputStream(**settings, **inputs)
                for stream in streams.values():
                    stack.callback(stream.close, ignore_errors=True)
                devices.start(streams)
        except sounddevice.PortAudioError as error:
            names = " and ".join(repr(each.name) for each in (source, sink) if each is not None)
            raise UsageError(f"cannot open {names} at {rate_hz} Hz: {error}") from None
        yield devices


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Let the threads that are begun here go before others, as far as they may."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _common_rate(sounddevice: Any, source: SoundDevice | None, sink: SoundDevice) -> int:
    """Return a rate that both devices take."""
    for rate_hz in _RATES_HZ:
        with contextlib.suppress(sounddevice.PortAudioError, ValueError):
            sounddevice.check_output_settings(sink.number, dtype="int16", samplerate=rate_hz)
            if source is not None:
                sounddevice.check_input_settings(source.number, 1, dtype="int16", samplerate=rate_hz)
            return rate_hz
    names = " and ".join(repr(each.name) for each in (source, sink) if each is not None)
    raise UsageError(f"{names}: expected a rate that both take, one of {', '.join(map(str, _RATES_HZ))} Hz")
