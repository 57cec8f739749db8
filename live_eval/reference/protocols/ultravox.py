"""Implement the server side of Ultravox calls over a message channel. Sans-I/O.

Message shapes follow Ultravox's documentation (``apps/websockets``, ``apps/datamessages``). Known
differences: settings of models, voices, detectors and buffers have no effect, and a stored agent is the
same as none; the user speaks first; each piece of a reply's text is a ``delta``; a failed reply returns to
``listening`` without audio; there are no error messages; a call can be joined more than once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import (
    MessageError,
    ServerProtocol,
    TextMessage,
    check_length,
    parse_object,
    text_message,
)
from live_eval.timing import ResponseStatus

__all__ = ["CALL_PARAMETER", "ULTRAVOX_CONFIG", "CallStore", "UltravoxCall", "UltravoxProtocol"]

CALL_PARAMETER = "call"
"""URL parameter of a ``joinUrl`` that names the call."""

_PCM = Codec(CodecName.PCM16, 48_000)
ULTRAVOX_CONFIG = EngineConfig(input_codec=_PCM, output_codec=_PCM, transcribe=True)
"""Initial settings of sessions."""

_CLOSE_NORMAL, _CLOSE_UNSUPPORTED, _CLOSE_POLICY = 1000, 1003, 1008
_NO_EFFECT = ("client_tool_result", "forced_agent_message", "set_output_medium")
_KEPT = 1_000

_Rate = Annotated[StrictInt, Field(ge=8_000, le=48_000)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel)


class _Socket(_Model):
    input_sample_rate: _Rate
    output_sample_rate: _Rate | None = None


class _Medium(_Model):
    server_web_socket: _Socket | None = None
    web_rtc: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.server_web_socket is None) == (self.web_rtc is None):
            raise ValueError("expected serverWebSocket or webRtc")
        return self


class UltravoxCall(_Model):
    """The request that creates a call."""

    system_prompt: str | None = None
    medium: _Medium

    @property
    def in_room(self) -> bool:
        """Whether the call takes place in a room (WebRTC)."""
        return self.medium.web_rtc is not None

    def configured(self, config: EngineConfig) -> EngineConfig:
        """Return the settings of the call's session; `config` are those of its route or room."""
        config = replace(config, instructions=self.system_prompt or "")
        rates = self.medium.server_web_socket
        if rates is None:
            return config
        return replace(
            config,
            input_codec=Codec(CodecName.PCM16, rates.input_sample_rate),
            output_codec=Codec(CodecName.PCM16, rates.output_sample_rate or rates.input_sample_rate),
        )


class CallStore:
    """Store created calls by ID, dropping the oldest."""

    def __init__(self) -> None:
        self._calls: dict[str, UltravoxCall] = {}

    def create(self, body: bytes) -> str:
        """Store the call that a request describes; return its ID.

        Raises:
            MessageError: The request is not valid.
        """
        try:
            call = UltravoxCall.model_validate(parse_object(body))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise MessageError("invalid_value", f"{where}: {first['msg']}") from None
        call_id = secrets.token_hex(16)
        self._calls[call_id] = call
        while len(self._calls) > _KEPT:
            del self._calls[next(iter(self._calls))]
        return call_id

    def get(self, call_id: str) -> UltravoxCall | None:
        """Return the call with this ID, or None if it is unknown."""
        return self._calls.get(call_id)


