"""Dialect for any pipecat bot over WebSocket (FastAPI or single-client server) with the protobuf serializer.

Sources: pipecat-ai 1.14, ``pipecat.transports.websocket``, ``pipecat.serializers.protobuf`` and
``pipecat.runner``. Each binary message is a frame (`live_eval.clients.dialects._pipecat_frames`); a
``message`` frame contains an RTVI message (`live_eval.clients.dialects._rtvi`). Behaviour and decisions:

* The bot sends audio only while it speaks, at up to twice the pace of speech, so clients must queue it.
* **A reply has no ID and no reliable end event**: ``bot-stopped-speaking`` also occurs between the sentences
  of a slow synthesiser. We number replies; a reply begins with its first audio and ends once no audio has
  been queued for 1.5 s, as on continuous media (``--reply-silence``).
* **An interruption** empties the client's queue. It is signalled by the frame ``interruption`` (since
  pipecat-ai 1.0) or the RTVI message ``bot-interrupted``, whichever arrives first. Every user turn may
  trigger it, so it counts only while a reply is audible.
* The input is sent at 16 kHz, the default of pipecat's pipelines, which do not resample it.
* ``endpoint.extra`` contains query parameters, such as the ``token`` of pipecat's runner.
* The single-client server closes the connection of a second client with 1013. The runner closes a
  connection without a valid token with 4003.

There are no manual turns, incomplete responses, usage, rate limits or session limits; the bot determines
instructions and voice. No golden session covers these features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects._pipecat_frames import (
    audio_frame,
    audio_of,
    message_frame,
    message_of,
    read_frame,
)
from live_eval.clients.dialects._rtvi import CLIENT_READY, RtviBot, spaced
from live_eval.clients.toolkit import (
    RATES_HZ,
    Fields,
    MalformedError,
    UnmarkedReplies,
    bearer_header,
    parse_object,
    query_of,
    redact_object,
    redact_raw,
    wav_rate_hz,
    websocket_url,
)
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    Send,
)
from live_eval.errors import FailureKind

__all__ = ["PipecatWebSocket"]

_INPUT_HZ = 16_000
_CLOSED = {1013: FailureKind.BUSY, 4003: FailureKind.AUTHENTICATION}


class PipecatWebSocket(RtviBot):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: ``extra`` contains query parameters. A key is sent as a bearer token.

    Raises:
        UsageError: The base URL is not a URL.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = websocket_url(settings.base_url, "", query_of(settings.extra))
        self._replies = UnmarkedReplies()
        self._rate_hz: int | None = None
        self.handlers |= {
            "bot-started-speaking": lambda event, _: [],
            "bot-stopped-speaking": lambda event, _: [],
            "bot-interrupted": lambda event, at_ns: self._replies.interrupted(at_ns, "interruption"),
            "bot-tts-text": self._on_text,
        }

    def dial(self) -> Dial:
        return Dial(self._url, bearer_header(self.settings))

    def hello(self, at_ns: int) -> Sequence[Output]:
        return (Send(message_frame(orjson.dumps(CLIENT_READY).decode())),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (Send(audio_frame(pcm, _INPUT_HZ)),)

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if isinstance(message, str):
            return (self.malformed(f"expected a binary message, got {len(message)} characters of text"),)
        try:
            kind, body = read_frame(message)
            match kind:
                case "message":
                    return super().received(message_of(body), at_ns)
                case "audio":
                    return self.ready_before(self._on_audio(body, at_ns))
                case "interruption":
                    return self.ready_before(self._replies.interrupted(at_ns, "interruption"))
                case "text" | "transcription":
                    return ()
                case _:
                    return (self.unknown(kind),)
        except MalformedError as error:
            return (self.malformed(str(error)),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._replies.over() if name == UnmarkedReplies.TIMER else super().timer(name, at_ns)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        kind = _CLOSED.get(code or 0)
        if kind is None or self.ready:
            return super().closing(code, reason, at_ns)
        return self.fatal(kind, self.closed_text("before the session was ready", code, reason))

    def redact(self, message: Message) -> dict[str, Any]:
        if isinstance(message, str):
            return redact_raw(message, self.secrets)
        try:
            kind, body = read_frame(message)
            if kind != "message":
                return {"frame": kind, "bytes": len(body)}
            text = message_of(body)
        except MalformedError:
            return {"raw": {"bytes": len(message)}}
        try:
            return {
                "frame": kind,
                "message": redact_object(parse_object(text), self.secrets, self.audio_fields),
            }
        except MalformedError:
            return {"frame": kind, **redact_raw(text, self.secrets)}

    # -- Bot messages ------------------------------------------------------------------------------------

    def _on_audio(self, body: bytes, at_ns: int) -> list[Output]:
        audio = audio_of(body)
        wav_hz = wav_rate_hz(audio.pcm)
        rate_hz = wav_hz or audio.rate_hz
        if rate_hz not in RATES_HZ or audio.channels != 1:
            raise MalformedError(
                f"audio: expected mono at 8 to 192 kHz, got {audio.channels} channels at {rate_hz} Hz"
            )
        self._rate_hz = self._rate_hz or rate_hz
        if rate_hz != self._rate_hz:
            text = f"expected audio at {self._rate_hz} Hz as before, got audio at {rate_hz} Hz"
            return [self.fatal(FailureKind.WRONG_RATE, text)]
        codec = Codec(CodecName.PCM16 if wav_hz is None else CodecName.WAV, rate_hz)
        return self._replies.audio(audio.pcm, codec, at_ns)

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.child("data").need_text("text")
        return self._replies.text(spaced(text) if text else "", at_ns)
