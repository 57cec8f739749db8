"""The server's side of OpenAI's Realtime GA dialect over a message channel. Sans-I/O.

Source: https://platform.openai.com/docs/api-reference/realtime and the official SDK's event types. Known
differences: no tools, no images; ``semantic_vad`` waits for a silence that follows from its eagerness;
``idle_timeout_ms``, noise reduction and voices are only echoed; token counts are estimates; there are no
rate limits.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from live_eval.reference.engine.conversation import Item, ItemStatus, Part, PartKind, Role
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import (
    CloseConnection,
    Event,
    Output,
    Problem,
    ResponseEnded,
    SendMessage,
)
from live_eval.reference.protocols.openai_events import EventEncoder
from live_eval.reference.protocols.openai_schema import (
    CLIENT_EVENTS,
    AudioAppend,
    AudioContent,
    ClientEvent,
    Empty,
    ItemCreate,
    ItemName,
    ItemParam,
    ItemTruncate,
    ResponseCancel,
    ResponseCreate,
    SessionParams,
    SessionUpdate,
    validated,
)
from live_eval.reference.protocols.openai_session import SessionSettings, codec_of
from live_eval.reference.protocols.payloads import MessageError, check_length, decoded, parsed_object
from live_eval.reference.protocols.protocol import ServerProtocol

__all__ = ["ClientEventProtocol", "OpenAiProtocol"]

_CLOSE_GOING_AWAY = 1001


class ClientEventProtocol(ServerProtocol):
    """A dialect of client events: JSON objects with a ``type`` and an optional ``event_id``."""

    client_events: ClassVar[Mapping[str, type[ClientEvent]]]
    with_audio: ClassVar[Collection[str]]
    """The events that may contain audio."""

    def received(self, message: str | bytes, at_ns: int) -> Sequence[Output]:
        """Handle a client event; answer an invalid one with an ``error`` event."""
        event_id: str | None = None
        try:
            if isinstance(message, bytes):
                raise MessageError("invalid_value", "Expected a text message, but a binary one came.")
            given = parsed_object(message)
            check_length(message, given.get("type"), self.with_audio)
            named = given.get("event_id")
            event_id = named[:512] if isinstance(named, str) else None
            outputs = self._handle(validated(given, self.client_events), at_ns)
        except MessageError as error:
            outputs = [error.problem]
        return [
            self._error(output, event_id) if isinstance(output, Problem) else output for output in outputs
        ]

    @abstractmethod
    def _handle(self, event: ClientEvent, at_ns: int) -> Sequence[Output]:
        """Carry out an event, or raise `MessageError`."""

    @abstractmethod
    def _error(self, problem: Problem, event_id: str | None) -> SendMessage:
        """Report a problem with one of the client's events."""


