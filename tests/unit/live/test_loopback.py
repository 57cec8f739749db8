"""Measurement of sound card delays, in a loop of known delay."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from numpy.typing import NDArray

from live_eval.errors import UsageError
from live_eval.live.devices import AudioDevice
from live_eval.live.loopback import (
    FILE_VARIABLE,
    DeviceDelay,
    chirp,
    find_chirp,
    keep_delay,
    kept_delay,
    measure_delay,
)
from live_eval.live.sound_card import SoundCard
from live_eval.live.updates import AudioSide

RATE = 16_000
BLOCK = 160
MICROPHONE = AudioDevice(0, "mic", "test", 1, 0, True, False)
LOUDSPEAKER = AudioDevice(1, "speaker", "test", 0, 1, False, True)


def test_a_chirp_is_found_in_noise() -> None:
    sound = np.random.default_rng(1).normal(0, 500, RATE).astype(np.int16)
    assert find_chirp(sound, RATE) is None
    sound[3_210 : 3_210 + len(chirp(RATE))] += chirp(RATE) // 8
    assert find_chirp(sound, RATE) == pytest.approx(3_210, abs=2)
    assert find_chirp(np.zeros(RATE, np.int16), RATE) is None


class Loop(SoundCard):
    """An output device that the microphone hears after a known delay; each call takes 1.2 s of fake time."""

    def __init__(self, delay_ms: float, gain: float = 0.5) -> None:
        super().__init__(MICROPHONE, LOUDSPEAKER, RATE)
        self._gain = gain
        self._line = np.zeros(round(delay_ms * RATE / 1000), np.int16)
        self._blocks_done = 0

    def blocks(self) -> Iterator[tuple[NDArray[np.int16], int]]:
        random = np.random.default_rng(self._blocks_done)
        for _ in range(120):
            out = self._sides[AudioSide.REPLY].read(BLOCK)
            self._line = np.concatenate((self._line, out))
            heard, self._line = self._line[:BLOCK], self._line[BLOCK:]
            self._blocks_done += 1
            late_ns = round(random.uniform(0, 8e6))
            at_ns = self._blocks_done * 10_000_000
            self._played.append((BLOCK, at_ns - 10_000_000 + late_ns))
            yield (heard * self._gain).astype(np.int16), at_ns + late_ns


@pytest.mark.parametrize("delay_ms", [0.0, 43.0, 612.5])
def test_the_delay_of_a_loop_is_measured(delay_ms: float) -> None:
    delay = asyncio.run(measure_delay(Loop(delay_ms), repeats=6, rest_s=0))
    # A block arrives when its last sample has been captured: 10 ms after its first was played.
    assert delay.delay_ms == pytest.approx(delay_ms + 10, abs=2)
    assert delay.spread_ms < 2
    assert delay.repeats == 6


def test_a_microphone_that_hears_no_chirp_is_reported() -> None:
    with pytest.raises(UsageError, match="'mic' picked up 0 of 4 chirps from 'speaker'"):
        asyncio.run(measure_delay(Loop(5, gain=0), repeats=4, rest_s=0))


def test_delays_are_kept_for_each_pair_of_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path)
    assert kept_delay("mic", "speaker") is None
    for ms in (10.0, 20.0):
        keep_delay(
            DeviceDelay(
                microphone="mic",
                loudspeaker="speaker",
                delay_ms=ms,
                spread_ms=1,
                repeats=8,
                date="2026-01-01",
            )
        )
    kept = kept_delay("mic", "speaker")
    assert kept is not None
    assert kept.delay_ms == 20
    assert kept_delay("mic", "headphones") is None
    (tmp_path / "devices.json").write_text("damaged")
    assert kept_delay("mic", "speaker") is None
