"""Record a take of a script from the microphone, and check it. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from live_eval.analysis.cue_sensitivity.measures import words_of
from live_eval.audio import Audio
from live_eval.audio.clipping import find_clipping
from live_eval.audio.speech_level import speech_level
from live_eval.live.microphone import decibels
from live_eval.live.updates import TakeChecked
from live_eval.session.speech_detector import SpeechDetector
from live_eval.types import SpeechBoundaries

__all__ = ["TakeRecorder", "check_take"]

_BEFORE_S = 1.0  # to include a breath or a sob before the words
_AFTER_S = 1.5  # to include a sigh or a laugh, which the detector may miss
_MOST_S = 30.0
_FULL_SCALE = 32_760 / 32_768
_CLIPPED = 1e-4  # as a share of the samples
_QUIETEST_DBFS = -50.0
_EDGE_NS = 20_000_000
_WRONG_WORDS = 0.34  # a small recogniser errs in about a quarter of the words of expressive speech


class TakeRecorder:
    """Extract a take from the microphone audio, from 1 s before the speech to 1.5 s after it.

    Args:
        rate_hz: Sample rate of the blocks.
    """

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        """The sample rate of the take."""
        self.complete = False
        """Whether the take has ended; later blocks are ignored."""
        self._detector = SpeechDetector(rate_hz)
        self._blocks: list[NDArray[np.int16]] = []
        self._kept = 0  # number of samples in `_blocks`
        self._pushed = 0  # number of samples so far
        self._peak = 0
        self._began: int | None = None
        self._quiet_since: int | None = None  # None before and during speech

    def push(self, pcm: NDArray[np.int16]) -> bool:
        """Add a block, int16 mono, shape (samples,); return whether speech begins in it."""
        if self.complete:
            return False
        self._blocks.append(pcm)
        self._kept += len(pcm)
        self._pushed += len(pcm)
        self._peak = max(self._peak, int(np.abs(pcm.astype(np.int32)).max(initial=0)))
        began = False
        for span in self._detector.push(pcm):
            began = began or self._began is None
            self._began = span.begin if self._began is None else self._began
            self._quiet_since = span.end
        if self._began is None:
            while self._kept - len(self._blocks[0]) >= self._samples(_BEFORE_S + 0.5):
                self._kept -= len(self._blocks.pop(0))
        elif self._quiet_since is not None:
            self.complete = self._pushed - self._quiet_since >= self._samples(_AFTER_S)
        if self._began is not None and self._pushed - self._began >= self._samples(_MOST_S):
            self.complete = True
        return began

    @property
    def unheard_s(self) -> float:
        """Seconds without speech since the take began; 0 after speech has been detected."""
        return self._pushed / self.rate_hz if self._began is None else 0.0

    @property
    def peak_dbfs(self) -> float:
        """Peak level so far."""
        return decibels(self._peak)

    def end(self) -> None:
        """End the take now."""
        self.complete = True

    def audio(self) -> NDArray[np.int16]:
        """Return the take: int16 mono, shape (samples,); empty if there was no speech."""
        if self._began is None:
            return np.empty(0, np.int16)
        skipped = max(0, self._began - self._samples(_BEFORE_S) - (self._pushed - self._kept))
        return np.concatenate(self._blocks)[skipped:]

    def _samples(self, seconds: float) -> int:
        return round(seconds * self.rate_hz)


def check_take(
    audio: Audio, boundaries: SpeechBoundaries, *, text: str, heard: str | None, unheard: str = ""
) -> TakeChecked:
    """Check the level, the boundaries and the words of a take.

    Args:
        text: The script.
        heard: The recogniser's transcript, or None.
        unheard: Reason why the transcript is missing.
    """
    level = speech_level(audio).dbfs
    problems: list[str] = []
    notes: list[str] = []
    full = float(np.mean(np.abs(audio.samples) >= _FULL_SCALE))
    clipping = find_clipping(audio)
    if full > _CLIPPED:
        problems.append(f"clipped ({100 * full:.2g} % of the samples): move back, or lower the input level")
    elif clipping is not None:
        problems.append(
            f"clipped at {clipping.level_dbfs:.1f} dBFS ({clipping.peaks} flat peaks): move back, or lower "
            "the input level of what precedes this machine's volume control, such as a mixer"
        )
    if level < _QUIETEST_DBFS:
        problems.append(f"too quiet ({level:.0f} dBFS): move closer, or raise the input level")
    if boundaries.uncertain and boundaries.words_end_ns is None:
        problems.append(f"boundaries: {boundaries.reason}")
    elif boundaries.uncertain:
        notes.append(boundaries.reason)
    if audio.duration_ns - boundaries.voice_end_ns < _EDGE_NS:
        problems.append("cut off at its end: pause before you end the take")
    if heard is None:
        notes.append(f"words are not checked: {unheard}")
    else:
        expected, found = words_of(text), words_of(heard)
        wrong = Levenshtein.distance(expected, found)
        if wrong > _WRONG_WORDS * max(1, len(expected)):
            problems.append(f"{min(wrong, len(expected))} of {len(expected)} words differ from the script")
    return TakeChecked(
        heard,
        level,
        (boundaries.voice_end_ns - boundaries.onset_ns) / 1e9,
        tuple(problems),
        tuple(notes),
    )
