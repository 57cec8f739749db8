"""Implement the server side of OpenAI's Realtime beta dialect by translation to and from GA. Sans-I/O.

Message shapes follow ``openai.types.beta.realtime`` in the official SDK up to version 1. OpenAI has switched
this dialect off, but other services still use it. In addition to the GA protocol's known differences,
``temperature`` is only echoed, and any ``modalities`` with ``audio`` select audio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from live_eval.reference.engine.conversation_items import PartKind, Role
from live_eval.reference.engine.events import Output, ServerResponse
from live_eval.reference.protocols import openai_schema as schema
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.protocols.openai_session import DEFAULT_VOICE, format_of
from live_eval.reference.protocols.protocol import MessageError

__all__ = ["OpenAiBetaProtocol"]

_FormatName: TypeAlias = Literal["pcm16", "g711_ulaw", "g711_alaw"]
_FlatModalities: TypeAlias = Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=2)]

_TYPES: Mapping[str, str] = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_TEMPERATURE = 0.8

# Path of each setting in the GA dialect's session, by beta name.
_INPUT = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_OUTPUT = {"output_audio_format": "format", "voice": "voice", "speed": "speed"}
_FLAT_NAMES = {f"session.audio.input.{nested}": f"session.{name}" for name, nested in _INPUT.items()}
_FLAT_NAMES |= {f"session.audio.output.{nested}": f"session.{name}" for name, nested in _OUTPUT.items()}
_SAME = ("instructions", "model", "tools", "tool_choice", "tracing")
_ALSO_OF_RESPONSES = ("conversation", "metadata")


class _FlatReplyParams(schema.Model):
    modalities: _FlatModalities | None = None
    instructions: str | None = None
    voice: str | schema.VoiceName | None = None
    output_audio_format: _FormatName | None = None
    max_response_output_tokens: schema.MaxTokens | None = None
    temperature: Annotated[float, Field(ge=0.6, le=1.2)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None


class _FlatSessionParams(_FlatReplyParams):
    speed: Annotated[float, Field(ge=0.25, le=1.5)] | None = None
    input_audio_format: _FormatName | None = None
    input_audio_transcription: schema.Transcription | None = None
    input_audio_noise_reduction: schema.NoiseReduction | None = None
    turn_detection: schema.TurnDetection | None = None
    model: str | None = None
    tracing: str | dict[str, Any] | None = None
    client_secret: dict[str, Any] | None = None


class _FlatSessionUpdate(schema.ClientEvent):
    session: _FlatSessionParams


class _FlatText(schema.Model):
    type: Literal["input_text", "text"]
    text: str


class _FlatAudio(schema.Model):
    type: Literal["input_audio", "audio"]
    audio: str | None = None
    transcript: str | None = None


_FlatContent: TypeAlias = Annotated[_FlatText | _FlatAudio, Field(discriminator="type")]


class _FlatItem(schema.ItemFields):
    content: Annotated[list[_FlatContent], Field(min_length=1, max_length=64)]


class _FlatItemCreate(schema.ClientEvent):
    item: _FlatItem
    previous_item_id: schema.Name | None = None


class _FlatResponseParams(_FlatReplyParams):
    conversation: Literal["auto", "none"] | None = None
    input: Annotated[list[_FlatItem], Field(max_length=256)] | None = None
    metadata: schema.Metadata | None = None


class _FlatResponseCreate(schema.ClientEvent):
    response: _FlatResponseParams | None = None


def _in_ga(event: schema.ClientEvent) -> schema.ClientEvent:
    """Translate an event to the GA dialect; omitted settings stay omitted."""
    body = event.model_dump(mode="json", exclude_unset=True)
    match event:
        case _FlatSessionUpdate():
            body["session"] = {"type": "realtime", **_nested(body["session"])}
        case _FlatItemCreate():
            body["item"] = _item(body["item"])
        case _FlatResponseCreate(response=params):
            body["response"] = None if params is None else _nested(body["response"])
        case _:
            return event
    return schema.CLIENT_EVENTS[event.type].model_validate(body)


def _item(given: dict[str, Any]) -> dict[str, Any]:
    for content in given["content"]:
        if content["type"] in ("text", "audio"):
            content["type"] = f"output_{content['type']}"
    return given


def _nested(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("input_audio_format", "output_audio_format"):
        if given.get(name) is not None:
            given[name] = {"type": _TYPES[given[name]]}
    body = {name: given[name] for name in (*_SAME, *_ALSO_OF_RESPONSES) if name in given}
    if given.get("input") is not None:
        body["input"] = [_item(item) for item in given["input"]]
    if given.get("modalities") is not None:
        body["output_modalities"] = ["audio" if "audio" in given["modalities"] else "text"]
    if "max_response_output_tokens" in given:
        body["max_output_tokens"] = given["max_response_output_tokens"]
    heard = {nested: given[name] for name, nested in _INPUT.items() if name in given}
    spoken = {nested: given[name] for name, nested in _OUTPUT.items() if name in given}
    sides = {"input": heard, "output": spoken}
    audio = {side: settings for side, settings in sides.items() if settings}
    return body | ({"audio": audio} if audio else {})


class OpenAiBetaProtocol(OpenAiProtocol):
    """Run one session in the beta dialect."""

    client_events: ClassVar[Mapping[str, type[schema.ClientEvent]]] = {
        **schema.CLIENT_EVENTS,
        "session.update": _FlatSessionUpdate,
        "conversation.item.create": _FlatItemCreate,
        "response.create": _FlatResponseCreate,
    }
    spellings: ClassVar[Mapping[str, str]] = {
        "response.output_audio.delta": "response.audio.delta",
        "response.output_audio.done": "response.audio.done",
        "response.output_audio_transcript.delta": "response.audio_transcript.delta",
        "response.output_audio_transcript.done": "response.audio_transcript.done",
        "response.output_text.delta": "response.text.delta",
        "response.output_text.done": "response.text.done",
    }
    item_events: ClassVar[Sequence[str]] = ("conversation.item.created",)

    def _handle(self, event: schema.ClientEvent, at_ns: int) -> Sequence[Output]:
        try:
            return super()._handle(_in_ga(event), at_ns)
        except MessageError as error:
            problem = error.problem
            path = problem.param or ""
            if path not in _FLAT_NAMES:
                raise
            flat = _FLAT_NAMES[path]
            raise MessageError(problem.code, problem.message.replace(path, flat), flat) from None

    def _session_object(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        sides = shown["audio"]
        body = {name: sides["input"][nested] for name, nested in _INPUT.items()}
        body |= {name: sides["output"][nested] for name, nested in _OUTPUT.items()}
        for name in ("input_audio_format", "output_audio_format"):
            body[name] = _NAMES[body[name]["type"]]
        return {
            **{name: shown[name] for name in ("id", "object", "expires_at", *_SAME)},
            **body,
            "modalities": _modalities(wants_audio=shown["output_modalities"] == ["audio"]),
            "max_response_output_tokens": shown["max_output_tokens"],
            "temperature": _TEMPERATURE,
        }

    def _output_settings(self, response: ServerResponse) -> dict[str, Any]:
        return {
            "modalities": _modalities(wants_audio=response.wants_audio),
            "output_audio_format": _NAMES[format_of(response.codec)["type"]],
            "voice": DEFAULT_VOICE,
            "temperature": _TEMPERATURE,
        }

    def _content_type(self, role: Role, kind: PartKind) -> str:
        return kind.value if role is Role.ASSISTANT else super()._content_type(role, kind)


def _modalities(*, wants_audio: bool) -> list[str]:
    return ["text", "audio"] if wants_audio else ["text"]
