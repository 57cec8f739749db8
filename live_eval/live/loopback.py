"""Measure a sound card's delay: play chirps, record them, and find them by correlation.

The delay is the time from passing a sample to the output device until the input device returns it, so it
includes both devices and the air between them. Endpoint latencies exclude this delay, but their error bar
includes its variation.
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
from live_eval.live.updates import AudioSide
from live_eval.recording.machine_records import MachineRecords
from live_eval.session.device_clock import DeviceClock

__all__ = ["FILE_VARIABLE", "DeviceDelay", "chirp", "find_chirp", "keep_delay", "kept_delay", "measure_delay"]

FILE_VARIABLE = "LIVE_EVAL_DEVICES"
"""Environment variable with the path of the delay file."""

_SECOND_NS = 1_000_000_000
_CHIRP_S = 0.1
_LEAST_CORRELATION = 0.3


class DeviceDelay(BaseModel):
    """The measured round-trip delay of an output device and a microphone.

    Args:
        delay_ms: Median delay over the repetitions.
        spread_ms: Half the difference between the 10th and 90th percentiles of the delay.
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


def find_chirp(recording: NDArray[np.int16], rate_hz: int) -> float | None:
    """Return the index of a chirp's first sample, or None if there is no chirp."""
    sought = chirp(rate_hz).astype(np.float64)
    heard = recording.astype(np.float64)
    if len(heard) < len(sought):
        return None
    size = 1 << (len(heard) + len(sought)).bit_length()
    match = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sought, size)), size)
    match = np.abs(match[: len(heard) - len(sought) + 1])
    at = int(match.argmax())
    power = float(np.linalg.norm(heard[at : at + len(sought)]) * np.linalg.norm(sought))
    if not power or match[at] / power < _LEAST_CORRELATION:
        return None
    return float(at)


@dataclass(slots=True)
class _Count:
    """Count a device's samples, on the device's clock."""

    clock: DeviceClock
    samples: int = 0

    def add(self, samples: int, at_ns: int) -> None:
        self.samples += samples
        self.clock.observe(self.samples, at_ns)


async def measure_delay(card: SoundCard, *, repeats: int = 8, rest_s: float = 1.2) -> DeviceDelay:
    """Play chirps and find them in the microphone's audio.

    Args:
        card: Sound card, not in use elsewhere.
        rest_s: Interval between chirps in seconds, longer than any delay.

    Raises:
        UsageError: Too few chirps are found: the microphone does not pick up the loudspeaker, or a device is
            muted.
    """
    rate_hz, sought = card.rate_hz, chirp(card.rate_hz)
    captured, played = _Count(DeviceClock(rate_hz)), _Count(DeviceClock(rate_hz))
    delays_ms: list[float] = []
    assert card.microphone is not None
    for number in range(repeats + 1):
        first, blocks = captured.samples, []
        if number:  # skip the first round, while the clocks settle
            card.play(AudioSide.REPLY, sought, rate_hz)
        await asyncio.sleep(rest_s)
        for pcm, at_ns in card.blocks():
            blocks.append(pcm)
            captured.add(len(pcm), at_ns)
        for samples, at_ns in card.played():
            played.add(samples, at_ns)
        heard = find_chirp(np.concatenate(blocks), rate_hz) if blocks and number else None
        if heard is not None:
            played_ns = played.clock.captured_ns(card.began(AudioSide.REPLY))
            delays_ms.append((captured.clock.captured_ns(first + heard) - played_ns) / 1e6)
    if len(delays_ms) < (repeats + 1) // 2:
        raise UsageError(
            f"{card.microphone.name!r} picked up {len(delays_ms)} of {repeats} chirps from "
            f"{card.loudspeaker.name!r}: turn up the loudspeaker and place the microphone next to it"
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
    """Store a measured delay, replacing any previous one for the same devices; return the file.

    Raises:
        DataError: The file cannot be written.
    """
    return _KEPT.keep(delay, _pair)


def kept_delay(microphone: str, loudspeaker: str) -> DeviceDelay | None:
    """Return the stored delay of two devices by name, or None if it was not measured."""
    pair = (microphone, loudspeaker)
    return next((each for each in _KEPT.read() if _pair(each) == pair), None)


def _pair(delay: DeviceDelay) -> tuple[str, str]:
    return delay.microphone, delay.loudspeaker


def as_manifest(card: SoundCard, delay: DeviceDelay | None) -> Mapping[str, Any]:
    """Return the ``devices`` entry of a run's manifest."""
    return {
        "microphone": card.microphone.name if card.microphone is not None else None,
        "loudspeaker": card.loudspeaker.name,
        "rate_hz": card.rate_hz,
        "delay_ms": delay.delay_ms if delay is not None else None,
        "spread_ms": delay.spread_ms if delay is not None else None,
    }
