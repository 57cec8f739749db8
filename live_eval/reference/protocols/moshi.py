"""Implement the server side of Kyutai's Moshi over a message channel. Sans-I/O.

Frames follow both Kyutai servers (``moshi.server`` on PyPI, ``rust/moshi-backend``): the first byte is the
message kind. Like the Rust server, this server first sends its metadata, then a handshake with two version
fields. Like the Python server, it runs one session at a time while other clients wait for their handshake. It
sends one continuous Ogg Opus stream, with one 80 ms frame per received frame. Known differences: the metadata
contains the session ID but no model; URL parameters are ignored; an undecodable stream is reported in a
message of kind 5 before the connection closes.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder, OggOpusEncoder
from live_eval.errors import AudioError
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import PCM_24K, Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import ServerProtocol
from live_eval.timing import ResponseStatus

__all__ = ["MOSHI_CONFIG", "MOSHI_PARAMETERS", "MOST_FRAME_BYTES", "MoshiProtocol"]

MOSHI_CONFIG = EngineConfig(
    input_codec=Codec(CodecName.PCM16, OPUS_RATE_HZ), output_codec=PCM_24K, lossy_input=True, frame_ms=80
)
"""Fixed settings of sessions."""

MOST_FRAME_BYTES = 64 * 1024
"""Maximum message size, since decoding takes time. An 80 ms frame has a few hundred bytes."""

MOSHI_PARAMETERS = frozenset(
    {
        "text_temperature", "text_topk", "text_seed", "audio_temperature", "audio_topk", "audio_seed",
        "max_steps", "pad_mult", "repetition_penalty", "repetition_penalty_context", "email",
    }
)  # fmt: skip
"""The model's URL parameters, which clients send."""

_HANDSHAKE, _AUDIO, _TEXT, _METADATA, _ERROR, _PING = (bytes([kind]) for kind in (0, 1, 2, 4, 5, 6))
_FAULTS = {
    FaultName.MALFORMED: _METADATA + b'{"instance_name":',
    FaultName.UNKNOWN_EVENT: b"\x2apirouette",
    FaultName.ERROR_EVENT: _ERROR + b"this endpoint reports an error on purpose",
}
_VERSIONS = bytes(8)  # protocol and model versions as two u32
# Opus smears onsets backwards, by up to 1 ms at this bit rate and by 5 ms at the usual bit rates.
_BITS_PER_S = 128_000
_CLOSE_GOING_AWAY, _CLOSE_INTERNAL_ERROR = 1001, 1011


class MoshiProtocol(ServerProtocol):
    """Run one session in Moshi's dialect."""

    audio_in_base64 = False  # the encoder is stateful, so `render` encodes the frames
    decoder_delay_samples = OggOpusEncoder.PRE_SKIP * PCM_24K.rate_hz // OPUS_RATE_HZ

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._decoder = Decoder(Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ))
        self._encoder = OggOpusEncoder(PCM_24K.rate_hz, _BITS_PER_S)
        self._unsent = self._encoder.headers()

    def opened(self) -> Sequence[events.Output]:
        """Send metadata and handshake."""
        metadata = orjson.dumps({"session_id": self.engine.session_id, "instance_name": "live-eval"})
        return [events.SendMessage(_METADATA + metadata), events.SendMessage(_HANDSHAKE + _VERSIONS)]

    def expired(self) -> Sequence[events.Output]:
        """Close the session because it has expired."""
        body = "the session has reached its maximum duration"
        return [events.SendMessage(_ERROR + body.encode()), events.CloseConnection(_CLOSE_GOING_AWAY, body)]

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a frame. Like Kyutai's servers, ignore frame kinds that only servers send."""
        if isinstance(message, str):
            return [events.SendMessage(_ERROR + b"expected binary messages, got a text message")]
        if message[:1] != _AUDIO:
            return ()
        try:
            pcm = self._decoder.decode(message[1:])
        except AudioError as error:
            return [
                events.SendMessage(_ERROR + error.message.encode()),
                events.CloseConnection(_CLOSE_INTERNAL_ERROR, "malformed audio"),
            ]
        return self.engine.audio(pcm.astype("<i2", copy=False).tobytes(), at_ns) if len(pcm) else ()

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as frames."""
        match event:
            case events.AudioPiece(payload=payload):
                return self._sound(payload)
            case events.Silence(samples=samples):
                return self._sound(bytes(2 * samples))
            case events.TextPiece(text=text):
                return (_TEXT + text.encode(),)
            case events.ResponseEnded(response=response) if response.status is ResponseStatus.FAILED:
                return (_ERROR + response.error_message.encode(),)
            case Fault(name=name):
                return (_FAULTS[name],)
            case events.Problem(message=message):
                return (_ERROR + message.encode(),)
            case _:
                return ()

    def _sound(self, pcm: bytes) -> Sequence[bytes]:
        pages, self._unsent = self._unsent + self._encoder.encode(pcm), b""
        return (_AUDIO + pages,)
