"""Session settings, token usage, texts and rate limits shared by OpenAI-like dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import RATES_HZ, EventDialect, Fields, bearer_header, given, merged
from live_eval.dialect import RateLimit, Usage
from live_eval.types import Modality, TurnMode

_G711_RATE_HZ = 8_000


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """The audio formats of a session, if specified, and whether user speech stops replies."""

    input: Codec | None
    output: Codec | None
    interrupts: bool


class SessionDialect(EventDialect):
    """Base class of dialects with a GA `session` object and authenticated handshake headers."""

    input_rate_hz: ClassVar[int] = 24_000
    output_rate_hz: ClassVar[int] = 24_000
    codecs: ClassVar[Mapping[str, CodecName]] = {
        "audio/pcm": CodecName.PCM16,
        "audio/pcmu": CodecName.PCMU,
        "audio/pcma": CodecName.PCMA,
    }

    def headers(self) -> dict[str, str]:
        """Return the handshake headers."""
        return bearer_header(self.settings)

    def asked_session(self) -> dict[str, Any]:
        """Return the `session` object to send, without the user's ``extra``."""
        settings = self.settings
        model, speaks = settings.transcription_model, settings.modality is Modality.AUDIO
        heard = {
            "format": {"type": "audio/pcm", "rate": self.input_rate_hz},
            "turn_detection": self.turn_detection(),
            **given(transcription=model and self.transcription(model)),
        }
        said = given(format={"type": "audio/pcm", "rate": self.output_rate_hz}, voice=settings.voice)
        return given(
            type="realtime",
            output_modalities=[settings.modality.value],
            audio={"input": heard, **given(output=said if speaks else None)},
            instructions=settings.instructions,
            max_output_tokens=settings.max_output_tokens,
        )

    def terms_of(self, session: Fields) -> SessionTerms:
        """Return the audio formats and interruption setting in a `session` object, ours or the endpoint's.

        An unknown format is returned as None and added to ``session.wrong``.
        """
        audio = session.child("audio")
        heard, said = audio.child("input"), audio.child("output")
        return SessionTerms(
            self.codec(heard.child("format"), "type", self.input_rate_hz),
            self.codec(said.child("format"), "type", self.output_rate_hz),
            self.stops_replies(heard),
        )

    def turn_detection(self) -> dict[str, Any] | None:
        """Return the detector's settings; None for manual turns."""
        if self.settings.turn_mode is TurnMode.MANUAL:
            return None
        return merged({"type": "server_vad"}, self.settings.turn_detection)

    def transcription(self, model: str) -> dict[str, str]:
        """Return the input transcription settings, with an ISO 639-1 language code."""
        language = self.settings.language
        return {"model": model} if not language else {"model": model, "language": language.partition("-")[0]}

    def stops_replies(self, holder: Fields) -> bool:
        """Return whether the ``turn_detection`` of `holder` stops replies when the user speaks."""
        if "turn_detection" not in holder:
            return False
        return holder.child("turn_detection").flag("interrupt_response") is not False

    def codec(self, holder: Fields, field: str, pcm_rate_hz: int) -> Codec | None:
        """Return the codec in a field; its PCM rate is ``rate`` or, if missing, `pcm_rate_hz`."""
        name = holder.text(field)
        if name is None:
            return None
        if name not in self.codecs:
            holder.wrong.append(f"audio format {name!r} is unknown: expected one of {', '.join(self.codecs)}")
            return None
        if self.codecs[name] is not CodecName.PCM16:
            return Codec(self.codecs[name], _G711_RATE_HZ)
        rate_hz = holder.integer("rate") or pcm_rate_hz
        if rate_hz not in RATES_HZ:
            holder.wrong.append(f"expected an audio rate of 8000 to 192000 Hz, got {rate_hz}")
            return None
        return Codec(CodecName.PCM16, rate_hz)


def usage_of(response: Fields) -> Usage | None:
    """Return the token counts in a `response` object, or None if it has none."""
    if "usage" not in response:
        return None
    usage = response.child("usage")
    heard, said = usage.child("input_token_details"), usage.child("output_token_details")
    return Usage(
        input_tokens=usage.integer("input_tokens"),
        output_tokens=usage.integer("output_tokens"),
        input_audio_tokens=heard.integer("audio_tokens"),
        output_audio_tokens=said.integer("audio_tokens"),
        cached_tokens=heard.integer("cached_tokens"),
    )


def text_of(response: Fields) -> str:
    """Return the transcripts and texts in a `response` object."""
    parts = (
        part.text("transcript") or part.text("text")
        for item in response.children("output")
        for part in item.children("content")
    )
    return " ".join(part for part in parts if part)


def rate_limits_of(event: Fields) -> tuple[RateLimit, ...]:
    """Return the rate limits in an event; incomplete entries are skipped."""
    limits = []
    for entry in event.children("rate_limits"):
        name, limit = entry.text("name"), entry.number("limit")
        remaining, reset_s = entry.number("remaining"), entry.number("reset_seconds")
        if name is not None and limit is not None and remaining is not None and reset_s is not None:
            limits.append(RateLimit(name, limit, remaining, reset_s))
    return tuple(limits)
