"""Implement the server side of ElevenLabs Agents over a message channel. Sans-I/O.

Message shapes follow ElevenLabs' SDK (``elevenlabs/conversational_ai/conversation.py``) and
``agent.asyncapi.yaml``. Known differences: there is one agent, without first message and tools, which uses
PCM at 16 kHz in both directions; every override is allowed, but only the prompt has an effect; there are no
tentative transcripts; ``agent_response`` follows the audio; a failed reply closes with 1011; signed addresses
do not expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import (
    MessageError,
    ServerProtocol,
    check_length,
    decode_audio,
    parse_object,
)
from live_eval.timing import ResponseStatus

__all__ = ["ELEVENLABS_CONFIG", "ELEVENLABS_PARAMETERS", "ElevenLabsProtocol"]

_PCM = Codec(CodecName.PCM16, 16_000)
ELEVENLABS_CONFIG = EngineConfig(input_codec=_PCM, output_codec=_PCM, transcribe=True)
"""Settings of sessions."""

ELEVENLABS_PARAMETERS = frozenset({"agent_id", "environment", "source", "version", "conversation_signature"})
"""URL parameters that clients send."""

_FORMAT = "pcm_16000"
_CLOSE_NORMAL, _CLOSE_POLICY, _CLOSE_INTERNAL = 1000, 1008, 1011
_NO_EFFECT = ("pong", "user_activity", "contextual_update", "client_tool_result", "feedback")
_CHUNK = "user_audio_chunk"


class ElevenLabsProtocol(ServerProtocol):
    """Run one conversation in ElevenLabs' dialect."""

    reports_stops = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._began = False
        self._event_id = 0
        self._said: dict[str, str] = {}

    def expired(self) -> Sequence[events.Output]:
        """Close the conversation because it has expired."""
        return [events.CloseConnection(_CLOSE_NORMAL, "max_duration_exceeded")]

    # -- Client messages ---------------------------------------------------------------------------

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message; close the connection if it is invalid."""
        try:
            found = parse_object(message)
            if _CHUNK not in found:
                check_length(message, found.get("type"), ())
            return self._message(found, at_ns)
        except MessageError as error:
            text = error.problem.message
            return [
                events.SendMessage(_error(_CLOSE_POLICY, "invalid_message", text)),
                events.CloseConnection(_CLOSE_POLICY, "invalid_message"),
            ]

    def _message(self, found: dict[str, Any], at_ns: int) -> Sequence[events.Output]:
        kind = found.get("type")
        if kind == "conversation_initiation_client_data":
            return self._begin(found)
        if not self._began:
            raise MessageError("invalid_message", "Expected conversation_initiation_client_data first.")
        if _CHUNK in found:
            data = decode_audio(str(found[_CHUNK]), _PCM, _CHUNK)
            return self.engine.audio(data, at_ns) if data else ()
        if kind == "user_message":
            text = str(found.get("text", ""))
            return [*self.interrupted(), *self.written(text), *self.engine.respond(at_ns)]
        if kind in _NO_EFFECT:
            return ()
        raise MessageError("invalid_message", f"Expected a known message type, got {str(kind)[:40]!r}.")

    def _begin(self, found: dict[str, Any]) -> Sequence[events.Output]:
        if self._began:
            raise MessageError("invalid_message", "Expected conversation_initiation_client_data only once.")
        here: Any = found
        for name in ("conversation_config_override", "agent", "prompt", "prompt"):
            here = here.get(name) if isinstance(here, dict) else None
        config = replace(self.engine.config, instructions=here if isinstance(here, str) else "")
        refused = self.engine.refusal(config)
        if refused is not None:
            raise MessageError("invalid_message", refused)
        self.engine.configure(config)
        self._began = True
        metadata = {
            "conversation_id": self.engine.session_id,
            "agent_output_audio_format": _FORMAT,
            "user_input_audio_format": _FORMAT,
        }
        begun = _message("conversation_initiation_metadata", metadata)
        ping = _message("ping", {"event_id": self._next(), "ping_ms": None})
        return [events.SendMessage(begun), events.SendMessage(ping)]

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                shape = b'{"type":"audio","audio_event":{"audio_base_64":"%b","event_id":%d}}'
                return (shape % (payload, self._next()),)
            case events.InputTranscribed(text=str(text)):
                said = {"user_transcript": text, "event_id": self._next()}
                return (orjson.dumps({"type": "user_transcript", "user_transcription_event": said}),)
            case events.TextPiece(response=response, text=text):
                self._said[response.response_id] = self._said.get(response.response_id, "") + text
                return ()
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case Fault(name=FaultName.MALFORMED):
                return (b'{"type":"audio","audio_event":{"audio_base_64":',)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (_message("pirouette", {}),)
            case Fault(name=FaultName.ERROR_EVENT):
                return (
                    _error(_CLOSE_INTERNAL, "internal_error", "This endpoint reports an error on purpose."),
                )
            case events.Problem(code=code, message=message):
                return (_error(_CLOSE_POLICY, code, message),)
            case _:
                return ()

    def _ended(self, response: events.ServerResponse) -> Sequence[bytes | events.CloseConnection]:
        text = self._said.pop(response.response_id, "")
        said: list[bytes] = []
        if text:
            said.append(_message("agent_response", {"agent_response": text, "event_id": self._next()}))
        match response.status:
            case ResponseStatus.CANCELLED:
                return (*said, _message("interruption", {"event_id": self._event_id}))
            case ResponseStatus.FAILED:
                failed = _error(_CLOSE_INTERNAL, "llm_error", response.error_message)
                return (failed, events.CloseConnection(_CLOSE_INTERNAL, "llm_error"))
            case _:
                return said

    def _next(self) -> int:
        self._event_id += 1
        return self._event_id


def _message(kind: str, event: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, f"{kind}_event": event})


def _error(code: int, kind: str, text: str) -> bytes:
    return _message("error", {"code": code, "error_type": kind, "message": text})
