"""OpenAI GPT-Live: full duplex over WebSocket, ``wss://HOST/v1/live/sessions``.

Message shapes follow the official SDK's typed models (``openai.types.live``, openai 3.52), its
``resources/live`` (the URL has no query, the key is ``Authorization: Bearer``), and the mock server
``@copilotkit/aimock`` 1.43:

* ``session.start`` is the first message; we wait for ``session.started``. Both directions use the same
  format; we use PCM at 24 kHz. Unknown session fields are rejected.
* ``session.output_audio.delta`` arrives in real time, silence included, and has no response ID: the session
  detects replies by their energy. It arrives only while input flows, so we send silence as well.
* Transcripts of both sides arrive in pieces, with timestamps relative to the session, and are never marked
  as complete. No event marks a turn, and no message starts, stops or truncates a reply: the model decides.
  Text-only replies, a reply length limit and a language setting are not available.
* The server responds to ``session.close`` with ``session.closed`` once outstanding work is done, within
  10 s; we wait 2 s, since the reply is complete by then. The server then ignores close frames.
* ``session.closed`` contains the reason: ``expired`` at the session's ``expires_at`` (wall time), ``content``
  for a safety filter, ``remote_hangup``, ``connection_lost``.
* Most errors are not fatal: a moderated reply stops, and the session continues.
* ``session.usage.updated`` counts seconds, not tokens, so it is only logged.
* With ``delegation`` of type ``client`` (the default, but the mock requires it), the model may delegate work
  to the client; we report this as a warning. ``endpoint.extra`` can set a model for delegated work:
  ``{"delegation": {"type": "responses", "responses": {"model": …}}}``.

There are no manual turns, barge-in events, cancelled or incomplete responses, or rate limits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.clients._openai_errors import describe, error_in, fatal_kind, refusal_kind, retry_after_s
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    bearer_header,
    given,
    in_json,
    merged,
    refuse_settings,
    send_audio,
    send_json,
    websocket_url,
)
from live_eval.dialect import (
    Close,
    Dial,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    Send,
    SetTimer,
    StreamAudio,
    StreamText,
)
from live_eval.errors import FailureKind, UsageError

__all__ = ["OpenAILive"]

_FORMAT = {"type": "audio/pcm", "rate": 24_000}
_CODEC = Codec(CodecName.PCM16, 24_000)
_START, _CLOSE = "session.start", "session.close"
_FAREWELL = "farewell"
_FAREWELL_NS = 2_000_000_000
_ENDS: Mapping[str, tuple[FailureKind, str]] = {
    "expired": (FailureKind.SESSION_EXPIRED, "the maximum duration was reached"),
    "content": (FailureKind.ENDPOINT_ERROR, "a safety filter ended it"),
}


class OpenAILive(EventDialect):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: ``extra`` overrides fields of the `session` object in ``session.start``. Transcripts arrive
            even without a ``transcription_model``.

    Raises:
        UsageError: GPT-Live does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    continuous_media = True
    before_ready = frozenset({"session.started", "session.closed", "error"})
    ignored = frozenset(
        {
            "decision.",
            "info",
            "response.event",
            "session.commentary.appended",
            "session.input_audio.append",
            "session.input_audio.muted",
            "session.input_audio.unmuted",
            "session.instructions.appended",
            "session.output_audio.fixture.played",
            "session.output_audio.fixture.playing",
            "session.thinking.appended",
            "session.updated",
            "session.usage.updated",
            "transport.",
        }
    )

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = websocket_url(settings.base_url, "live/sessions", {})
        self._session = merged(_asked(settings), settings.extra)
        if _format_in(self._session) not in (None, _FORMAT):
            raise UsageError(
                f"endpoint.extra.audio.format: expected {in_json(_FORMAT)} (the audio format) or no value"
            )
        self.handlers = {
            "session.started": self._on_started,
            "session.output_audio.delta": self._on_audio,
            "session.output_transcript.delta": lambda event, at_ns: [StreamText(event.need_text("delta"))],
            "session.input_transcript.delta": lambda event, at_ns: [
                InputTranscript(event.need_text("delta"), final=False)
            ],
            "session.delegation.created": self._on_delegation,
            "session.closed": self._on_closed,
            "error": self._on_error,
        }
        self._leaving = False  # we requested the end of the session

    def dial(self) -> Dial:
        return Dial(self._url, bearer_header(self.settings))

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (_event(_START, session=self._session),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (send_audio('{"type":"session.input_audio.append","audio":"', pcm),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return (Close(),) if name == _FAREWELL and self._leaving else ()

    def finish(self, at_ns: int) -> Sequence[Output]:
        if self.over or not self.ready:
            self.over = True
            return (Close(),)
        self.over = self._leaving = True
        return _event(_CLOSE), SetTimer(_FAREWELL, at_ns + _FAREWELL_NS)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        word = error_in(reason)
        when = "without session.closed" if self.ready else "before the session was ready"
        text, kind = self.closed_text(when, code, reason), fatal_kind(word)
        fatal = kind is not None or not self.ready
        return EndpointProblem(kind or FailureKind.CLOSED, text, fatal=fatal, code=word)

    def audio_fields_of(self, event: Mapping[str, Any]) -> Collection[str]:
        return ("audio", "delta") if event.get("type") == "session.output_audio.delta" else ("audio",)

    # -- Endpoint events ---------------------------------------------------------------------------------

    def _on_started(self, event: Fields, at_ns: int) -> list[Output]:
        session = event.child("session")
        if self.ready:
            return []
        came = session.child("audio").child("format")
        kind, rate = came.text("type"), came.integer("rate")
        if kind not in (None, _FORMAT["type"]):
            text = f"expected audio as {_FORMAT['type']}, got {self.clean(str(kind))!r}"
            return [self.fatal(FailureKind.SESSION_REFUSED, text)]
        if rate not in (None, _FORMAT["rate"]):
            text = f"expected audio at {_FORMAT['rate']} Hz, got {rate} Hz"
            return [self.fatal(FailureKind.WRONG_RATE, text)]
        return self.become_ready(session.text("id"), session.text("model"))

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        return [StreamAudio(event.need_bytes("delta"), _CODEC)]

    def _on_delegation(self, event: Fields, at_ns: int) -> list[Output]:
        if event.child("delegation").text("target") not in (None, "client"):
            return []
        text = (
            "the model delegated work to this client, which does not support it (see "
            "endpoint.extra.delegation)"
        )
        return [self.warning(text)]

    def _on_closed(self, event: Fields, at_ns: int) -> list[Output]:
        reason = event.text("reason") or ""
        if self._leaving:
            return [SetTimer(_FAREWELL, None), Close()]
        text = f"the endpoint closed the session: {self.clean(reason) or 'no reason given'}"
        if reason in _ENDS:
            kind, why = _ENDS[reason]
            return [self.fatal(kind, f"{text} ({why})", reason)]
        self.over = True
        # The connection closes next; the session then decides whether the reply was complete.
        return [EndpointProblem(FailureKind.CLOSED, text, fatal=not self.ready, code=reason or None)]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        error = event.child("error")
        code, kind_of_error = error.text("code"), error.text("type")
        text = self.clean(describe(error)) or "the endpoint reported an error without details"
        kind = fatal_kind(code, kind_of_error)
        if not self.ready:
            kind = kind or refusal_kind(kind_of_error)
            text = f"the endpoint refused the session: {text}"
        if kind is not None:
            return [self.fatal(kind, text, code, retry_after_s(text))]
        return [self.warning(text, code)]


def _asked(settings: EndpointSettings) -> dict[str, Any]:
    """Return the `session` object to send, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="GPT-Live replies in audio only; text output is not supported",
        turn_detection="GPT-Live has no detector: the model decides when to speak",
        max_output_tokens="GPT-Live has no reply length limit; remove this setting",
    )
    voice = settings.voice
    return given(
        audio={"format": dict(_FORMAT)} | given(output=voice and {"voice": voice}),
        delegation={"type": "client"},
        model=settings.model,
        instructions=settings.instructions,
    )


def _format_in(session: Mapping[str, Any]) -> object:
    audio = session.get("audio")
    return audio.get("format") if isinstance(audio, Mapping) else None


def _event(name: str, **fields: object) -> Send:
    return send_json({"type": name, "event_id": f"{name}#1", **fields})
