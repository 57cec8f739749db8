"""What happened in a session, turn by turn: the one object that writes the state of a turn.

The session reports what the user says and the connection what travels; `Timeline.look` returns what the user
hears of it, for the speaker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from live_eval.audio.rtp import MediaStats, RtpPacket
from live_eval.cassettes import Call, Closed, Received, Sent, TurnReport, expected
from live_eval.cassettes.recorder import WireRecord
from live_eval.clock import Pacer
from live_eval.dialect import Event, Message, StreamAudio, StreamText
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.recording.record import TurnCapture
from live_eval.session.audibility import Audibility
from live_eval.session.bounds import flood_of
from live_eval.session.event_loop import ProbeReading
from live_eval.session.responses import OpenResponse
from live_eval.session.speaker import (
    EndpointEvent,
    EndpointPacket,
    Heard,
    ReplyAudible,
    ReplyContinues,
    ReplyEnded,
    TurnOver,
    UtteranceBegan,
    UtteranceEnded,
)
from live_eval.session.turn import TurnState
from live_eval.timing import SPEECH_TAIL_NS, TurnTrace
from live_eval.transport import Stamping
from live_eval.types import Failure, SpeechBoundaries

__all__ = ["MOST_FRAMES", "MOST_LOGGED_BYTES", "RawMessage", "SessionTurn", "Timeline"]

RawMessage: TypeAlias = tuple[int, bool, Message]
"""When a message travelled, whether it came in, and the message."""

MOST_FRAMES = 30_000
"""Frame times kept of a turn: ten minutes of frames of 20 ms, counted from its utterance."""
MOST_LOGGED_BYTES = 64_000_000
"""Messages kept of a turn for its log, by their length on the wire; further ones are counted."""


@dataclass(slots=True, kw_only=True, eq=False)
class SessionTurn:
    """One turn of a session: what the user said and what came of it. Only `Timeline` changes it.

    Marks and counts are those of `TurnTrace` and `TurnCapture`.

    Args:
        state: What the endpoint says and how the turn stands.
        begun_ns: When dialling began, or for a later turn the turn.
        boundaries: Where the user's own sound lies, counted from `t0_ns`; None while its end is not known.
        expects_answer: Whether the utterance is to be answered.
        received: How many messages came in.
        received_bytes: Their length on the wire.
        messages: Messages with their times, and whether they came in.
        logged_bytes: Length of these on the wire.
        unlogged: Messages beyond those that are kept.
        frames: How many frames were sent; more than `sent` holds in a very long turn.
        sent_stats: The transport's counts of our packets since the session began.
        sent_before: The same at the end of the turn before.
        reading: How late the event loop was.
        stamping: How what arrived was stamped; None until the turn has ended.
    """

    state: TurnState
    begun_ns: int
    wall_ns: int
    t0_ns: int | None = None
    onset_ns: int | None = None
    user_done_ns: int | None = None
    boundaries: SpeechBoundaries | None = None
    barge_in_ns: int | None = None
    backchannel: bool = False
    expects_answer: bool = True
    received: int = 0
    received_bytes: int = 0
    messages: list[RawMessage] = field(default_factory=list)
    logged_bytes: int = 0
    unlogged: int = 0
    deadlines: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    frames: int = 0
    late_speech_frames: int = 0
    skipped_silence_frames: int = 0
    sent_stats: MediaStats | None = None
    sent_before: MediaStats | None = None
    reading: ProbeReading = field(default_factory=ProbeReading)
    stamping: Stamping | None = None

    @property
    def voice_end_ns(self) -> int | None:
        """When the user's own sound ends; None while that is not known."""
        if self.t0_ns is None or self.boundaries is None:
            return None
        return self.t0_ns + self.boundaries.voice_end_ns

    @property
    def timed_from_ns(self) -> int:
        """From when on a late event loop would falsify what is measured."""
        if self.t0_ns is None:
            return self.begun_ns
        return self.t0_ns if self.voice_end_ns is None else self.voice_end_ns - SPEECH_TAIL_NS

    def captured(
        self,
        *,
        manual: bool,
        setup_ns: Mapping[str, int],
        stamping: Stamping,
    ) -> TurnCapture:
        """Return the turn as it is recorded.

        Args:
            manual: Whether we commit the user's turns.
            setup_ns: How long each step of the connection's setup took; empty for a later turn.
            stamping: How what arrived was stamped.
        """
        trace = TurnTrace(
            dial_ns=self.begun_ns,
            t0_ns=self.t0_ns,
            onset_ns=self.onset_ns,
            voice_end_ns=self.voice_end_ns,
            user_done_ns=self.user_done_ns,
            boundaries_uncertain=self.boundaries is not None and self.boundaries.uncertain,
            boundaries=self.boundaries,
            frame_deadline_ns=np.asarray(self.deadlines, np.int64),
            frame_sent_ns=np.asarray(self.sent, np.int64),
            barge_in_ns=self.barge_in_ns,
            backchannel=self.backchannel,
            probe_at_ns=self.reading.at_ns,
            probe_lag_ns=self.reading.lag_ns,
            setup_ns=dict(setup_ns),
            stamps=stamping.kind,
            stamp_error_ns=stamping.error_ns,
            clock_steps=stamping.clock_steps,
        )
        return replace(
            self.state.captured(trace, self.wall_ns, manual=manual),
            late_speech_frames=self.late_speech_frames,
            skipped_silence_frames=self.skipped_silence_frames,
            media=self._media(),
        )

    def _media(self) -> MediaStats | None:
        """Return the counts of the turn's packets; the transport counts those that we sent by session."""
        heard, sent, before = self.state.media, self.sent_stats, self.sent_before
        if heard is None or sent is None:
            return heard
        return replace(
            heard,
            sent_packets=_since(sent.sent_packets, before.sent_packets if before is not None else None),
            sent_lost=_since(sent.sent_lost, before.sent_lost if before is not None else None),
            round_trip_ns=sent.round_trip_ns,
        )