class OpenAiProtocol(ClientEventProtocol):
    """One session, which expires at `expires_at`, in seconds since the Unix epoch.

    The beta dialect derives from it.
    """

    reports_stops = True
    encoder: ClassVar[type[EventEncoder]] = EventEncoder
    client_events: ClassVar[Mapping[str, type[ClientEvent]]] = CLIENT_EVENTS
    with_audio = ("input_audio_buffer.append", "conversation.item.create", "response.create")
    retrieves_audio: ClassVar[bool] = True
    """Whether a retrieved item contains the user's audio."""

    def __init__(self, engine: Engine, model: str, expires_at: int) -> None:
        super().__init__(engine)
        self._words = self.encoder(engine.session_id)
        self._session = SessionSettings(
            engine.session_id, model, expires_at, calibrate=engine.settings.calibrate
        )

    def opened(self) -> Sequence[Output]:
        """Send ``session.created``."""
        return [self._session_event("session.created")]

    def expired(self) -> Sequence[Output]:
        """Close the session: its time is up."""
        message = f"Your session hit the maximum duration of {self.engine.settings.session_limit_s} seconds."
        return [
            SendMessage(self._words.error(Problem("session_expired", message))),
            CloseConnection(_CLOSE_GOING_AWAY, "session expired"),
        ]

    def render(self, event: Event) -> Sequence[bytes]:
        """Encode an event as server events."""
        return self._words.render(event)

    def deciding_message(self, event: Event) -> int:
        """Return the index of ``response.done``, which only the rate limits follow; else the first."""
        return -2 if isinstance(event, ResponseEnded) else 0

    def _handle(self, event: ClientEvent, at_ns: int) -> Sequence[Output]:
        engine = self.engine
        match event:
            case AudioAppend(audio=audio):
                data = decoded(audio, engine.config.input_codec, "audio")
                return engine.audio(data, at_ns) if data else ()
            case SessionUpdate(session=params):
                self._configure(params)
                return [self._session_event("session.updated")]
            case Empty(type="input_audio_buffer.commit"):
                return engine.commit(at_ns)
            case Empty():
                engine.clear()
                return [self._say("input_audio_buffer.cleared")]
            case ItemCreate(previous_item_id=after):
                first = after == "root"
                return engine.add_item(self._item(event.item, "item"), None if first else after, first=first)
            case ItemName(type="conversation.item.delete", item_id=item_id):
                engine.conversation.remove(self._found(event))
                return [self._say("conversation.item.deleted", item_id=item_id)]
            case ItemName():
                fields = self._words.item(self._found(event), with_audio=self.retrieves_audio)
                return [self._say("conversation.item.retrieved", item=fields)]
            case ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end_ms):
                problem = engine.truncate(self._found(event), index, end_ms)
                fields = {"item_id": item_id, "content_index": index, "audio_end_ms": end_ms}
                return [problem or self._say("conversation.item.truncated", **fields)]
            case ResponseCreate():
                return self._create_response(event, at_ns)
            case ResponseCancel(response_id=response_id):
                return engine.cancel(response_id)
            case _:
                raise AssertionError(f"no rule for {type(event).__name__}")

    def _found(self, event: ItemName | ItemTruncate) -> Item:
        item = self.engine.conversation.get(event.item_id)
        if item is None:
            code = f"item_{event.type.rpartition('.')[2]}_invalid_item_id"
            raise MessageError(code, f"Item with id {event.item_id!r} not found.", "item_id")
        return item

    def _create_response(self, event: ResponseCreate, at_ns: int) -> Sequence[Output]:
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

    def _item(self, given: ItemParam, where: str) -> Item:
        parts: list[Part] = []
        role = Role(given.role)
        side = "output" if role is Role.ASSISTANT else "input"
        allowed = ["input_text"] if role is Role.SYSTEM else [f"{side}_text", f"{side}_audio"]
        for index, content in enumerate(given.content):
            place = f"{where}.content[{index}]"
            if content.type not in allowed:
                message = f"Invalid value: '{content.type}'. Supported values are: {str(allowed)[1:-1]}."
                raise MessageError("invalid_value", message, f"{place}.type")
            if not isinstance(content, AudioContent):
                parts.append(Part(PartKind.TEXT, content.text))
            elif role is Role.ASSISTANT:
                parts.append(Part(PartKind.AUDIO, content.transcript))
            else:
                codec = self._session.engine_config().input_codec
                data = decoded(content.audio or "", codec, f"{place}.audio")
                parts.append(Part.speech(data, codec, content.transcript))
        status = ItemStatus(given.status) if given.status is not None else ItemStatus.COMPLETED
        return Item(given.id or self.engine.new_name("item"), role, parts, status)

    def _configure(self, params: SessionParams) -> None:
        """Apply a client's settings.

        Raises:
            MessageError: One is refused; then nothing changes.
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

    def _say(self, kind: str, **fields: Any) -> SendMessage:
        return SendMessage(self._words.say(kind, **fields))

    def _session_event(self, kind: str) -> SendMessage:
        return self._say(kind, session=self._words.session(self._session.shown))

    def _error(self, problem: Problem, event_id: str | None) -> SendMessage:
        return SendMessage(self._words.error(problem, event_id))
