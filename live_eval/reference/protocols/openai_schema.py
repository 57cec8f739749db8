"""Define and validate the client events of OpenAI's Realtime GA dialect.

Field names and ranges follow the official SDK's types (openai.types.realtime) and
https://platform.openai.com/docs/api-reference/realtime-client-events. Unsupported settings (such as tools,
tracing and truncation) are accepted and echoed, but have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from live_eval.reference.protocols.protocol import MessageError

__all__ = [
    "CLIENT_EVENTS",
    "EAGERNESS_SILENCE_MS",
    "AudioAppend",
    "AudioContent",
    "ClientEvent",
    "Empty",
    "G711Format",
    "ItemCreate",
    "ItemFields",
    "ItemName",
    "ItemParam",
    "ItemTruncate",
    "MaxTokens",
    "Metadata",
    "Model",
    "Name",
    "NoiseReduction",
    "ResponseCancel",
    "ResponseCreate",
    "ServerVad",
    "SessionParams",
    "SessionUpdate",
    "Transcription",
    "TurnDetection",
    "VoiceName",
    "explain",
    "validated",
]

EAGERNESS_SILENCE_MS: Mapping[str, int] = {"high": 300, "auto": 600, "medium": 600, "low": 1200}
"""Silence that ends a turn with ``semantic_vad``, which is emulated here without semantics."""

Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
_Modalities: TypeAlias = Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)]
Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
MaxTokens: TypeAlias = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]


class Model(BaseModel):
    """Base class of an event's parts: unknown fields are refused and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PcmFormat(Model):
    """16-bit little-endian PCM."""

    type: Literal["audio/pcm"]
    rate: Literal[24000] = 24000


class G711Format(Model):
    """G.711 at 8 kHz."""

    type: Literal["audio/pcmu", "audio/pcma"]


_Format: TypeAlias = Annotated[PcmFormat | G711Format, Field(discriminator="type")]


class Transcription(Model):
    """Transcription settings; the endpoint always uses its own recogniser."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class NoiseReduction(Model):
    """Noise reduction settings, accepted and echoed but without effect."""

    type: Literal["near_field", "far_field"]
    strength: float | None = None


class ServerVad(Model):
    """Voice detector settings. The idle timeout is only echoed."""

    type: Literal["server_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Field(ge=0, le=10_000)] = 300
    silence_duration_ms: Annotated[int, Field(ge=0, le=10_000)] = 500
    idle_timeout_ms: Annotated[int, Field(ge=5_000, le=30_000)] | None = None
    create_response: bool = True
    interrupt_response: bool = True


class _SemanticVad(Model):
    """Voice detector settings; the eagerness sets the silence (`EAGERNESS_SILENCE_MS`)."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True


TurnDetection: TypeAlias = Annotated[ServerVad | _SemanticVad, Field(discriminator="type")]


class _InputParams(Model):
    format: _Format | None = None
    transcription: Transcription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = None


class VoiceName(Model):
    """A custom voice, by ID."""

    id: str


class _ResponseOutput(Model):
    """A response's output settings. All voice names select the same voice."""

    format: _Format | None = None
    voice: str | VoiceName | None = None


class _OutputParams(_ResponseOutput):
    speed: Annotated[float, Field(ge=0.25, le=1.5)] | None = None


class _AudioParams(Model):
    input: _InputParams | None = None
    output: _OutputParams | None = None


class _ReplyParams(Model):
    """Session settings that a response can override."""

    output_modalities: _Modalities | None = None
    instructions: str | None = None
    max_output_tokens: MaxTokens | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    prompt: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None


class SessionParams(_ReplyParams):
    """Session settings of a client."""

    type: Literal["realtime"]
    audio: _AudioParams | None = None
    model: str | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None
    tracing: str | dict[str, Any] | None = None
    truncation: str | dict[str, Any] | None = None


class ClientEvent(Model):
    """The fields common to all events."""

    type: str
    event_id: str | None = None


class SessionUpdate(ClientEvent):
    """A ``session.update`` event."""

    session: SessionParams


class Empty(ClientEvent):
    """An event without fields."""


class AudioAppend(ClientEvent):
    """An ``input_audio_buffer.append`` event."""

    audio: str


class _TextContent(Model):
    """User or system text (``input_text``), or assistant text (``output_text``)."""

    type: Literal["input_text", "output_text"]
    text: str


