"""The state of one turn: events go in, marks and a verdict come out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from live_eval.audio import Codec
from live_eval.audio.codecs import samples_in
from live_eval.audio.rtp import MediaStats, Placed, RtpPacket, RtpTrack
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
    StreamText,
    UnknownEvent,
)
from live_eval.errors import AudioError, FailureKind
from live_eval.recording.record import CapturedResponse, TurnCapture, no_packet
from live_eval.session.bounds import TEXT_CHARACTERS, bounded, bounded_name
from live_eval.session.limits import TurnLimits, answer_by_ns, overdue, unanswered
from live_eval.session.responses import MOST_RESPONSES, OpenResponse, Responses
from live_eval.session.tracks import Stream, Track
from live_eval.timing import (
    ResponseStatus,
    TurnTrace,
    began_before,
    headline_response,
    is_cut_off,
    is_greeting,
    play,
)
from live_eval.types import Failure, Modality

__all__ = ["TurnState"]

_SECOND_NS = 1_000_000_000
# A response on a track that has ended by its event sounds soon, or not at all.
_SOUNDS_WITHIN_NS = 2 * _SECOND_NS
_MOST_WARNINGS = 20  # of a kind, in a turn
_UNREADABLE = (FailureKind.MALFORMED_MESSAGE, FailureKind.MALFORMED_AUDIO)


class TurnState:
    """Collects what happens in a turn and decides when it is over.

    Args:
        limits: How long to wait at each stage.
        modality: What was asked for.
        transcribes: Whether the endpoint was asked to transcribe the input.
        track: Whether replies come as packets of a media track.
        continuous: Whether energy decides what is a reply.
        before: The turn before in the same session.
    """

    def __init__(
        self,
        limits: TurnLimits,
        modality: Modality,
        *,
        transcribes: bool = False,
        track: bool = False,
        continuous: bool = False,
        before: TurnState | None = None,
    ) -> None:
        self._limits = limits
        self._responses = Responses()
        self._packets: RtpTrack | None = RtpTrack(before._packets if before else None) if track else None
        self._track = Track(self._responses)
        self._stream = Stream(self._responses, round(limits.silence_s * _SECOND_NS)) if continuous else None
        self._transcribes = transcribes
        self._committed: set[str | None] = set()
        self._modality = modality
        self._heard: dict[str | None, str] = {}
        self._whole: set[str | None] = set()
        self._untranscribed: set[str | None] = set()
        self._unknown: set[str] = set()
        self._warned: dict[FailureKind, int] = {}
        self._items: set[str | None] = set()
        self._speech_at_ns: int | None = None
        self._onset_ns: int | None = None
        self._voice_end_ns: int | None = None
        self._barge_in_ns: int | None = None
        self._user_done_ns: int | None = None
        self._earlier_until_ns = 0  # when earlier replies were last heard
        self._closed = self._resting = False
        self.continuous = continuous
        """Whether energy decides what is a reply."""
        self.paced = track or continuous
        """Whether replies flow at the pace of speech."""
        self.expects_answer = True
        """Whether it is a failure if no answer comes."""
        self.ready_ns: int | None = None
        self.session_id: str | None = None
        self.model: str | None = None
        self.speech_started_ns: list[int] = []
        self.speech_stopped_ns: list[int] = []
        self.committed_ns: int | None = None
        self.rate_limits: tuple[RateLimit, ...] = ()
        self.failure: Failure | None = None
        self.lost: Failure | None = None
        """What went wrong after the turn was over."""
        self.retry_after_s: float | None = None
        self.warnings: list[Failure] = []

    @property
    def responses(self) -> tuple[CapturedResponse, ...]:
        """The responses so far, in the order in which they began."""
        return tuple(response.captured() for response in self._responses)

    def captured(self, trace: TurnTrace, wall_ns: int, *, manual: bool) -> TurnCapture:
        """Return what is kept of the turn.

        Args:
            trace: The marks of the session itself.
            wall_ns: Nanoseconds since the Unix epoch at `trace.dial_ns`.
            manual: Whether we commit the user's turns.
        """
        marks = replace(
            trace,
            ready_ns=self.ready_ns,
            speech_started_ns=tuple(self.speech_started_ns),
            speech_stopped_ns=tuple(self.speech_stopped_ns),
            committed_ns=self.committed_ns if manual else None,
            responses=(),
            continuous=self.continuous,
        )
        return TurnCapture(
            trace=marks,
            wire=self.responses,
            heard_text=self.heard_text,
            rate_limits=self.rate_limits,
            session_id=self.session_id,
            model=self.model,
            wall_ns=wall_ns,
            failure=self.failure,
            retry_after_s=self.retry_after_s,
            warnings=tuple(self.warnings),
            media=self.media,
        )

    @property
    def heard_text(self) -> str | None:
        """What the endpoint's transcriber heard of the user's items; empty where it heard nothing.

        Items without a complete transcript are left out; None where no item has one. On continuous media no
        transcript is ever marked complete.
        """
        whole = [
            text.strip()
            for item, text in self._heard.items()
            if self._stream is not None or item in self._whole
        ]
        return " ".join(filter(None, whole))[:TEXT_CHARACTERS] if whole else None

    def fail(self, kind: FailureKind, message: str, at_ns: int | None = None) -> None:
        """Note that the turn failed, or the session after it; the first failure stays."""
        if self._resting:
            self.lost = self.lost or Failure(kind, message, at_ns)
        elif self.failure is None:
            self.failure = Failure(kind, message, at_ns)

    def rest(self) -> None:
        """Let the turn be as it is: what goes wrong from here on is no failure of it."""
        self._resting = True

    @property
    def open_responses(self) -> tuple[OpenResponse, ...]:
        """The responses so far, as they are while they come."""
        return tuple(self._responses)

    @property
    def replying(self) -> bool:
        """Whether a response to this turn has said something."""
        last = self._last_answer
        return last is not None and last.said_ns is not None

    @property
    def playing(self) -> bool:
        """Whether the track carries a response of this turn."""
        return self._track.playing is not None

    def carries(self, at_ns: int) -> bool:
        """Return whether a packet of the track at `at_ns` is one of this turn's responses."""
        return self._track.carries(at_ns)

    @property
    def answer_due(self) -> bool:
        """Whether an answer is expected and has not begun."""
        return self.expects_answer and self._waiting_since(0) is not None

    @property
    def media(self) -> MediaStats | None:
        """What became of the track's packets; None where there is no track."""
        return self._packets.stats if self._packets is not None else None

    @property
    def progress_ns(self) -> int | None:
        """When something last arrived for any response; None if there is no response."""
        return max((response.progress_ns for response in self._responses), default=None)

    @property
    def heard_until_ns(self) -> int | None:
        """When the last sample so far is heard; None if no audio has arrived."""
        ends = (response.heard_until_ns for response in self._responses)
        return max((end_ns for end_ns in ends if end_ns is not None), default=None)

    def speaking(self, at_ns: int) -> bool:
        """Return whether any response is still open."""
        if self._stream is not None:
            self._stream.tick(at_ns)
        return any(self._is_open(response, at_ns) for response in self._responses)

    def goes_on(self, at_ns: int) -> bool:
        """Return whether a response is still open that was neither interrupted nor is overdue."""
        return self.speaking(at_ns) and any(
            self._overdue(response, at_ns) is None for response in self._uninterrupted(at_ns)
        )

    def overdue(self, at_ns: int) -> Failure | None:
        """Return the failure of an open response that stalls or does not end; None where there is none."""
        found = (self._overdue(response, at_ns) for response in self._uninterrupted(at_ns))
        return next(filter(None, found), None)

    def _uninterrupted(self, at_ns: int) -> Iterator[OpenResponse]:
        for response in self._responses:
            interrupted = response.interrupted_ns is not None and response is not self._track.playing
            if self._is_open(response, at_ns) and not interrupted:
                yield response

    def answering(self, at_ns: int) -> bool:
        """Return whether a response is open, or what came of one is still heard, at `at_ns`."""
        is_open = any(
            self._is_open(response, at_ns) or at_ns < (response.done_ns or 0) for response in self._responses
        )
        return is_open or at_ns < (self.heard_until_ns or at_ns)

    def stop_reply(self, at_ns: int) -> dict[str, int]:
        """Stop the responses that are under way or still heard, and return how much was heard of each, in ms.

        What was not yet played is dropped. On a track nothing is: the endpoint plays, and says when it stops.
        """
        stopped: dict[str, int] = {}
        for response in self._responses:
            ends_ns = response.heard_until_ns
            if self._is_open(response, at_ns) or (ends_ns is not None and at_ns < ends_ns):
                stopped[response.response_id] = self.heard_ms(response.response_id, at_ns)
                if self._packets is None:
                    response.interrupted_ns = response.interrupted_ns or at_ns
        return stopped

    def owns(self, event: Event) -> bool:
        """Return whether an event names a response or an item of this turn."""
        event = bounded(event)
        response_id, item_id = getattr(event, "response_id", None), getattr(event, "item_id", None)
        if response_id is not None:
            return self._responses.get(response_id) is not None
        return item_id is not None and item_id in self._items

    def user_speaks(self, onset_ns: int, voice_end_ns: int | None) -> None:
        """Note when the user begins to speak, and when they end as far as that is known."""
        self._onset_ns, self._voice_end_ns = onset_ns, voice_end_ns
        if self._stream is not None:
            self._stream.user_speaks(onset_ns, voice_end_ns)

    def user_done(self, at_ns: int) -> None:
        """Note that the utterance is complete (and committed, where we commit)."""
        self._user_done_ns = at_ns

    def spoken_over(self, voice_end_ns: int) -> None:
        """Note when the user ends the utterance that interrupts this turn's reply."""
        if self._stream is not None:
            self._stream.spoken_over(voice_end_ns)

    def user_continues(self) -> None:
        """Note that the user speaks again before the turn was answered."""
        self._user_done_ns = None

    def closed(self, message: str, at_ns: int) -> None:
        """Note that the connection ended: a failure, unless the turn has its answer already."""
        last = self._last_answer
        answered = last is not None and last.status not in (ResponseStatus.OPEN, ResponseStatus.CANCELLED)
        if self._user_done_ns is None or not answered:
            self.fail(FailureKind.CLOSED, message, at_ns)
        self._closed = True

    def heard_ms(self, response_id: str, at_ns: int) -> int:
        """Return how many milliseconds of a response have been heard by `at_ns`."""
        response = self._responses.get(bounded_name(response_id))
        if response is None or response.codec is None:
            return 0
        marks = replace(response.record(), interrupted_ns=at_ns, first_audio_ns=None)  # on a track, too
        heard = play(marks).heard_samples - response.preroll_samples
        return max(0, heard) * 1000 // response.codec.rate_hz

    def on_event(self, event: Event, at_ns: int) -> None:
        """Take an event of the dialect."""
        event = bounded(event)
        self._items.add(getattr(event, "item_id", None))
        match event:
            case ReplyAudio():  # first, as most events are
                response = self._responses.touch(event.response_id, at_ns)
                if event.data:  # a chunk without a sample is no first byte
                    response.hear(at_ns, event.data, event.codec, samples_in(event.data, event.codec))
            case SessionReady():
                if self.ready_ns is None:
                    self.ready_ns, self.session_id, self.model = at_ns, event.session_id, event.model
            case SpeechStarted():
                self._speech_at_ns = at_ns
                self.speech_started_ns.append(at_ns)
            case SpeechStopped():
                self._speech_at_ns = at_ns
                self.speech_stopped_ns.append(at_ns)
            case Committed():
                self.committed_ns = at_ns
                self._committed.add(event.item_id)
            case InputTranscript():
                self._transcribed(event)
            case PlaybackStarted():
                self._track.started(event.response_id, at_ns)
            case PlaybackStopped():
                self._track.stopped(event.response_id, at_ns)
            case StreamAudio():
                self._hear(event.data, event.codec, at_ns)
            case StreamText():
                if self._stream is not None:
                    self._stream.text(event.text, at_ns)
            case ReplyText():
                self._said(event, at_ns)
            case ResponseStarted():
                self._responses.touch(event.response_id, at_ns).created_ns = at_ns
            case ResponseDone():
                response = self._responses.touch(event.response_id, at_ns)
                response.done_ns, response.status = at_ns, event.status
                response.reason, response.usage = event.reason, event.usage
            case Interrupted():
                response = self._responses.touch(event.response_id, at_ns)
                response.interrupted_ns = response.interrupted_ns or at_ns
            case ReplyAudioDone():
                self._responses.touch(event.response_id, at_ns)
            case RateLimits():
                self.rate_limits = event.limits
            case EndpointProblem():
                self._problem(event, at_ns)
            case UnknownEvent():
                if event.type not in self._unknown:
                    self._unknown.add(event.type)
                    message = f"the endpoint sent events of the unknown type {event.type!r}"
                    self._warn(FailureKind.UNKNOWN_EVENT, message, at_ns)
        self._check_number(at_ns)

    def on_packet(self, packet: RtpPacket) -> None:
        """Take a packet of the endpoint's track."""
        assert self._packets is not None
        placed = self._packets.push(packet, samples_in(packet.payload, packet.codec))
        if placed is None:
            return
        if self._stream is not None:
            self._hear(packet.payload, packet.codec, packet.at_ns, placed)
        else:
            self._track.packet(packet, placed)

    def over(self, at_ns: int, quiet_ns: int = 0) -> bool:
        """Return whether the turn is over; sets `failure` if it ended with one.

        Args:
            at_ns: The present moment.
            quiet_ns: When the user has heard the last sample of all replies so far; where an answer is
                expected, of those to earlier turns.
        """
        if self._stream is not None:
            self._stream.tick(at_ns)
        self._check_number(at_ns)
        if self.failure is not None:
            return True
        if self._user_done_ns is None:
            return False
        if self._closed:
            self._judge(at_ns)
            return True
        opened = [response for response in self._responses if self._is_open(response, at_ns)]
        if opened:
            if (overdue := self._overdue(opened[-1], at_ns)) is not None:
                self._fail_for_want(overdue.kind, overdue.message, at_ns)
            return overdue is not None
        if not self.expects_answer:
            if at_ns - max(self._user_done_ns, quiet_ns) < self._limits.listen_s * _SECOND_NS:
                return False
            self._judge(at_ns)
            return True
        waiting_since_ns = self._waiting_since(self._user_done_ns)
        if waiting_since_ns is not None:
            self._earlier_until_ns = quiet_ns
            if at_ns < answer_by_ns(self._limits, waiting_since_ns, quiet_ns):
                return False
        else:
            last_ns = max(response.progress_ns for response in self._responses)
            if at_ns - last_ns < self._limits.linger_s * _SECOND_NS:
                return False
            if self._pending and at_ns - last_ns < self._limits.transcript_s * _SECOND_NS:
                return False
        self._judge(at_ns)
        return True

    def end(self, at_ns: int, *, barge_in_ns: int | None = None, goes_on: bool = False) -> None:
        """Judge a turn that ends before it is over; sets `failure` if there is one.

        Args:
            at_ns: When it ends.
            barge_in_ns: When the user spoke over the reply, which then need not be whole.
            goes_on: Whether an utterance follows without waiting for the answer, which may still come.
        """
        self._barge_in_ns = barge_in_ns
        answer = self._answer
        interrupted = barge_in_ns is not None or goes_on or not self.expects_answer
        if answer is None:
            if self.expects_answer and not goes_on:
                self._fail_for_want(FailureKind.NO_RESPONSE, "the user left before a response came", at_ns)
        elif answer.status in (ResponseStatus.FAILED, ResponseStatus.INCOMPLETE):
            self._judge_answer(answer, at_ns)
        elif not interrupted and is_cut_off(answer.record()):
            self._cut_off(answer, "the turn ended before another followed", at_ns)
        elif not interrupted and answer.status is ResponseStatus.COMPLETED:
            self._judge_answer(answer, at_ns)
        self._judge_warnings()

    @property
    def _answer(self) -> OpenResponse | None:
        """The response that answers the turn."""
        responses = list(self._responses)
        marks = [response.record() for response in responses]
        headline = headline_response(marks, self._onset_ns, self._voice_end_ns, self._barge_in_ns)
        return None if headline is None else responses[headline]

    @property
    def _last_answer(self) -> OpenResponse | None:
        """The response that began last, unless it ended before the user began to speak."""
        last = self._responses.last
        return None if last is None or is_greeting(last.done_ns, self._onset_ns) else last

    @property
    def _pending(self) -> set[str | None]:
        """The user's items whose transcript has not arrived yet."""
        if not self._transcribes or self._stream is not None:
            return set()
        return (self._committed | set(self._heard)) - self._whole - self._untranscribed

    def _is_open(self, response: OpenResponse, at_ns: int) -> bool:
        """Return whether a response is still open; on a track, sound goes on after the event that ends it."""
        if response.done_ns is None or response is self._track.playing:
            return True
        on_track = self._packets is not None and self._stream is None and self._modality is Modality.AUDIO
        to_sound = response.status is ResponseStatus.COMPLETED and response.playback_ns is None
        return on_track and to_sound and at_ns - response.done_ns < _SOUNDS_WITHIN_NS

    def _hear(self, data: bytes, codec: Codec, at_ns: int, placed: Placed | None = None) -> None:
        """Take a chunk of continuous audio."""
        if self._stream is None:
            return
        try:
            self._stream.audio(data, codec, at_ns, placed)
        except AudioError as error:
            self._warn(error.kind, error.message, at_ns)

    def _said(self, event: ReplyText, at_ns: int) -> None:
        response = self._responses.touch(event.response_id, at_ns)
        if response.first_text_ns is None and event.text:
            response.first_text_ns = at_ns
        response.say(event.text, final=event.final)

    def _transcribed(self, event: InputTranscript) -> None:
        if event.failed:
            self._untranscribed.add(event.item_id)
        elif event.final:
            self._heard[event.item_id] = event.text
            self._whole.add(event.item_id)
        elif event.item_id not in self._whole:
            self._heard[event.item_id] = (self._heard.get(event.item_id, "") + event.text)[:TEXT_CHARACTERS]

    def _problem(self, event: EndpointProblem, at_ns: int) -> None:
        self.retry_after_s = event.retry_after_s or self.retry_after_s
        if event.fatal:
            self.fail(event.kind, event.message, at_ns)
        else:
            self._warn(event.kind, event.message, at_ns)

    def _warn(self, kind: FailureKind, message: str, at_ns: int) -> None:
        """Add a warning; of each kind the first ones are kept."""
        number = self._warned[kind] = self._warned.get(kind, 0) + 1
        if number <= _MOST_WARNINGS:
            rest = " (further ones of this kind are not kept)" if number == _MOST_WARNINGS else ""
            self.warnings.append(Failure(kind, message + rest, at_ns))

    def _check_number(self, at_ns: int) -> None:
        """Fail a turn that has too many responses."""
        if self._responses.full:
            message = f"more than {MOST_RESPONSES} responses began in one turn; the others are not kept"
            self.fail(FailureKind.TOO_MANY_RESPONSES, message, at_ns)

    def _overdue(self, response: OpenResponse, at_ns: int) -> Failure | None:
        return overdue(response, self._limits, at_ns, on_track=self._packets is not None)

    def _waiting_since(self, user_done_ns: int) -> int | None:
        """Return since when another response is due, or None where the last one was the answer.

        One is due where none came but a greeting, where the last one was cancelled or was sounding already
        when the user began, and where the endpoint heard the user go on after the last one began.
        """
        last = self._last_answer
        if last is None:
            return max(user_done_ns, self._speech_at_ns or 0)
        if last.status is ResponseStatus.CANCELLED or began_before(last.said_ns, self._onset_ns):
            return max(user_done_ns, last.done_ns or 0, self._speech_at_ns or 0)
        if self._speech_at_ns is not None and self._speech_at_ns > last.began_ns:
            return max(user_done_ns, self._speech_at_ns)
        return None

    def _judge(self, at_ns: int) -> None:
        """Set `failure` where the turn did not end with the reply that was asked for."""
        if self._stream is not None:
            self._stream.ended()
        answer = self._answer
        if self._pending:
            late = f"{len(self._pending)} of the user's items were not transcribed in time"
            self._warn(FailureKind.TRANSCRIPT_LATE, late, at_ns)
        media = self.media
        if not self.expects_answer:
            if answer is not None and answer.status in (ResponseStatus.FAILED, ResponseStatus.INCOMPLETE):
                self._judge_answer(answer, at_ns)
        elif answer is None and self._stream is not None and media is not None and not media.packets:
            self._fail_for_want(
                FailureKind.NO_RTP,
                f"expected the endpoint's audio, but no RTP packet came within {self._limits.reply_s:g} s "
                "after the user's turn",
                at_ns,
            )
        elif answer is None:
            heard = "heard speech" if self._speech_at_ns is not None else "reported no speech"
            did = heard if self._stream is None else f"sent {self._stream.unanswered}"
            message = unanswered(
                self._limits, did, self._user_done_ns or at_ns, self._earlier_until_ns, at_ns
            )
            self._fail_for_want(FailureKind.NO_RESPONSE, message, at_ns)
        elif is_cut_off(answer.record()):
            self._cut_off(answer, f"no other followed within {self._limits.reply_s:g} s", at_ns)
        else:
            self._judge_answer(answer, at_ns)
        self._judge_warnings()

    def _first_warning(self, *kinds: FailureKind) -> Failure | None:
        return next((warning for warning in self.warnings if warning.kind in kinds), None)

    def _judge_warnings(self) -> None:
        """Fail a turn in which something could not be read."""
        broken = self._first_warning(*_UNREADABLE)
        if broken is not None:  # what it held is lost, so the reply may not be whole
            self.fail(broken.kind, broken.message, broken.at_ns)

    def _fail_for_want(self, kind: FailureKind, message: str, at_ns: int) -> None:
        """Fail a turn because something did not come; what could not be read may have been that."""
        broken, error = self._first_warning(*_UNREADABLE), self._first_warning(FailureKind.NOT_FATAL_ERROR)
        if error is not None:
            message = f"{message}; an error had been reported: {error.message}"
        if broken is not None and kind is not FailureKind.ENDLESS:
            kind, message, at_ns = broken.kind, f"{broken.message}; later, {message}", broken.at_ns or at_ns
        self.fail(kind, message, at_ns)

    def _cut_off(self, answer: OpenResponse, rest: str, at_ns: int) -> None:
        """Fail a turn whose last response was cut off."""
        reason = answer.reason or "no reason given"
        message = f"response {answer.response_id} was cut off ({reason}) and {rest}"
        self.fail(FailureKind.RESPONSE_CANCELLED, message, at_ns)

    def _judge_answer(self, answer: OpenResponse, at_ns: int) -> None:
        name, reason = answer.response_id, answer.reason or "no reason given"
        if answer.status is ResponseStatus.FAILED:
            self.fail(FailureKind.RESPONSE_FAILED, f"response {name} failed: {reason}", at_ns)
        elif answer.status is ResponseStatus.INCOMPLETE:
            self.fail(FailureKind.RESPONSE_INCOMPLETE, f"response {name} is incomplete: {reason}", at_ns)
        elif self._modality is Modality.AUDIO and answer.playback_ns is not None and not answer.chunks:
            self.fail(FailureKind.NO_RTP, no_packet(name), at_ns)
        elif not (answer.chunks if self._modality is Modality.AUDIO else answer.text):
            text = f"response {name} completed without {self._modality.value}"
            self._fail_for_want(FailureKind.EMPTY_REPLY, text, at_ns)
