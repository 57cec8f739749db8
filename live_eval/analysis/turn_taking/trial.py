"""Represent a duplex trial and its result: turns, conversation and judgement. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz.distance import LCSseq

from live_eval.analysis.cue_sensitivity.measures import words_of
from live_eval.analysis.turn_taking.outcomes import Judgement, Outcome, Rule, judge, rule_of, unspoken
from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.types import Failure, SpeechKind

__all__ = [
    "BEHAVIOUR",
    "SENTINEL",
    "Trial",
    "TrialResult",
    "last_attempts",
    "spoken_turns",
    "trial_result",
    "unless_deaf",
]

SENTINEL = "sentinel"
"""The probe name of drift-check trials."""

_ANCHOR_WITHIN_NS = 50_000_000
"""Maximum deviation of the interruption's time from the condition; beyond it, the trial is void."""

_HEARD_SHARE = 0.5
"""Share of the user's words, in order, that a transcript of the user's speech contains.

Of 74 recordings (probes, EchoMind's and our sample; clean, over a µ-law line, in white noise at 0 dB),
transcripts by Whisper tiny.en contain this share in 73, 72 and 70, and those by PocketSphinx in 68 (clean)
and 55 (µ-law). Of 3,034 pairs of a transcript and another text, 0.2 to 0.3 % do, mostly the same sentence
with a pause; 61 to 63 % share at least one word.
"""

_REACTION_NS = 1_000_000_000
"""Maximum time from the end of a sound to the endpoint's report that it heard speech."""

