"""Collect the values of several endpoints, turn by turn, for a side-by-side view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from live_eval.live.updates import LatencyMeasured, Levels, SpeechDetected, State, StateChanged, Update
from live_eval.types import Failure

__all__ = ["SPREAD", "Standing", "common_state"]

SPREAD = "median (quartiles, turns)"
"""What `Standing.so_far` shows."""

_FEWEST = 4  # minimum number of turns for quartiles, as on the stage


@dataclass(slots=True)
class Standing:
    """One endpoint's state and values, updated by `follow`.

    Args:
        label: Name of the endpoint, or its letter if names are hidden.
        turns: Latest values of each turn, by turn number.
        failure: Reason why the endpoint is disconnected; None while it is connected.
    """

    label: str
    turns: dict[int, LatencyMeasured] = field(default_factory=dict)
    state: State = State.STARTING
    failure: Failure | None = None
    replying: bool = False
    awaited: bool = False
    pausing: bool = False
    """Whether the user's voice is not audible although the utterance has not ended."""
    _speaking: bool = False

    def follow(self, update: Update) -> None:
        """Apply an update of the endpoint's conversation."""
        match update:
            case StateChanged():
                if not (update.state is State.ENDED and self.failure is not None):
                    self.state, self.failure = update.state, update.failure
                self.replying = self.awaited = self.pausing = self._speaking = False
            case Levels():
                self.replying = update.replying
                self.awaited = self.awaited and not update.replying
                self.pausing = self._speaking and not update.audible
            case SpeechDetected():
                self._speaking, self.awaited, self.pausing = update.speaking, not update.speaking, False
            case LatencyMeasured():
                self.turns[update.number] = update
                self.awaited = self.awaited and update.record.failure is None

    @property
    def in_words(self) -> str:
        """Description of the endpoint's state."""
        if self.state is not State.TALKING:
            return self.state.value
        if self.replying:
            return "speaking"
        return "thinking" if self.awaited or self.pausing else "listening"

    def voice_to_voice_ms(self, number: int) -> float | None:
        """Return the voice-to-voice latency of a turn; None if the turn failed or was not answered."""
        turn = self.turns.get(number)
        if turn is None or turn.record.failure is not None:
            return None
        ns = turn.record.timing.voice_to_voice.ns
        return None if ns is None else ns / 1e6

    @property
    def so_far(self) -> str:
        """Median and quartiles of the voice-to-voice latency of turns with a certain end of speech."""
        certain = [number for number, turn in self.turns.items() if not turn.record.timing.uncertain]
        known = [ms for number in certain if (ms := self.voice_to_voice_ms(number)) is not None]
        if not known:
            return "–"
        low, median, high = np.quantile(known, (0.25, 0.5, 0.75))
        quartiles = f"{low:.0f} to {high:.0f}, " if len(known) >= _FEWEST else ""
        return f"{median:.0f} ms ({quartiles}{len(known)})"

    def turn_in_words(self, number: int) -> str:
        """Return a turn's voice-to-voice latency, or why it is missing."""
        turn, ms = self.turns.get(number), self.voice_to_voice_ms(number)
        if ms is not None:
            return f"{ms:.0f} ms"
        if turn is None:
            return "…" if self.failure is None else "–"
        failure = turn.record.failure
        return failure.kind.value if failure is not None else turn.record.timing.voice_to_voice.reason


def common_state(standings: Sequence[Standing]) -> State:
    """Return the state of a conversation with several endpoints: disconnected only without any endpoint."""
    states = {each.state for each in standings}
    order = (State.TALKING, State.LAUNCHING, State.STARTING, State.SCORING, State.ENDED)
    return next((state for state in order if state in states), State.DISCONNECTED)
