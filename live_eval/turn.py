"""One turn as it goes: events in, marks and a verdict out. Pure; the session asks it when all is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from live_eval.audio import Codec, CodecName
from live_eval.capture import CapturedResponse
from live_eval.dialect import (
    Committed,
    EndpointProblem,
    Event,
    InputTranscript,
    Interrupted,
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
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind
from live_eval.timeline import ResponseMarks, ResponseStatus, headline_response, is_cut_off, play
from live_eval.types import Failure, Modality

__all__ = ["TurnLimits", "TurnState"]

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """How long to wait for what, in seconds.

    Args:
        connect_s: For the connection.
        ready_s: For the endpoint's session, once connected.
        reply_s: For a response to begin, once the user's turn is over.
        stall_s: For the next piece of a response that has begun.
        max_reply_s: For a whole response; what comes later is not waited for.
        linger_s: After a response has ended, for what may still follow it (late audio, another response).
        transcript_s: After a response has ended, for the transcription of the input, which may be slower.
    """

    connect_s: float = 15.0
    ready_s: float = 15.0
    reply_s: float = 30.0
    stall_s: float = 15.0
    max_reply_s: float = 120.0
    linger_s: float = 0.3
    transcript_s: float = 3.0


@dataclass(slots=True)
class _Response:
    """A response while it comes."""

    response_id: str
    began_ns: int
    created_ns: int | None = None
    first_text_ns: int | None = None
    done_ns: int | None = None
    interrupted_ns: int | None = None
    progress_ns: int = 0
    status: ResponseStatus = ResponseStatus.OPEN
    reason: str = ""
    usage: Usage | None = None
    codec: Codec | None = None
    arrivals: list[int] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    audio_bytes: int = 0
    pieces: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The parts that are whole, and the pieces of the one that is not."""
        text = " ".join([*self.parts, *(["".join(self.pieces)] if self.pieces else [])])
        return text or None

    @property
    def audio_s(self) -> float:
        """Seconds of audio so far, from the size of its bytes."""
        if self.codec is None:
            return 0.0
        width = 2 if self.codec.name is CodecName.PCM16 else 1
        return self.audio_bytes / (width * self.codec.rate_hz)

    def marks(self) -> ResponseMarks:
        """Return its marks, the length of its chunks known from the size of their bytes."""
        width = 2 if self.codec is None or self.codec.name is CodecName.PCM16 else 1
        return ResponseMarks(
            response_id=self.response_id,
            created_ns=self.created_ns,
            first_text_ns=self.first_text_ns,
            done_ns=self.done_ns,
            interrupted_ns=self.interrupted_ns,
            status=self.status,
            chunk_arrival_ns=np.asarray(self.arrivals, np.int64),
            chunk_samples=np.asarray([len(chunk) // width for chunk in self.chunks], np.int64),
            rate_hz=self.codec.rate_hz if self.codec is not None else None,
        )

    def captured(self) -> CapturedResponse:
        """Return it as it is kept."""
        return CapturedResponse(
            marks=self.marks(),
            arrivals=tuple(self.arrivals),
            chunks=tuple(self.chunks),
            codec=self.codec,
            text=self.text,
            reason=self.reason,
            usage=self.usage,
        )


class TurnState:
    """Collects what happens in a turn and knows when it is over.

    Args:
        limits: How long to wait for what.
        modality: What was asked for.
        transcribes: Whether the endpoint was asked to transcribe the input.
    """

    def __init__(self, limits: TurnLimits, modality: Modality, *, transcribes: bool = False) -> None:
        self._limits = limits
        self._transcribes = transcribes
        self._committed: set[str | None] = set()
        self._modality = modality
        self._responses: dict[str, _Response] = {}
        self._heard: dict[str | None, str] = {}
        self._whole: set[str | None] = set()
        self._untranscribed: set[str | None] = set()
        self._unknown: set[str] = set()
        self._speech_at_ns: int | None = None
        self._user_done_ns: int | None = None
        self._closed = False
        self.ready_ns: int | None = None
        self.session_id: str | None = None
        self.model: str | None = None
        self.speech_stopped_ns: list[int] = []
        self.committed_ns: int | None = None
        self.rate_limits: Sequence[RateLimit] = ()
        self.failure: Failure | None = None
        self.retry_after_s: float | None = None
        self.warnings: list[Failure] = []

    @property
    def responses(self) -> tuple[CapturedResponse, ...]:
        """The responses so far, in the order in which they began."""
        return tuple(response.captured() for response in self._responses.values())

    @property
    def heard_text(self) -> str | None:
        """What the endpoint's transcriber heard of the user's items; empty where it heard nothing.

        Items whose transcript did not become whole are left out; None where none did.
        """
        whole = [text.strip() for item, text in self._heard.items() if item in self._whole]
        return " ".join(filter(None, whole)) if whole else None

    def fail(self, kind: FailureKind, message: str, at_ns: int | None = None) -> None:
        """The turn failed; the first failure stays."""
        if self.failure is None:
            self.failure = Failure(kind, message, at_ns)

    def user_done(self, at_ns: int) -> None:
        """The recording is spoken (and committed, where we commit)."""
        self._user_done_ns = at_ns

    def closed(self, message: str, at_ns: int) -> None:
        """The connection ended: a failure, unless the user's turn has its answer already."""
        last = next(reversed(self._responses.values()), None)
        answered = last is not None and last.status not in (ResponseStatus.OPEN, ResponseStatus.CANCELLED)
        if self._user_done_ns is None or not answered:
            self.fail(FailureKind.CLOSED, message, at_ns)
        self._closed = True

    def heard_ms(self, response_id: str, at_ns: int) -> int:
        """Return how much of a response has been heard by `at_ns`, in milliseconds."""
        response = self._responses.get(response_id)
        if response is None or response.codec is None:
            return 0
        marks = replace(response.marks(), interrupted_ns=at_ns)
        return play(marks).heard_samples * 1000 // response.codec.rate_hz

    def on_event(self, event: Event, at_ns: int) -> None:
        """Something happened at `at_ns`."""
        match event:
            case SessionReady():
                if self.ready_ns is None:
                    self.ready_ns, self.session_id, self.model = at_ns, event.session_id, event.model
            case SpeechStarted():
                self._speech_at_ns = at_ns
            case SpeechStopped():
                self._speech_at_ns = at_ns
                self.speech_stopped_ns.append(at_ns)
            case Committed():
                self.committed_ns = at_ns
                self._committed.add(event.item_id)
            case InputTranscript():
                self._transcribed(event)
            case ReplyAudio() if not event.data:
                self._response(event.response_id, at_ns)  # a chunk without a sample is no first byte
            case ReplyAudio():
                response = self._response(event.response_id, at_ns)
                response.codec = response.codec or event.codec
                response.arrivals.append(at_ns)
                response.chunks.append(event.data)
                response.audio_bytes += len(event.data)
            case ReplyText():
                self._said(event, at_ns)
            case ResponseStarted():
                self._response(event.response_id, at_ns).created_ns = at_ns
            case ResponseDone():
                response = self._response(event.response_id, at_ns)
                response.done_ns, response.status = at_ns, event.status
                response.reason, response.usage = event.reason, event.usage
            case Interrupted():
                response = self._response(event.response_id, at_ns)
                response.interrupted_ns = response.interrupted_ns or at_ns
            case ReplyAudioDone():
                self._response(event.response_id, at_ns)
            case RateLimits():
                self.rate_limits = event.limits
            case EndpointProblem():
                self._problem(event, at_ns)
            case UnknownEvent():
                if event.type not in self._unknown:
                    self._unknown.add(event.type)
                    message = f"the endpoint sent events of the unknown type {event.type!r}"
                    self.warnings.append(Failure(FailureKind.UNKNOWN_EVENT, message, at_ns))

    def over(self, at_ns: int) -> bool:
        """Return whether nothing more is to be waited for; sets `failure` where that is why."""
        if self.failure is not None:
            return True
        if self._user_done_ns is None:
            return False
        if self._closed:
            self._judge(at_ns)
            return True
        opened = [response for response in self._responses.values() if response.done_ns is None]
        if opened:
            self._watch(opened[-1], at_ns)
            return self.failure is not None
        waiting_since_ns = self._waiting_since(self._user_done_ns)
        if waiting_since_ns is not None:
            if at_ns - waiting_since_ns < self._limits.reply_s * _SECOND_NS:
                return False
        else:
            last_ns = max(response.progress_ns for response in self._responses.values())
            if at_ns - last_ns < self._limits.linger_s * _SECOND_NS:
                return False
            if self._pending and at_ns - last_ns < self._limits.transcript_s * _SECOND_NS:
                return False
        self._judge(at_ns)
        return True

    @property
    def _pending(self) -> set[str | None]:
        """The user's items whose transcript is still to come."""
        if not self._transcribes:
            return set()
        return (self._committed | set(self._heard)) - self._whole - self._untranscribed

    def _response(self, response_id: str, at_ns: int) -> _Response:
        response = self._responses.get(response_id)
        if response is None:
            response = self._responses[response_id] = _Response(response_id, at_ns)
        response.progress_ns = at_ns
        return response

    def _said(self, event: ReplyText, at_ns: int) -> None:
        response = self._response(event.response_id, at_ns)
        if response.first_text_ns is None and event.text:
            response.first_text_ns = at_ns
        if event.final:
            response.pieces.clear()
            response.parts.append(event.text)
        else:
            response.pieces.append(event.text)

    def _transcribed(self, event: InputTranscript) -> None:
        if event.failed:
            self._untranscribed.add(event.item_id)
        elif event.final:
            self._heard[event.item_id] = event.text
            self._whole.add(event.item_id)
        elif event.item_id not in self._whole:
            self._heard[event.item_id] = self._heard.get(event.item_id, "") + event.text

    def _problem(self, event: EndpointProblem, at_ns: int) -> None:
        self.retry_after_s = event.retry_after_s or self.retry_after_s
        if event.fatal:
            self.fail(event.kind, event.message, at_ns)
        else:
            self.warnings.append(Failure(event.kind, event.message, at_ns))

    def _watch(self, response: _Response, at_ns: int) -> None:
        """Fail an open response that stalls or does not end."""
        limits = self._limits
        if at_ns - response.progress_ns > limits.stall_s * _SECOND_NS:
            self.fail(
                FailureKind.STALLED,
                f"response {response.response_id} began and then nothing came of it for {limits.stall_s:g} s "
                f"({response.audio_s:.2f} s of audio had come)",
                at_ns,
            )
        elif max(response.audio_s, (at_ns - response.began_ns) / _SECOND_NS) > limits.max_reply_s:
            self.fail(
                FailureKind.ENDLESS,
                f"response {response.response_id} did not end within {limits.max_reply_s:g} s",
                at_ns,
            )

    def _waiting_since(self, user_done_ns: int) -> int | None:
        """Return since when another response is due, or None where the last one was the answer.

        One is due where none came, where the last one was cancelled, and where the endpoint heard the user
        go on after the last one began.
        """
        last = next(reversed(self._responses.values()), None)
        if last is None:
            return max(user_done_ns, self._speech_at_ns or 0)
        if last.status is ResponseStatus.CANCELLED:
            return max(user_done_ns, last.done_ns or 0, self._speech_at_ns or 0)
        if self._speech_at_ns is not None and self._speech_at_ns > last.began_ns:
            return max(user_done_ns, self._speech_at_ns)
        return None

    def _judge(self, at_ns: int) -> None:
        """Set `failure` where the turn did not end with the reply that was asked for."""
        responses = list(self._responses.values())
        headline = headline_response([response.marks() for response in responses])
        if self._pending:
            late = f"{len(self._pending)} of the user's items were not transcribed in time"
            self.warnings.append(Failure(FailureKind.TRANSCRIPT_LATE, late, at_ns))
        if headline is None:
            self.fail(
                FailureKind.NO_RESPONSE,
                f"no response within {self._limits.reply_s:g} s after the user's turn; the endpoint "
                + ("heard speech" if self._speech_at_ns is not None else "reported no speech"),
                at_ns,
            )
        elif is_cut_off(responses[headline].marks()):
            last = responses[headline]
            self.fail(
                FailureKind.RESPONSE_CANCELLED,
                f"response {last.response_id} was cut off ({last.reason or 'no reason given'}) "
                f"and no other followed within {self._limits.reply_s:g} s",
                at_ns,
            )
        else:
            self._judge_answer(responses[headline], at_ns)
        broken = [warning for warning in self.warnings if warning.kind is FailureKind.MALFORMED_MESSAGE]
        if broken:  # what it held is lost, so the reply may not be whole
            self.fail(FailureKind.MALFORMED_MESSAGE, broken[0].message, broken[0].at_ns)

    def _judge_answer(self, answer: _Response, at_ns: int) -> None:
        name, reason = answer.response_id, answer.reason or "no reason given"
        if answer.status is ResponseStatus.FAILED:
            self.fail(FailureKind.RESPONSE_FAILED, f"response {name} failed: {reason}", at_ns)
        elif answer.status is ResponseStatus.INCOMPLETE:
            self.fail(FailureKind.RESPONSE_INCOMPLETE, f"response {name} is incomplete: {reason}", at_ns)
        elif self._modality is Modality.AUDIO and not answer.audio_bytes:
            self.fail(FailureKind.EMPTY_REPLY, f"response {name} completed without audio", at_ns)
        elif self._modality is Modality.TEXT and not answer.text:
            self.fail(FailureKind.EMPTY_REPLY, f"response {name} completed without text", at_ns)
