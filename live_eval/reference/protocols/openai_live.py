"""Implement the server side of OpenAI's GPT-Live over a message channel. Sans-I/O.

Message shapes follow the official SDK's types (``openai.types.live``). One continuous audio stream, including
silence, is sent while the user's audio arrives; no message marks turns. Known differences: there is no
delegation; there is one model, whose name may be omitted; appended instructions extend the system prompt;
appended thoughts and commentary are acknowledged but ignored; transcripts are sent a few words at a time,
with estimated timestamps; usage is reported after each reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine import events
from live_eval.reference.engine.conversation_items import Item, Part, PartKind, Role, sample_bytes
from live_eval.reference.engine.engine import PCM_24K, Engine, EngineConfig
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.openai_events import ClientEventProtocol
from live_eval.reference.protocols.openai_schema import ClientEvent, Empty, G711Format, Model, VoiceName
from live_eval.reference.protocols.openai_session import G711, MODEL, format_of
from live_eval.reference.protocols.protocol import MessageError, decode_audio
from live_eval.timing import ResponseStatus

__all__ = ["COMMANDS", "OpenAiLiveProtocol"]

_DEFAULT_VOICE = "marin"
_CLOSE_NORMAL = 1000
_SILENT_BYTE = {CodecName.PCM16: b"\x00", CodecName.PCMU: b"\xff", CodecName.PCMA: b"\xd5"}
_ROLES = {"developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
# context length used for the reported usage ratio
_CONTEXT_S = 3_600
_WORD_MS = 350
_MOST_INSTRUCTIONS = 1_000_000


# -- Commands, as in the official SDK; unsupported settings are only echoed ------------------


class _LivePcmFormat(Model):
    type: Literal["audio/pcm"]
    rate: Literal[16000, 24000]


class _LiveG711Format(G711Format):
    rate: Literal[8000] = 8000


_Format: TypeAlias = Annotated[_LivePcmFormat | _LiveG711Format, Field(discriminator="type")]


class _Output(Model):
    voice: str | VoiceName | None = None


class _LiveAudio(Model):
    """Audio settings, with one format for both directions."""

    format: _Format | None = None
    output: _Output | None = None


class _Text(Model):
    type: Literal["input_text", "output_text", "text"] | None = None
    text: str


class _Message(Model):
    """A message of the initial conversation."""

    role: Literal["developer", "user", "assistant"]
    content: Annotated[list[_Text], Field(min_length=1, max_length=1)]
    type: Literal["message"] | None = None
    id: str | None = None
    status: Literal["incomplete", "completed"] | None = None


class _SessionConfig(Model):
    """Session settings, fixed for the session."""

    model: str | None = None
    audio: _LiveAudio | None = None
    instructions: str | None = None
    input: Annotated[list[_Message], Field(max_length=128)] | None = None
    delegation: dict[str, Any] | None = None
    store: bool | None = None
    client: dict[str, Any] | None = None
    triggers: list[dict[str, Any]] | None = None
    safety_identifier: str | None = None


class _SessionStart(ClientEvent):
    session: _SessionConfig


class _LiveSessionUpdate(ClientEvent):
    """A ``session.update`` event, which can change only the delegation."""

    session: dict[str, Any]


class _Append(ClientEvent):
    """A ``session.instructions.append`` event or a similar command."""

    content: str
    delegation_id: str | None


class _AudioAppend(ClientEvent):
    audio: str | None = None


COMMANDS: Mapping[str, type[ClientEvent]] = {
    "session.start": _SessionStart,
    "session.update": _LiveSessionUpdate,
    "session.instructions.append": _Append,
    "session.thinking.append": _Append,
    "session.commentary.append": _Append,
    "session.input_audio.append": _AudioAppend,
    "session.input_audio.mute": Empty,
    "session.input_audio.unmute": Empty,
    "session.close": Empty,
}


class OpenAiLiveProtocol(ClientEventProtocol):
    """Run one session, which expires at `expires_at`, in seconds since the Unix epoch."""

    client_events = COMMANDS
    family = "session"
    with_audio = ("session.input_audio.append",)

    def __init__(self, engine: Engine, expires_at: int) -> None:
        super().__init__(engine)
        self._frame_ms = engine.settings.chunk_ms
        engine.configure(EngineConfig(transcribe=True, frame_ms=self._frame_ms))
        self._expires_at = expires_at
        self._session: dict[str, Any] | None = None
        self._muted = False
        self._sent_samples = 0
        self._silence = b""
        self._spoken_ms: dict[str, tuple[int, int]] = {}

    def expired(self) -> Sequence[events.Output]:
        """Close the session because it has expired."""
        return self._closed("expired", None)

    # -- Client messages ---------------------------------------------------------------------------

    def _handle(self, event: ClientEvent, at_ns: int) -> Sequence[events.Output]:
        engine, cause = self.engine, event.event_id
        if isinstance(event, _SessionStart):
            return self._start(event)
        if self._session is None:
            message = "Expected 'session.start' as the first command."
            raise MessageError("session_not_started", message, "type")
        match event:
            case _AudioAppend(audio=audio):
                if audio is None:
                    raise MessageError("invalid_type", "Expected a base64 string in 'audio'.", "audio")
                data = decode_audio(audio, engine.config.input_codec, "audio")
                if self._muted:
                    data = _silence(engine.config.input_codec, len(data))
                return engine.audio(data, at_ns) if data else ()
            case _LiveSessionUpdate(session=changes):
                if set(changes) - {"delegation"}:
                    message = "Only the delegation of a session can be changed."
                    raise MessageError("invalid_value", message, "session")
                self._session |= changes
                return [self._event("session.updated", cause, session=self._session)]
            case _Append(type=kind, content=content):
                if kind == "session.instructions.append":
                    instructions = "\n\n".join(filter(None, (engine.config.instructions, content)))
                    if len(instructions) > _MOST_INSTRUCTIONS:
                        message = f"Expected at most {_MOST_INSTRUCTIONS} characters of instructions in all."
                        raise MessageError("invalid_value", message, "content")
                    engine.configure(replace(engine.config, instructions=instructions))
                now_ms = self._now_ms
                return [self._event(f"{kind}ed", cause, start_ms=now_ms, end_ms=now_ms)]
            case Empty(type="session.close"):
                return self._closed("close_requested", cause)
            case Empty(type=kind):
                self._muted = kind == "session.input_audio.mute"
                return [self._event(f"{kind}d", cause)]
            case _:
                raise AssertionError(f"no handler for {type(event).__name__}")

    def _start(self, command: _SessionStart) -> Sequence[events.Output]:
        config, cause = command.session, command.event_id
        if self._session is not None:
            message = "The session has already started."
            raise MessageError("session_already_started", message, "type")
        audio = config.audio
        codec = PCM_24K
        if audio is not None and audio.format is not None:
            codec = Codec(G711.get(audio.format.type, CodecName.PCM16), audio.format.rate)
        if self.engine.settings.calibrate and codec.name is not CodecName.PCM16:
            message = "This endpoint is calibrating: the mark in the speech survives only 16-bit PCM."
            raise MessageError("invalid_value", message, "session.audio.format")
        voice = audio.output.voice if audio is not None and audio.output is not None else None
        self._session = {
            "id": self.engine.session_id,
            "expires_at": self._expires_at,
            "status": "active",
            "model": MODEL,
            **config.model_dump(mode="json", exclude_unset=True),
            "audio": {
                "format": {**format_of(codec), "rate": codec.rate_hz},
                "output": {"voice": voice if isinstance(voice, str) else _DEFAULT_VOICE},
            },
        }
        self.engine.configure(
            replace(
                self.engine.config,
                input_codec=codec,
                output_codec=codec,
                instructions=config.instructions or "",
            )
        )
        frame_bytes = self._frame_ms * codec.rate_hz // 1000 * sample_bytes(codec)
        self._silence = _delta(self.encode(_silence(codec, frame_bytes)))
        out: list[events.Output] = [self._event("session.started", cause, session=self._session)]
        for given in config.input or ():
            part = Part(PartKind.TEXT, given.content[0].text)
            out += self.engine.add_item(Item(self.engine.new_name("item"), _ROLES[given.role], [part]))
        return out

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload, samples=samples):
                self._sent_samples += samples
                return (_delta(payload),)
            case events.Silence(samples=samples):
                self._sent_samples += samples
                return (self._silence,)
            case events.TextPiece(text=text):
                begin_ms = self._now_ms
                end_ms = begin_ms + len(text.split()) * _WORD_MS
                return (self._transcript("output", text, begin_ms, end_ms),)
            case events.UserSpeechStarted(item_id=item_id, audio_ms=audio_ms):
                self._spoken_ms[item_id] = (audio_ms, audio_ms)
                return ()
            case events.UserSpeechStopped(item_id=item_id, audio_ms=audio_ms):
                begin_ms, _ = self._spoken_ms.get(item_id, (audio_ms, audio_ms))
                self._spoken_ms[item_id] = (begin_ms, audio_ms)
                return ()
            case events.InputTranscribed(item=item, text=str(text)):
                begin_ms, end_ms = self._spoken_ms.pop(item.item_id, (self._now_ms, self._now_ms))
                return (self._transcript("input", text, begin_ms, end_ms),) if text else ()
            case events.ResponseEnded(response=response):
                context = {"usage_ratio": round(min(1.0, self._now_ms / 1000 / _CONTEXT_S), 6)}
                out = [self._encode("session.usage.updated", usage=self._usage, context_window=context)]
                if response.status is ResponseStatus.FAILED:
                    problem = events.Problem(response.error_code, response.error_message)
                    out.append(self._error(problem, kind="server_error"))
                return out
            case Fault():
                return (self._fault(event),)
            case events.Problem():
                return (self._error(event),)
            case _:
                return ()

    @property
    def _now_ms(self) -> int:
        """Position in the output stream, in milliseconds."""
        return self._sent_samples * 1000 // self.engine.config.output_codec.rate_hz

    @property
    def _usage(self) -> dict[str, float]:
        return {"seconds": round(self._now_ms / 1000, 3)}

    def _event(self, kind: str, cause: str | None, **fields: Any) -> events.SendMessage:
        named = {} if cause is None else {"client_event_id": cause}
        return events.SendMessage(self._encode(kind, **fields, **named))

    def _transcript(self, side: str, text: str, start_ms: int, end_ms: int) -> bytes:
        pace = self.engine.settings.faults.pace
        times = {"start_ms": round(pace * start_ms), "end_ms": round(pace * end_ms)}
        return self._encode(f"session.{side}_transcript.delta", delta=text, **times)

    def _error(
        self, problem: events.Problem, event_id: str | None = None, kind: str = "invalid_request_error"
    ) -> bytes:
        body = {"type": kind, **asdict(problem), "client_event_id": event_id}
        return self._encode("error", error={name: value for name, value in body.items() if value is not None})

    def _closed(self, reason: str, cause: str | None) -> Sequence[events.Output]:
        if self._session is None:
            return [events.CloseConnection(_CLOSE_NORMAL, reason)]
        closed = self._event("session.closed", cause, reason=reason, session=self._session, usage=self._usage)
        return [closed, events.CloseConnection(_CLOSE_NORMAL, reason)]


def _delta(payload: bytes) -> bytes:
    return b'{"type":"session.output_audio.delta","delta":"%b"}' % payload


def _silence(codec: Codec, length: int) -> bytes:
    return _SILENT_BYTE[codec.name] * length