class _Replies:
    """What the user hears of a turn.

    Args:
        turn: The turn.
        listens: Whether the speaker hears replies.
    """

    def __init__(self, turn: SessionTurn, *, listens: bool) -> None:
        self.turn = turn
        self.state = turn.state
        self._audibility = Audibility(paced=turn.state.paced) if listens else None

    @property
    def heard_until_ns(self) -> int:
        """When the last sample so far is heard, or when something last came; 0 before."""
        return max(self.state.progress_ns or 0, self.state.heard_until_ns or 0)

    def become_audible(self) -> Iterator[ReplyAudible]:
        """Yield the responses that have become audible since the last call."""
        if self._audibility is not None:
            yield from self._audibility.look(self.state.open_responses)


class Timeline:
    """The turns of a session so far, of which the last is under way.

    Args:
        wire: Keeps what happens, for a cassette.
        new_state: Makes the state of a turn, given as ``track`` whether audio travels on a media track.
        listens: Whether the speaker hears replies and events.
    """

    def __init__(self, wire: WireRecord, new_state: Callable[..., TurnState], *, listens: bool) -> None:
        self._wire = wire
        self._new_state = new_state
        self.on_track = False
        """Whether audio travels on a media track."""
        self._listens = listens
        self._news: list[Heard] = []
        self._lost: Failure | None = None
        self._anchor_ns = 0
        self._pacer: Pacer | None = None
        self.over = False
        """Whether the turn under way has its answer."""
        self._answering = False  # the user has ended an utterance of this turn
        self._quiet_ns: int | None = None  # what was last reported as the reply's end
        self._replies: list[_Replies] = []  # of the turn under way, after those of earlier ones that go on
        self._spoken_over: list[TurnState] = []  # whose replies are to be stopped where we stop them
        self._answer_due = False  # to an utterance of an earlier turn
        self.turns: list[SessionTurn] = []
        """Those that are still kept, in order."""
        self.finished = 0
        """How many were let go before them."""

    # -- How it stands -----------------------------------------------------------------------------------

    @property
    def current(self) -> SessionTurn:
        """The turn under way."""
        return self.turns[-1]

    @property
    def failure(self) -> Failure | None:
        """Why the turn under way failed."""
        return self.turns[-1].state.failure

    @property
    def lost(self) -> Failure | None:
        """Why there can be no further turn."""
        return self._lost or self.turns[-1].state.lost

    def replies_at(self, at_ns: int) -> bool:
        """Return whether a reply is under way, or still heard, when the user begins to speak at `at_ns`."""
        if self.over:  # all of it may have come at once
            return at_ns < self._heard_until_ns
        return self.current.state.replying

    def sounding(self) -> Iterator[OpenResponse]:
        """Yield the responses of the turn under way, and of earlier ones that go on."""
        for replies in self._replies:
            yield from replies.state.open_responses

    @property
    def spoken(self) -> bool:
        """Whether the user has begun to speak in the turn under way."""
        return self.current.t0_ns is not None

    @property
    def _heard_until_ns(self) -> int:
        return max(replies.heard_until_ns for replies in self._replies)

    @property
    def sent_frames(self) -> int:
        """How many frames were sent in the turns that are kept."""
        return sum(turn.frames for turn in self.turns)

    # -- Turns -------------------------------------------------------------------------------------------

    def start(self, at_ns: int, wall_ns: int) -> None:
        """Begin the session, and its first turn."""
        self._anchor_ns = wall_ns - at_ns
        self._begin(SessionTurn(state=self._new_state(track=self.on_track), begun_ns=at_ns, wall_ns=wall_ns))

    def _begin(self, turn: SessionTurn) -> None:
        self.turns.append(turn)
        self._replies.append(_Replies(turn, listens=self._listens))

    def next_turn(
        self, at_ns: int, reading: ProbeReading, sent: MediaStats | None, *, goes_on: bool = False
    ) -> None:
        """End the turn under way and begin another in the same session.

        Where the connection was lost meanwhile, that turn has failed.

        Args:
            at_ns: The present moment.
            reading: Kept with the turn that ends.
            sent: The same.
            goes_on: Whether the user speaks without waiting for the answer to what they said before; it is
                then due in the turn that begins.
        """
        lost, before = self.lost, self.current
        self._answer_due = goes_on and before.state.answer_due
        self.end_turn(at_ns, reading, sent, goes_on=goes_on)
        before.state.rest()
        state = self._new_state(track=self.on_track, before=before.state)
        state.session_id, state.model = before.state.session_id, before.state.model
        if lost is not None:  # it costs this turn
            state.retry_after_s = before.state.retry_after_s
        turn = SessionTurn(state=state, begun_ns=at_ns, wall_ns=self._anchor_ns + at_ns)
        turn.sent_before = sent
        self._replies = [
            replies
            for replies in self._replies
            if replies.state.speaking(at_ns) or at_ns < replies.heard_until_ns
        ]
        self._begin(turn)
        self.over = self._answering = False
        self._quiet_ns = None
        if lost is not None:
            self.failed(lost.kind, lost.message, lost.at_ns or at_ns)

    def rest(self) -> None:
        """Go on after a turn that is over: what goes wrong from here on costs the next one."""
        self.current.state.rest()

    def end_turn(
        self, at_ns: int, reading: ProbeReading, sent: MediaStats | None, *, goes_on: bool = False
    ) -> None:
        """End the turn under way: what comes is no longer part of it, unless it names what is.

        The arguments are those of `next_turn`.
        """
        turn = self.current
        state = turn.state
        if not self.over and state.failure is None:
            state.end(at_ns, barge_in_ns=turn.barge_in_ns, goes_on=goes_on)
            if state.failure is not None:
                said = {"kind": state.failure.kind.value, "message": state.failure.message}
                self._wire.keep(TurnReport, at_ns, "failed", said)
        turn.reading, turn.sent_stats = reading, sent
        if self._pacer is not None and turn.t0_ns is not None:
            turn.late_speech_frames += self._pacer.late_speech_frames
            turn.skipped_silence_frames += self._pacer.skipped_silence_frames

    def release(self, number: int) -> Iterator[SessionTurn]:
        """Let go of all turns but the last `number`, the oldest first."""
        while len(self.turns) > number:
            turn = self.turns.pop(0)
            self.finished += 1
            yield turn

    def not_reached(self, at_ns: int) -> TurnCapture:
        """Return what is kept of a turn that the session had not reached when it ended."""
        last = self.current.state
        why = "nothing came for the next utterance to follow"
        if last.failure is not None:
            why = last.failure.message
        message = f"the dialogue ended at turn {self.finished + len(self.turns)}: {why}"
        return TurnCapture(
            trace=TurnTrace(dial_ns=at_ns, continuous=last.continuous),
            session_id=last.session_id,
            model=last.model,
            wall_ns=self._anchor_ns + at_ns,
            failure=Failure(FailureKind.DIALOGUE_ENDED, message, at_ns),
        )

    # -- What the user says ------------------------------------------------------------------------------

    def utterance_began(self, began: UtteranceBegan, pacer: Pacer) -> None:
        """Note that the user begins to speak in the turn under way, or goes on before it was answered."""
        turn = self.current
        if turn.t0_ns is None:
            turn.t0_ns, turn.onset_ns, turn.boundaries = began.t0_ns, began.onset_ns, began.boundaries
            turn.expects_answer, self._quiet_ns = began.expects_answer, None
            turn.state.expects_answer = began.expects_answer or self._answer_due
            turn.late_speech_frames = -pacer.late_speech_frames
            turn.skipped_silence_frames = -pacer.skipped_silence_frames
            self._pacer = pacer
            first = np.searchsorted(turn.deadlines, began.onset_ns - SPEECH_TAIL_NS)
            del turn.deadlines[:first], turn.sent[:first]
        else:
            turn.boundaries = self._extended(turn, began.t0_ns, began.boundaries)
            self._answering = False
            turn.state.user_continues()
        self._user_speaks(turn)

    def utterance_ended(self, ended: UtteranceEnded, began_ns: int, at_ns: int) -> None:
        """Note that the utterance that began at `began_ns` is complete (and committed, where we commit)."""
        turn = self.current
        if turn.boundaries is None or began_ns != turn.t0_ns:
            turn.boundaries = self._extended(turn, began_ns, ended.boundaries)
            self._user_speaks(turn)
        self._wire.keep(TurnReport, at_ns, "user_done", {})
        turn.state.user_done(at_ns)
        turn.user_done_ns = next(reversed(turn.deadlines), None)
        self._answering = True

    def interrupted(self, at_ns: int, *, backchannel: bool) -> None:
        """Note that the user begins to speak, over each reply that has not been heard to its end."""
        for replies in self._replies:
            turn = replies.turn
            if (turn.barge_in_ns is None or turn.backchannel) and replies.state.answering(at_ns):
                turn.barge_in_ns = None if turn.t0_ns is None else at_ns  # no greeting
                turn.backchannel = backchannel
                self._spoken_over.append(replies.state)

    def stop_reply(self, at_ns: int) -> Mapping[str, int]:
        """Stop the replies that the user speaks over, as the endpoint does not hear it by itself.

        Returns:
            How many milliseconds were heard of each response that was stopped; none if the reply will have
            been heard to its end by then.
        """
        spoken_over, self._spoken_over = self._spoken_over, []
        return {name: heard for state in spoken_over for name, heard in state.stop_reply(at_ns).items()}

    def frame_sent(self, deadline_ns: int, at_ns: int) -> None:
        """Note that a frame was handed to the transport."""
        turn = self.turns[-1]
        turn.frames += 1
        if len(turn.sent) >= MOST_FRAMES:
            if turn.t0_ns is not None:
                return
            del turn.sent[: MOST_FRAMES // 2], turn.deadlines[: MOST_FRAMES // 2]
        turn.sent.append(at_ns)
        turn.deadlines.append(deadline_ns)

    # -- What travels ------------------------------------------------------------------------------------

    def called(self, call: str, at_ns: int, /, **arguments: Any) -> None:
        """Note a call of the dialect."""
        self._wire.keep(Call, at_ns, call, arguments)

    def message_sent(self, message: Message, at_ns: int) -> None:
        """Note a message to the endpoint, other than the user's audio."""
        self._log(at_ns, False, message)
        self._wire.keep(Sent, at_ns, message)

    def message_received(self, message: Message, at_ns: int) -> None:
        """Note a message of the endpoint."""
        self._wire.keep(Received, at_ns, message)
        self._log(at_ns, True, message)
        turn = self.turns[-1]
        turn.received += 1
        turn.received_bytes += len(message)

    def packet_received(self, packet: RtpPacket) -> None:
        """Note a packet of the endpoint's track; it belongs to the turn of the reply that goes on with it."""
        self._wire.keep(_itself, packet)
        if self._listens and packet.payload:
            self._news.append(EndpointPacket(packet))
        state = self.current.state
        if state.continuous:
            state = self._sounding(packet.at_ns)
        elif not state.playing:
            at_ns = packet.at_ns
            earlier = (each.state for each in reversed(self._replies[:-1]) if each.state.carries(at_ns))
            state = next(earlier, state)
        state.on_packet(packet)

    @property
    def flooded(self) -> str | None:
        """Why the session cannot go on: more came in the turn than any conversation needs. None if not."""
        return flood_of(self.current.received, self.current.received_bytes)

    def happened(self, event: Event, at_ns: int) -> TurnState:
        """Note an event of the dialect.

        Returns:
            The turn that it belongs to: a response to an earlier one may still say something.
        """
        self._wire.keep(expected, at_ns, event)
        if isinstance(event, StreamAudio | StreamText):
            state = self._sounding(at_ns)
        else:
            state = self.current.state
            for turn in self.turns[-2::-1]:
                if turn.state.owns(event):
                    state = turn.state
                    break
        state.on_event(event, at_ns)
        if self._listens:
            self._news.append(EndpointEvent(event, at_ns))
        return state

    def failed(self, kind: FailureKind, message: str, at_ns: int, retry_after_s: float | None = None) -> None:
        """Note that the turn under way failed; the first failure stays."""
        state = self.current.state
        self._wire.keep(TurnReport, at_ns, "failed", {"kind": kind.value, "message": message})
        state.fail(kind, message, at_ns)
        state.retry_after_s = retry_after_s or state.retry_after_s

    def connection_ended(self, end: TransportClosedError) -> None:
        """Note that the connection ended, and not by us. The dialect may know why: see `connection_lost`."""
        state = self.current.state
        state.retry_after_s = end.retry_after_s or state.retry_after_s
        if end.kind is FailureKind.CLOSED:
            self._wire.keep(Closed, end.at_ns, end.code, end.reason)

    def connection_lost(self, end: TransportClosedError) -> None:
        """Note that there can be no further turn, once the dialect has said what it knows of the end."""
        state, message = self.current.state, end.message
        if end.kind is FailureKind.CLOSED:
            message = f"the endpoint closed the connection: code {end.code}, reason {end.reason!r}"
            state.closed(message, end.at_ns)
        else:
            self.failed(end.kind, message, end.at_ns)
        self._lost = state.failure or state.lost or Failure(end.kind, message, end.at_ns)

    # -- What the user hears -----------------------------------------------------------------------------

    def look(self, now_ns: int) -> Iterator[Heard]:
        """Look how the turn stands, and yield what there is to report to the speaker."""
        state = self.current.state
        if self._listens:
            if self._news:
                news, self._news = self._news, []
                yield from news
            for replies in self._replies:
                yield from replies.become_audible()
        if self._answering and not self.over and self._is_over(state, now_ns):
            self._wire.keep(TurnReport, now_ns, "over", {})
            self.over = True
            if state.failure is not None:
                return
            yield TurnOver(now_ns)
        if self.over or (self._listens and any(each.state.progress_ns for each in self._replies)):
            yield from self._end_of_reply(now_ns)

    def _is_over(self, state: TurnState, now_ns: int) -> bool:
        """Return whether the turn under way is over; one that expects no answer lasts as long as a reply."""
        if state.expects_answer:
            heard_ns = 0
            if len(self._replies) > 1 and state.answer_due:
                heard_ns = max(
                    now_ns if each.state.goes_on(now_ns) else each.heard_until_ns
                    for each in self._replies[:-1]
                )
            return state.over(now_ns, heard_ns)
        for replies in self._replies[:-1]:
            overdue = replies.state.overdue(now_ns)
            if overdue is not None:
                state.fail(overdue.kind, overdue.message, overdue.at_ns)
                return True
            if replies.state.goes_on(now_ns):
                return False
        return state.over(now_ns, 0 if state.speaking(now_ns) else self._heard_until_ns)

    def _end_of_reply(self, now_ns: int) -> Iterator[Heard]:
        earlier = any(replies.state.goes_on(now_ns) for replies in self._replies[:-1])
        if earlier or self.current.state.speaking(now_ns):
            if self._quiet_ns is not None:
                self._quiet_ns = None
                yield ReplyContinues(now_ns)
        elif self._quiet_ns != self._heard_until_ns:
            self._quiet_ns = self._heard_until_ns
            yield ReplyEnded(self._heard_until_ns)

    # -- Details -----------------------------------------------------------------------------------------

    def _sounding(self, at_ns: int) -> TurnState:
        """Return the turn to which a continuous stream belongs: an earlier one as long as its reply lasts."""
        for replies in self._replies:
            if replies.state.speaking(at_ns):
                return replies.state
        return self.current.state

    def _user_speaks(self, turn: SessionTurn) -> None:
        """Report to the turn's state when the user speaks, as far as that is known."""
        assert turn.t0_ns is not None
        assert turn.onset_ns is not None
        voice_end_ns = -1 if turn.boundaries is None else turn.boundaries.voice_end_ns
        bounds = {"onset_ns": turn.onset_ns - turn.t0_ns, "voice_end_ns": voice_end_ns}
        self._wire.keep(TurnReport, turn.t0_ns, "user_speaks", bounds)
        turn.state.user_speaks(turn.onset_ns, turn.voice_end_ns)
        if turn.expects_answer and turn.voice_end_ns is not None:
            for replies in self._replies[:-1]:
                replies.state.spoken_over(turn.voice_end_ns)

    def _extended(
        self, turn: SessionTurn, began_ns: int, heard: SpeechBoundaries | None
    ) -> SpeechBoundaries | None:
        """Return the boundaries of a turn up to the end of its latest utterance."""
        assert turn.t0_ns is not None
        assert turn.onset_ns is not None
        if heard is None or began_ns == turn.t0_ns:
            return heard
        later_ns = began_ns - turn.t0_ns
        words_end_ns = None if heard.words_end_ns is None else heard.words_end_ns + later_ns
        return replace(
            heard,
            onset_ns=turn.onset_ns - turn.t0_ns,
            voice_end_ns=heard.voice_end_ns + later_ns,
            words_end_ns=words_end_ns,
        )

    def _log(self, at_ns: int, incoming: bool, message: Message) -> None:
        turn = self.turns[-1]
        if turn.logged_bytes > MOST_LOGGED_BYTES:
            turn.unlogged += 1
            return
        turn.logged_bytes += len(message)
        turn.messages.append((at_ns, incoming, message))


def _since(count: int | None, before: int | None) -> int | None:
    return count if count is None or before is None else count - before


def _itself(packet: RtpPacket) -> RtpPacket:
    return packet
