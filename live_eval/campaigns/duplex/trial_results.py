"""Read the results of a campaign's trials from its runs, and choose the trials to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from live_eval.analysis.turn_taking.from_turns import conversation_of
from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.segmentation import as_replies
from live_eval.analysis.turn_taking.trial import Trial, TrialResult, spoken_turns, trial_result
from live_eval.recording import RunReader, TurnRecord, part_of
from live_eval.session.limits import SessionLimits

__all__ = ["CLEAN", "IMPAIRED", "MOST_ATTEMPTS", "read_trials", "to_repeat"]

CLEAN = "clean"
"""Folder of the run without impairment."""
IMPAIRED = "impaired"
"""Folder of the run with the impairment."""

MOST_ATTEMPTS = 3
"""Maximum number of attempts at a void trial."""

_MOST_SILENCE_S = 3600.0


def read_trials(folder: Path, trials: Sequence[Trial]) -> list[TrialResult]:
    """Read the results of a run's trials, complete or not.

    Returns:
        All attempts at each trial, trial by trial.

    Raises:
        StoreError: The folder contains no run, or a damaged run.
    """
    with RunReader.open(folder) as run:
        played: dict[tuple[str | None, int], list[TurnRecord]] = {}
        for turn in run.turns():
            played.setdefault((turn.case.dialogue_id, turn.repeat), []).append(turn)
        listed = [
            (each, playing, sorted(turns, key=lambda turn: turn.case.turn_index))
            for each in trials
            for playing in range(MOST_ATTEMPTS)
            if (turns := played.get((each.trial_id, playing)))
        ]
        heard = [
            conversation_of(run, spoken) if (spoken := spoken_turns(turns)) else None
            for _, _, turns in listed
        ]
        silence_ns = _silence_ns(run)
    replies = iter(as_replies([each for each in heard if each is not None], silence_ns))
    return [
        trial_result(*each, None if conversation is None else next(replies))
        for each, conversation in zip(listed, heard, strict=True)
    ]


def to_repeat(trials: Iterable[TrialResult]) -> set[str]:
    """Return the void trials whose outcome may become known if they are repeated.

    A trial without an audible reply at its anchor is repeated only once: the endpoint may pause there, or its
    reply may be too short, every time.
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
    """Return the silence that ended a reply in the run's sessions."""
    found = part_of(part_of(run.manifest, "config"), "turns").get("reply_silence")
    if not isinstance(found, int | float) or not 0 < found <= _MOST_SILENCE_S:
        found = SessionLimits().silence_s
    return round(1e9 * found)
