"""Encode the engine's events as server events of OpenAI's Realtime GA dialect.

Message shapes follow the official SDK's types (openai.types.realtime.realtime_server_event).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import orjson
import pybase64

from live_eval.reference.engine.conversation import Item, Part, PartKind, Role
from live_eval.reference.engine.events import (
    AudioPiece,
    Event,
    InputTranscribed,
    ItemAdded,
    Problem,
    ReplyBegan,
    ResponseCreated,
    ResponseEnded,
    ServerResponse,
    Silence,
    TextPiece,
    UserSpeechStarted,
    UserSpeechStopped,
)
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.script import Fault
from live_eval.reference.protocols.openai_session import DEFAULT_VOICE, format_of
from live_eval.timing import ResponseStatus

__all__ = ["ERROR_ON_PURPOSE", "EventEncoder"]

ERROR_ON_PURPOSE = Problem("reference_fault", "This endpoint reports an error on purpose.")
"""The error of `FaultName.ERROR_EVENT`."""

# This endpoint has no limits; the numbers are placeholders.
_REQUESTS_LIMIT = 1_000_000
_TOKENS_LIMIT = 1_000_000_000


class EventEncoder:
    """Encodes one session's events, with unique event ids. Other dialects derive from it."""

    spellings: ClassVar[Mapping[str, str]] = {}
    """Event types that another dialect spells differently, by their GA names."""
    item_events: ClassVar[Sequence[str]] = ("conversation.item.added", "conversation.item.done")
    """Events for an item that was added, and, if the dialect has one, for a complete item."""

    def __init__(self, session_id: str) -> None:
        self._prefix = f"event_{session_id[-12:]}"
        audio_event = "response.output_audio.delta"
        self._audio_event = self.spellings.get(audio_event, audio_event)
        self._conversation_id = f"conv_{session_id[-12:]}"
        self._said = 0
        self._tokens = 0
        self._responses = 0

    def say(self, kind: str, **fields: Any) -> bytes:
        """Encode an event of type `kind`."""
        self._said += 1
        spelt = self.spellings.get(kind, kind)
        return orjson.dumps({"type": spelt, "event_id": f"{self._prefix}{self._said:06d}", **fields})

    def session(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        """Encode a session's settings."""
        return shown

    def item(self, item: Item, *, with_audio: bool = False) -> dict[str, Any]:
        """Encode an item; include the user's audio if `with_audio`."""
        return {
            "id": item.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": item.status.value,
            "role": item.role.value,
            "content": [self._content(item.role, part, with_audio) for part in item.parts],
        }

    def error(
        self, problem: Problem, client_event_id: str | None = None, kind: str = "invalid_request_error"
    ) -> bytes:
        """Encode an ``error`` event, with the id of the client's event that caused it."""
        return self.say("error", error={"type": kind, **asdict(problem), "event_id": client_event_id})

    def render(self, event: Event) -> Sequence[bytes]:
        """Encode an event as messages, in order."""
        match event:
            case AudioPiece():
                return (self._audio(event),)
            case TextPiece(response=response, text=text):
                kind = "audio_transcript" if response.wants_audio else "text"
                return (self.say(f"response.output_{kind}.delta", **_place(response), delta=text),)
            case UserSpeechStarted(item_id=item_id, audio_ms=audio_ms):
                kind = "input_audio_buffer.speech_started"
                return (self.say(kind, audio_start_ms=audio_ms, item_id=item_id),)
            case UserSpeechStopped(item_id=item_id, audio_ms=audio_ms):
                kind = "input_audio_buffer.speech_stopped"
                return (self.say(kind, audio_end_ms=audio_ms, item_id=item_id),)
            case ItemAdded():
                return self._added(event)
            case InputTranscribed():
                return self._transcript(event)
            case ResponseCreated(response=response):
                return (self.say("response.created", response=self._response_object(response, created=True)),)
            case ReplyBegan(response=response, previous_id=previous_id):
                return self._began(response, previous_id)
            case ResponseEnded(response=response):
                return self._ended(response)
            case Silence():
                return ()
            case Fault(name=FaultName.MALFORMED):
                return (b'{"type":"response.output_audio.delta","delta":',)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (self.say("response.interpretive_dance.delta", delta="pirouette"),)
            case Fault():
                return (self.error(ERROR_ON_PURPOSE, kind="server_error"),)
            case Problem():
                return (self.error(event),)

    def _audio(self, piece: AudioPiece) -> bytes:
        """Build a delta from parts: its audio is already encoded and needs no escaping."""
        self._said += 1
        response = piece.response
        head = (
            f'{{"type":"{self._audio_event}","event_id":"{self._prefix}{self._said:06d}",'
            f'"response_id":"{response.response_id}","item_id":"{response.item_id}",'
            f'"output_index":0,"content_index":0,"delta":"'
        )
        return b"%b%b%b" % (head.encode(), piece.payload, b'"}')

    def _added(self, event: ItemAdded) -> Sequence[bytes]:
        after, body = event.previous_id, self.item(event.item)
        out: list[bytes] = []
        if event.committed:
            kind = "input_audio_buffer.committed"
            out.append(self.say(kind, item_id=event.item.item_id, previous_item_id=after))
        return [*out, *(self.say(kind, item=body, previous_item_id=after) for kind in self.item_events)]

    def _transcript(self, event: InputTranscribed) -> Sequence[bytes]:
        prefix = "conversation.item.input_audio_transcription"
        place = {"item_id": event.item.item_id, "content_index": event.part}
        if event.text is None:
            error = {"type": "server_error", "code": "unrecognised", "message": event.reason, "param": None}
            return (self.say(f"{prefix}.failed", **place, error=error),)
        delta = self.say(f"{prefix}.delta", **place, delta=event.text)
        seconds = round(event.item.parts[event.part].audio_ms / 1000, 2)
        usage = {"type": "duration", "seconds": seconds}
        completed = self.say(f"{prefix}.completed", **place, transcript=event.text, usage=usage)
        return (delta, completed) if event.text else (completed,)

    def _began(self, response: ServerResponse, previous_id: str | None) -> Sequence[bytes]:
        assert response.item is not None
        place, body = _place(response), {**self.item(response.item), "content": []}
        out = [self._output_item("added", response, body)]
        if response.in_conversation:
            out.append(self.say(self.item_events[0], item=body, previous_item_id=previous_id))
        out.append(self.say("response.content_part.added", **place, part=_part(response, "")))
        return out

    def _ended(self, response: ServerResponse) -> Sequence[bytes]:
        out: list[bytes] = []
        item = response.item
        if item is not None:
            place, text = _place(response), item.parts[0].text or ""
            if response.wants_audio:
                out.append(self.say("response.output_audio.done", **place))
                out.append(self.say("response.output_audio_transcript.done", **place, transcript=text))
            else:
                out.append(self.say("response.output_text.done", **place, text=text))
            body = self.item(item)
            out.append(self.say("response.content_part.done", **place, part=_part(response, text)))
            if response.in_conversation:
                out += [self.say(kind, item=body) for kind in self.item_events[1:]]
            out.append(self._output_item("done", response, body))
        out.append(self.say("response.done", response=self._response_object(response, created=False)))
        out.append(self._rate_limits(response))
        return out

    def _output_item(self, change: str, response: ServerResponse, item: Mapping[str, Any]) -> bytes:
        kind = f"response.output_item.{change}"
        return self.say(kind, response_id=response.response_id, output_index=0, item=item)

    def _rate_limits(self, response: ServerResponse) -> bytes:
        self._responses += 1
        self._tokens += _usage(response)["total_tokens"]
        used = (("requests", _REQUESTS_LIMIT, self._responses), ("tokens", _TOKENS_LIMIT, self._tokens))
        limits = [
            {"name": name, "limit": limit, "remaining": max(0, limit - spent), "reset_seconds": 0.0}
            for name, limit, spent in used
        ]
        return self.say("rate_limits.updated", rate_limits=limits)

    def _response_object(self, response: ServerResponse, *, created: bool) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": response.response_id,
            "status": "in_progress" if created else response.status.value,
            "status_details": None if created else _status_details(response),
            "output": [] if created or response.item is None else [self.item(response.item)],
            "conversation_id": self._conversation_id if response.in_conversation else None,
            "max_output_tokens": response.max_output_tokens or "inf",
            "usage": None if created else _usage(response),
            "metadata": response.metadata,
            **self.output_settings(response),
        }

    def output_settings(self, response: ServerResponse) -> dict[str, Any]:
        """Encode the output settings of a response."""
        return {
            "output_modalities": ["audio" if response.wants_audio else "text"],
            "audio": {"output": {"format": format_of(response.codec), "voice": DEFAULT_VOICE}},
        }

    def content_type(self, role: Role, kind: PartKind) -> str:
        """Return the content type of an item's part."""
        return f"{'output' if role is Role.ASSISTANT else 'input'}_{kind.value}"

    def _content(self, role: Role, part: Part, with_audio: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"type": self.content_type(role, part.kind)}
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