class AudioContent(Model):
    """User speech in the session's input format, or the transcript of the assistant's speech."""

    type: Literal["input_audio", "output_audio"]
    audio: str | None = None
    transcript: str | None = None


_Content: TypeAlias = Annotated[_TextContent | AudioContent, Field(discriminator="type")]


class ItemFields(Model):
    """Fields of every message. Function calls are not supported."""

    type: Literal["message"]
    role: Literal["system", "user", "assistant"]
    id: Name | None = None
    object: Literal["realtime.item"] | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None


class ItemParam(ItemFields):
    """A message item."""

    content: Annotated[list[_Content], Field(min_length=1, max_length=64)]


class ItemCreate(ClientEvent):
    """A ``conversation.item.create`` event."""

    item: ItemParam
    previous_item_id: Name | None = None


class ItemName(ClientEvent):
    """An event that refers to one item."""

    item_id: Name


class ItemTruncate(ClientEvent):
    """A ``conversation.item.truncate`` event."""

    item_id: Name
    content_index: Annotated[int, Field(ge=0, le=63)]
    audio_end_ms: Annotated[int, Field(ge=0)]


class _ResponseAudio(Model):
    output: _ResponseOutput | None = None


class _ResponseParams(_ReplyParams):
    conversation: Literal["auto", "none"] | None = None
    input: Annotated[list[ItemParam], Field(max_length=256)] | None = None
    metadata: Metadata | None = None
    audio: _ResponseAudio | None = None


class ResponseCreate(ClientEvent):
    """A ``response.create`` event."""

    response: _ResponseParams | None = None


class ResponseCancel(ClientEvent):
    """A ``response.cancel`` event."""

    response_id: Name | None = None


CLIENT_EVENTS: Mapping[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": AudioAppend,
    "input_audio_buffer.commit": Empty,
    "input_audio_buffer.clear": Empty,
    "conversation.item.create": ItemCreate,
    "conversation.item.delete": ItemName,
    "conversation.item.retrieve": ItemName,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
}


def validated(given: Mapping[str, Any], events: Mapping[str, type[ClientEvent]]) -> ClientEvent:
    """Parse a message as one of the dialect's `events`, by type, or raise `MessageError`."""
    kind = given.get("type")
    if kind is None:
        raise MessageError("missing_required_parameter", "Missing required parameter: 'type'.", "type")
    schema = events.get(kind) if isinstance(kind, str) else None
    if schema is None:
        supported = ", ".join(f"'{known}'" for known in sorted(events))
        message = f"Invalid value: {str(kind)[:80]!r}. Supported values are: {supported}."
        raise MessageError("invalid_value", message, "type")
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        raise explain(error) from None


def explain(error: ValidationError) -> MessageError:
    """Describe the first problem in a message, in OpenAI's wording."""
    first = min(error.errors(include_url=False, include_context=True), key=lambda found: len(found["loc"]))
    param = _param(first["loc"])
    kind = first["type"]
    context = first.get("ctx", {})
    if kind == "extra_forbidden":
        return MessageError("unknown_parameter", f"Unknown parameter: '{param}'.", param)
    if kind in ("missing", "union_tag_not_found"):
        param = f"{param}.type" if kind == "union_tag_not_found" else param
        return MessageError("missing_required_parameter", f"Missing required parameter: '{param}'.", param)
    if kind == "union_tag_invalid":
        param = f"{param}.type"
        message = f"Invalid value: '{context['tag']}'. Supported values are: {context['expected_tags']}."
        return MessageError("invalid_value", message, param)
    given = _short(first["input"])
    if kind == "literal_error":
        message = f"Invalid value: {given}. Supported values are: {context['expected']}."
        return MessageError("invalid_value", message, param)
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return MessageError(code, f"Invalid value for '{param}': {first['msg']}, got {given}.", param)


def _short(value: object) -> str:
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def _param(location: Sequence[int | str]) -> str:
    """Format a location in OpenAI's style (``session.tools[2].name``), without union member names."""
    text = ""
    for place in location:
        if isinstance(place, int):
            text += f"[{place}]"
        elif place not in _UNION_TAGS:
            text += f".{place}" if text else place
    return text


_UNION_TAGS = frozenset(
    {
        "audio/pcm", "audio/pcmu", "audio/pcma", "server_vad", "semantic_vad", "input_text",
        "output_text", "input_audio", "output_audio", "str", "VoiceName", "dict[str,any]",
        "constrained-int", "literal['inf']",
    }
)  # fmt: skip
