"""Services that speak OpenAI Realtime but for a few names: each a class that says what differs.

* **Azure OpenAI**, GA: ``wss://RESOURCE.openai.azure.com/openai/v1/realtime?model=DEPLOYMENT``; the key goes
  into the header ``api-key``, an Entra token (three parts, ``eyJ…``) into ``Authorization``. Source:
  https://learn.microsoft.com/azure/ai-foundry/openai/realtime-audio-reference
* **xAI Grok**, GA events: ``voice`` and ``turn_detection`` lie at the top of the session, PCM at 8 to 48 kHz,
  a ``ping`` event, and input transcripts that grow (``…transcription.updated`` holds all of it so far).
  Sources: https://docs.x.ai/docs/guides/voice and livekit-plugins-xai 1.8, which says that manual turns were
  not stable when it was tried.
* **vLLM-Omni**, GA with events of its own. It tells formats as ``audio/g711_ulaw`` and ``audio/wav`` too.
  Source: ``vllm_omni.protocol`` 0.30.
* **Hugging Face speech-to-speech**, GA: its detector is always on, also where ``turn_detection`` is null; one
  session at a time by default: a further one is told ``session_limit_reached`` and closed with 1008. It has
  errors by ``type`` alone. Source: ``speech_to_speech.api.openai_realtime`` 1.1.
* **StepFun**, beta: sessions of 30 minutes. Source:
  https://platform.stepfun.com/docs/api-reference/realtime/chat
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from clients._fields import Fields
from clients._openai_session import SessionShape, SessionTerms
from clients.openai_realtime import Handler, OpenAIRealtime
from clients.openai_realtime_beta import FlatShape, OpenAIRealtimeBeta
from live_eval.audio import CodecName
from live_eval.dialect import EndpointSettings, InputTranscript, Output
from live_eval.errors import FailureKind

__all__ = ["XAI", "AzureOpenAI", "SpeechToSpeech", "StepFun", "VllmOmni"]

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class _AzureShape(SessionShape):
    """The GA session; the key in a header of its own."""

    def headers(self, settings: EndpointSettings) -> dict[str, str]:
        key = settings.key
        if key is None or _is_token(key.reveal()):
            return super().headers(settings)
        return {"api-key": key.reveal()}


def _is_token(key: str) -> bool:
    """Return whether a key is a JSON Web Token, as Entra issues them, and none of Azure's keys."""
    return key.startswith("eyJ") and key.count(".") == 2


class AzureOpenAI(OpenAIRealtime):
    """One session's protocol state with Azure OpenAI; a `Dialect`. The model is the deployment's name."""

    shape: ClassVar[SessionShape] = _AzureShape()


class _XaiShape(SessionShape):
    """The GA session with voice and turn detection at its top."""

    def write(self, settings: EndpointSettings) -> dict[str, Any]:
        session = super().write(settings)
        audio = session["audio"]
        session["turn_detection"] = audio["input"].pop("turn_detection")
        if "voice" in audio.get("output", {}):
            session["voice"] = audio["output"].pop("voice")
        return session

    def read(self, session: Fields) -> SessionTerms:
        terms = super().read(session)
        return SessionTerms(terms.input, terms.output, self.interrupts(session))


class XAI(OpenAIRealtime):
    """One session's protocol state with xAI; a `Dialect`."""

    shape: ClassVar[SessionShape] = _XaiShape()
    silent: ClassVar[frozenset[str]] = frozenset({"ping"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._so_far: dict[str | None, str] = {}

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {f"{_TRANSCRIPTION}.updated": self._on_transcript_so_far}

    def _on_transcript_so_far(self, event: Fields, at_ns: int) -> list[Output]:
        """Tell what is new of a transcript that holds all of it; one that was rewritten waits for its end."""
        item_id, text = event.text("item_id"), event.need_text("transcript")
        so_far = self._so_far.get(item_id, "")
        if not text.startswith(so_far):
            return []
        self._so_far[item_id] = text
        return [InputTranscript(text[len(so_far) :], False, item_id)] if text != so_far else []


class _VllmShape(SessionShape):
    """The GA session with further names of formats."""

    codecs: ClassVar[Mapping[str, CodecName]] = {
        **SessionShape.codecs,
        "audio/g711_ulaw": CodecName.PCMU,
        "audio/g711_alaw": CodecName.PCMA,
    }


class VllmOmni(OpenAIRealtime):
    """One session's protocol state with vLLM-Omni; a `Dialect`."""

    shape: ClassVar[SessionShape] = _VllmShape()
    silent: ClassVar[frozenset[str]] = frozenset(
        {
            "duplex.raw",
            "overlap.decision",
            "playback.acknowledged",
            "response.listen",
            "response.speak",
            "session.heartbeat_ack",
            "turn.event",
        }
    )

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {"session.expired": self._on_expired}

    def _on_expired(self, event: Fields, at_ns: int) -> list[Output]:
        return [self._fatal(FailureKind.SESSION_EXPIRED, "the endpoint ended the session by its cap")]


class _SpeechToSpeechShape(SessionShape):
    """The GA session; the transcriber is the server's own and can only be told the language."""

    def transcription(self, model: str, language: str | None) -> dict[str, str]:
        """Return the settings of the input's transcription."""
        told = super().transcription(model, language)
        return {name: value for name, value in told.items() if name != "model"}


class SpeechToSpeech(OpenAIRealtime):
    """One session's protocol state with Hugging Face speech-to-speech; a `Dialect`."""

    shape: ClassVar[SessionShape] = _SpeechToSpeechShape()
    silent: ClassVar[frozenset[str]] = frozenset(
        {"speech_to_speech.input_audio_transcription.snapshot", "speech_to_speech.output_audio.visemes"}
    )


class _StepFunShape(FlatShape):
    """The beta session, without the header that asks for it."""

    asks_for_beta: ClassVar[bool] = False


class StepFun(OpenAIRealtimeBeta):
    """One session's protocol state with StepFun; a `Dialect`."""

    shape: ClassVar[SessionShape] = _StepFunShape()
