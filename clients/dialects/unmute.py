"""Kyutai Unmute: beta event names, Ogg Opus in both directions, and responses without IDs.

* The subprotocol is ``realtime``. The server sends nothing until ``session.update``, in which
  ``allow_recording`` is required and ``instructions`` is an object; it may then speak first.
* Audio is one base64 Ogg Opus stream in each direction; it continues across responses, and its first piece
  contains the headers.
* Events have no IDs, so we number the responses: each lasts from ``response.created`` to
  ``response.audio.done`` (there is no ``response.done``) or ``unmute.interrupted_by_vad``.
* ``response.text.delta`` contains one word without its space, as it is spoken; ``response.text.done``
  contains the full text and arrives before it is spoken.
* Input transcripts arrive word by word, without an end mark; they count as complete when the response begins.
* An ``error`` of type ``warning`` is not fatal; after an error of type ``fatal`` the server closes the
  connection (the server is full).

There are no manual turns, rate limits or incomplete responses, and only a silence timeout ends a session.

Source: ``unmute/openai_realtime_api_events.py``, ``unmute_handler.py`` and ``main_websocket.py`` of
https://github.com/kyutai-labs/unmute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, OggOpusEncoder
from live_eval.audio.ogg import OggPages
from live_eval.clients.dialects.openai_realtime import SessionTerms
from live_eval.clients.dialects.openai_realtime_beta import BetaDialect
from live_eval.clients.toolkit import Fields, Handler, TrackedResponse, given
from live_eval.dialect import (
    Dial,
    EndpointSettings,
    InputTranscript,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus

__all__ = ["Unmute"]

_RATE_HZ = 24_000
_OUTPUT = Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)


class Unmute(BetaDialect):
    """A `Dialect` that tracks the state of one session. The server determines the model."""

    speaks_first: ClassVar[bool] = True
    ignored = BetaDialect.ignored | {
        "unmute.additional_outputs",
        "unmute.response.audio.delta.ready",
        "unmute.response.text.delta.ready",
    }

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(replace(settings, model=None))
        self._output = _OUTPUT
        self._encoder = OggOpusEncoder(_RATE_HZ)
        self._pages = OggPages()
        self._unsent = self._encoder.headers()
        self._heard: list[str] = []

    def asked_session(self) -> dict[str, Any]:
        said = self.settings.instructions
        instructions = {"type": "constant", "text": said} if said else None
        return given(allow_recording=False, voice=self.settings.voice, instructions=instructions)

    def terms_of(self, session: Fields) -> SessionTerms:
        """Return fixed terms: the endpoint negotiates no audio format, and its detector always interrupts."""
        return SessionTerms(None, None, interrupts=True)

    def dial(self) -> Dial:
        return replace(super().dial(), subprotocols=("realtime",))

    def encoded(self, pcm: bytes) -> bytes:
        """Return a frame as Opus in an Ogg page; the headers precede the first frame."""
        pages, self._unsent = self._unsent + self._encoder.encode(pcm), b""
        return pages

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        return ()  # the server's detector ends turns

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        return ()  # the server stops when it hears the user

    # -- Endpoint events ---------------------------------------------------------------------------------

    def _table(self) -> dict[str, Handler]:
        heard = "conversation.item.input_audio_transcription.delta"
        return super()._table() | {
            heard: self._on_word_heard,
            "unmute.interrupted_by_vad": self._on_interrupted,
        }

    def _reply(self, holder: Fields, field: str, outputs: list[Output]) -> TrackedResponse:
        """Return the current response, since events contain no response ID."""
        return self._replies.current(outputs)

    def _on_word_heard(self, event: Fields, at_ns: int) -> list[Output]:
        word = event.need_text("delta").strip()
        if not word:
            return []
        self._heard.append(word)
        return [InputTranscript(f" {word}" if len(self._heard) > 1 else word, False)]

    def _on_response_created(self, event: Fields, at_ns: int) -> list[Output]:
        outputs = self._end(ResponseStatus.CANCELLED, "another response began")
        if self._heard:
            outputs.append(InputTranscript(" ".join(self._heard), True))
        self._reply(event, "", outputs)
        return outputs

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        data = self._pages.push(event.need_bytes("delta"))
        if not data:
            return []
        outputs: list[Output] = []
        reply = self._reply(event, "", outputs)
        return [*outputs, ReplyAudio(reply.response_id, data, _OUTPUT)]

    def _on_audio_done(self, event: Fields, at_ns: int) -> list[Output]:
        reply = self._replies.active
        if reply is None:
            return []
        return [ReplyAudioDone(reply.response_id), *self._end(ResponseStatus.COMPLETED)]

    def _on_text_delta(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        word = event.need_text("delta").strip()
        reply = self._reply(event, "", outputs)
        if word and not reply.has_whole_text:
            outputs.append(ReplyText(reply.response_id, f"{word} "))
        return outputs

    def _on_interrupted(self, event: Fields, at_ns: int) -> list[Output]:
        reply = self._replies.active or self._replies.last()
        if reply is None:
            return []
        return [*self._interrupted(reply), *self._end(ResponseStatus.CANCELLED, "unmute.interrupted_by_vad")]

    def _end(self, status: ResponseStatus, reason: str = "") -> list[Output]:
        reply = self._replies.active
        if reply is None:
            return []
        self._replies.end(reply)
        self._owed = status is ResponseStatus.CANCELLED
        return [ResponseDone(reply.response_id, status, reason)]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        error = event.child("error")
        said = self.clean(error.text("message") or "")
        match error.text("type"):
            case "warning":
                return [self.warning(said)]
            case "fatal":
                full = "too many people" in said.lower()
                kind = FailureKind.BUSY if full else FailureKind.ENDPOINT_ERROR
                return [self.fatal(kind, said or "the endpoint ended the session without a reason")]
            case _:
                return super()._on_error(event, at_ns)
