"""OpenAI Realtime, GA dialect.

Event shapes follow the official SDK's typed models (``openai.types.realtime``) and
https://platform.openai.com/docs/api-reference/realtime. `OpenAIRealtime` is also the base class of dialects
that differ in a few names: these set `spellings` and override session methods.

Decisions that the documentation leaves open:

* **Interrupted.** Over WebSocket the endpoint cannot recall sent audio; the client drops it.
  The first message that requires this counts as the interruption: for a response in progress, its
  cancellation by `turn_detected` (`speech_started` alone does not stop it); for a complete response that is
  still playing, `speech_started`, if the detector interrupts (`interrupt_response`); and a
  `conversation.item.truncated` that we did not request.
* **A response without `response.created`** begins with the first event that contains its ID.
* **A duplicate audio delta**, with the same `event_id`, is reported. Both deltas are kept, since a client
  would play both. A lost delta cannot be detected, since the IDs are random.
* **History** is sent as items of the conversation. The session is ready once the endpoint has added all of
  them, since recordings take time to send. An assistant's item can contain only text.
* **An error about our commit or our `response.create`** (by its `event_id`) is fatal: no reply follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.clients._openai_errors import (
    describe,
    error_in,
    fatal_kind,
    hint,
    refusal_kind,
    retry_after_s,
)
from live_eval.clients.dialects._openai_session import (
    SessionDialect,
    SessionTerms,
    rate_limits_of,
    text_of,
    usage_of,
)
from live_eval.clients.toolkit import (
    Fields,
    Handler,
    MalformedError,
    ResponseTracker,
    TrackedResponse,
    given,
    merged,
    send_audio,
    send_json,
    websocket_url,
)
from live_eval.dialect import (
    Committed,
    Dial,
    EarlierTurn,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    RateLimits,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SpeechStarted,
    SpeechStopped,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus

__all__ = ["OpenAIRealtime", "SessionTerms"]

_CREATE_REFUSALS = 5
_DELTAS_COMPARED = 32
_ACTIVE_RESPONSE = "conversation_already_has_active_response"
_COMMIT, _CREATE = "input_audio_buffer.commit", "response.create"
_STATUSES = {status.value: status for status in ResponseStatus if status is not ResponseStatus.OPEN}
_AUDIO_DELTA = "response.output_audio.delta"
_ITEM = ("conversation.item.added", "conversation.item.created", "conversation.item.done")


class OpenAIRealtime(SessionDialect):
    """A `Dialect` that tracks the state of one session in the GA dialect.

    Args:
        settings: ``extra`` overrides fields of the `session` object in ``session.update``; it may set the
            output format to G.711, but the input remains PCM. ``turn_detection`` applies if the endpoint's
            detector ends the turns.

    Raises:
        UsageError: The base URL is not a URL, or an audio format is unknown.
    """

    before_ready = frozenset({"session.created", "session.updated", "error", "rate_limits.updated", *_ITEM})
    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "conversation.created",
            "conversation.item.deleted",
            "conversation.item.input_audio_transcription.segment",
            "conversation.item.retrieved",
            "input_audio_buffer.cleared",
            "input_audio_buffer.dtmf_event_received",
            "input_audio_buffer.timeout_triggered",
            "mcp_list_tools.",
            "response.content_part.added",
            "response.content_part.done",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.mcp_call.completed",
            "response.mcp_call.failed",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.output_item.added",
            "response.output_item.done",
        }
    )
    spellings: ClassVar[Mapping[str, str]] = {}
    """This dialect's names for renamed events, by GA name."""
    query: ClassVar[Mapping[str, str]] = {}
    """Query parameters other than the model."""
    speaks_first: ClassVar[bool] = False
    """Whether the endpoint waits for our ``session.update``."""
    truncates: ClassVar[bool] = True
    """Whether the endpoint supports ``conversation.item.truncate``."""
    reply_part: ClassVar[str] = "output_text"
    """The type of a text in an item of the assistant."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        query = {**given(model=settings.model), **self.query}
        self._url = websocket_url(settings.base_url, "realtime", query)
        self._session = merged(self.asked_session(), settings.extra)
        self._input = Codec(CodecName.PCM16, self.input_rate_hz)
        terms = self._asked_terms()
        self._output = terms.output or Codec(CodecName.PCM16, self.output_rate_hz)
        self._interrupts = terms.interrupts
        self.handlers = {self.spellings.get(name, name): handler for name, handler in self._table().items()}
        self._replies = ResponseTracker()
        self._last_deltas: dict[str, str] = {}  # the last deltas by event ID, oldest first
        self._session_id: str | None = None
        self._model: str | None = None
        self._updating = False
        self._owed = True  # a reply is due for the user's last or next turn
        self._create_asked = False
        self._create_wanted = False
        self._create_refusals = 0
        self._cancel_next = False
        self._requests: dict[str, str] = {}
        self._truncated: set[str] = set()
        self._server_error: str | None = None
        self._history: set[str] = set()  # the items of the history that the endpoint has accepted

    def dial(self) -> Dial:
        return Dial(self._url, self.headers())

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (self._update(),) if self.speaks_first else ()

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (send_audio('{"type":"input_audio_buffer.append","audio":"', self.encoded(pcm)),)

    def encoded(self, pcm: bytes) -> bytes:
        """Return a frame in the endpoint's input format."""
        return pcm

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        self._owed = True
        commit = self._request(_COMMIT)
        if self._replies.active is not None or self._create_asked:
            self._create_wanted = True
            return (commit,)
        return commit, self._create()

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Cancel a response and truncate its items to the audio that was played."""
        reply = self._replies.get(response_id)
        if reply is None:
            # The cancellation refers to the next response. The endpoint would ignore a cancellation now and
            # speak later, so we cancel the response as soon as it begins.
            self._create_wanted = False
            self._cancel_next = self._create_asked
            return ()
        outputs: list[Output] = []
        if not reply.done:
            outputs.append(self._request("response.cancel", response_id=response_id))
        if not self.truncates:
            return outputs
        for cut in reply.truncations(heard_ms, self._output.rate_hz):
            self._truncated.add(cut.item_id)
            outputs.append(
                self._request(
                    "conversation.item.truncate",
                    item_id=cut.item_id,
                    content_index=cut.content_index,
                    audio_end_ms=cut.audio_end_ms,
                )
            )
        return outputs

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        word = error_in(reason)
        said = f"{self.end_in_words(code, reason)}{hint(word)}"
        kind = fatal_kind(word, said=reason)
        if kind is not None:
            message = f"the endpoint closed the connection: {said}"
            wait_s = retry_after_s(reason)
            return EndpointProblem(kind, message, fatal=True, code=word, retry_after_s=wait_s)
        if self._server_error is not None:
            message = f"the endpoint closed the connection ({said}) after an error: {self._server_error}"
            return EndpointProblem(FailureKind.ENDPOINT_ERROR, message, fatal=True)
        due = not self.ready or self._owed or self._replies.active is not None
        when = "the session was ready" if not self.ready else "the reply was done"
        message = f"the endpoint closed the connection {'before' if due else 'after'} {when}: {said}"
        return EndpointProblem(FailureKind.CLOSED, message, fatal=due)

    def audio_fields_of(self, event: Mapping[str, Any]) -> Collection[str]:
        delta = self.spellings.get(_AUDIO_DELTA, _AUDIO_DELTA)
        return ("audio", "delta") if event.get("type") == delta else ("audio",)

    # -- Endpoint events ---------------------------------------------------------------------------------

    def _table(self) -> dict[str, Handler]:
        """Return the event handlers by GA event name."""
        heard = "conversation.item.input_audio_transcription"
        return {
            "session.created": self._on_session_created,
            "session.updated": self._on_session_updated,
            "error": self._on_error,
            "rate_limits.updated": lambda event, _: [RateLimits(rate_limits_of(event))],
            "input_audio_buffer.speech_started": self._on_speech_started,
            "input_audio_buffer.speech_stopped": lambda event, _: [
                SpeechStopped(event.integer("audio_end_ms"), event.text("item_id"))
            ],
            "input_audio_buffer.committed": lambda event, _: [Committed(event.text("item_id"))],
            f"{heard}.delta": lambda event, _: self._transcribed(
                event, event.text("delta") or "", final=False
            ),
            f"{heard}.completed": lambda event, _: self._transcribed(
                event, event.need_text("transcript"), final=True
            ),
            f"{heard}.failed": self._on_transcription_failed,
            **dict.fromkeys(_ITEM, self._on_item),
            "conversation.item.truncated": self._on_truncated,
            "response.created": self._on_response_created,
            _AUDIO_DELTA: self._on_audio,
            "response.output_audio.done": self._on_audio_done,
            "response.output_audio_transcript.delta": self._on_text_delta,
            "response.output_audio_transcript.done": lambda event, _: self._on_text_done(event, "transcript"),
            "response.output_text.delta": self._on_text_delta,
            "response.output_text.done": lambda event, _: self._on_text_done(event, "text"),
            "response.done": self._on_response_done,
        }

    def _on_session_created(self, event: Fields, at_ns: int) -> list[Output]:
        self._remember(event.child("session"))
        return [] if self._updating else [self._update()]

    def _on_session_updated(self, event: Fields, at_ns: int) -> list[Output]:
        session = event.child("session")
        self._remember(session)
        if self.ready or not self._updating:
            return []
        unrelated = len(session.wrong)
        terms = self.terms_of(session)
        unusable = session.wrong[unrelated:]
        del session.wrong[unrelated:]
        kind = FailureKind.SESSION_REFUSED
        if terms.input is not None and terms.input != self._input:
            unusable.append(f"expected {_in_words(self._input)} as input, got {_in_words(terms.input)}")
            kind = FailureKind.WRONG_RATE if terms.input.name is self._input.name else kind
        if unusable:
            return [self.fatal(kind, f"the endpoint's session cannot be used: {unusable[0]}")]
        self._output = terms.output or self._output
        history = [item for turn in self.settings.history for item in self._items(turn)]
        if not history:
            return self.become_ready(self._session_id, self._model)
        return [self._request("conversation.item.create", item=item) for item in history]

    def _items(self, turn: EarlierTurn) -> list[dict[str, object]]:
        """Return the user's and the assistant's item of an earlier turn."""
        said: dict[str, object] = {"type": "input_text", "text": turn.text}
        if turn.audio:
            audio = pybase64.b64encode_as_string(self.encoded(pybase64.b64decode(turn.audio)))
            said = {"type": "input_audio", "audio": audio}
        replied = {"type": self.reply_part, "text": turn.reply}
        items = (("user", said), ("assistant", replied))
        return [{"type": "message", "role": role, "content": [part]} for role, part in items]

    def _on_item(self, event: Fields, at_ns: int) -> list[Output]:
        if self.ready or not self.settings.history:
            return []
        self._history.add(event.child("item").need_name("id"))
        if len(self._history) < 2 * len(self.settings.history):
            return []
        return self.become_ready(self._session_id, self._model)

    def _transcribed(self, event: Fields, text: str, *, final: bool) -> list[Output]:
        item_id = event.text("item_id")
        return [] if item_id in self._history else [InputTranscript(text, final, item_id)]

    def _remember(self, session: Fields) -> None:
        self._session_id = session.text("id") or self._session_id
        self._model = session.text("model") or self._model

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        error = event.child("error")
        code, error_type = error.text("code"), error.text("type")
        message = self.clean(describe(error)) or "the endpoint reported an error without details"
        asked = self._requests.get(error.text("event_id") or "")
        kind = fatal_kind(code, error_type, message)
        if kind is not None:
            return [self.fatal(kind, message, code, retry_after_s(message))]
        if not self.ready:
            return [self.refused(message, code, refusal_kind(error_type))]
        if code == _ACTIVE_RESPONSE and self._create_asked:
            return self._create_refused(message)
        if asked in (_COMMIT, _CREATE):
            return [self.fatal(FailureKind.ENDPOINT_ERROR, f"the endpoint refused {asked}: {message}", code)]
        if error_type == "server_error":
            self._server_error = message
        return [self.warning(message, code)]

    def _create_refused(self, message: str) -> list[Output]:
        """Repeat the request once the response in progress has ended."""
        self._create_asked = False
        self._create_refusals += 1
        if self._create_refusals > _CREATE_REFUSALS:
            text = f"the endpoint refused {_CREATE} {self._create_refusals} times: {message}"
            return [self.fatal(FailureKind.ENDPOINT_ERROR, text, _ACTIVE_RESPONSE)]
        problem = self.warning(message, _ACTIVE_RESPONSE)
        if self._cancel_next:  # no response was created, so there is nothing to cancel
            self._cancel_next = False
            return [problem]
        if self._replies.active is None and self._replies.last() is not None:
            return [problem, self._create()]
        self._create_wanted = True
        return [problem]

    def _on_speech_started(self, event: Fields, at_ns: int) -> list[Output]:
        self._owed = True
        outputs: list[Output] = [SpeechStarted(event.integer("audio_start_ms"), event.text("item_id"))]
        last = self._replies.last()
        if self._interrupts and last is not None and last.done and at_ns < last.plays_until_ns:
            outputs.extend(self._interrupted(last))
        return outputs

    def _on_transcription_failed(self, event: Fields, at_ns: int) -> list[Output]:
        error = event.child("error")
        message = f"input transcription failed: {self.clean(describe(error)) or 'no reason given'}"
        failed = InputTranscript("", False, event.text("item_id"), failed=True)
        return [failed, self.warning(message, error.text("code"))]

    def _on_truncated(self, event: Fields, at_ns: int) -> list[Output]:
        item_id = event.need_name("item_id")
        reply = self._replies.holding(item_id)
        return [] if reply is None or item_id in self._truncated else self._interrupted(reply)

    def _interrupted(self, reply: TrackedResponse) -> list[Output]:
        if reply.interrupted:
            return []
        reply.interrupted = True
        return [Interrupted(reply.response_id)]

    def _on_response_created(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        self._reply(event.child("response"), "id", outputs)
        return outputs

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.need_bytes("delta")
        outputs: list[Output] = []
        reply = self._reply(event, "response_id", outputs)
        item_id, codec = event.text("item_id"), self._output
        samples = len(data) // 2 if codec.name is CodecName.PCM16 else len(data)
        late = reply.received(item_id, event.integer("content_index") or 0, samples, codec.rate_hz, at_ns)
        return [*outputs, ReplyAudio(reply.response_id, data, codec, item_id), *late, *self._repeated(event)]

    def _repeated(self, event: Fields) -> list[Output]:
        """Return a problem if this audio delta is a duplicate; an equal ID alone is not enough."""
        try:
            event_id = event.need_name("event_id")
        except MalformedError:  # the audio is reported as malformed elsewhere
            return []
        delta = event.need_text("delta")
        if self._last_deltas.get(event_id) != delta:
            self._last_deltas[event_id] = delta
            if len(self._last_deltas) > _DELTAS_COMPARED:
                del self._last_deltas[next(iter(self._last_deltas))]
            return []
        text = f"duplicate audio delta, event {self.clean(event_id)!r}; both copies are kept"
        return [EndpointProblem(FailureKind.AUDIO_REPEATED, text, fatal=False)]

    def _on_audio_done(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        reply = self._reply(event, "response_id", outputs)
        reply.end_part(event.text("item_id"), event.integer("content_index") or 0)
        return [*outputs, ReplyAudioDone(reply.response_id)]

    def _on_text_delta(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        text = event.need_text("delta")
        reply = self._reply(event, "response_id", outputs)
        return [*outputs, ReplyText(reply.response_id, text)]

    def _on_text_done(self, event: Fields, field: str) -> list[Output]:
        outputs: list[Output] = []
        text = event.need_text(field)
        reply = self._reply(event, "response_id", outputs)
        reply.has_whole_text = True
        return [*outputs, ReplyText(reply.response_id, text, final=True)]

    def _on_response_done(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        response = event.child("response")
        reply = self._reply(response, "id", outputs)
        if reply.done:
            raise MalformedError(f"response {reply.response_id} ended twice")
        details = response.child("status_details")
        reason = details.text("reason") or ""
        error = details.child("error")
        said = response.text("status")
        status = ResponseStatus.COMPLETED if said is None else _STATUSES.get(said, ResponseStatus.FAILED)
        if status is ResponseStatus.FAILED:
            reason = self.clean(describe(error)) or reason or f"status {said!r}"
            kind = fatal_kind(error.text("code"), error.text("type"))
            if kind is not None:
                outputs.append(self.fatal(kind, reason, error.text("code"), retry_after_s(reason)))
        if not reply.has_whole_text and (text := text_of(response)):
            outputs.append(ReplyText(reply.response_id, text, final=True))
        if status is ResponseStatus.CANCELLED and reason == "turn_detected":
            outputs.extend(self._interrupted(reply))
        self._replies.end(reply)
        self._owed = self._owed and status is ResponseStatus.CANCELLED and reason != "client_cancelled"
        outputs.append(ResponseDone(reply.response_id, status, self.clean(reason), usage_of(response)))
        if self._create_wanted and self._replies.active is None:
            outputs.append(self._create())
        return outputs

    # -- Helpers -----------------------------------------------------------------------------------------

    def _update(self) -> Send:
        self._updating = True
        return self._request("session.update", session=self._session)

    def _reply(self, holder: Fields, field: str, outputs: list[Output]) -> TrackedResponse:
        response_id = holder.need_name(field)
        reply = self._replies.get(response_id)
        if reply is None:
            reply = self._replies.begin(response_id)
            self._create_asked = False
            self._server_error = None
            outputs.append(ResponseStarted(response_id))
            if self._cancel_next:
                self._cancel_next = False
                outputs.append(self._request("response.cancel", response_id=response_id))
        return reply

    def _request(self, name: str, **fields: object) -> Send:
        """Send an event with an ID, so that errors can refer to it."""
        event_id = f"{name}#{len(self._requests) + 1}"
        self._requests[event_id] = name
        return send_json({"type": name, "event_id": event_id, **fields})

    def _create(self) -> Send:
        self._create_asked = self._owed = True
        self._create_wanted = False
        return self._request(_CREATE)

    def _asked_terms(self) -> SessionTerms:
        """Return the audio formats and interruption setting to request.

        Raises:
            UsageError: This audio format cannot be sent or decoded.
        """
        session = Fields("endpoint.extra", self._session)
        terms = self.terms_of(session)
        if session.wrong:
            raise UsageError(session.wrong[0])
        if terms.input is not None and terms.input != self._input:
            raise UsageError(
                f"endpoint.extra: expected {_in_words(self._input)} as input, got {_in_words(terms.input)}"
            )
        return terms


def _in_words(codec: Codec) -> str:
    return f"{codec.name} at {codec.rate_hz} Hz"
