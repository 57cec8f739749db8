"""The delay of a sound card, measured: chirps go out, come back, and are found by correlation.

The delay is from the moment at which a sample is handed to the loudspeaker's device to the moment at which
the microphone's device hands it over: both devices, and the air between. It is no part of an endpoint's
latencies, which are taken between the devices; how much it varies is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from live_eval.errors import UsageError
from live_eval.live.sound_card import SoundCard
from live_eval.live.updates import SoundSide
from live_eval.recording.machine_records import MachineRecords
from live_eval.session.device_clock import DeviceClock

__all__ = ["FILE_VARIABLE", "DeviceDelay", "chirp", "find_chirp", "keep_delay", "kept_delay", "measure_delay"]

FILE_VARIABLE = "LIVE_EVAL_DEVICES"
"""Environment variable that names the file of measured delays."""

_SECOND_NS = 1_000_000_000
_CHIRP_S = 0.1
_REST_S = 1.2  # longer than any delay that is measured
_FOUND = 0.3


class DeviceDelay(BaseModel):
    """The measured delay of a pair of devices.

    Args:
        microphone: Name of the microphone's device.
        loudspeaker: Name of the loudspeaker's device.
        delay_ms: Median over the repetitions.
        spread_ms: Half of the range that holds the middle four fifths of the repetitions: their variation.
        repeats: Chirps that were found.
        date: When, in ISO 8601.
    """

    model_config = ConfigDict(frozen=True)

    microphone: str
    loudspeaker: str
    delay_ms: float
    spread_ms: float
    repeats: int
    date: str


def chirp(rate_hz: int) -> NDArray[np.int16]:
    """Return a sweep from 500 to 4000 Hz, int16 mono, shape (samples,)."""
    time_s = np.arange(round(_CHIRP_S * rate_hz)) / rate_hz
    phase = 2 * np.pi * (500 * time_s + (4_000 - 500) / (2 * _CHIRP_S) * time_s**2)
    return np.round(16_000 * np.hanning(len(time_s)) * np.sin(phase)).astype(np.int16)


def find_chirp(sound: NDArray[np.int16], rate_hz: int) -> float | None:
    """Return the sample at which a chirp begins in a recording; None where there is none."""
    sought = chirp(rate_hz).astype(np.float64)
    heard = sound.astype(np.float64)
    if len(heard) < len(sought):
        return None
    size = 1 << (len(heard) + len(sought)).bit_length()
    match = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sought, size)), size)
    match = np.abs(match[: len(heard) - len(sought) + 1])
    at = int(match.argmax())
    power = float(np.linalg.norm(heard[at : at + len(sought)]) * np.linalg.norm(sought))
    if not power or match[at] / power < _FOUND:
        return None
    return float(at)


@dataclass(slots=True)
class _Count:
    """Samples that a device has handled, on its own clock."""

    clock: DeviceClock
    samples: int = 0

    def add(self, samples: int, at_ns: int) -> None:
        self.samples += samples
        self.clock.observe(self.samples, at_ns)


async def measure_delay(card: SoundCard, *, repeats: int = 8) -> DeviceDelay:
    """Play chirps and find them in what the microphone hears.

    Args:
        card: The sound card, which nobody else uses meanwhile.
        repeats: How many chirps are played.

    Raises:
        UsageError: Too few of them are heard: the devices are not in a loop, or muted.
    """
    rate_hz, sought = card.rate_hz, chirp(card.rate_hz)
    came, went = _Count(DeviceClock(rate_hz)), _Count(DeviceClock(rate_hz))
    delays_ms: list[float] = []
    assert card.microphone is not None
    for number in range(repeats + 1):
        first, blocks = came.samples, []
        if number:  # the first round lets the clocks settle
            card.play(SoundSide.REPLY, sought, rate_hz)
        await asyncio.sleep(_REST_S)
        for pcm, at_ns in card.blocks():
            blocks.append(pcm)
            came.add(len(pcm), at_ns)
        for samples, at_ns in card.played():
            went.add(samples, at_ns)
        heard = find_chirp(np.concatenate(blocks), rate_hz) if blocks and number else None
        if heard is not None:
            handed_ns = went.clock.captured_ns(card.began(SoundSide.REPLY))
            delays_ms.append((came.clock.captured_ns(first + heard) - handed_ns) / 1e6)
    if len(delays_ms) < (repeats + 1) // 2:
        raise UsageError(
            f"{card.microphone.name!r} heard {len(delays_ms)} of {repeats} chirps of "
            f"{card.loudspeaker.name!r}: turn the loudspeaker up, and hold the microphone next to it"
        )
    return DeviceDelay(
        microphone=card.microphone.name,
        loudspeaker=card.loudspeaker.name,
        delay_ms=round(float(np.median(delays_ms)), 2),
        spread_ms=round(float(np.subtract(*np.percentile(delays_ms, (90, 10))) / 2), 2),
        repeats=len(delays_ms),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


_KEPT = MachineRecords(DeviceDelay, "devices.json", FILE_VARIABLE)


def keep_delay(delay: DeviceDelay) -> Path:
    """Keep a delay in place of the last one of the same devices; return the file.

    Raises:
        DataError: The file cannot be written.
    """
    return _KEPT.keep(delay, _pair)


def kept_delay(microphone: str, loudspeaker: str) -> DeviceDelay | None:
    """Return the measured delay of two devices, by their names; None if it was not measured."""
    pair = (microphone, loudspeaker)
    return next((each for each in _KEPT.read() if _pair(each) == pair), None)


def _pair(delay: DeviceDelay) -> tuple[str, str]:
    return delay.microphone, delay.loudspeaker


def as_manifest(card: SoundCard, delay: DeviceDelay | None) -> Mapping[str, Any]:
    """Return what a run's manifest says of its devices."""
    return {
        "microphone": card.microphone.name if card.microphone is not None else None,
        "loudspeaker": card.loudspeaker.name,
        "rate_hz": card.rate_hz,
        "delay_ms": delay.delay_ms if delay is not None else None,
        "spread_ms": delay.spread_ms if delay is not None else None,
    }
