"""Determine the outcome and durations of a trial by rules. Pure.

A trial is a conversation whose last utterance is the probe. That utterance determines the rule:

=============  ==================================================  =====================
rule           the last utterance                                  passes with
=============  ==================================================  =====================
ANSWER         expects an answer                                   `Outcome.ANSWERED`
PAUSE          expects an answer, with pauses inside               `Outcome.WAITED`
BEFORE_REPLY   expects no answer, follows a question directly      `Outcome.ANSWERED`
INTERRUPTION   expects an answer, begins over the reply            `Outcome.YIELDED`, `Outcome.FELL_SILENT`
BACKCHANNEL    expects no answer, begins over the reply            `Outcome.KEPT_TALKING`
FALSE_TRIGGER  expects no answer, overlaps no reply                `Outcome.IGNORED`
=============  ==================================================  =====================

The time of a stop is the last audible sample of the reply that was audible when the user began, regardless of
what the endpoint reports. `YIELD_WITHIN_NS` and the ladder of pauses are from cekura-bench
(``service/probes.py``, ``service/metrics.py``), with these differences: a pause also fails if the endpoint
ended the turn or began a response before the user had finished; silence inside audio does not count as
talking; an endpoint silenced by a backchannel fails; and a reply that ends naturally is void, not a success.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from live_eval.analysis.turn_taking.speech import (
    PAUSE_NS,
    AgentSpeech,
    Conversation,
    Stretch,
    UserSpeech,
    overlaps,
)
from live_eval.types import AnchorKind, Case, SpeechKind

__all__ = [
    "DURATIONS",
    "RULES_VERSION",
    "YIELD_WITHIN_NS",
    "Judgement",
    "Outcome",
    "Rule",
    "judge",
    "rule_of",
    "unspoken",
]

RULES_VERSION = 8
"""Version of the rules and of the segmentation into replies, shared with the published metrics."""

YIELD_WITHIN_NS = 2_000_000_000
"""The maximum time from the user's onset to the end of a reply that counts as yielded."""

DURATIONS: Mapping[str, str] = {
    "response_latency": "last sample of the user → first audible sample of the reply",
    "pause_endpointing": "last sample before a pause → first sign that the endpoint mistook it for the end",
    "anchor": "first audible sample of the reply → actual start of the user's speech over it",
    "audible_stop": "the user begins to speak → last audible sample of the reply; only if it was stopped",
    "provider_stop": "the user begins to speak → the endpoint reports the stop",
    "heard_after_word": "the endpoint reports the stop → last audible sample of the reply",
    "discarded": "audible reply audio that arrived but was not heard",
    "new_reply": "the user has finished → first audible sample of the next reply",
    "resume": "a reply fell silent at a backchannel → the endpoint is audible again",
    "overlap": "time in which user and endpoint are both audible",
    "trigger": "the user's audio begins → first event or audio of an unprompted response",
}
"""The start and end of each duration."""


class Rule(StrEnum):
    """The behaviour expected from the endpoint."""

    ANSWER = "answer"
    PAUSE = "pause"
    BEFORE_REPLY = "before_reply"
    INTERRUPTION = "interruption"
    BACKCHANNEL = "backchannel"
    FALSE_TRIGGER = "false_trigger"

    @property
    def passes(self) -> tuple[Outcome, ...]:
        """The outcomes that pass."""
        return _PASSES[self]


class Outcome(StrEnum):
    """The outcome of a trial."""

    ANSWERED = "answered"
    """A reply was heard once the user had finished."""
    WAITED = "waited"
    """The endpoint stayed silent in every pause, and answered after the user had finished."""
    PREMATURE = "premature"
    """The endpoint ended the turn, began a response or was audible before the user had finished."""
    NO_REPLY = "no_reply"
    """No reply was heard."""
    YIELDED = "yielded"
    """The endpoint stopped its reply; for an interruption, within `YIELD_WITHIN_NS`."""
    FELL_SILENT = "fell_silent"
    """The reply ended within `YIELD_WITHIN_NS`; the endpoint does not report stops or ends."""
    KEPT_TALKING = "kept_talking"
    """The reply continued."""
    TRIGGERED = "triggered"
    """The endpoint responded to audio that requires no response."""
    IGNORED = "ignored"
    """The endpoint did not respond to audio that requires no response."""
    NATURAL_END = "natural_end"
    """The reply ended naturally while the user spoke: void."""
    NOT_OVERLAPPING = "not_overlapping"
    """No reply was audible when the user began to speak: void."""
    UNKNOWN = "unknown"
    """It is unknown whether the reply stopped or paused, or the recording is damaged: void."""
    ANCHOR_MISSED = "anchor_missed"
    """The last utterance did not begin at the time set by the condition: void."""
    FAILED = "failed"
    """The session failed."""

    @property
    def void(self) -> bool:
        """Whether the trial is inconclusive."""
        return self in (Outcome.NATURAL_END, Outcome.NOT_OVERLAPPING, Outcome.UNKNOWN, Outcome.ANCHOR_MISSED)

    @property
    def repeats(self) -> bool:
        """Whether the trial is repeated: its outcome is void, but not `UNKNOWN`.

        Repeating a trial until its outcome is known would bias the results, because whether it is known
        depends on the endpoint.
        """
        return self.void and self is not Outcome.UNKNOWN


