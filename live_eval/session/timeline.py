"""Dispatch a session's events to its turns. Only this module changes turns.

The session reports the user's speech, the connection reports the traffic, and `Timeline.look` yields reports
for the speaker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from live_eval.audio.rtp import MediaStats, RtpPacket
from live_eval.cassettes import Call, Closed, Received, Sent, SessionReport, WireRecord, expected
from live_eval.clock import Pacer
from live_eval.dialect import Event, Message, QueuedAudio, StreamAudio, StreamInterrupted, StreamText
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.session.bounds import flood_of
from live_eval.session.capture import TurnCapture
from live_eval.session.event_loop import ProbeReading
from live_eval.session.limits import connection_closed
from live_eval.session.playout_line import PlayoutLine
from live_eval.session.responses import OpenResponse
from live_eval.session.speaker import (
    EndpointEvent,
    EndpointPacket,
    Heard,
    ReplyContinues,
    ReplyEnded,
    UtteranceAnswered,
    UtteranceBegan,
    UtteranceEnded,
)
from live_eval.session.turn import Turn
from live_eval.session.verdict import end, is_over
from live_eval.types import Failure, SpeechBoundaries

__all__ = ["Timeline"]


class Timeline:
    """The turns of a session so far; the last turn is in progress.

    Args:
        wire: Recorder of calls and messages for a cassette.
        new_turn: Turn factory, called with ``track`` (whether audio travels on a media track), ``begun_ns``,
            ``wall_ns`` and ``before``, the previous turn.
        listens: Whether the speaker hears replies and events.
    """

    def __init__(self, wire: WireRecord, new_turn: Callable[..., Turn], *, listens: bool) -> None:
        self._wire = wire
        self._new_turn = new_turn
        self.on_track = False
        """Whether audio is sent on a media track."""
        self._listens = listens
        self._news: list[Heard] = []
        self._lost: Failure | None = None
        self._anchor_ns = 0
        self._pacer: Pacer | None = None
        self.over = False
        """Whether the current turn has been answered."""
        self._answering = False  # whether the user has ended an utterance of this turn
        self._quiet_ns: int | None = None  # the last reported end of the reply
        self._audible: list[Turn] = []  # turns whose replies continue, then the turn in progress
        self._line: PlayoutLine | None = None  # created by the first queued audio
        self._spoken_over: list[Turn] = []  # turns whose replies the session stops, in manual mode
        self.turns: list[Turn] = []
        """The turns still kept, in order."""
        self.finished = 0
        """Number of turns released earlier."""

    # -- State ---------------------------------------------------------------------------------

    @property
    def current(self) -> Turn:
        """The current turn."""
        return self.turns[-1]

    @property
    def failure(self) -> Failure | None:
        """The failure of the current turn, or None."""
        return self.turns[-1].failure

    @property
    def lost(self) -> Failure | None:
        """The reason why no new turn can begin, or None."""
        return self._lost or self.turns[-1].lost

    def replies_at(self, at_ns: int) -> bool:
        """Return whether a reply is in progress or still audible when the user begins to speak at `at_ns`."""
        if self.over:  # the complete reply may have arrived in one burst
            return at_ns < self._quiet_from_ns
        return self.current.replying

    def sounding(self) -> Iterator[OpenResponse]:
        """Yield the responses of the current turn and of earlier turns whose replies continue."""
        for turn in self._audible:
            yield from turn.replies

    @property
    def spoken(self) -> bool:
        """Whether the user has begun to speak in the current turn."""
        return self.current.user.t0_ns is not None

    @property
    def _quiet_from_ns(self) -> int:
        return max(turn.quiet_from_ns for turn in self._audible)

    @property
    def sent_frames(self) -> int:
        """The number of frames sent in the kept turns."""
        return sum(turn.frames.number for turn in self.turns)

    @property
    def flooded(self) -> str | None:
        """The error message if the endpoint exceeded a turn's message limits, otherwise None."""
        return flood_of(self.current.log.received, self.current.log.received_bytes)

    # -- Turns -------------------------------------------------------------------------------------------

    def start(self, at_ns: int, wall_ns: int) -> None:
        """Begin the session and its first turn."""
        self._anchor_ns = wall_ns - at_ns
        self._begin(at_ns, None)

    def _begin(self, at_ns: int, before: Turn | None) -> None:
        wall_ns = self._anchor_ns + at_ns
        turn = self._new_turn(track=self.on_track, begun_ns=at_ns, wall_ns=wall_ns, before=before)
        self.turns.append(turn)
        self._audible.append(turn)

    def next_turn(
        self, at_ns: int, reading: ProbeReading, sent: MediaStats | None, *, user_continues: bool = False
    ) -> None:
        """End the current turn and begin the next.

        If the connection has been lost, the new turn fails.

        Args:
            reading: Event-loop lag during the turn that is ending.
            user_continues: Whether the user speaks without waiting for the answer to the last utterance,
                which is then due in the new turn.
        """
        lost, before = self.lost, self.current
        owed = user_continues and before.answer_due
        self.end_turn(at_ns, reading, sent, user_continues=user_continues)
        before.settle()
        self._audible = [turn for turn in self._audible if turn.speaking(at_ns) or at_ns < turn.quiet_from_ns]
        self._begin(at_ns, before)
        self.current.user.owed_answer = owed
        self.over = self._answering = False
        self._quiet_ns = None
        if lost is not None:
            self.failed(lost.kind, lost.message, lost.at_ns or at_ns, before.retry_after_s)

    def end_turn(
        self, at_ns: int, reading: ProbeReading, sent: MediaStats | None, *, user_continues: bool = False
    ) -> None:
        """End the turn in progress. From then on, it owns only events with IDs of its responses or items.

        See `next_turn` for the arguments.
        """
        turn = self.current
        if not self.over and turn.failure is None:
            end(turn, at_ns, user_continues=user_continues)
            if turn.failure is not None:
                failed = {"kind": turn.failure.kind.value, "message": turn.failure.message}
                self._wire.keep(SessionReport, at_ns, "failed", failed)
        turn.reading, turn.sent_stats = reading, sent
        if self._pacer is not None and turn.user.t0_ns is not None:
            turn.frames.late_speech += self._pacer.late_speech_frames
            turn.frames.skipped_silence += self._pacer.skipped_silence_frames

    def release(self, number: int) -> Iterator[Turn]:
        """Remove and yield all turns except the last `number`, oldest first."""
        while len(self.turns) > number:
            turn = self.turns.pop(0)
            self.finished += 1
            yield turn

    def not_reached(self, at_ns: int) -> TurnCapture:
        """Return a capture for a turn that the session did not reach."""
        last = self.current
        why = "the anchor of the next utterance did not occur"
        if last.failure is not None:
            why = last.failure.message
        message = f"the dialogue ended at turn {self.finished + len(self.turns)}: {why}"
        turn = self._new_turn(begun_ns=at_ns, wall_ns=self._anchor_ns + at_ns, before=last)
        turn.fail(FailureKind.DIALOGUE_ENDED, message, at_ns)
        return turn.captured()

    # -- The user ----------------------------------------------------------------------------------------

    def utterance_began(self, began: UtteranceBegan, pacer: Pacer) -> None:
        """Record the start of an utterance in the current turn, which may have earlier, unanswered ones."""
        turn = self.current
        user, frames = turn.user, turn.frames
        if user.t0_ns is None:
            user.t0_ns, user.onset_ns, user.expects_answer = began.t0_ns, began.onset_ns, began.expects_answer
            self._pacer, self._quiet_ns = pacer, None
            frames.late_speech = -pacer.late_speech_frames
            frames.skipped_silence = -pacer.skipped_silence_frames
            frames.utterance_began(began.onset_ns)
        else:
            self._answering = False
            user.done_ns = None
        self._user_speaks(turn, began.t0_ns, began.boundaries)

    def utterance_ended(self, ended: UtteranceEnded, began_ns: int, at_ns: int) -> None:
        """Record the end of the utterance that began at `began_ns`; in a manual turn, after its commit."""
        turn = self.current
        if turn.user.boundaries is None or began_ns != turn.user.t0_ns:
            self._user_speaks(turn, began_ns, ended.boundaries)
        self._wire.keep(SessionReport, at_ns, "user_done", {})
        turn.user_done(at_ns)
        turn.user.last_frame_ns = next(reversed(turn.frames.deadline_ns), None)
        self._answering = True

    def _user_speaks(self, turn: Turn, began_ns: int, boundaries: SpeechBoundaries | None) -> None:
        user = turn.user
        user.locate(began_ns, boundaries)
        assert user.t0_ns is not None
        assert user.onset_ns is not None
        voice_end_ns = -1 if user.boundaries is None else user.boundaries.voice_end_ns
        bounds = {"onset_ns": user.onset_ns - user.t0_ns, "voice_end_ns": voice_end_ns}
        self._wire.keep(SessionReport, user.t0_ns, "user_speaks", bounds)
        turn.user_speaks(user.onset_ns, user.voice_end_ns)
        if user.expects_answer and user.voice_end_ns is not None:
            for earlier in self._audible[:-1]:
                earlier.source.user_speaks_until(user.voice_end_ns)

    def interrupted(self, at_ns: int, *, backchannel: bool) -> None:
        """Record that the user interrupts each reply that has not finished playing."""
        for turn in self._audible:
            user = turn.user
            if (user.barge_in_ns is None or user.backchannel) and turn.answering(at_ns):
                user.barge_in_ns = None if user.t0_ns is None else at_ns  # None for a greeting
                user.backchannel = backchannel
                self._spoken_over.append(turn)

    def stop_reply(self, at_ns: int) -> Mapping[str, int]:
        """Stop the interrupted replies on behalf of an endpoint that does not detect speech.

        Returns:
            How many milliseconds of each stopped response were heard; empty if the reply had already ended.
        """
        spoken_over, self._spoken_over = self._spoken_over, []
        return {name: heard for turn in spoken_over for name, heard in turn.stop_reply(at_ns).items()}

    def frame_sent(self, deadline_ns: int, at_ns: int) -> None:
        """Add a frame that was passed to the transport."""
        turn = self.turns[-1]
        turn.frames.add(deadline_ns, at_ns, spoken=turn.user.t0_ns is not None)

    # -- Traffic -----------------------------------------------------------------------------------------

    def called(self, call: str, at_ns: int, /, **arguments: Any) -> None:
        """Record a call to the dialect."""
        self._wire.keep(Call, at_ns, call, arguments)

    def message_sent(self, message: Message, at_ns: int) -> None:
        """Add a message to the endpoint that does not contain the user's audio."""
        self.turns[-1].log.add(at_ns, message, incoming=False)
        self._wire.keep(Sent, at_ns, message)

    def message_received(self, message: Message, at_ns: int) -> None:
        """Add a message from the endpoint."""
        self._wire.keep(Received, at_ns, message)
        self.turns[-1].log.add(at_ns, message, incoming=True)

    def packet_received(self, packet: RtpPacket) -> None:
        """Pass a packet of the endpoint's track to the turn whose reply it continues."""
        self._wire.keep(_itself, packet)
        if self._listens and packet.payload:
            self._news.append(EndpointPacket(packet))
        turn = self.current
        if turn.source.continuous:
            turn = self._of_stream(packet.at_ns)
        elif turn.source.playing is None:
            earlier = (each for each in reversed(self._audible[:-1]) if each.source.carries(packet.at_ns))
            turn = next(earlier, turn)
        turn.on_packet(packet)

    def happened(self, event: Event, at_ns: int) -> Turn:
        """Handle a dialect event.

        Returns:
            The event's turn, which may be an earlier one whose response still sends audio and text.
        """
        self._wire.keep(expected, at_ns, event)
        if self._line is None:
            if not isinstance(event, QueuedAudio):
                return self._take(event, at_ns)
            self._line = PlayoutLine()
        turn = self.current
        for each, each_ns in self._line.passed(event, at_ns):
            turn = self._take(each, each_ns)
        return turn

    def _take(self, event: Event, at_ns: int) -> Turn:
        if isinstance(event, StreamAudio | StreamInterrupted | StreamText):
            turn = self._of_stream(at_ns)
        else:
            turn = self.current
            for earlier in self.turns[-2::-1]:
                if earlier.owns(event):
                    turn = earlier
                    break
        turn.on_event(event, at_ns)
        if self._listens:
            self._news.append(EndpointEvent(event, at_ns))
        return turn

    def _of_stream(self, at_ns: int) -> Turn:
        """Return the turn that owns a continuous stream: an earlier turn until its reply ends."""
        return next((turn for turn in self._audible if turn.speaking(at_ns)), self.current)

    def failed(self, kind: FailureKind, message: str, at_ns: int, retry_after_s: float | None = None) -> None:
        """Fail the current turn; the first failure is kept."""
        turn = self.current
        self._wire.keep(SessionReport, at_ns, "failed", {"kind": kind.value, "message": message})
        turn.fail(kind, message, at_ns)
        turn.retry_after_s = retry_after_s or turn.retry_after_s

    def connection_ended(self, end: TransportClosedError) -> None:
        """Handle the loss of a connection that the session did not close.

        The dialect may then report the reason, before `connection_lost` is called.
        """
        turn = self.current
        turn.retry_after_s = end.retry_after_s or turn.retry_after_s
        if end.kind is FailureKind.CLOSED:
            self._wire.keep(Closed, end.at_ns, end.code, end.reason)

    def connection_lost(self, end: TransportClosedError) -> None:
        """Prevent new turns, after the dialect has reported why the connection ended."""
        turn, message = self.current, end.message
        if end.kind is FailureKind.CLOSED:
            message = connection_closed(end.code, end.reason)
            turn.close(message, end.at_ns)
        else:
            self.failed(end.kind, message, end.at_ns)
        self._lost = turn.ending or Failure(end.kind, message, end.at_ns)

    # -- What the user hears -----------------------------------------------------------------------------

    def look(self, now_ns: int) -> Iterator[Heard]:
        """Decide whether the turn is over, then yield reports for the speaker."""
        if self._line is not None:
            for audio, at_ns in self._line.played(now_ns):
                self._take(audio, at_ns)
        turn = self.current
        if self._listens:
            if self._news:
                news, self._news = self._news, []
                yield from news
            for each in self._audible:
                yield from each.newly_audible()
        if self._answering and not self.over and self._is_over(turn, now_ns):
            self._wire.keep(SessionReport, now_ns, "over", {})
            self.over = True
            if turn.failure is not None:
                return
            yield UtteranceAnswered(now_ns)
        if self.over or (self._listens and any(each.progress_ns for each in self._audible)):
            yield from self._end_of_reply(now_ns)

    def _is_over(self, turn: Turn, now_ns: int) -> bool:
        """Return whether the current turn is over. A turn without an answer may last as long as a reply."""
        earlier = self._audible[:-1]
        if turn.expects_answer:
            heard_ns = 0
            if earlier and turn.answer_due:
                heard_ns = max(now_ns if each.continues(now_ns) else each.quiet_from_ns for each in earlier)
            return is_over(turn, now_ns, heard_ns)
        for each in earlier:
            overdue = each.overdue(now_ns)
            if overdue is not None:
                turn.fail(overdue.kind, overdue.message, overdue.at_ns)
                return True
            if each.continues(now_ns):
                return False
        return is_over(turn, now_ns, 0 if turn.speaking(now_ns) else self._quiet_from_ns)

    def _end_of_reply(self, now_ns: int) -> Iterator[Heard]:
        earlier = any(turn.continues(now_ns) for turn in self._audible[:-1])
        if earlier or self.current.speaking(now_ns):
            if self._quiet_ns is not None:
                self._quiet_ns = None
                yield ReplyContinues(now_ns)
        elif self._quiet_ns != self._quiet_from_ns:
            self._quiet_ns = self._quiet_from_ns
            yield ReplyEnded(self._quiet_ns)


def _itself(packet: RtpPacket) -> RtpPacket:
    return packet