class UltravoxProtocol(ServerProtocol):
    """Run one call; close the connection if the call is unknown."""

    audio_in_base64 = False
    reports_stops = True

    clears_buffer: ClassVar[bool] = True
    """Whether clients have a buffer of audio to clear."""

    def __init__(self, engine: Engine, call: UltravoxCall | None) -> None:
        super().__init__(engine)
        self._call = call
        self._ordinal = -1
        self._ordinals: dict[str, int] = {}  # by response
        self._said: dict[str, str] = {}

    def opened(self) -> Sequence[events.Output]:
        """Start the call."""
        if self._call is None:
            return [events.CloseConnection(_CLOSE_POLICY, "unknown call")]
        config = self._call.configured(self.engine.config)
        refused = self.engine.refusal(config)
        if refused is not None:
            return [events.CloseConnection(_CLOSE_POLICY, refused)]
        self.engine.configure(config)
        started = text_message({"type": "call_started", "callId": self.engine.session_id})
        return [events.SendMessage(started), events.SendMessage(_state("listening"))]

    def expired(self) -> Sequence[events.Output]:
        """Close the call because it has expired."""
        return [events.CloseConnection(_CLOSE_NORMAL, "the call has reached its maximum duration")]

    # -- Client messages ---------------------------------------------------------------------------

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message; close the connection if it is invalid."""
        try:
            if isinstance(message, bytes):
                return self._audio(message, at_ns)
            check_length(message, None, ())
            return self._message(parse_object(message), at_ns)
        except MessageError as error:
            return [events.CloseConnection(_CLOSE_UNSUPPORTED, error.problem.message)]

    def _audio(self, data: bytes, at_ns: int) -> Sequence[events.Output]:
        if len(data) % 2:
            raise MessageError("invalid_audio", f"Expected 16-bit samples, got {len(data)} bytes.")
        return self.engine.audio(data, at_ns) if data else ()

    def _message(self, found: dict[str, Any], at_ns: int) -> Sequence[events.Output]:
        match found.get("type"):
            case "ping":
                pong = {"type": "pong", "timestamp": found.get("timestamp")}
                return [events.SendMessage(text_message(pong))]
            case "hang_up":
                return [events.CloseConnection(_CLOSE_NORMAL, "the client hung up")]
            case "user_text_message":
                text = str(found.get("text", ""))
                return [*self.interrupted(), *self.written(text), *self.engine.respond(at_ns)]
            case str() as kind if kind in _NO_EFFECT:
                return ()
            case kind:
                text = f"Expected a known message type, got {str(kind)[:40]!r}."
                raise MessageError("invalid_message", text)

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                return (payload,)
            case events.InputTranscribed(text=str(text)):
                return (_transcript("user", self._next_ordinal(), text=text, final=True),)
            case events.ResponseCreated():
                return (_state("thinking"),)
            case events.ReplyBegan():
                return (_state("speaking"),)
            case events.TextPiece(response=response, text=text):
                name = response.response_id
                if name not in self._said:
                    self._said[name], self._ordinals[name] = "", self._next_ordinal()
                self._said[name] += text
                return (_transcript("agent", self._ordinals[name], delta=text),)
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case Fault(name=FaultName.MALFORMED):
                return (TextMessage(b'{"type":"transcript","role":'),)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (text_message({"type": "pirouette"}),)
            case _:
                return ()

    def _ended(self, response: events.ServerResponse) -> Sequence[bytes]:
        text = self._said.pop(response.response_id, "")
        ordinal = self._ordinals.pop(response.response_id, 0)
        said = [_transcript("agent", ordinal, text=text, final=True)] if text else []
        if response.status is ResponseStatus.CANCELLED:
            clear = [text_message({"type": "playback_clear_buffer"})] if self.clears_buffer else []
            return (*clear, _state("listening"), *said)
        return (*said, _state("listening"))

    def _next_ordinal(self) -> int:
        """Return the ordinal of the next utterance, which all messages about the utterance share."""
        self._ordinal += 1
        return self._ordinal


def _transcript(
    role: str, ordinal: int, *, text: str | None = None, delta: str | None = None, final: bool = False
) -> TextMessage:
    message = {"type": "transcript", "role": role, "medium": "voice", "text": text, "delta": delta}
    return text_message({**message, "final": final, "ordinal": ordinal})


def _state(state: str) -> TextMessage:
    return text_message({"type": "state", "state": state})
