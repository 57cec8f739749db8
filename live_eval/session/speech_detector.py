"""Detect the start and end of user speech as audio arrives, using webrtcvad with a hangover. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import numpy as np
import soxr
import webrtcvad
from numpy.typing import NDArray

__all__ = ["METHOD", "VERSION", "Span", "SpeechDetector"]

METHOD: Final = "webrtcvad"
VERSION: Final = version("webrtcvad-wheels")

_RATES_HZ = (8_000, 16_000, 32_000, 48_000)
_WINDOW_MS = 10
_BEGINS_WINDOWS = 3
_HANGOVER = 40  # windows
_REACHES_BACK_WINDOWS = 15
_AGGRESSIVENESS = 3  # the most aggressive mode
_ABOVE_NOISE = 10.0  # power ratio: 10 dB


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of speech, in samples of the pushed audio.

    Args:
        begin: First sample.
        end: Exclusive end; None while the stretch is open.
    """

    begin: int
    end: int | None = None


class SpeechDetector:
    """Detect speech stretches in audio as it arrives.

    Speech begins with three consecutive voiced 10 ms windows, and ends after 400 ms without a voiced window.
    Because webrtcvad extends speech by up to 90 ms, its end is moved back to the last window that is 10 dB
    louder than the following silence.
    """

    def __init__(self, rate_hz: int) -> None:
        self._vad = webrtcvad.Vad(_AGGRESSIVENESS)
        self._rate_hz = rate_hz
        self._vad_hz = rate_hz if rate_hz in _RATES_HZ else 16_000
        self._resampler = (
            soxr.ResampleStream(rate_hz, self._vad_hz, 1, dtype="int16") if rate_hz != self._vad_hz else None
        )
        self._window = self._vad_hz * _WINDOW_MS // 1000
        self._rest = np.empty(0, np.int16)
        self._windows = 0  # windows classified so far
        self._voiced = 0  # consecutive voiced windows
        self._unvoiced = 0  # consecutive unvoiced windows
        self._power: deque[float] = deque(maxlen=_HANGOVER + _REACHES_BACK_WINDOWS)
        self._begin: int | None = None

    def push(self, pcm: NDArray[np.int16]) -> list[Span]:
        """Add audio (int16 mono, shape (samples,)); return the stretches that began or ended in it."""
        if self._resampler is not None:
            pcm = self._resampler.resample_chunk(pcm)
        samples = np.concatenate((self._rest, pcm))
        count = len(samples) // self._window
        self._rest = samples[count * self._window :]
        found = (self._judge(samples[at * self._window : (at + 1) * self._window]) for at in range(count))
        return [span for span in found if span is not None]

    def end(self) -> Span | None:
        """End the speech stretch in progress and return it; None if no speech is in progress."""
        if self._begin is None:
            return None
        span = Span(self._sample(self._begin), self._sample(self._windows))
        self._begin, self._voiced = None, 0
        return span

    def _judge(self, window: NDArray[np.int16]) -> Span | None:
        voiced = self._vad.is_speech(window.tobytes(), self._vad_hz)
        self._windows += 1
        self._voiced = self._voiced + 1 if voiced else 0
        self._unvoiced = 0 if voiced else self._unvoiced + 1
        wide = window.astype(np.float64)
        self._power.append(float(wide @ wide) / len(wide))
        if self._begin is None and self._voiced >= _BEGINS_WINDOWS:
            self._begin = self._windows - _BEGINS_WINDOWS
            return Span(self._sample(self._begin))
        if self._begin is not None and self._unvoiced >= _HANGOVER:
            span = Span(self._sample(self._begin), self._sample(max(self._begin + 1, self._end())))
            self._begin = None
            return span
        return None

    def _end(self) -> int:
        """Return the window after the last window that is louder than the following silence."""
        powers = list(self._power)
        noise = float(np.median(powers[-_HANGOVER:])) + 1.0
        end = self._windows - _HANGOVER
        for power in reversed(powers[:-_HANGOVER]):
            if power > _ABOVE_NOISE * noise:
                return end
            end -= 1
        return self._windows - _HANGOVER

    def _sample(self, window: int) -> int:
        return window * self._rate_hz * _WINDOW_MS // 1000
