"""Implement the server side of AssemblyAI's Voice Agent over a message channel. Sans-I/O.

Message shapes follow AssemblyAI's events reference. Known differences: audio is 16-bit PCM at 24 kHz;
greetings, tools, voices, detectors and volumes have no effect, and a stored agent is the same as none;
sessions cannot be resumed; there are no partial transcripts, and a reply's words arrive in larger pieces.
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

__all__ = ["ASSEMBLYAI_CONFIG", "AssemblyAiProtocol"]

_PCM = Codec(CodecName.PCM16, 24_000)
ASSEMBLYAI_CONFIG = EngineConfig(input_codec=_PCM, output_codec=_PCM, transcribe=True)
"""Settings of sessions."""

_AUDIO = "input.audio"
_CLOSE_NORMAL = 1000
_NO_EFFECT = ("tool.result",)


class AssemblyAiProtocol(ServerProtocol):
    """Run one session in AssemblyAI's dialect."""

    reports_stops = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._began = False
        self._said: dict[str, str] = {}

    def expired(self) -> Sequence[events.Output]:
        """End the session because it has expired."""
        return self._end()

    # -- Client messages ---------------------------------------------------------------------------

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message."""
        try:
            found = parse_object(message)
            check_length(message, found.get("type"), (_AUDIO,))
            return self._message(found, at_ns)
        except MessageError as error:
            return [events.SendMessage(_error(error.problem.code, error.problem.message))]

    def _message(self, found: dict[str, Any], at_ns: int) -> Sequence[events.Output]:
        kind = found.get("type")
        if kind == "session.update":
            return self._update(found.get("session"))
        if not self._began:
            raise MessageError("invalid_format", "Expected session.update as the first message.")
        match kind:
            case "input.audio":
                data = decode_audio(str(found.get("audio", "")), _PCM, "audio")
                return self.engine.audio(data, at_ns) if data else ()
            case "conversation.message":
                return self.written(str(found.get("content", "")))
            case "reply.create":
                return [*self.interrupted(), *self.engine.respond(at_ns)]
            case "session.end":
                return self._end()
            case str() if kind in _NO_EFFECT:
                return ()
        raise MessageError("invalid_format", f"Expected a known message type, got {str(kind)[:40]!r}.")

    def _update(self, session: object) -> Sequence[events.Output]:
        if not isinstance(session, dict):
            raise MessageError("invalid_value", "Expected an object in session.")
        for side in ("input", "output"):
            encoding = _in(session, side, "format", "encoding")
            if encoding not in (None, "audio/pcm"):
                raise MessageError("invalid_value", f"{side}.format.encoding: expected 'audio/pcm'.")
        prompt = session.get("system_prompt")
        config = self.engine.config
        if isinstance(prompt, str):
            config = replace(config, instructions=prompt)
        refused = self.engine.refusal(config)
        if refused is not None:
            raise MessageError("invalid_config", refused)
        self.engine.configure(config)
        if self._began:
            return [events.SendMessage(_message("session.updated", config=session))]
        self._began = True
        ready = _message("session.ready", session_id=self.engine.session_id, config=session)
        return [events.SendMessage(ready)]

    def _end(self) -> Sequence[events.Output]:
        ended = events.SendMessage(_message("session.ended"))
        return [ended, events.CloseConnection(_CLOSE_NORMAL, "")]

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                return (b'{"type":"reply.audio","data":"%b"}' % payload,)
            case events.UserSpeechStarted():
                return (_message("input.speech.started"),)
            case events.UserSpeechStopped():
                return (_message("input.speech.stopped"),)
            case events.InputTranscribed(item=item, text=str(text)):
                return (_message("transcript.user", text=text, item_id=item.item_id),)
            case events.ResponseCreated(response=response):
                return (_message("reply.started", reply_id=response.response_id),)
            case events.TextPiece(response=response, text=text):
                self._said[response.response_id] = self._said.get(response.response_id, "") + text
                return (_message("transcript.agent.delta", reply_id=response.response_id, delta=text),)
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case Fault(name=FaultName.MALFORMED):
                return (b'{"type":"reply.audio","data":',)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (_message("pirouette"),)
            case Fault(name=FaultName.ERROR_EVENT):
                return (_error("INTERNAL_ERROR", "This endpoint reports an error on purpose."),)
            case events.Problem(code=code, message=message):
                return (_error(code, message),)
            case _:
                return ()

    def _ended(self, response: events.ServerResponse) -> Sequence[bytes]:
        cancelled = response.status is ResponseStatus.CANCELLED
        name, text = response.response_id, self._said.pop(response.response_id, "")
        said = [_message("transcript.agent", reply_id=name, text=text, interrupted=cancelled)] if text else []
        done = _message("reply.done", reply_id=name, status="interrupted" if cancelled else "completed")
        if response.status is ResponseStatus.FAILED:
            return (_error("INTERNAL_ERROR", response.error_message), done)
        return (*said, done)


def _in(found: object, *names: str) -> object:
    """Return a nested value; None if it is missing."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _message(kind: str, **fields: object) -> bytes:
    return orjson.dumps({"type": kind, **fields})


def _error(code: str, message: str) -> bytes:
    return _message("session.error", code=code, message=message)
