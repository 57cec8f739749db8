"""Implement the server side of Deepgram's Voice Agent over a message channel. Sans-I/O.

Message shapes follow Deepgram's API specification (``asyncapi.yml``) and SDK (``deepgram/agent/v1/types``).
Like Deepgram's server, it sends JSON as text and audio as binary messages, accepts only integers as sample
rates, and sends ``UserStartedSpeaking`` for every utterance. Known differences: audio is 16-bit PCM without a
container; greetings, functions, and settings of models have no effect; each piece of a reply's
text is a ``ConversationText``; ``UpdatePrompt`` is the only update during a session that has an effect; the
error codes are this endpoint's own. Of the detector's settings, only an ``eot_threshold`` of 1 has an effect:
the client ends turns with ``ForceEndTurn``, which also interrupts a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

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

__all__ = ["DEEPGRAM_CONFIG", "DeepgramProtocol"]

DEEPGRAM_CONFIG = EngineConfig(transcribe=True)
"""Initial settings of sessions."""

_CLOSE_GOING_AWAY = 1001
_FLUX = "v2"
_UPDATES = {"UpdateSpeak": "SpeakUpdated", "UpdateThink": "ThinkUpdated", "UpdateListen": "ListenUpdated"}
_NO_EFFECT = ("KeepAlive", "FunctionCallResponse")

_Rate = Annotated[StrictInt, Field(ge=8_000, le=48_000)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class _Input(_Model):
    encoding: Literal["linear16"] = "linear16"
    sample_rate: _Rate = 24_000


class _Output(_Input):
    container: Literal["none"] = "none"


class _Audio(_Model):
    input: _Input = Field(default_factory=_Input)
    output: _Output = Field(default_factory=_Output)


class _Think(_Model):
    prompt: str = ""


class _Recogniser(_Model):
    version: str = "v1"
    eot_threshold: float = Field(default=0.7, ge=0.5, le=1)


class _Listen(_Model):
    provider: _Recogniser = Field(default_factory=_Recogniser)


class _Agent(_Model):
    listen: _Listen = Field(default_factory=_Listen)
    think: _Think = Field(default_factory=_Think)


class _Settings(_Model):
    """The first message of a client; its agent may be the ID of a stored agent."""

    audio: _Audio = Field(default_factory=_Audio)
    agent: _Agent | str


class DeepgramProtocol(ServerProtocol):
    """Run one session in Deepgram's dialect."""

    audio_in_base64 = False
    reports_stops = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._applied = False
        self._flux = False

    def opened(self) -> Sequence[events.Output]:
        """Send ``Welcome``."""
        return [_say({"type": "Welcome", "request_id": self.engine.session_id})]

    def expired(self) -> Sequence[events.Output]:
        """Close the session because it has expired."""
        return [events.CloseConnection(_CLOSE_GOING_AWAY, "the session has reached its maximum duration")]

    # -- Client messages ---------------------------------------------------------------------------

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message."""
        try:
            if isinstance(message, bytes):
                return self._audio(message, at_ns)
            found = parse_object(message)
            check_length(message, None, ())
            return self._message(found, at_ns)
        except MessageError as error:
            return [events.SendMessage(_error(error.problem.code, error.problem.message))]

    def _audio(self, data: bytes, at_ns: int) -> Sequence[events.Output]:
        if not self._applied:
            raise MessageError("SETTINGS_EXPECTED", "Expected Settings before audio.")
        if len(data) % 2:
            raise MessageError(
                "UNPARSABLE_CLIENT_MESSAGE", f"Expected 16-bit samples, got {len(data)} bytes."
            )
        return self.engine.audio(data, at_ns) if data else ()

    def _message(self, found: dict[str, Any], at_ns: int) -> Sequence[events.Output]:
        kind = found.get("type")
        if kind == "Settings":
            return self._begin(found)
        if not self._applied:
            raise MessageError("SETTINGS_EXPECTED", "Expected Settings as the first message.")
        match kind:
            case "UpdatePrompt":
                prompt = str(found.get("prompt", ""))
                self.engine.configure(replace(self.engine.config, instructions=prompt))
                return [_say({"type": "PromptUpdated"})]
            case "ForceEndTurn":
                return self._end_turn(at_ns)
            case "InjectUserMessage":
                return self._injected(str(found.get("content", "")), at_ns)
            case str() if kind in _UPDATES:
                return [_say({"type": _UPDATES[kind]})]
            case str() if kind in _NO_EFFECT:
                return ()
        raise MessageError(
            "UNPARSABLE_CLIENT_MESSAGE", f"Expected a known message type, got {str(kind)[:40]!r}."
        )

    def _begin(self, found: dict[str, Any]) -> Sequence[events.Output]:
        if self._applied:
            raise MessageError("SETTINGS_ALREADY_APPLIED", "Expected Settings only once.")
        try:
            asked = _Settings.model_validate(found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"] if part != "_Agent")
            raise MessageError("INVALID_SETTINGS", f"{where}: {first['msg']}") from None
        agent = _Agent() if isinstance(asked.agent, str) else asked.agent
        heard = agent.listen.provider
        self._flux = heard.version == _FLUX
        config = replace(
            self.engine.config,
            detection=None if self._flux and heard.eot_threshold == 1 else self.engine.config.detection,
            input_codec=Codec(CodecName.PCM16, asked.audio.input.sample_rate),
            output_codec=Codec(CodecName.PCM16, asked.audio.output.sample_rate),
            instructions=agent.think.prompt,
        )
        refused = self.engine.refusal(config)
        if refused is not None:
            raise MessageError("INVALID_SETTINGS", refused)
        self.engine.configure(config)
        self._applied = True
        return [_say({"type": "SettingsApplied"})]

    def _end_turn(self, at_ns: int) -> Sequence[events.Output]:
        if not self._flux:
            text = "ForceEndTurn needs a Flux listen provider."
            return [_say({"type": "Warning", "code": "FORCE_END_TURN_UNSUPPORTED", "description": text})]
        if self.engine.config.detection is not None:
            return self.engine.fall_silent(at_ns)
        out: list[events.Output] = []
        if self.engine.active is not None:  # without a detector, only the end shows that the user spoke
            out = [_say({"type": "UserStartedSpeaking"}), *self.engine.cancel(None)]
        return [*out, *self.engine.commit(at_ns), *self.engine.respond(at_ns)]

    def _injected(self, text: str, at_ns: int) -> Sequence[events.Output]:
        if self.engine.active is not None:
            return [_say({"type": "InjectionRefused", "message": "The agent is speaking."})]
        return [*self.written(text), *self.engine.respond(at_ns)]

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                return (payload,)
            case events.UserSpeechStarted():
                return (text_message({"type": "UserStartedSpeaking"}),)
            case events.InputTranscribed(text=str(text)):
                return (text_message({"type": "ConversationText", "role": "user", "content": text}),)
            case events.TextPiece(text=text):
                return (text_message({"type": "ConversationText", "role": "assistant", "content": text}),)
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case Fault(name=FaultName.MALFORMED):
                return (TextMessage(b'{"type":"ConversationText","role":'),)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (text_message({"type": "Pirouette"}),)
            case Fault(name=FaultName.ERROR_EVENT):
                return (_error("FAILED_TO_THINK", "This endpoint reports an error on purpose."),)
            case events.Problem(code=code, message=message):
                return (_error(code, message),)
            case _:
                return ()

    def _ended(self, response: events.ServerResponse) -> Sequence[bytes]:
        match response.status:
            case ResponseStatus.FAILED:
                return (_error("FAILED_TO_THINK", response.error_message),)
            case ResponseStatus.CANCELLED:
                return ()  # the client was notified by UserStartedSpeaking
            case _:
                return (text_message({"type": "AgentAudioDone"}),)


def _say(message: dict[str, Any]) -> events.SendMessage:
    return events.SendMessage(text_message(message))


def _error(code: str, description: str) -> TextMessage:
    return text_message({"type": "Error", "code": code, "description": description})
