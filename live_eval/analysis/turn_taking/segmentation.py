"""Group an endpoint's audio into replies on media where only silence separates them. Pure.

On continuous media, an endpoint does not report the end of a reply, and most replies contain pauses. Once the
user has spoken over a reply, audio after a pause is either the rest of that reply or another reply:

* the same reply, if it resumes before the user has finished the interruption, or within a gap between words
  (250 ms);
* another reply, if the endpoint reported a stop in between;
* another reply, if the pause is longer than the endpoint's own pauses by the factor `_MARGIN`, or than the
  silence that ends every reply of the run (`SessionLimits.silence_s`);
* the same reply, if it resumes sooner after the user's words than the endpoint has ever answered
  (`_SOONER`);
* unknown otherwise (`AgentSpeech.unsure`).

An endpoint's own pauses are those inside its uninterrupted replies in the run, except replies that follow
another reply so closely that they may be the rest of it. Pauses are known up to the length that at least
`LEAST_REPLIES` of these replies exceed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise

from live_eval.analysis.turn_taking.speech import (
    BREATH_NS,
    SIMULTANEOUS_NS,
    AgentSpeech,
    Conversation,
    Stretch,
    UserSpeech,
)
from live_eval.types import SpeechKind

__all__ = ["LEAST_REPLIES", "OwnReplies", "as_replies", "own_replies", "segmented"]

_MARGIN = 1.25
"""Ratio of the longest pause that may be the endpoint's own to its longest observed pause."""
_SOONER = 0.8
"""Ratio of the shortest plausible answer time to the endpoint's shortest observed answer time."""
LEAST_REPLIES = 3
"""Minimum number of uninterrupted replies needed to estimate the endpoint's pauses and answer times."""
_FOLLOWS_NS = 2_000_000_000  # a pause that begins this soon after the user starts speaking may be a reaction
_WORD_GAP_NS = 250_000_000  # between the words of one reply
_RARE = 10  # one reply in this many may contain a stall


class _Pause(Enum):
    OWN = auto()
    END = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class OwnReplies:
    """The timing of an endpoint's uninterrupted replies.

    Args:
        silence_ns: Length of silence that ends every reply.
        lengths_ns: Length of each reply, from its first to its last audible sample.
        longest_pause_ns: Longest pause in these replies, excluding one reply in ten as a possible stall.
        answers_ns: Time from the user's last sample to each answer.
    """

    silence_ns: int
    lengths_ns: tuple[int, ...] = ()
    longest_pause_ns: int = 0
    answers_ns: tuple[int, ...] = ()

    @property
    def pause_limit_ns(self) -> int:
        """The longest pause that may be the endpoint's own."""
        return min(max(_WORD_GAP_NS, round(_MARGIN * self.longest_pause_ns)), self.silence_ns)

    def knows_pauses(self, after_ns: int) -> bool:
        """Return whether enough replies are longer than `after_ns` to know pauses of this length."""
        return sum(length_ns > after_ns for length_ns in self.lengths_ns) >= LEAST_REPLIES

    def is_too_soon(self, after_ns: int) -> bool:
        """Return whether the endpoint never answers within `after_ns` of the user's speech."""
        return len(self.answers_ns) >= LEAST_REPLIES and after_ns < _SOONER * min(self.answers_ns)


def as_replies(conversations: Sequence[Conversation], silence_ns: int) -> list[Conversation]:
    """Regroup the conversations of a run so that each `AgentSpeech` is one reply of the endpoint.

    `silence_ns` is the length of silence that ended replies in the run's sessions.
    """
    own = own_replies(conversations, silence_ns)
    return [segmented(each, own) for each in conversations]


