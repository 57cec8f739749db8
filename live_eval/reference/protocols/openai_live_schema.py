"""Messages that a client may send to GPT-Live, validated.

Field names and ranges are those of the official SDK's types (``openai.types.live.ClientEvent``). Settings
that have no meaning here (delegation, storage, triggers) are accepted and echoed, but have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from live_eval.reference.protocols.openai_schema import ClientEvent, Empty, Model, VoiceName

__all__ = ["COMMANDS", "Append", "Format", "LiveSessionUpdate", "OptionalAudioAppend", "SessionStart"]


class LivePcmFormat(Model):
    """16-bit little-endian PCM."""

    type: Literal["audio/pcm"]
    rate: Literal[16000, 24000]


class G711Format(Model):
    """G.711 at 8 kHz."""

    type: Literal["audio/pcmu", "audio/pcma"]
    rate: Literal[8000] = 8000


Format: TypeAlias = Annotated[LivePcmFormat | G711Format, Field(discriminator="type")]


class Output(Model):
    """Output settings. Every voice name selects the same voice."""

    voice: str | VoiceName | None = None


class LiveAudio(Model):
    """Audio settings: one format for both directions."""

    format: Format | None = None
    output: Output | None = None


class Text(Model):
    """Text."""

    type: Literal["input_text", "output_text", "text"] | None = None
    text: str


class Message(Model):
    """A message from before the session."""

    role: Literal["developer", "user", "assistant"]
    content: Annotated[list[Text], Field(min_length=1, max_length=1)]
    type: Literal["message"] | None = None
    id: str | None = None
    status: Literal["incomplete", "completed"] | None = None


class SessionConfig(Model):
    """Settings of a session; they cannot be changed later."""

    model: str | None = None
    audio: LiveAudio | None = None
    instructions: str | None = None
    input: Annotated[list[Message], Field(max_length=128)] | None = None
    delegation: dict[str, Any] | None = None
    store: bool | None = None
    client: dict[str, Any] | None = None
    triggers: list[dict[str, Any]] | None = None
    safety_identifier: str | None = None


class SessionStart(ClientEvent):
    """``session.start``."""

    session: SessionConfig


class LiveSessionUpdate(ClientEvent):
    """``session.update``: only the delegation can change."""

    session: dict[str, Any]


class Append(ClientEvent):
    """``session.instructions.append`` and similar commands."""

    content: str
    delegation_id: str | None


class OptionalAudioAppend(ClientEvent):
    """``session.input_audio.append``."""

    audio: str | None = None


COMMANDS: Mapping[str, type[ClientEvent]] = {
    "session.start": SessionStart,
    "session.update": LiveSessionUpdate,
    "session.instructions.append": Append,
    "session.thinking.append": Append,
    "session.commentary.append": Append,
    "session.input_audio.append": OptionalAudioAppend,
    "session.input_audio.mute": Empty,
    "session.input_audio.unmute": Empty,
    "session.close": Empty,
}
