"""Messages that a client may send to Gemini Live, validated.

Field names are those of the official SDK's types (``google.genai.types.LiveClientMessage``), in camelCase or
snake_case as Google's servers take them. Unsupported settings are accepted, but have no effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

__all__ = [
    "Blob",
    "ClientContent",
    "ClientMessage",
    "Content",
    "RealtimeInput",
    "Setup",
    "explain",
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class _OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel, populate_by_name=True)


_Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=10_000)]


class _ContentPart(_OpenModel):
    """A part of a content; only text is used."""

    text: str | None = None


class Content(_Model):
    """A text message."""

    parts: list[_ContentPart] = Field(default_factory=list)
    role: str | None = None

    @property
    def text(self) -> str:
        """Join the text of all parts, as paragraphs."""
        return "\n\n".join(part.text for part in self.parts if part.text)


class _GenerationConfig(_OpenModel):
    response_modalities: list[Literal["AUDIO", "TEXT"]] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None


class _AutomaticActivityDetection(_Model):
    disabled: bool | None = None
    start_of_speech_sensitivity: str | None = None
    end_of_speech_sensitivity: str | None = None
    prefix_padding_ms: _Milliseconds | None = None
    silence_duration_ms: _Milliseconds | None = None


class RealtimeInputConfig(_Model):
    """How turns are found in the user's audio."""

    automatic_activity_detection: _AutomaticActivityDetection | None = None
    activity_handling: (
        Literal["ACTIVITY_HANDLING_UNSPECIFIED", "START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"] | None
    ) = None
    turn_coverage: str | None = None
    interim_transcript_timestamp_enabled: bool | None = None


class _SessionResumption(_Model):
    handle: str | None = None
    transparent: bool | None = None


class Setup(_Model):
    """The first message."""

    model: str | None = None
    generation_config: _GenerationConfig | None = None
    system_instruction: Content | str | None = None
    realtime_input_config: RealtimeInputConfig | None = None
    input_audio_transcription: dict[str, Any] | None = None
    output_audio_transcription: dict[str, Any] | None = None
    session_resumption: _SessionResumption | None = None
    context_window_compression: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    proactivity: dict[str, Any] | None = None
    explicit_vad_signal: bool | None = None
    history_config: dict[str, Any] | None = None
    avatar_config: dict[str, Any] | None = None
    safety_settings: list[dict[str, Any]] | None = None
    labels: dict[str, str] | None = None


class Blob(_Model):
    """Base64 data."""

    data: str
    mime_type: str
    display_name: str | None = None


class RealtimeInput(_Model):
    """Realtime input of the user."""

    audio: Blob | None = None
    media_chunks: list[Blob] | None = None
    activity_start: dict[str, Any] | None = None
    activity_end: dict[str, Any] | None = None
    audio_stream_end: bool | None = None
    text: str | None = None
    video: Blob | None = None


class ClientContent(_Model):
    """Additions to the conversation."""

    turns: list[Content] = Field(default_factory=list)
    turn_complete: bool | None = None


class ClientMessage(_Model):
    """A message; exactly one member is set."""

    setup: Setup | None = None
    realtime_input: RealtimeInput | None = None
    client_content: ClientContent | None = None


def explain(error: ValidationError) -> str:
    """Describe the first problem of a message, as Google words it."""
    first = min(error.errors(include_url=False, include_input=False), key=lambda found: len(found["loc"]))
    *path, name = map(str, first["loc"]) if first["loc"] else ("",)
    if first["type"] == "extra_forbidden":
        where = f" at '{'.'.join(path)}'" if path else ""
        return f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
    return f"Invalid value at '{'.'.join((*path, name))}': {first['msg']}"