def own_replies(conversations: Sequence[Conversation], silence_ns: int) -> OwnReplies:
    """Measure the timing of an endpoint's uninterrupted replies; for the arguments, see `as_replies`."""
    lengths_ns: list[int] = []
    pauses_ns: list[int] = []
    answers_ns: list[int] = []
    for conversation in conversations:
        spoken_over_ns = None  # end of the latest interrupted reply
        for speech in conversation.agent:
            if not speech.sounds:
                continue
            start_ns, end_ns = speech.sounds[0].start_ns, speech.sounds[-1].end_ns
            rest = spoken_over_ns is not None and start_ns - spoken_over_ns <= silence_ns
            if rest or any(each.start_ns < end_ns and start_ns < each.end_ns for each in conversation.user):
                spoken_over_ns = end_ns
                continue
            lengths_ns.append(end_ns - start_ns)
            within = (after.start_ns - before.end_ns for before, after in pairwise(speech.sounds))
            pauses_ns.append(max(within, default=0))
        answers_ns += _answers_ns(conversation)
    pauses_ns.sort()
    longest_ns = pauses_ns[-1 - len(pauses_ns) // _RARE] if pauses_ns else 0
    return OwnReplies(silence_ns, tuple(lengths_ns), longest_ns, tuple(answers_ns))


def _answers_ns(conversation: Conversation) -> list[int]:
    """Return the delay of each answer to an utterance that does not overlap with a reply."""
    sounds = sorted(sound for speech in conversation.agent for sound in speech.sounds)
    ends_ns = [*(each.start_ns for each in conversation.user[1:]), conversation.end_ns]
    found = []
    for said, until_ns in zip(conversation.user, ends_ns, strict=True):
        later = [sound.start_ns for sound in sounds if sound.end_ns > said.start_ns]
        if said.kind is SpeechKind.TURN and later and said.end_ns <= later[0] < until_ns:
            found.append(later[0] - said.end_ns)
    return found


def segmented(conversation: Conversation, own: OwnReplies) -> Conversation:
    """Regroup a conversation so that each `AgentSpeech` is one reply.

    The conversation is unchanged if the endpoint itself separates its replies.
    """
    if not conversation.continuous:
        return conversation
    replies: list[AgentSpeech] = []
    for speech in conversation.agent:
        parts = [replace(speech, sounds=())]
        for sound in speech.sounds:
            last = parts[-1] if parts[-1].sounds else replies[-1] if replies else None
            if last is None or not last.sounds:
                parts[-1] = replace(parts[-1], sounds=(sound,))
                continue
            pause, why = _judged(last, sound, conversation.user, own, divided=not parts[-1].sounds)
            if pause is _Pause.OWN and parts[-1].sounds:
                parts[-1] = replace(last, sounds=(*last.sounds, sound))
            elif pause is _Pause.OWN:
                replies.pop()
                parts[-1] = _joined(last, speech, sound)
            else:
                ended = replace(last, unsure=why)
                if parts[-1].sounds:
                    rest = replace(speech, sounds=(sound,), text="")
                    if last.cancelled_ns is not None and last.cancelled_ns < sound.start_ns:
                        rest = replace(rest, cancelled_ns=None, discarded_ns=0)
                    else:
                        ended = replace(ended, cancelled_ns=None, discarded_ns=0)
                    parts[-1:] = [ended, rest]
                else:
                    replies[-1] = ended
                    parts[-1] = replace(parts[-1], sounds=(sound,))
        replies += parts
    return replace(conversation, agent=tuple(replies))


def _joined(first: AgentSpeech, rest: AgentSpeech, sound: Stretch) -> AgentSpeech:
    """Join two parts of a reply that the session split, up to the first sound of the second part."""
    return replace(
        first,
        sounds=(*first.sounds, sound),
        cancelled_ns=first.cancelled_ns if rest.cancelled_ns is None else rest.cancelled_ns,
        discarded_ns=first.discarded_ns + rest.discarded_ns,
        text=" ".join(filter(None, (first.text, rest.text))),
    )


def _judged(
    reply: AgentSpeech, after: Stretch, user: Sequence[UserSpeech], own: OwnReplies, *, divided: bool
) -> tuple[_Pause, str]:
    """Classify the silence between a reply and the next part; return the reason if the class is unknown.

    Args:
        divided: Whether the session treated the next part as a new response.
    """
    began_ns, before_ns = reply.sounds[0].start_ns, reply.sounds[-1].end_ns
    pause_ns = after.start_ns - before_ns
    over = [each for each in user if each.start_ns < after.start_ns and began_ns < each.end_ns]
    if not over:
        return (_Pause.END if divided else _Pause.OWN), ""
    interrupts = [each for each in over if began_ns - SIMULTANEOUS_NS <= each.start_ns]
    if not interrupts:  # the endpoint began over the user, for example with a backchannel
        return (_Pause.OWN if not divided and pause_ns <= BREATH_NS else _Pause.END), ""
    if any(each.kind is SpeechKind.TURN and after.start_ns < each.end_ns for each in interrupts):
        return _Pause.OWN, ""
    if reply.cancelled_ns is not None and interrupts[0].start_ns <= reply.cancelled_ns < after.start_ns:
        return _Pause.END, ""
    if all(before_ns >= max(each.start_ns + _FOLLOWS_NS, each.end_ns) for each in interrupts):
        ends = divided and pause_ns > max(BREATH_NS, own.pause_limit_ns)
        return (_Pause.END if ends else _Pause.OWN), ""
    if pause_ns <= _WORD_GAP_NS:
        return _Pause.OWN, ""
    known = own.knows_pauses(before_ns - began_ns)
    if pause_ns > (own.pause_limit_ns if known else own.silence_ns):
        return _Pause.END, ""
    if own.is_too_soon(after.start_ns - max(each.end_ns for each in interrupts)):
        return _Pause.OWN, ""
    heard = f"it was silent for {pause_ns / 1e6:.0f} ms and then audible again"
    if not known:
        return _Pause.UNKNOWN, (
            f"{heard}, and fewer than {LEAST_REPLIES} uninterrupted replies were long enough to estimate "
            "its own pauses"
        )
    return _Pause.UNKNOWN, (
        f"{heard}, which may be its own pause (up to {own.longest_pause_ns / 1e6:.0f} ms) or a stop and "
        "another reply"
    )
