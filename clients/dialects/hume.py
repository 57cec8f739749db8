"""Hume EVI over WebSocket, ``wss://api.hume.ai/v0/evi/chat``; a configuration sets voice, model and prompt.

Message shapes follow Hume's SDK (``hume/empathic_voice``, hume 0.14; it sends the key as ``X-Hume-Api-Key``)
and https://dev.hume.ai/docs/speech-to-speech-evi. Behaviour and decisions:

* The server sends the first message (``chat_metadata``); ``session_settings`` is not confirmed.
* ``endpoint.extra`` contains query parameters (``config_id``, ``config_version``, …) and fields that override
  ``session_settings``. The configuration sets the model, which cannot be selected here.
* Only transcripts show when the user speaks: the first interim transcript counts as the start of speech, so
  we request interim transcripts (``verbose_transcription``); a final transcript counts as the accepted turn.
  Interim transcripts are cumulative, so they are not appended.
* **Responses have no IDs**, so we number them: a reply lasts from its first ``assistant_message`` or
  ``audio_output`` to ``assistant_end`` or ``user_interruption``. Each sentence has an ID, which maps late
  messages to their reply. After ``assistant_end``, an interruption stops the remaining playback.
* ``audio_output`` contains a complete WAV file at 48 kHz; a sentence spans several.
* The detector has no settings, and only the user's voice stops a reply.
* Error codes are documented (https://dev.hume.ai/docs/resources/errors), but not whether they end the chat:
  errors about credits, keys and time limits do; other errors are fatal if the connection ends after them.
* A chat ends after 30 minutes, or 2 minutes without speech (both limits are configurable).

There are no manual turns, incomplete responses, usage or rate-limit messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import samples_in
from live_eval.clients.toolkit import (
    NO_TOOL,
    EventDialect,
    Fields,
    MalformedError,
    ResponseTracker,
    TrackedResponse,
    UserTurns,
    given,
    merged,
    refusal_advice,
    refuse_settings,
    send_audio,
    send_json,
    wav_rate_hz,
    websocket_url,
)
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Output,
    ReplyAudio,
    ReplyText,
    SpeechStarted,
)
from live_eval.errors import FailureKind, UsageError

__all__ = ["HumeEvi"]

_INPUT = {"encoding": "linear16", "sample_rate": 24_000, "channels": 1}
_OUTPUT = Codec(CodecName.WAV, 48_000)
_QUERY = (
    "allow_connection",
    "config_id",
    "config_version",
    "event_limit",
    "resumed_chat_group_id",
    "verbose_transcription",
)
_TEXT_CHARACTERS = 500

# Matched by message text, since several codes are undocumented.
_FATAL: Mapping[FailureKind, re.Pattern[str]] = {
    FailureKind.SESSION_EXPIRED: re.compile(
        r"inactivity|max\w*[ _](\w+[ _])?(duration|session)", re.IGNORECASE
    ),
    FailureKind.AUTHENTICATION: re.compile(r"authentic|authoriz|api[ _]?key|credential", re.IGNORECASE),
    FailureKind.RATE_LIMITED: re.compile(
        r"E030\d|credit|quota|rate[ _]limit|too[ _]many|concurren", re.IGNORECASE
    ),
}
_OUTAGE = re.compile(r"internal|unavailable|outage|transient|timed? ?out|try again", re.IGNORECASE)


class HumeEvi(EventDialect):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: ``voice`` is a voice ID. Transcripts arrive even without a ``transcription_model``.

    Raises:
        UsageError: Hume EVI does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True  # as documented
    before_ready = frozenset({"chat_metadata", "error"})
    audio_fields = ("data",)
    binary_text = True
    secret_fields = ("language_model_api_key",)
    ignored = frozenset({"assistant_prosody", "session_settings", "tool_error", "tool_response"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        query = {"verbose_transcription": "true"}
        query |= {name: _parameter(name, settings.extra[name]) for name in _QUERY if name in settings.extra}
        self._url = websocket_url(settings.base_url, "chat", query)
        laid_over = {name: value for name, value in settings.extra.items() if name not in _QUERY}
        self._session = merged(_asked(settings), laid_over)
        if self._session["audio"] != _INPUT:
            raise UsageError(f"endpoint.extra.audio: expected {_INPUT} (the input format) or no value")
        self.handlers = {
            "chat_metadata": self._on_metadata,
            "user_message": self._on_user_message,
            "user_interruption": self._on_interruption,
            "assistant_message": self._on_assistant_message,
            "audio_output": self._on_audio,
            "assistant_end": self._on_assistant_end,
            "tool_call": self._on_tool_call,
            "error": self._on_error,
        }
        self.advice[FailureKind.SESSION_REFUSED] = refusal_advice(
            settings, "config_id", "the voice and endpoint.extra"
        )
        self._replies = ResponseTracker()
        self._holders: dict[str, TrackedResponse] = {}  # replies by sentence ID
        self._turns = UserTurns()
        self._user_speaks = False

    def dial(self) -> Dial:
        key = self.settings.key
        return Dial(self._url, {"X-Hume-Api-Key": key.reveal()} if key is not None else {})

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "session_settings", **self._session}),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (send_audio('{"type":"audio_input","data":"', pcm),)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        text = self.closed_text("in the chat" if self.ready else "before chat_metadata", code, reason)
        kind = _fatal_kind(reason)
        if kind is None or self.last_error is not None:
            return self.ended(text)
        return EndpointProblem(kind, text, fatal=True)

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_metadata(self, event: Fields, at_ns: int) -> list[Output]:
        return self.become_ready(event.text("chat_id"))

    def _on_user_message(self, event: Fields, at_ns: int) -> list[Output]:
        if event.flag("from_text"):
            return []
        outputs: list[Output] = []
        text = event.child("message").text("content") or ""
        if event.flag("interim"):
            if not self._user_speaks and text.strip():
                self._user_speaks = True
                outputs.append(SpeechStarted(event.child("time").integer("begin")))
            return outputs
        self._user_speaks = False
        return self._turns.said(text)

    def _on_interruption(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = [] if self._user_speaks else [SpeechStarted()]
        self._user_speaks = True
        return [*outputs, *self._replies.interrupt(at_ns, "user_interruption")]

    def _on_assistant_message(self, event: Fields, at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        reply = self._reply(event, outputs)
        text = event.child("message").text("content")
        if text:
            outputs.append(ReplyText(reply.response_id, text, final=True))
        return outputs

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.need_bytes("data")
        rate_hz = wav_rate_hz(data)
        if rate_hz is None:
            raise MalformedError(f"audio_output: expected a WAV file, got {len(data)} invalid bytes")
        if rate_hz != _OUTPUT.rate_hz:
            text = f"expected audio at {_OUTPUT.rate_hz} Hz, got a WAV file at {rate_hz} Hz"
            return [self.fatal(FailureKind.WRONG_RATE, text)]
        outputs: list[Output] = []
        reply = self._reply(event, outputs)
        item_id = event.text("id")
        reply.received(item_id, 0, samples_in(data, _OUTPUT), _OUTPUT.rate_hz, at_ns)
        outputs.append(ReplyAudio(reply.response_id, data, _OUTPUT, item_id))
        return outputs

    def _on_assistant_end(self, event: Fields, at_ns: int) -> list[Output]:
        if self._replies.active is not None:  # else the reply was interrupted
            self.last_error = None
        return self._replies.complete()

    def _on_tool_call(self, event: Fields, at_ns: int) -> list[Output]:
        if event.flag("response_required") is False:
            return []
        error = {"type": "tool_error", "tool_call_id": event.text("tool_call_id"), "error": NO_TOOL}
        return self.tool_called(event.text("name"), send_json(error), place="configuration")

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        code, slug, said = event.text("code"), event.text("slug"), event.text("message")
        text = self.clean(": ".join(filter(None, (code, slug, said)))) or "an error without details"
        kind = _fatal_kind(" ".join(filter(None, (code, slug, said))))
        if not self.ready:
            kind = kind or (FailureKind.SERVER_ERROR if _OUTAGE.search(text) else None)
            return [self.refused(text, code, kind, "chat")]
        if kind is not None:
            return [self.fatal(kind, text, code)]
        self.last_error = text
        return [self.warning(text, code)]

    # -- Helpers -----------------------------------------------------------------------------------------

    def _reply(self, event: Fields, outputs: list[Output]) -> TrackedResponse:
        """Return the reply that a sentence belongs to: by sentence ID or, if unknown, the current reply."""
        name = event.text("id")
        reply = self._holders.get(name or "") or self._replies.current(outputs)
        if name:
            self._holders[name] = reply
        return reply


def _asked(settings: EndpointSettings) -> dict[str, Any]:
    """Return the session settings to send, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="Hume EVI replies in audio only; text output is not supported",
        turn_mode="Hume EVI's detector ends turns; remove this setting",
        model="the Hume EVI configuration sets the model: pass endpoint.extra.config_id instead",
        turn_detection="the Hume EVI configuration sets the detector; remove this setting",
        max_output_tokens="Hume EVI has no reply length limit; remove this setting",
    )
    return given(audio=dict(_INPUT), system_prompt=settings.instructions, voice_id=settings.voice)


def _parameter(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise UsageError(f"endpoint.extra.{name}: expected text, a number or a boolean as query parameter")
    return str(value)


def _fatal_kind(said: str) -> FailureKind | None:
    beginning = said[:_TEXT_CHARACTERS]
    return next((kind for kind, words in _FATAL.items() if words.search(beginning)), None)
