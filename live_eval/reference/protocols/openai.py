"""Implement the server side of OpenAI's Realtime GA dialect over a message channel. Sans-I/O.

Source: https://platform.openai.com/docs/api-reference/realtime and the official SDK's types
(``openai.types.realtime``). Known differences: there are no tools and no images; ``semantic_vad`` only waits
for silence, whose duration depends on the eagerness; ``idle_timeout_ms``, noise reduction and voices are only
echoed; token counts are estimates; there are no rate limits.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

import pybase64

from live_eval.reference.engine import events
from live_eval.reference.engine.conversation_items import Item, ItemStatus, Part, PartKind, Role
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import (
    CloseConnection,
    Event,
    Output,
    Problem,
    SendMessage,
    ServerResponse,
)
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols import openai_schema as schema
from live_eval.reference.protocols.openai_events import ClientEventProtocol
from live_eval.reference.protocols.openai_session import DEFAULT_VOICE, SessionSettings, codec_of, format_of
from live_eval.reference.protocols.protocol import MessageError, decode_audio
from live_eval.timing import ResponseStatus

__all__ = ["OpenAiProtocol"]

_CLOSE_GOING_AWAY = 1001
# Placeholders: this endpoint has no rate limits.
_REQUESTS_LIMIT = 1_000_000
_TOKENS_LIMIT = 1_000_000_000


class OpenAiProtocol(ClientEventProtocol):
    """Run one session, which expires at `expires_at`, in seconds since the Unix epoch."""

    reports_stops = True
    family = "response"
    client_events: ClassVar[Mapping[str, type[schema.ClientEvent]]] = schema.CLIENT_EVENTS
    with_audio = ("input_audio_buffer.append", "conversation.item.create", "response.create")
    item_events: ClassVar[Sequence[str]] = ("conversation.item.added", "conversation.item.done")
    """Server events for an added item and, if the dialect has one, for a completed item."""
    retrieves_audio: ClassVar[bool] = True
    """Whether a retrieved item contains the user's audio."""

    def __init__(self, engine: Engine, model: str, expires_at: int) -> None:
        super().__init__(engine)
        self._session = SessionSettings(
            engine.session_id, model, expires_at, calibrate=engine.settings.calibrate
        )
        self._tokens = 0
        self._responses = 0

    def opened(self) -> Sequence[Output]:
        """Send ``session.created``."""
        return [self._session_event("session.created")]

    def expired(self) -> Sequence[Output]:
        """Close the session because it has expired."""
        message = f"Your session hit the maximum duration of {self.engine.settings.session_limit_s} seconds."
        return [
            SendMessage(self._error(Problem("session_expired", message))),
            CloseConnection(_CLOSE_GOING_AWAY, "session expired"),
        ]

    # -- Client events ----------------------------------------------------------------------------------

    def _handle(self, event: schema.ClientEvent, at_ns: int) -> Sequence[Output]:
        engine = self.engine
        match event:
            case schema.AudioAppend(audio=audio):
                data = decode_audio(audio, engine.config.input_codec, "audio")
                return engine.audio(data, at_ns) if data else ()
            case schema.SessionUpdate(session=params):
                self._configure(params)
                return [self._session_event("session.updated")]
            case schema.Empty(type="input_audio_buffer.commit"):
                return engine.commit(at_ns)
            case schema.Empty():
                engine.clear()
                return [self._say("input_audio_buffer.cleared")]
            case schema.ItemCreate(previous_item_id=after):
                first = after == "root"
                return engine.add_item(self._item(event.item, "item"), None if first else after, first=first)
            case schema.ItemName(type="conversation.item.delete", item_id=item_id):
                engine.conversation.remove(self._found(event))
                return [self._say("conversation.item.deleted", item_id=item_id)]
            case schema.ItemName():
                fields = self._item_object(self._found(event), with_audio=self.retrieves_audio)
                return [self._say("conversation.item.retrieved", item=fields)]
            case schema.ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end_ms):
                problem = engine.truncate(self._found(event), index, end_ms)
                fields = {"item_id": item_id, "content_index": index, "audio_end_ms": end_ms}
                return [problem or self._say("conversation.item.truncated", **fields)]
            case schema.ResponseCreate():
                return self._create_response(event, at_ns)
            case schema.ResponseCancel(response_id=response_id):
                return engine.cancel(response_id)
            case _:
                raise AssertionError(f"no handler for {type(event).__name__}")

    def _found(self, event: schema.ItemName | schema.ItemTruncate) -> Item:
        item = self.engine.conversation.get(event.item_id)
        if item is None:
            code = f"item_{event.type.rpartition('.')[2]}_invalid_item_id"
            raise MessageError(code, f"Item with id {event.item_id!r} not found.", "item_id")
        return item

    def _create_response(self, event: schema.ResponseCreate, at_ns: int) -> Sequence[Output]:
        params = event.response
        if params is None:
            return self.engine.respond(at_ns)
        changes: dict[str, Any] = {}
        if params.instructions is not None:
            changes["instructions"] = params.instructions
        if params.output_modalities is not None:
            changes["wants_audio"] = params.output_modalities == ["audio"]
        if isinstance(params.max_output_tokens, int):
            changes["max_output_tokens"] = params.max_output_tokens
        output = params.audio.output if params.audio is not None else None
        if output is not None and output.format is not None:
            changes["output_codec"] = codec_of(output.format.type)
        said: list[Item] | None = None
        if params.input is not None:
            said = [self._item(given, f"response.input[{at}]") for at, given in enumerate(params.input)]
        return self.engine.respond(
            at_ns,
            replace(self.engine.config, **changes),
            said=said,
            in_conversation=params.conversation != "none",
            metadata=params.metadata,
        )

    def _item(self, given: schema.ItemParam, where: str) -> Item:
        parts: list[Part] = []
        role = Role(given.role)
        side = "output" if role is Role.ASSISTANT else "input"
        allowed = ["input_text"] if role is Role.SYSTEM else [f"{side}_text", f"{side}_audio"]
        for index, content in enumerate(given.content):
            place = f"{where}.content[{index}]"
            if content.type not in allowed:
                message = f"Invalid value: '{content.type}'. Supported values are: {str(allowed)[1:-1]}."
                raise MessageError("invalid_value", message, f"{place}.type")
            if not isinstance(content, schema.AudioContent):
                parts.append(Part(PartKind.TEXT, content.text))
            elif role is Role.ASSISTANT:
                parts.append(Part(PartKind.AUDIO, content.transcript))
            else:
                codec = self._session.engine_config().input_codec
                data = decode_audio(content.audio or "", codec, f"{place}.audio")
                parts.append(Part.speech(data, codec, content.transcript))
        status = ItemStatus(given.status) if given.status is not None else ItemStatus.COMPLETED
        return Item(given.id or self.engine.new_name("item"), role, parts, status)

    def _configure(self, params: schema.SessionParams) -> None:
        """Apply a client's settings.

        Raises:
            MessageError: A setting is refused; no settings are changed.
        """
        before = copy.deepcopy(self._session.shown)
        self._session.update(params)
        config = self._engine_config()
        refused = self.engine.refusal(config)
        if refused is not None:
            self._session.shown = before
            raise MessageError("invalid_value", refused, "session.audio.input.turn_detection")
        self.engine.configure(config)

    def _engine_config(self) -> EngineConfig:
        return self._session.engine_config()

    # -- Server events ----------------------------------------------------------------------------------

    def deciding_message(self, event: Event) -> int:
        """Return the index of ``response.done``, which only rate limits follow, else 0."""
        return -2 if isinstance(event, events.ResponseEnded) else 0

    def render(self, event: Event) -> Sequence[bytes]:
        """Encode an event as server events."""
        match event:
            case events.AudioPiece():
                return (self._audio(event),)
            case events.TextPiece(response=response, text=text):
                kind = "audio_transcript" if response.wants_audio else "text"
                return (self._encode(f"response.output_{kind}.delta", **_place(response), delta=text),)
            case events.UserSpeechStarted(item_id=item_id, audio_ms=audio_ms):
                kind = "input_audio_buffer.speech_started"
                return (self._encode(kind, audio_start_ms=audio_ms, item_id=item_id),)
            case events.UserSpeechStopped(item_id=item_id, audio_ms=audio_ms):
                kind = "input_audio_buffer.speech_stopped"
                return (self._encode(kind, audio_end_ms=audio_ms, item_id=item_id),)
            case events.ItemAdded():
                return self._added(event)
            case events.InputTranscribed():
                return self._transcript(event)
            case events.ResponseCreated(response=response):
                return (
                    self._encode("response.created", response=self._response_object(response, created=True)),
                )
            case events.ReplyBegan(response=response, previous_id=previous_id):
                return self._began(response, previous_id)
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case events.Silence():
                return ()
            case Fault():
                return (self._fault(event),)
            case Problem():
                return (self._error(event),)

    def _error(
        self, problem: Problem, event_id: str | None = None, kind: str = "invalid_request_error"
    ) -> bytes:
        return self._encode("error", error={"type": kind, **asdict(problem), "event_id": event_id})

    def _session_event(self, kind: str) -> SendMessage:
        return self._say(kind, session=self._session_object(self._session.shown))

    def _session_object(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        return shown

    def _item_object(self, item: Item, *, with_audio: bool = False) -> dict[str, Any]:
        return {
            "id": item.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": item.status.value,
            "role": item.role.value,
            "content": [self._content(item.role, part, with_audio) for part in item.parts],
        }

    def _audio(self, piece: events.AudioPiece) -> bytes:
        """Format a delta without a JSON encoder, since its base64 audio needs no escaping."""
        response = piece.response
        kind = "response.output_audio.delta"
        head = (
            f'{{"type":"{self.spellings.get(kind, kind)}","event_id":"{self._event_id()}",'
            f'"response_id":"{response.response_id}","item_id":"{response.item_id}",'
            f'"output_index":0,"content_index":0,"delta":"'
        )
        return b"%b%b%b" % (head.encode(), piece.payload, b'"}')

    def _added(self, event: events.ItemAdded) -> Sequence[bytes]:
        after, body = event.previous_id, self._item_object(event.item)
        out: list[bytes] = []
        if event.committed:
            kind = "input_audio_buffer.committed"
            out.append(self._encode(kind, item_id=event.item.item_id, previous_item_id=after))
        return [*out, *(self._encode(kind, item=body, previous_item_id=after) for kind in self.item_events)]

    def _transcript(self, event: events.InputTranscribed) -> Sequence[bytes]:
        prefix = "conversation.item.input_audio_transcription"
        place = {"item_id": event.item.item_id, "content_index": event.part}
        if event.text is None:
            error = {"type": "server_error", "code": "unrecognised", "message": event.reason, "param": None}
            return (self._encode(f"{prefix}.failed", **place, error=error),)
        delta = self._encode(f"{prefix}.delta", **place, delta=event.text)
        seconds = round(event.item.parts[event.part].audio_ms / 1000, 2)
        usage = {"type": "duration", "seconds": seconds}
        completed = self._encode(f"{prefix}.completed", **place, transcript=event.text, usage=usage)
        return (delta, completed) if event.text else (completed,)

    def _began(self, response: ServerResponse, previous_id: str | None) -> Sequence[bytes]:
        assert response.item is not None
        place, body = _place(response), {**self._item_object(response.item), "content": []}
        out = [self._output_item("added", response, body)]
        if response.in_conversation:
            out.append(self._encode(self.item_events[0], item=body, previous_item_id=previous_id))
        out.append(self._encode("response.content_part.added", **place, part=_part(response, "")))
        return out

    def _ended(self, response: ServerResponse) -> Sequence[bytes]:
        out: list[bytes] = []
        item = response.item
        if item is not None:
            place, text = _place(response), item.parts[0].text or ""
            if response.wants_audio:
                out.append(self._encode("response.output_audio.done", **place))
                out.append(self._encode("response.output_audio_transcript.done", **place, transcript=text))
            else:
                out.append(self._encode("response.output_text.done", **place, text=text))
            body = self._item_object(item)
            out.append(self._encode("response.content_part.done", **place, part=_part(response, text)))
            if response.in_conversation:
                out += [self._encode(kind, item=body) for kind in self.item_events[1:]]
            out.append(self._output_item("done", response, body))
        out.append(self._encode("response.done", response=self._response_object(response, created=False)))
        out.append(self._rate_limits(response))
        return out

    def _output_item(self, change: str, response: ServerResponse, item: Mapping[str, Any]) -> bytes:
        kind = f"response.output_item.{change}"
        return self._encode(kind, response_id=response.response_id, output_index=0, item=item)

    def _rate_limits(self, response: ServerResponse) -> bytes:
        self._responses += 1
        self._tokens += _usage(response)["total_tokens"]
        used = (("requests", _REQUESTS_LIMIT, self._responses), ("tokens", _TOKENS_LIMIT, self._tokens))
        limits = [
            {"name": name, "limit": limit, "remaining": max(0, limit - spent), "reset_seconds": 0.0}
            for name, limit, spent in used
        ]
        return self._encode("rate_limits.updated", rate_limits=limits)

    def _response_object(self, response: ServerResponse, *, created: bool) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": response.response_id,
            "status": "in_progress" if created else response.status.value,
            "status_details": None if created else _status_details(response),
            "output": [] if created or response.item is None else [self._item_object(response.item)],
            "conversation_id": f"conv_{self.engine.session_id[-12:]}" if response.in_conversation else None,
            "max_output_tokens": response.max_output_tokens or "inf",
            "usage": None if created else _usage(response),
            "metadata": response.metadata,
            **self._output_settings(response),
        }

    def _output_settings(self, response: ServerResponse) -> dict[str, Any]:
        return {
            "output_modalities": ["audio" if response.wants_audio else "text"],
            "audio": {"output": {"format": format_of(response.codec), "voice": DEFAULT_VOICE}},
        }

    def _content_type(self, role: Role, kind: PartKind) -> str:
        return f"{'output' if role is Role.ASSISTANT else 'input'}_{kind.value}"

    def _content(self, role: Role, part: Part, with_audio: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"type": self._content_type(role, part.kind)}
        if part.kind is PartKind.TEXT:
            return body | {"text": part.text}
        body["transcript"] = part.text
        if with_audio and part.audio:
            body["audio"] = pybase64.b64encode(part.audio).decode()
        return body


