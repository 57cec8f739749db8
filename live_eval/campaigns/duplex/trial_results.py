"""Read the results of a campaign's trials from its runs, and choose the trials to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from live_eval.analysis.turn_taking.from_turns import conversation_of
from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.segmentation import as_replies
from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.analysis.turn_taking.trial import (
    Trial,
    TrialResult,
    spoken_turns,
    trial_result,
    unless_deaf,
)
from live_eval.errors import StoreError
from live_eval.recording import RunReader, TurnRecord, part_of
from live_eval.session.limits import SessionLimits

__all__ = ["CLEAN", "IMPAIRED", "MOST_ATTEMPTS", "TrialReader", "read_trials", "to_repeat"]

CLEAN = "clean"
"""Folder of the run without impairment."""
IMPAIRED = "impaired"
"""Folder of the run with the impairment."""

MOST_ATTEMPTS = 3
"""Maximum number of attempts at a void trial."""

_MOST_SILENCE_S = 3600.0

_Attempt: TypeAlias = tuple[str | None, int]
"""A trial and the number of the attempt."""


class TrialReader:
    """Read a run's trial results while the run grows; each turn is read once.

    Each call of `read` judges all trials, because distinguishing a new reply from a pause requires all
    conversations of the run.
    """

    def __init__(self, folder: Path, trials: Sequence[Trial]) -> None:
        self._folder = folder
        self._trials = trials
        self._known = 0
        self._turns: dict[_Attempt, list[TurnRecord]] = {}
        self._conversations: dict[_Attempt, Conversation | None] = {}
        self._problems: dict[_Attempt, str] = {}

    def read(self) -> list[TrialResult]:
        """Return all attempts at each trial so far, trial by trial; the run may be incomplete.

        Raises:
            StoreError: The folder contains no run, or a damaged run.
        """
        with RunReader.open(self._folder) as run:
            self._read_new(run)
            silence_ns = _silence_ns(run)
        listed = [
            (trial, playing, attempt)
            for trial in self._trials
            for playing in range(MOST_ATTEMPTS)
            if (attempt := (trial.trial_id, playing)) in self._turns
        ]
        found = [self._conversations[attempt] for _, _, attempt in listed]
        replies = iter(as_replies([each for each in found if each is not None], silence_ns))
        results = [
            trial_result(
                trial,
                playing,
                self._turns[attempt],
                None if conversation is None else next(replies),
                self._problems.get(attempt, ""),
            )
            for (trial, playing, attempt), conversation in zip(listed, found, strict=True)
        ]
        if any(result.heard for result in results):
            return results
        return [replace(result, judgement=unless_deaf(result.rule, result.judgement)) for result in results]

    def _read_new(self, run: RunReader) -> None:
        new: set[_Attempt] = set()
        for turn in run.turns(skip=self._known):
            attempt = (turn.case.dialogue_id, turn.repeat)
            self._turns.setdefault(attempt, []).append(turn)
            self._known += 1
            new.add(attempt)
        for attempt in new:
            turns = self._turns[attempt]
            turns.sort(key=lambda turn: turn.case.turn_index)
            spoken = spoken_turns(turns)
            self._conversations[attempt] = None
            try:
                if spoken:
                    self._conversations[attempt] = conversation_of(run, spoken)
                self._problems.pop(attempt, None)
            except StoreError as error:
                self._problems[attempt] = str(error)


def read_trials(folder: Path, trials: Sequence[Trial]) -> list[TrialResult]:
    """Return the results of a run's trials; see `TrialReader.read`."""
    return TrialReader(folder, trials).read()


def to_repeat(trials: Iterable[TrialResult]) -> set[str]:
    """Return the void trials that a repetition may decide.

    A trial without an audible reply at its anchor is repeated only once, since the endpoint may always pause
    there or reply too briefly.
    """
    outcomes: dict[str, list[Outcome]] = {}
    for each in trials:
        outcomes.setdefault(each.facts.trial_id, []).append(each.outcome)
    return {
        name
        for name, found in outcomes.items()
        if found[-1].repeats and found[-2:] != [Outcome.NOT_OVERLAPPING] * 2
    }


def _silence_ns(run: RunReader) -> int:
    """Return the length of silence that ended a reply in the run's sessions."""
    found = part_of(part_of(run.manifest, "config"), "turns").get("reply_silence")
    if not isinstance(found, int | float) or not 0 < found <= _MOST_SILENCE_S:
        found = SessionLimits().silence_s
    return round(1e9 * found)
