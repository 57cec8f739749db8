"""Implement the model worker of OpenS2S: one request for each turn, answered in pieces. Sans-I/O.

Source: ``model_worker.py`` of CASIA-LM/OpenS2S (359565c). Each message is a JSON object with the whole text
so far and, if it has audio, a WAV file of 32-bit floats. Known differences: only the last recording of a
request is heard, earlier turns are ignored, and settings of the model have no effect.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pybase64
import soundfile

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol, parse_object
from live_eval.timing import ResponseStatus

__all__ = ["OPENS2S_CONFIG", "OpenS2SProtocol"]

_RATE_HZ = 22_050
_RECORDING = Codec(CodecName.WAV, 16_000)
OPENS2S_CONFIG = EngineConfig(
    input_codec=Codec(CodecName.PCM16, 16_000),
    output_codec=Codec(CodecName.PCM16, _RATE_HZ),
    detection=None,
)
"""Audio formats; the client commits its turn."""

_CLOSE_NORMAL, _CLOSE_INTERNAL = 1000, 1011
_FAILED = "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**"
_END = events.CloseConnection(_CLOSE_NORMAL, "the response is complete")


class OpenS2SProtocol(ServerProtocol):
    """Answer one request."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._text = ""

    @classmethod
    def encode(cls, audio: bytes) -> bytes:
        """Encode a chunk of audio as a WAV file of 32-bit floats, in base64."""
        file = io.BytesIO()
        samples = np.frombuffer(audio, "<i2").astype(np.float32) / 32_768
        soundfile.write(file, samples, _RATE_HZ, format="WAV", subtype="FLOAT")
        return pybase64.b64encode(file.getvalue())

    def expired(self) -> Sequence[events.Output]:
        """Cut the response off."""
        return [events.CloseConnection(_CLOSE_NORMAL, "the worker stops")]

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Answer the last recording of a request, or fail like the worker."""
        try:
            body = parse_object(message)
            pcm = Decoder(_RECORDING).decode(_recording_in(body)).tobytes()
        except (MessageError, AudioError, ValueError):
            return [events.SendMessage(_piece(_FAILED, error_code=1)), _END]
        return [
            *self.engine.audio(pcm, at_ns),
            *self.engine.commit(at_ns),
            *self.engine.respond(at_ns),
        ]

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as objects; the response ends with the connection."""
        match event:
            case events.TextPiece(text=text):
                self._text += text
                return (_piece(self._text),)
            case events.AudioPiece(payload=payload):
                return (_piece(self._text, audio=payload.decode()),)
            case events.ResponseEnded(response=response) if response.status is ResponseStatus.COMPLETED:
                return _piece(self._text, finalize=True), _END
            case events.ResponseEnded() | events.Problem() | Fault(name=FaultName.ERROR_EVENT):
                return _piece(_FAILED, error_code=1), _END
            case Fault(name=FaultName.MALFORMED):
                return (b'{"text":',)
            case Fault(name=FaultName.UNKNOWN_EVENT):
                return (b'{"type":"pirouette"}',)
            case _:
                return ()


def _recording_in(body: dict[str, Any]) -> bytes:
    """Return the last recording in a request.

    Raises:
        ValueError: There is none.
    """
    match body.get("messages"):
        case [*_, {"content": [*_, {"audio": str(audio)}]}]:
            return pybase64.b64decode(audio, validate=True)
    raise ValueError("no recording")


def _piece(text: str, *, audio: str = "", finalize: bool = False, error_code: int = 0) -> bytes:
    return orjson.dumps({"text": text, "audio": audio, "finalize": finalize, "error_code": error_code})