def _place(response: ServerResponse) -> dict[str, Any]:
    place = {"response_id": response.response_id, "item_id": response.item_id}
    return {**place, "output_index": 0, "content_index": 0}


def _part(response: ServerResponse, text: str) -> dict[str, Any]:
    return {"type": "audio", "transcript": text} if response.wants_audio else {"type": "text", "text": text}


def _status_details(response: ServerResponse) -> dict[str, Any] | None:
    status = response.status
    if status is ResponseStatus.COMPLETED:
        return None
    details: dict[str, Any] = {"type": status.value}
    if response.reason:
        details["reason"] = response.reason
    if status is ResponseStatus.FAILED:
        code, message = response.error_code, response.error_message
        details["error"] = {"type": "server_error", "code": code, "message": message}
    return details


def _usage(response: ServerResponse) -> dict[str, Any]:
    text_in, audio_in = response.input_text_tokens, response.input_audio_tokens
    text_out, audio_out = response.output_text_tokens, response.output_audio_tokens
    return {
        "total_tokens": text_in + audio_in + text_out + audio_out,
        "input_tokens": text_in + audio_in,
        "output_tokens": text_out + audio_out,
        "input_token_details": {"text_tokens": text_in, "audio_tokens": audio_in, "cached_tokens": 0},
        "output_token_details": {"text_tokens": text_out, "audio_tokens": audio_out},
    }