_PASSES: Mapping[Rule, tuple[Outcome, ...]] = {
    Rule.ANSWER: (Outcome.ANSWERED,),
    Rule.PAUSE: (Outcome.WAITED,),
    Rule.BEFORE_REPLY: (Outcome.ANSWERED,),
    Rule.INTERRUPTION: (Outcome.YIELDED, Outcome.FELL_SILENT),
    Rule.BACKCHANNEL: (Outcome.KEPT_TALKING,),
    Rule.FALSE_TRIGGER: (Outcome.IGNORED,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of a trial.

    Args:
        outcome: Outcome of the trial.
        reason: Reason for the outcome, in words.
        durations_ns: Durations of `DURATIONS` that apply to the rule; None if missing.
        marks_ns: Absolute times that determined the outcome, by name.
        talk_ratio: Seconds of audible endpoint speech per second of user speech; None if the user did not
            speak.
        triggers: Number of unprompted responses; None under other rules.
    """

    outcome: Outcome
    reason: str = ""
    durations_ns: Mapping[str, int | None] = field(default_factory=dict)
    marks_ns: Mapping[str, int] = field(default_factory=dict)
    talk_ratio: float | None = None
    triggers: int | None = None


def rule_of(cases: Sequence[Case]) -> Rule:
    """Return the rule for a trial from the cases of its utterances, in order; at least one."""
    last = cases[-1]
    anchor = last.anchor.kind if last.anchor is not None else None
    over_reply = anchor is AnchorKind.REPLY_AUDIBLE
    if last.speech is not SpeechKind.TURN:
        if over_reply:
            return Rule.BACKCHANNEL
        asked = len(cases) > 1 and cases[-2].speech is SpeechKind.TURN
        follows = asked and anchor is AnchorKind.UTTERANCE_ENDED
        return Rule.BEFORE_REPLY if follows else Rule.FALSE_TRIGGER
    if over_reply:
        return Rule.INTERRUPTION
    silences_ns = (after.onset_ns - before.end_ns for before, after in pairwise(last.parts))
    return Rule.PAUSE if any(silence_ns >= PAUSE_NS for silence_ns in silences_ns) else Rule.ANSWER


def judge(conversation: Conversation, rule: Rule) -> Judgement:
    """Judge a trial whose last utterance was spoken.

    Each `AgentSpeech` of the conversation is one reply (`live_eval.analysis.turn_taking.segmentation`).
    """
    match rule:
        case Rule.ANSWER | Rule.PAUSE:
            found = _answering(conversation, pauses=rule is Rule.PAUSE)
        case Rule.BEFORE_REPLY:
            found = _before_reply(conversation)
        case Rule.INTERRUPTION | Rule.BACKCHANNEL:
            found = _overlapping(conversation, interrupts=rule is Rule.INTERRUPTION)
        case Rule.FALSE_TRIGGER:
            found = _silence_expected(conversation)
    user, last = _talk_ns(conversation.user), conversation.user[-1]
    return replace(
        found,
        durations_ns={"overlap": _overlap_ns(last.sounds, conversation.agent), **found.durations_ns},
        marks_ns={"user_start": last.start_ns, "user_end": last.end_ns, **found.marks_ns},
        talk_ratio=_talk_ns(conversation.agent) / user if user else None,
    )


def unspoken(conversation: Conversation | None) -> Judgement:
    """Return the result of a trial whose last utterance never became due.

    `conversation` is the conversation so far; None if nothing was recorded.
    """
    if conversation is not None and any(speech.sounds for speech in conversation.agent):
        return Judgement(
            outcome=Outcome.NOT_OVERLAPPING, reason="the anchor of the last utterance did not occur"
        )
    return Judgement(outcome=Outcome.NO_REPLY, reason="no reply was audible to speak over")


# -- The rules -----------------------------------------------------------------------------------------


def _answering(conversation: Conversation, *, pauses: bool) -> Judgement:
    """Judge an utterance that should be answered after its end and not before."""
    last = conversation.user[-1]
    responses = [each for each in conversation.agent if (each.began_ns or 0) >= last.start_ns]
    audible = [each.sounds[0].start_ns for each in responses if each.sounds]
    signs = {
        "it ended the turn": _first(conversation.speech_stopped_ns, last.start_ns),
        "it began a response": _first((each.created_ns for each in responses), last.start_ns),
        "it was heard": min(audible, default=None),
    }
    early = {what: at for what, at in signs.items() if at is not None and at < last.end_ns}
    marks = {"reply_onset": min(audible)} if audible else {}
    durations = {"response_latency": min(audible) - last.end_ns if audible else None}
    if early:
        what = min(early, key=lambda each: early[each])
        gave_up_ns = early[what]
        before = max((each.start_ns for each in last.pauses if each.start_ns <= gave_up_ns), default=None)
        endpointing = None if before is None else gave_up_ns - before
        return Judgement(
            outcome=Outcome.PREMATURE,
            reason=f"{what} before the user had finished",
            durations_ns={**durations, **({"pause_endpointing": endpointing} if pauses else {})},
            marks_ns={**marks, "gave_up": gave_up_ns},
        )
    answered = Outcome.WAITED if pauses else Outcome.ANSWERED
    return Judgement(
        outcome=answered if audible else Outcome.NO_REPLY,
        reason="" if audible else "no reply was heard after the user had finished",
        durations_ns={**durations, **({"pause_endpointing": None} if pauses else {})},
        marks_ns=marks,
    )


def _before_reply(conversation: Conversation) -> Judgement:
    """Judge a sound between a question and the reply: the question should be answered exactly once."""
    asked, sound = conversation.user[-2:]
    replies = [each for each in conversation.agent if each.sounds and (each.began_ns or 0) >= asked.start_ns]
    onsets_ns = sorted(each.sounds[0].start_ns for each in replies)
    if not onsets_ns:
        return Judgement(outcome=Outcome.NO_REPLY, reason="no reply was heard after the sound")
    if onsets_ns[0] < asked.end_ns:
        outcome, reason = Outcome.PREMATURE, "it was heard before the user had finished"
    elif onsets_ns[0] < sound.start_ns:
        outcome, reason = Outcome.ANCHOR_MISSED, "the reply was audible before the sound"
    elif len(onsets_ns) > 1:
        outcome, reason = Outcome.TRIGGERED, "another response followed"
    else:
        outcome, reason = Outcome.ANSWERED, ""
    return Judgement(
        outcome=outcome,
        reason=reason,
        durations_ns={"response_latency": onsets_ns[0] - asked.end_ns},
        marks_ns={"reply_onset": onsets_ns[0]},
    )


def _overlapping(conversation: Conversation, *, interrupts: bool) -> Judgement:
    """Judge an utterance that begins over a reply and, depending on `interrupts`, should stop it or not."""
    last = conversation.user[-1]
    begun = [each for each in conversation.agent if each.sounds and each.sounds[0].start_ns <= last.end_ns]
    if not begun:
        return Judgement(outcome=Outcome.NO_REPLY, reason="no reply was audible to speak over")
    reply = conversation.reply_at(last.start_ns)
    if reply is None:
        return _not_overlapping(begun, last)
    later = [
        each for each in conversation.agent if each is not reply and (each.began_ns or 0) > last.start_ns
    ]
    onset_ns, silent_ns = reply.sounds[0].start_ns, reply.sounds[-1].end_ns
    stopped = _was_stopped(reply, last.start_ns)
    outcome, reason = (
        _interruption(reply, last, stopped=stopped)
        if interrupts
        else _backchannel(reply, last, later, stopped=stopped)
    )
    if reply.unsure and outcome in (Outcome.FELL_SILENT, Outcome.TRIGGERED):
        outcome, reason = Outcome.UNKNOWN, reply.unsure
    heard_stop = stopped or outcome is Outcome.FELL_SILENT
    new = [] if reply.unsure else [each.sounds[0].start_ns for each in later if each.sounds]
    next_ns = min(new, default=None)
    said_ns = reply.cancelled_ns if stopped else None
    resume_ns = None if next_ns is None or not heard_stop else next_ns - silent_ns
    return Judgement(
        outcome=outcome,
        reason=reason,
        durations_ns={
            "anchor": last.start_ns - onset_ns,
            "audible_stop": silent_ns - last.start_ns if heard_stop else None,
            "provider_stop": None if said_ns is None else said_ns - last.start_ns,
            "heard_after_word": None if said_ns is None else silent_ns - said_ns,
            "discarded": reply.discarded_ns,
            "new_reply": None if next_ns is None else next_ns - last.end_ns,
            **({} if interrupts else {"resume": resume_ns}),
        },
        marks_ns={
            "reply_onset": onset_ns,
            "reply_silent": silent_ns,
            **({} if said_ns is None else {"provider_stop": said_ns}),
            **({} if next_ns is None else {"new_reply": next_ns}),
        },
    )


def _not_overlapping(begun: Sequence[AgentSpeech], last: UserSpeech) -> Judgement:
    """Return the result of an utterance that begins while no reply is audible."""
    reply = next((each for each in reversed(begun) if each.sounds[0].start_ns <= last.start_ns), begun[0])
    onset_ns, said_ns = reply.sounds[0].start_ns, reply.cancelled_ns
    if onset_ns > last.start_ns:
        reason = "the reply began after the user began to speak"
    elif reply.sounds[-1].end_ns > last.start_ns or _was_stopped(reply, last.start_ns):
        reason = "the reply paused when the user began to speak"
    else:
        reason = "the reply had ended before the user spoke"
    if said_ns is None or said_ns < last.start_ns:
        said_ns = None
    return Judgement(
        outcome=Outcome.NOT_OVERLAPPING,
        reason=reason,
        durations_ns={
            "anchor": last.start_ns - onset_ns,
            "audible_stop": None,
            "provider_stop": None if said_ns is None else said_ns - last.start_ns,
        },
        marks_ns={"reply_onset": onset_ns, **({} if said_ns is None else {"provider_stop": said_ns})},
    )


def _interruption(reply: AgentSpeech, last: UserSpeech, *, stopped: bool) -> tuple[Outcome, str]:
    lasted_ns = reply.sounds[-1].end_ns - last.start_ns
    if lasted_ns >= YIELD_WITHIN_NS:
        return Outcome.KEPT_TALKING, f"the reply remained audible for {lasted_ns / 1e6:.0f} ms"
    if stopped:
        return Outcome.YIELDED, ""
    return _silent(ended=reply.completed)


def _backchannel(
    reply: AgentSpeech, last: UserSpeech, later: Sequence[AgentSpeech], *, stopped: bool
) -> tuple[Outcome, str]:
    silent_ns = reply.sounds[-1].end_ns
    if stopped:
        return Outcome.YIELDED, "the endpoint stopped its reply"
    if silent_ns < last.end_ns or (not reply.completed and silent_ns - last.start_ns < YIELD_WITHIN_NS):
        return _silent(ended=reply.completed)
    if later:
        return Outcome.TRIGGERED, "another response followed"
    return Outcome.KEPT_TALKING, ""


def _silent(*, ended: bool) -> tuple[Outcome, str]:
    """Return the outcome of a reply that falls silent soon after the user begins, without a reported stop."""
    if ended:
        return Outcome.NATURAL_END, "the reply ended naturally while the user spoke"
    return Outcome.FELL_SILENT, "the endpoint does not report whether it stopped or finished"


def _silence_expected(conversation: Conversation) -> Judgement:
    """Judge an utterance that needs no response and overlaps no reply.

    If the previous turn is still unanswered, the first response is the answer to that turn.
    """
    last = conversation.user[-1]
    responses = sorted(at for each in conversation.agent if (at := each.began_ns) is not None)
    began = [at for at in responses if at >= last.start_ns]
    asked = [each.start_ns for each in conversation.user[:-1] if each.kind is SpeechKind.TURN]
    if asked and not any(asked[-1] <= at < last.start_ns for at in responses):
        began = began[1:]
    return Judgement(
        outcome=Outcome.TRIGGERED if began else Outcome.IGNORED,
        durations_ns={"trigger": began[0] - last.start_ns if began else None},
        marks_ns={"trigger": began[0]} if began else {},
        triggers=len(began),
    )


# -- Helpers -------------------------------------------------------------------------------------------


def _was_stopped(reply: AgentSpeech, since_ns: int) -> bool:
    """Return whether a reply was stopped after a given time, rather than completed."""
    return reply.cancelled_ns is not None and reply.cancelled_ns >= since_ns


def _first(times_ns: Iterable[int | None], since_ns: int) -> int | None:
    return min((at for at in times_ns if at is not None and at >= since_ns), default=None)


def _talk_ns(speeches: Iterable[UserSpeech | AgentSpeech]) -> int:
    return sum(sound.end_ns - sound.start_ns for speech in speeches for sound in speech.sounds)


def _overlap_ns(sounds: Sequence[Stretch], agent: Sequence[AgentSpeech]) -> int:
    both = overlaps(sounds, [sound for speech in agent for sound in speech.sounds])
    return sum(stretch.end_ns - stretch.start_ns for stretch in both)
