"""Define a speaker that streams recordings at scripted times: during a reply, or right after it. Pure.

The first sample of the speaker's audio is spoken exactly at the anchor's time, as heard, so a recording may
begin within a frame. If the anchor is too early for the recording's lead-in silence, the lead-in is cut. If
the anchor's time has passed when it becomes known, the utterance begins immediately, and `UtteranceBegan`
contains the actual time.

*The reply* answers the last utterance that expects an answer; before the first such utterance, it is the
greeting. A reply that is cancelled before the anchor does not count. A reply that became audible during the
utterance counts only if no other reply becomes audible in time.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.dialect import Interrupted, ResponseDone
from live_eval.session.playback import PAUSE_NS, Utterance
from live_eval.session.speaker import (
    EndpointEvent,
    Frame,
    Heard,
    ReplyAudible,
    ReplyContinues,
    ReplyEnded,
    UtteranceAnswered,
    UtteranceBegan,
    UtteranceEnded,
)
from live_eval.timing import ResponseStatus
from live_eval.types import Anchor, AnchorKind

__all__ = ["ScriptPlayback"]

_SECOND_NS = 1_000_000_000


class ScriptPlayback:
    """A `Speaker` that streams recordings, each at its anchor. Each utterance begins a new turn.

    The script ends when the last reply has finished playing, or when the next utterance's anchor has not
    occurred in time.

    Args:
        utterances: At least one recording, all with the same frame length; the first has no anchor.
        patience_ns: Maximum wait for an anchor after the end of the previous utterance.
    """

    listens = True

    def __init__(
        self, utterances: Sequence[Utterance], pause_ns: int = PAUSE_NS, patience_ns: int = 30 * _SECOND_NS
    ) -> None:
        self._utterances = utterances
        self._pause_ns = pause_ns
        self._patience_ns = patience_ns
        self.frame_ns = utterances[0].frame_ns
        self._silence = Frame(bytes(len(utterances[0].frames[0])))
        self._samples = len(self._silence.pcm) // 2  # samples per frame
        self._playing = -1
        self._pcm = b""
        self._at = 0  # number of streamed bytes of the recording
        self._over = False
        self._audible: dict[str, int] = {}  # start of playout of each response
        self._quiet_from_ns: int | None = None
        self._own_sound_ends_ns = 0  # end of the speaker's audio in the latest utterance
        self._asked_ns = 0  # end of the latest utterance that expects an answer

    def hear(self, heard: Heard) -> None:
        """Handle a report on which an anchor may depend."""
        match heard:
            case UtteranceAnswered():
                self._over = True
            case ReplyEnded(at_ns):
                self._quiet_from_ns = at_ns
            case ReplyContinues():
                self._quiet_from_ns = None
            case ReplyAudible(response_id, at_ns):
                self._audible.setdefault(response_id, at_ns)
            case EndpointEvent(Interrupted(response_id)):
                self._audible.pop(response_id, None)
            case EndpointEvent(ResponseDone(response_id, ResponseStatus.CANCELLED)):
                self._audible.pop(response_id, None)
            case _:
                pass

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the next frame of a recording, or silence until the next recording is due."""
        following = self._following
        speaks = self._at < len(self._pcm)
        if following is not None and self._own_sound_ends_ns < start_ns + self.frame_ns:
            t0_ns = start_ns if self._playing < 0 else self._due_ns(following)
            if t0_ns is not None and t0_ns < start_ns + self.frame_ns:
                return self._begin(following, max(t0_ns, self._own_sound_ends_ns), start_ns)
        if speaks:
            return self._said(start_ns)
        return None if self._is_over(now_ns) else self._silence

    @property
    def _following(self) -> Utterance | None:
        return self._utterances[self._playing + 1] if self._playing + 1 < len(self._utterances) else None

    # -- Start of the next utterance --------------------------------------------------------------------

    def _due_ns(self, following: Utterance) -> int | None:
        """Return the start time of the next utterance's recording; None while unknown."""
        onset_ns = following.boundaries.onset_ns
        match following.anchor:
            case Anchor(AnchorKind.REPLY_AUDIBLE, after_ns):
                moment_ns = self._reply_audible_ns
            case Anchor(AnchorKind.REPLY_ENDED, after_ns):
                moment_ns = self._reply_ended_ns
            case Anchor(AnchorKind.UTTERANCE_ENDED, after_ns):
                moment_ns = self._own_sound_ends_ns
            case _:
                moment_ns, after_ns, onset_ns = self._quiet_from_ns, self._pause_ns, 0
                if not self._over and self._utterances[self._playing].expects_answer:
                    return None
        return None if moment_ns is None else moment_ns + after_ns - onset_ns

    @property
    def _reply_audible_ns(self) -> int | None:
        """Time at which the user heard the reply begin; None while unknown."""
        audible_ns = self._audible.values()
        to_the_end = [at_ns for at_ns in audible_ns if at_ns >= self._asked_ns]
        if to_the_end or (self._quiet_from_ns is not None and self._quiet_from_ns <= self._asked_ns):
            return min(to_the_end, default=None)
        return max(audible_ns, default=None)

    @property
    def _reply_ended_ns(self) -> int | None:
        """Time at which the user heard the reply end; None while unknown."""
        ended_ns = self._quiet_from_ns
        return ended_ns if ended_ns is not None and ended_ns > self._asked_ns else None

    def _is_over(self, now_ns: int) -> bool:
        """Return whether the script has ended because it is complete or the next anchor does not occur."""
        if not self._over or self._quiet_from_ns is None or now_ns < self._quiet_from_ns:
            return False
        following, spoken = self._following, self._utterances[self._playing]
        if following is None:
            return True
        waits = following.anchor is not None and self._due_ns(following) is None
        return waits and (spoken.expects_answer or now_ns >= self._asked_ns + self._patience_ns)

    # -- The frames ----------------------------------------------------------------------------------------

    def _begin(self, utterance: Utterance, t0_ns: int, start_ns: int) -> Frame:
        """Return the frame in which a recording begins: at `t0_ns`, or later with part of its lead-in cut.

        The previous recording's audio after its speech is dropped.
        """
        at = -((start_ns - t0_ns) * self._samples // self.frame_ns)  # the first sample at or after `t0_ns`
        lead_in = utterance.boundaries.onset_ns * self._samples // self.frame_ns
        at = max(at, -lead_in)
        t0_ns = start_ns + at * self.frame_ns // self._samples
        before = self._pcm[self._at : self._at + 2 * max(0, at)].ljust(2 * max(0, at), b"\0")
        self._playing += 1
        self._pcm, self._at = b"".join(utterance.frames), 2 * max(0, -at)
        self._own_sound_ends_ns = t0_ns + utterance.boundaries.voice_end_ns
        self._over, self._quiet_from_ns = False, None
        if utterance.expects_answer:
            self._asked_ns = self._own_sound_ends_ns
            self._audible.clear()
        began = UtteranceBegan(
            t0_ns,
            t0_ns + utterance.boundaries.onset_ns,
            utterance.boundaries,
            own_turn=True,
            expects_answer=utterance.expects_answer,
        )
        return self._said(start_ns, began, before)

    def _said(self, start_ns: int, began: UtteranceBegan | None = None, before: bytes = b"") -> Frame:
        """Return the next frame of the recording, preceded by the samples in `before`."""
        size = len(self._silence.pcm)
        pcm = before + self._pcm[self._at : self._at + size - len(before)]
        self._at += size - len(before)
        last = self._at >= len(self._pcm)
        ended = UtteranceEnded(self._utterances[self._playing].boundaries) if last else None
        return Frame(pcm.ljust(size, b"\0"), True, began, ended)
