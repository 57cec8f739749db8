"""Implement the server side of the WebRTC dialects, which send audio on a media track. Sans-I/O.

OpenAI's dialect (https://platform.openai.com/docs/guides/realtime-webrtc) is Realtime GA on a data channel.
No event contains audio. ``output_audio_buffer.started``, ``stopped`` and ``cleared`` report the playback on
the track, which the client's ``output_audio_buffer.clear`` stops. The server truncates an interrupted reply.
Formats are only echoed, because a track uses the negotiated codec.

A pipecat bot (``pipecat.transports.smallwebrtc``, pipecat-ai 1.14) or fastrtc bot
(``fastrtc.webrtc_connection_mixin``) responds only to greetings: to RTVI's ``client-ready`` with
``bot-ready``, and to fastrtc's ``handshake`` with a ``log`` message. It ignores other messages, such as
pipecat's ``ping``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import orjson
from pydantic import ValidationError

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.protocols import openai_schema as schema
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol

__all__ = ["DECODER_DELAY_SAMPLES", "TRACK", "OpenAiWebRtcProtocol", "WebRtcBotProtocol", "truncated"]

TRACK = EngineConfig(
    input_codec=Codec(CodecName.PCM16, OPUS_RATE_HZ),
    output_codec=Codec(CodecName.OPUS, OPUS_RATE_HZ),
    lossy_input=True,
)
"""Audio formats of sessions with a media track: decoded Opus in, Opus packets out."""

DECODER_DELAY_SAMPLES = 312
"""The Opus encoder's look-ahead of 6.5 ms, by which it delays the audio (RFC 6716, 2.1.2)."""

_CLEAR = "output_audio_buffer.clear"
_HANDSHAKE = "handshake"
_RTVI = "rtvi-ai"
_CLOSE_NORMAL = 1000


class OpenAiWebRtcProtocol(OpenAiProtocol):
    """Run one session with OpenAI's events; Opus packets are not encoded further."""

    client_events: ClassVar[Mapping[str, type[schema.ClientEvent]]] = {
        **schema.CLIENT_EVENTS,
        _CLEAR: schema.Empty,
    }
    audio_in_base64 = False
    decoder_delay_samples = DECODER_DELAY_SAMPLES
    retrieves_audio = False  # browsers limit messages on a data channel to 256 KiB

    def begin(self, session: object) -> None:
        """Apply the settings from the offer, or raise `MessageError`."""
        try:
            update = schema.SessionUpdate.model_validate({"type": "session.update", "session": session})
        except ValidationError as error:
            raise schema.explain(error) from None
        self._configure(update.session)

    def playback(self, playback: events.TrackPlayback) -> Sequence[events.Output]:
        """Report playback of a response; truncate the item of a cleared response."""
        response = playback.response
        said = [self._say(f"output_audio_buffer.{playback.state}", response_id=response.response_id)]
        end_ms = truncated(self.engine, playback)
        if end_ms is not None:
            place = {"item_id": response.item_id, "content_index": 0, "audio_end_ms": end_ms}
            said.append(self._say("conversation.item.truncated", **place))
        return said

    def _engine_config(self) -> EngineConfig:
        return replace(
            super()._engine_config(),
            input_codec=TRACK.input_codec,
            output_codec=TRACK.output_codec,
            lossy_input=TRACK.lossy_input,
        )

    def _handle(self, event: schema.ClientEvent, at_ns: int) -> Sequence[events.Output]:
        if isinstance(event, schema.AudioAppend):
            message = "Over WebRTC the user's audio travels on the media track, not in an event."
            raise MessageError("invalid_value", message, "type")
        return [events.DropUnplayed()] if event.type == _CLEAR else super()._handle(event, at_ns)

    def _create_response(self, event: schema.ResponseCreate, at_ns: int) -> Sequence[events.Output]:
        if event.response is not None:
            event = event.model_copy(update={"response": event.response.model_copy(update={"audio": None})})
        return super()._create_response(event, at_ns)


class WebRtcBotProtocol(ServerProtocol):
    """Run one session with a bot, which answers only greetings."""

    audio_in_base64 = False
    decoder_delay_samples = DECODER_DELAY_SAMPLES

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Respond to a greeting and ignore any other message."""
        if message == _HANDSHAKE:
            return [
                events.SendMessage(orjson.dumps({"type": "log", "data": f"Server received: {message!s}"}))
            ]
        try:
            asked = orjson.loads(message)
        except orjson.JSONDecodeError:
            return ()
        if not isinstance(asked, dict) or (asked.get("label"), asked.get("type")) != (_RTVI, "client-ready"):
            return ()
        ready = {"label": _RTVI, "type": "bot-ready", "id": asked.get("id"), "data": {"version": "1.0.0"}}
        return [events.SendMessage(orjson.dumps(ready))]

    def expired(self) -> Sequence[events.Output]:
        """Close the session because it has expired."""
        return [events.CloseConnection(_CLOSE_NORMAL, "session expired")]

    def render(self, event: events.Event) -> Sequence[bytes]:
        """Return no messages, because a bot sends no events."""
        return ()

    def playback(self, playback: events.TrackPlayback) -> Sequence[events.Output]:
        """Truncate a cleared response."""
        truncated(self.engine, playback)
        return ()


def truncated(engine: Engine, playback: events.TrackPlayback) -> int | None:
    """Truncate a cleared response to the part that was played; return its length in ms."""
    item = engine.conversation.get(playback.response.item_id)
    if playback.state is not events.PlaybackState.CLEARED or item is None:
        return None
    end_ms = min(playback.played_ms, item.parts[0].audio_ms)
    return end_ms if engine.truncate(item, 0, end_ms) is None else None
