"""The results of a campaign's trials: turns, heard audio, and judgement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.campaigns.duplex.from_turns import conversation_of
from live_eval.campaigns.duplex.outcomes import Judgement, Outcome, Rule, judge, rule_of, unspoken
from live_eval.campaigns.duplex.segmentation import as_replies
from live_eval.campaigns.duplex.stimuli import Trial
from live_eval.errors import FailureKind
from live_eval.recording import RunReader, TurnRecord, part_of
from live_eval.session.limits import SessionLimits
from live_eval.types import Failure

__all__ = [
    "ANCHOR_WITHIN_NS",
    "CLEAN",
    "IMPAIRED",
    "MOST_ATTEMPTS",
    "TrialResult",
    "last_attempts",
    "read_trials",
    "to_repeat",
]

CLEAN = "clean"
"""Folder of the run without impairment."""
IMPAIRED = "impaired"
"""Folder of the run with the impairment."""

MOST_ATTEMPTS = 3
"""Maximum number of attempts at a void trial."""

ANCHOR_WITHIN_NS = 50_000_000
"""Maximum deviation of the user's interruption from the condition's time; beyond it, the trial is void."""

_MOST_SILENCE_S = 3600.0

_BEHAVIOUR = frozenset(
    {
        FailureKind.NO_RESPONSE,
        FailureKind.STALLED,
        FailureKind.ENDLESS,
        FailureKind.RESPONSE_FAILED,
        FailureKind.RESPONSE_INCOMPLETE,
        FailureKind.RESPONSE_CANCELLED,
        FailureKind.EMPTY_REPLY,
        FailureKind.DIALOGUE_ENDED,
    }
)
"""Turn failures that are endpoint behaviour and have an outcome; other failures fail the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one attempt at a trial.

    Args:
        facts: Definition of the trial.
        playing: Number of the attempt, from 0; greater than 0 after void attempts.
        rule: Rule that judges the trial.
        turns: Turns of the attempt, in order.
        conversation: Conversation of the attempt; None if no utterance was spoken.
        judgement: Outcome with its reason and durations.
        failure: Failure of the session, or None.
        correction: Whether a correction was understood, by the text of the next ``reply`` and by the text
            that the endpoint ``heard``; None for a missing text. Empty if nothing is corrected.
    """

    facts: Trial
    playing: int
    rule: Rule
    turns: tuple[TurnRecord, ...]
    conversation: Conversation | None
    judgement: Judgement
    failure: Failure | None
    correction: Mapping[str, bool | None]

    @property
    def outcome(self) -> Outcome:
        """The outcome of the attempt."""
        return self.judgement.outcome

    @property
    def passed(self) -> bool | None:
        """Whether the trial passed; None if it is void."""
        return None if self.outcome.void else self.outcome in self.rule.passes

    @property
    def lag_ns(self) -> int:
        """Maximum lateness of live-eval itself."""
        return max((turn.timing.lag_ns for turn in self.turns), default=0)


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
            conversation_of(run, spoken) if (spoken := _spoken(turns)) else None for _, _, turns in listed
        ]
        silence_ns = _silence_ns(run)
    replies = iter(as_replies([each for each in heard if each is not None], silence_ns))
    return [
        _trial(*each, None if conversation is None else next(replies))
        for each, conversation in zip(listed, heard, strict=True)
    ]


def last_attempts(trials: Iterable[TrialResult]) -> list[TrialResult]:
    """Return the last attempt at each trial, given all attempts in order."""
    return list({each.facts.trial_id: each for each in trials}.values())


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


def _spoken(turns: Sequence[TurnRecord]) -> list[TurnRecord]:
    return [turn for turn in turns if turn.trace.onset_ns is not None]


def _trial(
    trial: Trial, playing: int, turns: Sequence[TurnRecord], conversation: Conversation | None
) -> TrialResult:
    rule = rule_of([turn.case for turn in turns])
    failure = next(
        (turn.failure for turn in turns if turn.failure and turn.failure.kind not in _BEHAVIOUR), None
    )
    if failure is not None:
        judgement = Judgement(outcome=Outcome.FAILED, reason=f"{failure.kind}: {failure.message}")
    elif conversation is None or len(_spoken(turns)) < len(turns):
        judgement = unspoken(conversation)
    else:
        judgement = _at_its_anchor(judge(conversation, rule), turns[-1])
    if judgement.outcome is Outcome.NO_REPLY:
        why = next((turn.failure.message for turn in turns if turn.failure), "")
        judgement = replace(judgement, reason=": ".join(filter(None, (judgement.reason, why))))
    return TrialResult(
        facts=trial,
        playing=playing,
        rule=rule,
        turns=tuple(turns),
        conversation=conversation,
        judgement=judgement,
        failure=failure,
        correction=_taken_up(trial.meant, turns[-1]) if trial.meant else {},
    )


def _at_its_anchor(judgement: Judgement, turn: TurnRecord) -> Judgement:
    """Return a judgement; void if the user began to speak over the reply at another time than planned."""
    anchor, began_ns = turn.case.anchor, judgement.durations_ns.get("anchor")
    if anchor is None or began_ns is None:
        return judgement
    # The start of a reply is unpredictable: even an immediate reaction begins a frame or two later.
    frames_ns = 0 if anchor.after_ns else 2 * _frame_ns(turn)
    if abs(began_ns - anchor.after_ns) <= max(ANCHOR_WITHIN_NS, frames_ns):
        return judgement
    reason = (
        f"the user began to speak {began_ns / 1e6:.0f} ms after the reply became audible, and not "
        f"{anchor.after_ns / 1e6:.0f} ms"
    )
    return replace(judgement, outcome=Outcome.ANCHOR_MISSED, reason=reason)


def _frame_ns(turn: TurnRecord) -> int:
    """Return the length of the frames sent to the endpoint; 0 if fewer than two were sent."""
    due_ns = turn.trace.frame_deadline_ns
    return int(np.median(np.diff(due_ns))) if len(due_ns) > 1 else 0


def _taken_up(meant: Sequence[str], turn: TurnRecord) -> dict[str, bool | None]:
    return {"reply": _has_one_of(turn.reply_text, meant), "heard": _has_one_of(turn.heard_text, meant)}


def _has_one_of(text: str | None, wanted: Sequence[str]) -> bool | None:
    """Return whether a text contains any of several words; None if the text is missing."""
    if not text:
        return None
    words = set(re.findall(r"\w+", text.lower()))
    return any(word in words for word in wanted)
