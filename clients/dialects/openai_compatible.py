"""Define dialects that differ slightly from OpenAI Realtime, one class per service.

* **Azure OpenAI**, GA: ``wss://RESOURCE.openai.azure.com/openai/v1/realtime?model=DEPLOYMENT``; the key is
  sent in the header ``api-key``, an Entra token (three parts, ``eyJ…``) in ``Authorization``. Source:
  https://learn.microsoft.com/azure/ai-foundry/openai/realtime-audio-reference
* **xAI Grok**, GA events: top-level ``voice`` and ``turn_detection`` in the session, PCM at 8 to 48 kHz, a
  ``ping`` event, and cumulative input transcripts (``…transcription.updated``, and ``…completed`` with the
  status ``in_progress``, contain the full text so far). A response without audio never ends if another
  begins. Sources: https://docs.x.ai/docs/guides/voice and livekit-plugins-xai 1.8, whose authors report
  unstable manual turns.
* **vLLM-Omni** with a duplex model, GA with additional events. If the URL contains a model, the server starts
  a session at 16 kHz and reports it as updated; with ``autostart=0`` it waits for our ``session.update``,
  which specifies the model. Each audio delta has its own rate, regardless of the session rate. Format names
  include ``audio/g711_ulaw``. Other models use a protocol without responses at the same URL; with
  ``duplex=1`` the server rejects such models with an error instead.
  Source: ``vllm_omni.entrypoints.duplex`` and ``vllm_omni.protocol`` 0.30.
* **Hugging Face speech-to-speech**, GA: its detector is always on, even if ``turn_detection`` is null. The
  server accepts one session at a time by default; additional sessions receive ``session_limit_reached`` and
  are closed with 1008. Errors have a ``type`` and no code.
  Source: ``speech_to_speech.api.openai_realtime`` 1.1.
* **StepFun**, beta: sessions are limited to 30 minutes. Source:
  https://platform.stepfun.com/docs/api-reference/realtime/chat
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from live_eval.audio import CodecName
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime, SessionTerms
from live_eval.clients.dialects.openai_realtime_beta import BetaDialect
from live_eval.clients.toolkit import RATES_HZ, Fields, Handler, MalformedError, given
from live_eval.dialect import EndpointSettings, InputTranscript, Output, ResponseDone
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus

__all__ = ["XAI", "AzureOpenAI", "SpeechToSpeech", "StepFun", "VllmOmni"]

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class AzureOpenAI(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session with Azure OpenAI. The model is a deployment name."""

    def headers(self) -> dict[str, str]:
        key = self.settings.key.reveal() if self.settings.key is not None else ""
        is_token = key.startswith("eyJ") and key.count(".") == 2  # a JSON Web Token, as Entra issues them
        return {"api-key": key} if key and not is_token else super().headers()


class XAI(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session with xAI."""

    ignored = OpenAIRealtime.ignored | {"ping"}

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._so_far: dict[str | None, str] = {}
        self._left: set[str] = set()

    def asked_session(self) -> dict[str, Any]:
        """Return the GA session with voice and turn detection at the top level."""
        session = super().asked_session()
        audio = session["audio"]
        session["turn_detection"] = audio["input"].pop("turn_detection")
        if "voice" in audio.get("output", {}):
            session["voice"] = audio["output"].pop("voice")
        return session

    def terms_of(self, session: Fields) -> SessionTerms:
        return replace(super().terms_of(session), interrupts=self.stops_replies(session))

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {
            f"{_TRANSCRIPTION}.updated": self._on_transcript_so_far,
            f"{_TRANSCRIPTION}.completed": self._on_transcript,
        }

    def _on_response_created(self, event: Fields, at_ns: int) -> list[Output]:
        """End a response that was abandoned before its first audio."""
        left = self._replies.active
        outputs = super()._on_response_created(event, at_ns)
        if left is None or left is self._replies.active or left.plays_until_ns:
            return outputs
        self._left.add(left.response_id)
        self._replies.end(left)
        return [
            ResponseDone(left.response_id, ResponseStatus.CANCELLED, "another response began"),
            *outputs,
        ]

    def _on_response_done(self, event: Fields, at_ns: int) -> list[Output]:
        left = event.child("response").text("id") in self._left
        return [] if left else super()._on_response_done(event, at_ns)

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        if event.text("status") == "in_progress":
            return self._on_transcript_so_far(event, at_ns)
        return [InputTranscript(event.need_text("transcript"), True, event.text("item_id"))]

    def _on_transcript_so_far(self, event: Fields, at_ns: int) -> list[Output]:
        """Report the new part of a cumulative transcript; after a rewrite, wait for the final text."""
        item_id, text = event.text("item_id"), event.need_text("transcript")
        so_far = self._so_far.get(item_id, "")
        if not text.startswith(so_far):
            return []
        self._so_far[item_id] = text
        return [InputTranscript(text[len(so_far) :], False, item_id)] if text != so_far else []


class VllmOmni(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session with vLLM-Omni."""

    codecs: ClassVar[Mapping[str, CodecName]] = {
        **OpenAIRealtime.codecs,
        "audio/g711_ulaw": CodecName.PCMU,
        "audio/g711_alaw": CodecName.PCMA,
    }
    query: ClassVar[Mapping[str, str]] = {"duplex": "1", "autostart": "0"}
    speaks_first: ClassVar[bool] = True
    ignored = OpenAIRealtime.ignored | {
        "duplex.",
        "overlap.decision",
        "playback.acknowledged",
        "response.listen",
        "response.speak",
        "session.closed",
        "session.heartbeat_ack",
        "turn.event",
    }

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.advice[FailureKind.SESSION_REFUSED] = "check that the server runs this model in duplex mode"

    def asked_session(self) -> dict[str, Any]:
        return super().asked_session() | given(model=self.settings.model)

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {"session.expired": self._on_expired}

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        rate_hz = event.integer("sample_rate_hz")
        if rate_hz is not None and rate_hz not in RATES_HZ:
            raise MalformedError(f"expected audio at 8000 to 192000 Hz, got {rate_hz} Hz")
        self._output = replace(self._output, rate_hz=rate_hz or self._output.rate_hz)
        return super()._on_audio(event, at_ns)

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        """Handle an error; before the session starts, ``error`` contains the message itself."""
        try:
            said = self.clean(event.need_text("error"))
        except MalformedError:
            return super()._on_error(event, at_ns)
        return [self.refused(said, event.text("code"))]

    def _on_expired(self, event: Fields, at_ns: int) -> list[Output]:
        return [self.fatal(FailureKind.SESSION_EXPIRED, "the session reached the endpoint's limit")]


class SpeechToSpeech(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session with Hugging Face speech-to-speech."""

    ignored = OpenAIRealtime.ignored | {
        "speech_to_speech.input_audio_transcription.snapshot",
        "speech_to_speech.output_audio.visemes",
    }

    def transcription(self, model: str) -> dict[str, str]:
        """Return only the language: the transcription model is fixed."""
        settings = super().transcription(model)
        return {name: value for name, value in settings.items() if name != "model"}


class StepFun(BetaDialect):
    """A `Dialect` that tracks the state of one session with StepFun."""
