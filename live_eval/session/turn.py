"""Convert a turn's events to timestamps, responses and failures. Pure.

`live_eval.session.verdict` decides when a turn is over and whether it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from live_eval.audio.codecs import samples_in
from live_eval.audio.rtp import MediaStats, RtpPacket, RtpTrack
from live_eval.dialect import (
    Committed,
    EndpointProblem,
    Event,
    InputTranscript,
    Interrupted,
    PlaybackStarted,
    PlaybackStopped,
    RateLimit,
    RateLimits,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    StreamAudio,
    StreamInterrupted,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import AudioError, FailureKind
from live_eval.session.bounds import TEXT_CHARACTERS, bounded, bounded_name
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.session.event_loop import ProbeReading
from live_eval.session.limits import SessionLimits, overdue
from live_eval.session.log import FrameTimes, MessageLog, UserMarks
from live_eval.session.responses import MOST_RESPONSES, OnsetSearch, OpenResponse, Responses
from live_eval.session.sources import Messages, Stream, Track
from live_eval.session.speaker import ReplyAudible
from live_eval.timing import SPEECH_TAIL_NS, ResponseStatus, TurnTrace, began_before, is_greeting
from live_eval.transport import Stamping
from live_eval.types import Failure, Modality, StampKind

__all__ = ["Transcripts", "Turn"]

_SECOND_NS = 1_000_000_000
_MOST_WARNINGS = 20  # limit per kind and turn
_NO_STEPS: Mapping[str, int] = MappingProxyType({})
_USER_STAMPS = Stamping(StampKind.USER, error_ns=0, clock_steps=0)


class Turn:
    """The state of the user and the endpoint during one turn.

    Args:
        track: Whether replies arrive as packets of a media track.
        begun_ns: Start of dialling or, for a later turn, of the turn.
        wall_ns: Nanoseconds since the Unix epoch at `begun_ns`.
    """

    def __init__(
        self,
        limits: SessionLimits,
        modality: Modality,
        *,
        transcribes: bool = False,
        track: bool = False,
        continuous: bool = False,
        begun_ns: int = 0,
        wall_ns: int = 0,
        before: Turn | None = None,
    ) -> None:
        self.limits = limits
        self.modality = modality
        self.begun_ns = begun_ns
        self.user = UserMarks()
        self.frames = FrameTimes()
        self.log = MessageLog()
        self.transcripts = Transcripts(awaited=transcribes and not continuous, pieces_count=continuous)
        self.replies = Responses()
        """The responses so far, in start order."""
        packets = RtpTrack(before.source.packets if before is not None else None) if track else None
        self.source: Messages
        if continuous:
            silence_ns = round(limits.silence_s * _SECOND_NS)
            self.source = Stream(self.replies, self.user, packets, silence_ns)
        elif packets is not None:
            awaits_sound = modality is Modality.AUDIO
            self.source = Track(self.replies, self.user, packets, awaits_sound=awaits_sound)
        else:
            self.source = Messages(self.replies, self.user)
        self.ready_ns: int | None = None
        self.session_id: str | None = before.session_id if before is not None else None
        self.model: str | None = before.model if before is not None else None
        self.speech_started_ns: list[int] = []
        self.speech_stopped_ns: list[int] = []
        self.committed_ns: int | None = None
        self.rate_limits: tuple[RateLimit, ...] = ()
        self.failure: Failure | None = None
        self.lost: Failure | None = None
        """A failure after the end of the turn, which ends the session."""
        self.retry_after_s: float | None = None
        self.warnings: list[Failure] = []
        self.closed = False
        """Whether the connection ended."""
        self.stamping: Stamping | None = None
        """Timestamp source for the turn's arrivals; None until the turn has ended."""
        self.reading = ProbeReading()
        self.sent_stats: MediaStats | None = None  # sent packet counts since the session began
        self._wall_ns = wall_ns
        self._sent_before = before.sent_stats if before is not None else None
        self._settled = False
        self._items: set[str | None] = set()
        self._searches: dict[str, OnsetSearch] = {}

    # -- Events ------------------------------------------------------------------------------------

    def user_speaks(self, onset_ns: int, voice_end_ns: int | None) -> None:
        """Set the start of the user's speech and, if known, its end."""
        self.user.onset_ns, self.user.voice_end_ns = onset_ns, voice_end_ns
        self.source.user_speaks_until(voice_end_ns)

    def user_done(self, at_ns: int) -> None:
        """Mark the utterance as complete or, in a manual turn, as committed."""
        self.user.done_ns = at_ns

    def settle(self) -> None:
        """Freeze the turn's outcome; later failures do not affect it."""
        self._settled = True

    def fail(self, kind: FailureKind, message: str, at_ns: int | None = None) -> None:
        """Fail the turn or, after its end, the session. The first failure is kept."""
        if self._settled:
            self.lost = self.lost or Failure(kind, message, at_ns)
        elif self.failure is None:
            self.failure = Failure(kind, message, at_ns)

    def close(self, message: str, at_ns: int) -> None:
        """Handle a closed connection: a failure unless the turn has been answered."""
        last = self.last_answer
        answered = last is not None and last.status not in (ResponseStatus.OPEN, ResponseStatus.CANCELLED)
        if self.user.done_ns is None or not answered:
            self.fail(FailureKind.CLOSED, message, at_ns)
        self.closed = True

    def on_packet(self, packet: RtpPacket) -> None:
        """Handle a packet of the endpoint's track."""
        try:
            self.source.packet(packet)
        except AudioError as error:
            self.warn(error.kind, error.message, packet.at_ns)

    def on_event(self, event: Event, at_ns: int) -> None:
        """Handle a dialect event."""
        event = bounded(event)
        self._items.add(getattr(event, "item_id", None))
        touch = self.replies.touch
        match event:
            case ReplyAudio():  # first, because it is the most frequent event
                response = touch(event.response_id, at_ns)
                if event.data:  # an empty chunk does not count as the first byte
                    response.hear(at_ns, event.data, event.codec, samples_in(event.data, event.codec))
            case StreamAudio() | StreamInterrupted() | StreamText() | PlaybackStarted() | PlaybackStopped():
                try:
                    self.source.event(event, at_ns)
                except AudioError as error:
                    self.warn(error.kind, error.message, at_ns)
            case ReplyText():
                response = touch(event.response_id, at_ns)
                if response.first_text_ns is None and event.text:
                    response.first_text_ns = at_ns
                response.say(event.text, final=event.final)
            case SessionReady():
                if self.ready_ns is None:
                    self.ready_ns, self.session_id, self.model = at_ns, event.session_id, event.model
            case SpeechStarted():
                self.speech_started_ns.append(at_ns)
            case SpeechStopped():
                self.speech_stopped_ns.append(at_ns)
            case Committed():
                self.committed_ns = at_ns
                self.transcripts.committed.add(event.item_id)
            case InputTranscript():
                self.transcripts.add(event)
            case ResponseStarted():
                touch(event.response_id, at_ns).created_ns = at_ns
            case ResponseDone():
                response = touch(event.response_id, at_ns)
                response.done_ns, response.status = at_ns, event.status
                response.reason, response.usage = event.reason, event.usage
            case Interrupted():
                response = touch(event.response_id, at_ns)
                response.interrupted_ns = response.interrupted_ns or at_ns
            case ReplyAudioDone():
                touch(event.response_id, at_ns)
            case RateLimits():
                self.rate_limits = event.limits
            case EndpointProblem():
                self.retry_after_s = event.retry_after_s or self.retry_after_s
                (self.fail if event.fatal else self.warn)(event.kind, event.message, at_ns)
            case UnknownEvent():
                message = f"the endpoint sent events of unknown type {event.type!r}"
                if all(warning.message != message for warning in self.warnings):
                    self.warn(FailureKind.UNKNOWN_EVENT, message, at_ns)
        self.limit_responses(at_ns)

    def warn(self, kind: FailureKind, message: str, at_ns: int) -> None:
        """Add a warning; only the first warnings of each kind are kept."""
        number = 1 + sum(warning.kind is kind for warning in self.warnings)
        if number <= _MOST_WARNINGS:
            rest = " (further warnings of this kind are dropped)" if number == _MOST_WARNINGS else ""
            self.warnings.append(Failure(kind, message + rest, at_ns))

    def limit_responses(self, at_ns: int) -> None:
        """Fail a turn that has too many responses."""
        if self.replies.full:
            message = f"more than {MOST_RESPONSES} responses began in one turn; the rest are dropped"
            self.fail(FailureKind.TOO_MANY_RESPONSES, message, at_ns)

    def stop_reply(self, at_ns: int) -> dict[str, int]:
        """Stop responses in progress or still audible; return how many milliseconds of each were heard.

        Unplayed audio is dropped, except on a track, where the endpoint controls playout and reports its end.
        """
        stopped: dict[str, int] = {}
        for response in self.replies:
            ends_ns = response.heard_until_ns
            if self.source.is_open(response, at_ns) or (ends_ns is not None and at_ns < ends_ns):
                stopped[response.response_id] = response.heard_ms(at_ns)
                if self.source.packets is None:
                    response.interrupted_ns = response.interrupted_ns or at_ns
        return stopped

    # -- State ---------------------------------------------------------------------------------

    @property
    def ending(self) -> Failure | None:
        """The failure that ends the session, as opposed to the failure of a settled turn; None so far."""
        return self.lost if self._settled else self.failure

    @property
    def timed_from_ns(self) -> int:
        """The time from which event-loop lag would distort the latencies."""
        user = self.user
        if user.t0_ns is None:
            return self.begun_ns
        return user.t0_ns if user.voice_end_ns is None else user.voice_end_ns - SPEECH_TAIL_NS

    @property
    def expects_answer(self) -> bool:
        """Whether the turn fails without an answer."""
        return self.user.expects_answer or self.user.owed_answer

    @property
    def speech_at_ns(self) -> int | None:
        """Arrival of the endpoint's last speech start or end event, or None."""
        return max(self.speech_started_ns[-1:] + self.speech_stopped_ns[-1:], default=None)

    @property
    def last_answer(self) -> OpenResponse | None:
        """The most recent response, unless it ended before the user began to speak."""
        last = self.replies.last
        return None if last is None or is_greeting(last.done_ns, self.user.onset_ns) else last

    @property
    def replying(self) -> bool:
        """Whether audio or text of a response to this turn has arrived."""
        last = self.last_answer
        return last is not None and last.said_ns is not None

    @property
    def answer_due(self) -> bool:
        """Whether an answer is expected and has not begun."""
        return self.expects_answer and self.waiting_since(0) is not None

    def waiting_since(self, user_done_ns: int) -> int | None:
        """Return the time from which a response has been due, or None if the last response was the answer.

        A response is due if none has begun except a greeting, if the last response was cut off or began
        before the user spoke, or if the endpoint detected more user speech after it began.
        """
        last, speech_at_ns = self.last_answer, self.speech_at_ns
        if last is None:
            return max(user_done_ns, speech_at_ns or 0)
        stopped = last.interrupted_ns is not None and self.user.barge_in_ns is None
        cut_off = stopped or last.status is ResponseStatus.CANCELLED
        if cut_off or began_before(last.said_ns, self.user.onset_ns):
            return max(user_done_ns, last.done_ns or 0, speech_at_ns or 0)
        if speech_at_ns is not None and speech_at_ns > last.began_ns:
            return max(user_done_ns, speech_at_ns)
        return None

    @property
    def progress_ns(self) -> int | None:
        """The latest arrival of any response; None if there was no response."""
        return max((response.progress_ns for response in self.replies), default=None)

    @property
    def heard_until_ns(self) -> int | None:
        """Time at which the last sample so far is heard; None if no audio has arrived."""
        ends = (response.heard_until_ns for response in self.replies)
        return max((end_ns for end_ns in ends if end_ns is not None), default=None)

    @property
    def quiet_from_ns(self) -> int:
        """Time at which the last sample so far is heard or the last response event arrived; 0 before that."""
        return max(self.progress_ns or 0, self.heard_until_ns or 0)

    def speaking(self, at_ns: int) -> bool:
        """Return whether any response is still open."""
        self.source.tick(at_ns)
        return any(self.source.is_open(response, at_ns) for response in self.replies)

    def continues(self, at_ns: int) -> bool:
        """Return whether an open response is neither interrupted nor overdue."""
        return self.speaking(at_ns) and any(
            self.overdue_of(response, at_ns) is None for response in self._uninterrupted(at_ns)
        )

    def overdue(self, at_ns: int) -> Failure | None:
        """Return the failure if any open response has stalled or lasts too long, otherwise None."""
        found = (self.overdue_of(response, at_ns) for response in self._uninterrupted(at_ns))
        return next(filter(None, found), None)

    def overdue_of(self, response: OpenResponse, at_ns: int) -> Failure | None:
        """Return the failure if this open response has stalled or lasts too long, otherwise None."""
        return overdue(response, self.limits, at_ns, on_track=self.source.packets is not None)

    def _uninterrupted(self, at_ns: int) -> Iterator[OpenResponse]:
        for response in self.replies:
            interrupted = response.interrupted_ns is not None and response is not self.source.playing
            if self.source.is_open(response, at_ns) and not interrupted:
                yield response

    def answering(self, at_ns: int) -> bool:
        """Return whether a response is open or still audible at `at_ns`."""
        is_open = any(
            self.source.is_open(response, at_ns) or at_ns < (response.done_ns or 0)
            for response in self.replies
        )
        return is_open or at_ns < (self.heard_until_ns or at_ns)

    def heard_ms(self, response_id: str, at_ns: int) -> int:
        """Return how many milliseconds of a response were heard by `at_ns`."""
        response = self.replies.get(bounded_name(response_id))
        return 0 if response is None else response.heard_ms(at_ns)

    def newly_audible(self) -> Iterator[ReplyAudible]:
        """Yield the responses that have become audible since the last call."""
        paced = self.source.continuous or self.source.packets is not None
        for response in self.replies:
            search = self._searches.setdefault(response.response_id, OnsetSearch(response, paced=paced))
            at_ns = search.look()
            if at_ns is not None:
                yield ReplyAudible(response.response_id, at_ns)

    def owns(self, event: Event) -> bool:
        """Return whether an event has the ID of a response or item in this turn."""
        event = bounded(event)
        response_id, item_id = getattr(event, "response_id", None), getattr(event, "item_id", None)
        if response_id is not None:
            return self.replies.get(response_id) is not None
        return item_id is not None and item_id in self._items

    # -- Capture ------------------------------------------------------------------------------------

    @property
    def responses(self) -> tuple[CapturedResponse, ...]:
        """The captured responses so far."""
        return tuple(response.captured() for response in self.replies)

    def captured(
        self,
        *,
        manual: bool = False,
        setup_ns: Mapping[str, int] = _NO_STEPS,
        stamping: Stamping = _USER_STAMPS,
        reading: ProbeReading | None = None,
    ) -> TurnCapture:
        """Return the turn's capture.

        Args:
            manual: Whether the session commits the user's turns.
            setup_ns: Duration of each connection setup step; empty for a later turn.
            stamping: Timestamp source for the arrivals, if the turn has not ended.
            reading: Event-loop lag, if the turn has not ended.
        """
        user, stamping, reading = self.user, self.stamping or stamping, reading or self.reading
        trace = TurnTrace(
            dial_ns=self.begun_ns,
            ready_ns=self.ready_ns,
            t0_ns=user.t0_ns,
            onset_ns=user.onset_ns,
            voice_end_ns=user.voice_end_ns,
            user_done_ns=user.last_frame_ns,
            boundaries_uncertain=user.boundaries is not None and user.boundaries.uncertain,
            boundaries=user.boundaries,
            frame_deadline_ns=np.asarray(self.frames.deadline_ns, np.int64),
            frame_sent_ns=np.asarray(self.frames.sent_ns, np.int64),
            speech_started_ns=tuple(self.speech_started_ns),
            speech_stopped_ns=tuple(self.speech_stopped_ns),
            committed_ns=self.committed_ns if manual else None,
            barge_in_ns=user.barge_in_ns,
            backchannel=user.backchannel,
            probe_at_ns=reading.at_ns,
            probe_lag_ns=reading.lag_ns,
            continuous=self.source.continuous,
            setup_ns=dict(setup_ns),
            stamps=stamping.kind,
            stamp_error_ns=stamping.error_ns,
            clock_steps=stamping.clock_steps,
        )
        return TurnCapture(
            trace=trace,
            wire=self.responses,
            heard_text=self.transcripts.text,
            rate_limits=self.rate_limits,
            session_id=self.session_id,
            model=self.model,
            wall_ns=self._wall_ns,
            late_speech_frames=self.frames.late_speech,
            skipped_silence_frames=self.frames.skipped_silence,
            failure=self.failure,
            retry_after_s=self.retry_after_s,
            warnings=tuple(self.warnings),
            media=self.media,
        )

    @property
    def media(self) -> MediaStats | None:
        """The track's packet counts; None without a track."""
        packets, sent, before = self.source.packets, self.sent_stats, self._sent_before
        if packets is None or sent is None:
            return None if packets is None else packets.stats
        # The transport counts sent packets per session.
        return replace(
            packets.stats,
            sent_packets=_since(sent.sent_packets, before.sent_packets if before is not None else None),
            sent_lost=_since(sent.sent_lost, before.sent_lost if before is not None else None),
            round_trip_ns=sent.round_trip_ns,
        )