BEHAVIOUR = frozenset(
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
"""Turn failures that are endpoint behaviour and yield an outcome; other failures fail the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A planned session of a campaign: a probe condition with the words of one variant.

    Args:
        trial_id: ID, unique in the campaign; also the name of the trial's dialogue.
        meant: Lower-case words, any of which shows that a correction was understood; empty without a
            correction.
        recorded: ID of the first trial with the same user recordings; empty without user recordings.
    """

    trial_id: str
    probe: str
    condition: str = ""
    meant: tuple[str, ...] = ()
    recorded: str = ""

    @property
    def unit(self) -> str:
        """The resampling unit: the user's recordings, or else the trial."""
        return self.recorded or self.trial_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one attempt at a trial.

    Args:
        facts: Definition of the trial.
        playing: Number of the attempt, from 0. A trial is repeated if an attempt is void.
        rule: Rule that judges the trial.
        turns: Turns of the attempt, in order.
        conversation: Conversation of the attempt; None if no utterance was spoken.
        judgement: Outcome with its reason and durations.
        failure: Failure of the session, or None.
        correction: Whether a correction was understood, according to the next ``reply`` and to the transcript
            that the endpoint ``heard``; None for a missing text. Empty without a correction.
        heard: Whether the trial shows that the endpoint heard the user: a reply began after a question, or
            its transcript contains the question (`_HEARD_SHARE`). None if the user asked nothing.
        sound_heard: Whether the trial shows that the endpoint heard the last utterance, which expects no
            answer: it reported speech, its transcript contains the words, or it reacted. False if nothing
            shows it, which is usual for an endpoint that ignores the sound. None under other rules.
    """

    facts: Trial
    playing: int
    rule: Rule
    turns: tuple[TurnRecord, ...]
    conversation: Conversation | None
    judgement: Judgement
    failure: Failure | None
    correction: Mapping[str, bool | None]
    heard: bool | None = None
    sound_heard: bool | None = None

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
        """live-eval's own maximum lateness."""
        return max((turn.timing.lag_ns for turn in self.turns), default=0)


def last_attempts(trials: Iterable[TrialResult]) -> list[TrialResult]:
    """Return the last attempt at each trial, given all attempts in order."""
    return list({each.facts.trial_id: each for each in trials}.values())


def spoken_turns(turns: Iterable[TurnRecord]) -> list[TurnRecord]:
    """Return the turns in which the user spoke."""
    return [turn for turn in turns if turn.trace.onset_ns is not None]


def trial_result(
    trial: Trial,
    playing: int,
    turns: Sequence[TurnRecord],
    conversation: Conversation | None,
    problem: str = "",
) -> TrialResult:
    """Judge an attempt at a trial.

    Args:
        playing: Number of the attempt, from 0.
        turns: Turns of the attempt, in order; at least one.
        conversation: Conversation of these turns, in which each `AgentSpeech` is one reply; None if no
            utterance was spoken or the recording is damaged.
        problem: Description of damage to the recording, or empty.
    """
    rule = rule_of([turn.case for turn in turns])
    failure = next(
        (turn.failure for turn in turns if turn.failure and turn.failure.kind not in BEHAVIOUR), None
    )
    if failure is not None:
        judgement = Judgement(outcome=Outcome.FAILED, reason=f"{failure.kind}: {failure.message}")
    elif problem:
        judgement = Judgement(outcome=Outcome.UNKNOWN, reason=problem)
    elif conversation is None or len(spoken_turns(turns)) < len(turns):
        judgement = unspoken(conversation)
    else:
        judgement = _checked_anchor(judge(conversation, rule), turns[-1])
    if judgement.outcome is Outcome.NO_REPLY:
        why = next((turn.failure.message for turn in turns if turn.failure), "")
        judgement = replace(judgement, reason=": ".join(filter(None, (judgement.reason, why))))
    heard = _heard(turns, conversation)
    if heard is False:
        judgement = unless_deaf(rule, judgement)
    texts = {"reply": turns[-1].reply_text, "heard": turns[-1].heard_text} if trial.meant else {}
    return TrialResult(
        facts=trial,
        playing=playing,
        rule=rule,
        turns=tuple(turns),
        conversation=conversation,
        judgement=judgement,
        failure=failure,
        heard=heard,
        sound_heard=_sound_heard(turns[-1], conversation, judgement),
        correction={where: _has_one_of(text, trial.meant) for where, text in texts.items()},
    )


def unless_deaf(rule: Rule, judgement: Judgement) -> Judgement:
    """Change a pass by inaction to unknown, for a trial without evidence that the endpoint heard the user.

    If doing nothing passes, an endpoint that receives no audio passes too.
    """
    if (
        judgement.outcome not in (Outcome.KEPT_TALKING, Outcome.IGNORED)
        or judgement.outcome not in rule.passes
    ):
        return judgement
    reason = "nothing shows that the endpoint heard the user: no reply began after a question"
    return replace(judgement, outcome=Outcome.UNKNOWN, reason=reason)


def _heard(turns: Sequence[TurnRecord], conversation: Conversation | None) -> bool | None:
    """Return `TrialResult.heard`."""
    asked = [turn for turn in turns if turn.case.speech is SpeechKind.TURN]
    if not asked or conversation is None:
        return None
    heard = " ".join(turn.heard_text or "" for turn in turns)  # a transcript may arrive a turn later
    if any(_contains(heard, turn.case.text) for turn in asked):
        return True
    began_ns = [each.began_ns or each.sounds[0].start_ns for each in conversation.agent if each.sounds]
    ends_ns = [each.end_ns for each in conversation.user if each.kind is SpeechKind.TURN]
    return any(at_ns >= end_ns for at_ns in began_ns for end_ns in ends_ns)


def _sound_heard(turn: TurnRecord, conversation: Conversation | None, judgement: Judgement) -> bool | None:
    """Return `TrialResult.sound_heard`."""
    if turn.case.speech is SpeechKind.TURN or conversation is None:
        return None
    sound = conversation.user[-1]
    if sound.case_id != turn.case.case_id:
        return None
    until_ns = sound.end_ns + _REACTION_NS
    reported = any(sound.start_ns <= at_ns <= until_ns for at_ns in conversation.speech_started_ns)
    reacted = judgement.outcome in (Outcome.YIELDED, Outcome.FELL_SILENT, Outcome.TRIGGERED)
    return reported or reacted or _contains(turn.heard_text, turn.case.text)


def _contains(heard: str | None, said: str | None) -> bool:
    """Return whether a transcript contains what the user said, in order."""
    words = words_of(said or "")
    shared = LCSseq.similarity(words, words_of(heard or ""))
    return bool(words) and shared >= _HEARD_SHARE * len(words)


def _checked_anchor(judgement: Judgement, turn: TurnRecord) -> Judgement:
    """Return the judgement, or a void one if the user did not speak at the planned time."""
    anchor, began_ns = turn.case.anchor, judgement.durations_ns.get("anchor")
    if anchor is None or began_ns is None:
        return judgement
    # A reply cannot be anticipated: even an immediate reaction begins a frame or two later.
    frames_ns = 0 if anchor.after_ns else 2 * _frame_ns(turn)
    if abs(began_ns - anchor.after_ns) <= max(_ANCHOR_WITHIN_NS, frames_ns):
        return judgement
    reason = (
        f"the user began to speak {began_ns / 1e6:.0f} ms after the reply became audible instead of "
        f"{anchor.after_ns / 1e6:.0f} ms"
    )
    return replace(judgement, outcome=Outcome.ANCHOR_MISSED, reason=reason)


def _frame_ns(turn: TurnRecord) -> int:
    """Return the length of the frames sent to the endpoint; 0 if fewer than two were sent."""
    due_ns = turn.trace.frame_deadline_ns
    return int(np.median(np.diff(due_ns))) if len(due_ns) > 1 else 0


def _has_one_of(text: str | None, wanted: Sequence[str]) -> bool | None:
    if not text:
        return None
    words = set(words_of(text))
    return any(word in words for word in wanted)
