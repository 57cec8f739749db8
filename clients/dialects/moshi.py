"""Kyutai Moshi: full duplex over WebSocket, ``/api/chat``; the first byte of a binary message is its type.

Message shapes follow ``rust/protocol.md`` in https://github.com/kyutai-labs/moshi and both of its servers,
``moshi.server`` (PyPI, moshi 0.2.13) and ``rust/moshi-backend``:

* The server sends the first message, a handshake: empty (Python), or, after a metadata message, with the
  protocol and model versions as two little-endian u32 (Rust). The client sends no response.
* Audio is one Ogg Opus stream in each direction, at 24 kHz in steps of 80 ms; the headers are sent first. For
  each step received, the server sends one step of audio, silence included, so input must be continuous.
* Text arrives in word pieces as they are spoken. The user's speech is not transcribed.
* The Python server runs one session at a time; other clients stay connected and wait for their handshake.
  After 10 s we report this as the likely reason.
* The Rust server drops a session without notice after 360 s: 4,500 steps, the model's full context.
* Errors are text; the public servers send none. One before the handshake is a refusal; later, only the end
  of the connection ends the session.
* ``endpoint.extra`` is added to the query, from which the Rust server reads sampling settings
  (``text_temperature``, ``text_topk``, ``audio_seed``, …). The server determines the model.

There are no turn events, manual turns, input transcripts, cancelled or incomplete responses, rate limits,
instructions, voices or keys; a key is sent as ``Authorization: Bearer`` for proxies that require it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, OggOpusEncoder
from live_eval.audio.ogg import OggPages
from live_eval.clients._openai_errors import fatal_kind
from live_eval.clients.toolkit import (
    BaseDialect,
    Fields,
    MalformedError,
    bearer_header,
    parse_object,
    query_of,
    redact_object,
    redact_raw,
    refuse_settings,
    websocket_url,
)
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    Send,
    SetTimer,
    StreamAudio,
    StreamText,
)
from live_eval.errors import FailureKind

__all__ = ["Moshi"]

_Handler: TypeAlias = Callable[[bytes, int], list[Output]]

_RATE_HZ = 24_000
_OUTPUT = Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)
_SECOND_NS = 1_000_000_000
_NO_HANDSHAKE = "no handshake"
_PATIENCE_S = 10
_LONGEST_NS = 359 * _SECOND_NS  # the server's limit is 360 s, counted from slightly earlier

_HANDSHAKE, _AUDIO, _TEXT, _CONTROL, _METADATA, _ERROR, _PING = range(7)
_NAMES = ("handshake", "audio", "text", "control", "metadata", "error", "ping")
_VERSIONS_BYTES = 8
_EXPIRED = re.compile(r"reached its maximum duration")
_BUSY = re.compile(r"\b(busy|capacity|free|in use|in progress|try again)\b", re.IGNORECASE)
_ADVICE = "check endpoint.extra, and the server's log"


class Moshi(BaseDialect):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: ``extra`` contains the URL query parameters.

    Raises:
        UsageError: Moshi does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    continuous_media = True

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(
            settings,
            modality="Moshi replies in audio only; text output is not supported",
            instructions="Moshi takes no instructions; remove this setting",
            voice="Moshi has only the model's own voice; remove this setting",
            turn_detection="Moshi has no detector: the model decides when to speak; remove this setting",
            transcription_model="Moshi does not transcribe the user; remove this setting",
            max_output_tokens="Moshi has no reply length limit; remove this setting",
        )
        self._url = websocket_url(settings.base_url, "api/chat", query_of(settings.extra))
        self._encoder = OggOpusEncoder(_RATE_HZ)  # created now to avoid a delay at the first frame
        self._unsent = self._encoder.headers()
        self.handlers: dict[int, _Handler] = {
            _HANDSHAKE: self._on_handshake,
            _AUDIO: self._on_audio,
            _TEXT: lambda payload, at_ns: [StreamText(_text(payload, _TEXT))],
            _METADATA: self._on_metadata,
            _ERROR: self._on_error,
        }
        self.advice = {FailureKind.SESSION_REFUSED: _ADVICE, 400: _ADVICE}
        self._pages = OggPages()
        self._opened_ns = 0
        self._session_id: str | None = None
        self._model: str | None = None

    def dial(self) -> Dial:
        return Dial(self._url, bearer_header(self.settings), advice=self.advice)

    def opened(self, at_ns: int) -> Sequence[Output]:
        self._opened_ns = at_ns
        return (SetTimer(_NO_HANDSHAKE, at_ns + _PATIENCE_S * _SECOND_NS),)

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if isinstance(message, str):
            return (self.malformed(f"expected a binary message, got {len(message)} characters of text"),)
        if not message:
            return (self.malformed("expected a message whose first byte is its type, got an empty message"),)
        kind, payload = message[0], message[1:]
        handler = self.handlers.get(kind)
        if handler is None:
            return () if kind in (_CONTROL, _PING) else (self.unknown(f"kind {kind}"),)
        if not self.ready and kind in (_AUDIO, _TEXT):
            return (self.warning(f"ignored {_NAMES[kind]}: it arrived before the handshake"),)
        try:
            return handler(payload, at_ns)
        except MalformedError as error:
            return (self.malformed(str(error)),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Send a frame as Opus in Ogg pages; the headers precede the first frame."""
        pages, self._unsent = self._unsent + self._encoder.encode(pcm), b""
        return (Send(bytes((_AUDIO,)) + pages),) if pages else ()

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        if name != _NO_HANDSHAKE or self.ready or self.over:
            return ()
        text = (
            f"expected a handshake within {_PATIENCE_S} s, got none after connecting: the server runs "
            "one session at a time, and another is probably in progress"
        )
        return (self.fatal(FailureKind.NO_SESSION, text),)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        when = "in the session" if self.ready else "before the handshake"
        text = self.closed_text(when, code, reason)
        if _expired(reason) or (self.ready and at_ns - self._opened_ns >= _LONGEST_NS):
            return self.fatal(FailureKind.SESSION_EXPIRED, f"{text} (maximum duration reached)")
        return EndpointProblem(FailureKind.CLOSED, text, fatal=not self.ready)

    def redact(self, message: Message) -> dict[str, Any]:
        if isinstance(message, str):
            return redact_raw(message, self.secrets)
        if not message:
            return {"raw": {"bytes": 0}}
        kind, payload = message[0], message[1:]
        logged: dict[str, Any] = {"kind": kind, "bytes": len(payload)}
        if kind < len(_NAMES):
            logged["type"] = _NAMES[kind]
        if kind in (_TEXT, _ERROR):
            logged["text"] = self.clean(payload.decode(errors="replace"))
        if kind == _METADATA:
            try:
                logged["metadata"] = redact_object(parse_object(_text(payload, kind)), self.secrets, ())
            except MalformedError:
                logged["metadata"] = redact_raw(payload.decode(errors="replace"), self.secrets)
        return logged

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_handshake(self, payload: bytes, at_ns: int) -> list[Output]:
        if 0 < len(payload) < _VERSIONS_BYTES:
            raise MalformedError(
                f"handshake: expected no payload or two 4-byte versions, got {len(payload)} bytes"
            )
        if self.ready:
            return []
        outputs = [SetTimer(_NO_HANDSHAKE, None), *self.become_ready(self._session_id, self._model)]
        version = int.from_bytes(payload[:4], "little")
        if version != 0:
            text = f"handshake: expected version 0 of the protocol, got version {version}"
            outputs.append(self.warning(text))
        return outputs

    def _on_audio(self, payload: bytes, at_ns: int) -> list[Output]:
        pages = self._pages.push(payload)
        return [StreamAudio(pages, _OUTPUT)] if pages else []

    def _on_metadata(self, payload: bytes, at_ns: int) -> list[Output]:
        """Record the session ID, if any, and the model name, derived from the model file."""
        metadata = Fields("metadata", parse_object(_text(payload, _METADATA)))
        self._session_id = metadata.text("session_id") or self._session_id
        file = metadata.text("lm_model_file")
        if file:
            self._model = file.rpartition("/")[2]
        return [self.malformed("; ".join(metadata.wrong))] if metadata.wrong else []

    def _on_error(self, payload: bytes, at_ns: int) -> list[Output]:
        said = _text(payload, _ERROR)
        text = f"the server reported an error: {self.clean(said) or 'no details'}"
        if _expired(said):
            return [self.fatal(FailureKind.SESSION_EXPIRED, text)]
        if not self.ready:
            return [self.fatal(FailureKind.BUSY if _BUSY.search(said) else FailureKind.SESSION_REFUSED, text)]
        return [self.warning(text)]


def _text(payload: bytes, kind: int) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"{_NAMES[kind]}: expected UTF-8, got {error.reason} at byte {error.start}"
        ) from None


def _expired(said: str) -> bool:
    return fatal_kind(None, None, said) is FailureKind.SESSION_EXPIRED or bool(_EXPIRED.search(said))
