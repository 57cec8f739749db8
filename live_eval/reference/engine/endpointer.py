"""Detect the start and end of speech from voice detector probabilities. Pure.

Follows Silero's rule with two additions: a minimum speech duration filters out clicks, and early reports of
pauses allow recognition to start before the turn ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["WINDOW_MS", "Detection", "Endpointer", "SpeechChange", "SpeechChangeKind"]

WINDOW_MS = 32
"""Length of a window: 512 samples at 16_000 Hz."""

_ONSET_WINDOWS = 3
_HYSTERESIS = 0.15
_PAUSE_MS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Thresholds of the endpointer.

    Args:
        threshold: Probability, 0 to 1, above which speech starts; it ends when the probability falls below
            ``threshold - 0.15``.
        prefix_padding_ms: Duration of the audio before the onset that is included in the turn.
        silence_ms: Duration of silence that ends the turn.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_ms: int = 500


class SpeechChangeKind(Enum):
    """The kind of a speech change."""

    STARTED = "started"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SpeechChange:
    """The start, pause or end of speech.

    Args:
        speech_ms: Onset if speech started, else the end of the speech so far.
        heard_ms: Duration of the audio processed before the detection.
    """

    kind: SpeechChangeKind
    speech_ms: int
    heard_ms: int


class Endpointer:
    """Detect turns in an audio stream. Times are in milliseconds from the first sample."""

    __slots__ = ("_detection", "_paused", "_silent", "_speaking", "_voiced", "_window")

    def __init__(self, detection: Detection) -> None:
        self._detection = detection
        self._window = 0
        self._voiced = 0
        self._silent = 0
        self._speaking = False
        self._paused = False

    @property
    def heard_ms(self) -> int:
        """Duration of the audio processed so far, in milliseconds."""
        return self._window * WINDOW_MS

    @property
    def silent(self) -> bool:
        """Whether the last window was silent."""
        return not self._speaking or self._silent > 0

    def end_turn(self) -> None:
        """Reset the state after the turn was ended by another event."""
        self._speaking = self._paused = False
        self._voiced = self._silent = 0

    def feed(self, probability: float) -> SpeechChange | None:
        """Process the speech probability of the next window; return the change it causes, or None."""
        self._window += 1
        return self._while_speaking(probability) if self._speaking else self._while_silent(probability)

    def _while_silent(self, probability: float) -> SpeechChange | None:
        self._voiced = self._voiced + 1 if probability >= self._detection.threshold else 0
        if self._voiced < _ONSET_WINDOWS:
            return None
        onset_ms = self.heard_ms - self._voiced * WINDOW_MS
        self._speaking, self._paused, self._silent = True, False, 0
        return SpeechChange(SpeechChangeKind.STARTED, onset_ms, self.heard_ms)

    def _while_speaking(self, probability: float) -> SpeechChange | None:
        if probability >= self._detection.threshold - _HYSTERESIS:
            self._silent, self._paused = 0, False
            return None
        self._silent += 1
        silence_ms = self._silent * WINDOW_MS
        end_ms = self.heard_ms - silence_ms
        if silence_ms >= self._detection.silence_ms:
            self.end_turn()
            return SpeechChange(SpeechChangeKind.STOPPED, end_ms, self.heard_ms)
        if silence_ms >= _PAUSE_MS and not self._paused:
            self._paused = True
            return SpeechChange(SpeechChangeKind.PAUSED, end_ms, self.heard_ms)
        return None
