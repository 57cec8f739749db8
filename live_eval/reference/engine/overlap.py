"""Decide when to stop a reply, talk over the user or ignore overlapping speech, as configured. Pure."""

from __future__ import annotations

from enum import Enum

from live_eval.reference.engine.events import Reaction, ServerResponse, UserUtterance, VoiceEnd
from live_eval.reference.settings import NEVER, AfterStop, OnBackchannel, ReferenceSettings

__all__ = ["AnswerTime", "Overlap"]

_MS = 1_000_000


class AnswerTime(Enum):
    """The time at which the endpoint responds to a user utterance."""

    NOW = "now"
    LATER = "later"
    """When the reply in progress has ended."""
    NONE = "none"


class Overlap:
    """Track a session's open utterances and scheduled reactions."""

    def __init__(self, settings: ReferenceSettings) -> None:
        self._settings = settings
        self._count = 0
        self._open: list[UserUtterance] = []
        self._stop_ns: int | None = None
        self._stopper: UserUtterance | None = None
        self._talk_ns: int | None = None
        self._waits = False  # a stop is due, but the speech has paused and may be a backchannel
        self._talked_over = False

    @property
    def current(self) -> UserUtterance | None:
        """The current or latest utterance; None once its reaction is decided."""
        return self._open[-1] if self._open else None

    @property
    def number(self) -> int | None:
        """Number of the last utterance; None before the first utterance."""
        return self._count - 1 if self._count else None

    @property
    def wake_ns(self) -> int | None:
        """When the endpoint next stops a reply or talks over the user; None if nothing is planned."""
        due = (None if self._waits else self._stop_ns, self._talk_ns)
        return min((at_ns for at_ns in due if at_ns is not None), default=None)

    def began(self, onset_ns: int, over: ServerResponse | None) -> None:
        """Record that the user starts to speak; `over` is the response in progress, if any."""
        utterance = UserUtterance(self._count, onset_ns, over.response_id if over is not None else "")
        self._count += 1
        self._open.append(utterance)
        self._waits = self._talked_over = False
        settings = self._settings
        if over is not None:
            if isinstance(settings.stop_ms, int) and self._stop_ns is None:
                self._stop_ns, self._stopper = onset_ns + settings.stop_ms * _MS, utterance
        elif settings.talk_over_ms is not None:
            self._talk_ns = onset_ns + settings.talk_over_ms * _MS

    def stops(self, at_ns: int, *, pauses: bool) -> bool:
        """Return whether to stop the reply now; `pauses` is whether the user is silent."""
        if self._stop_ns is None or self._stop_ns > at_ns or self._stopper is None:
            return False
        ignores = self._settings.on_backchannel is OnBackchannel.IGNORE
        self._waits = ignores and pauses and self._stopper.end is None
        return not self._waits

    def talks_over(self, at_ns: int, active: ServerResponse | None) -> bool:
        """Return whether to start talking over the user now, at most once per utterance."""
        if self._talk_ns is None or self._talk_ns > at_ns:
            return False
        self._talk_ns, self._talked_over = None, active is None
        return self._talked_over

    def ended(self, end: VoiceEnd, active: ServerResponse | None) -> AnswerTime:
        """Record the end of the user's turn; return when the endpoint will respond."""
        utterance = self.current
        self._talk_ns = None
        if utterance is not None and utterance.end is None:
            utterance.end = end
            over = active is not None and active.response_id == utterance.over
            if over and utterance.reaction is None and self._is_backchannel(utterance):
                utterance.reaction = Reaction.IGNORED
                if self._stopper is utterance:
                    self._forget_stop()
                return AnswerTime.NONE
            if over and self._settings.stop_ms == NEVER:
                utterance.reaction = Reaction.KEPT_TALKING
        if self._talked_over:
            return AnswerTime.NONE
        later = active is not None and self._settings.scripted
        return AnswerTime.LATER if later else AnswerTime.NOW

    def stopped(self) -> None:
        """Record that the user's speech stopped the reply."""
        self._forget_stop()
        for utterance in self._open:
            if utterance.over and utterance.reaction is None:
                utterance.reaction = Reaction.STOPPED

    def _forget_stop(self) -> None:
        self._stop_ns, self._stopper, self._waits = None, None, False

    def settled(self, active: ServerResponse | None) -> list[UserUtterance]:
        """Return and remove the utterances whose reaction is decided."""
        active_id = active.response_id if active is not None else ""
        for utterance in self._open:
            if utterance.over and utterance.over != active_id and utterance.reaction is None:
                utterance.reaction = Reaction.ENDED
        if not active_id:
            self._forget_stop()
        done = [
            each
            for each in self._open
            if each.end is not None and (not each.over or each.reaction is not None)
        ]
        if done:
            self._open = [each for each in self._open if each not in done]
        return done

    def closed(self) -> list[UserUtterance]:
        """Return and remove the utterances still open when the session ends."""
        left, self._open = self._open, []
        return left

    @property
    def resumes(self) -> bool:
        """Whether a stopped reply resumes after the user has spoken."""
        return self._settings.after_stop is AfterStop.RESUME

    def _is_backchannel(self, utterance: UserUtterance) -> bool:
        assert utterance.end is not None
        length_ns = utterance.end.at_ns - utterance.onset_ns
        ignores = self._settings.on_backchannel is OnBackchannel.IGNORE
        return ignores and length_ns < self._settings.backchannel_ms * _MS