def _since(count: int | None, before: int | None) -> int | None:
    return count if count is None or before is None else count - before


class Transcripts:
    """The endpoint's transcripts of the user's items.

    Args:
        awaited: Whether to wait for the transcript of each item.
        pieces_count: Whether incomplete text counts: continuous media mark no transcript as complete.
    """

    def __init__(self, *, awaited: bool, pieces_count: bool) -> None:
        self._awaited = awaited
        self._pieces_count = pieces_count
        self._text: dict[str | None, str] = {}
        self._complete: set[str | None] = set()
        self._failed: set[str | None] = set()
        self.committed: set[str | None] = set()
        """The items that the endpoint accepted."""

    def add(self, event: InputTranscript) -> None:
        """Add a fragment or the complete text of an item's transcript."""
        item = event.item_id
        if event.failed:
            self._failed.add(item)
        elif event.final:
            self._text[item] = event.text
            self._complete.add(item)
        elif item not in self._complete:
            self._text[item] = (self._text.get(item, "") + event.text)[:TEXT_CHARACTERS]

    @property
    def pending(self) -> int:
        """Number of items whose awaited transcript has not arrived."""
        return len((self.committed | set(self._text)) - self._complete - self._failed) if self._awaited else 0

    @property
    def text(self) -> str | None:
        """The complete transcripts, empty if no words were heard; None if no transcript is complete."""
        whole = [
            text.strip() for item, text in self._text.items() if self._pieces_count or item in self._complete
        ]
        return " ".join(filter(None, whole))[:TEXT_CHARACTERS] if whole else None
