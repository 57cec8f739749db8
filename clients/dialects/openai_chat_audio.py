"""Chat completions with audio, from OpenAI and compatible servers: one request per turn.

This is not realtime: the recording is sent after the user's turn ends, so the time to the first reply audio
includes the upload and is comparable only within this dialect. Message shapes follow the official SDK's typed
models (``openai.types.chat``, openai 3.52).

* The recording is a base64 WAV file in an ``input_audio`` part of the user's message. Streamed audio
  must be ``pcm16``: 24 kHz mono, little-endian.
* ``choices[0].delta`` contains ``audio.data``, ``audio.transcript``, ``content``; ``finish_reason`` arrives
  before the last audio field (``expires_at``) and before ``usage``, whose event has no choice. The stream
  ends with ``[DONE]``; without it, the reply ends 2 s after its ``finish_reason``. That reason may refer to
  the text only, so it does not end a response whose audio has not started.
* Servers without streaming return one JSON object with audio in ``message.audio.data``: PCM or a WAV file.
* vLLM-Omni streams audio as ``delta.content`` of events with ``"modality": "audio"``, at the rate in their
  ``audio_metadata``. Without streaming, earlier versions returned text and audio as separate choices, both
  with index 0 (``vllm_omni.entrypoints.openai.serving_chat``, vllm-omni 0.30; its issue 7376).
* Qwen-Omni's compatible mode accepts only the format ``wav``, but streams PCM: set it in ``endpoint.extra``.
* A ``finish_reason`` other than ``stop`` is an incomplete reply.
* The transport reports HTTP errors; in a stream, an ``error`` object ends the response.

There are no sessions and no session limits: the dialect is ready immediately. There is no detector, barge-in,
cancelled reply or input transcript, and rate limits are only reported as errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.clients._openai_errors import describe, fatal_kind, retry_after_s
from live_eval.clients.toolkit import (
    RATES_HZ,
    Fields,
    MalformedError,
    RequestDialect,
    bearer_header,
    given,
    http_url,
    merged,
    parse_object,
    refuse_settings,
    wav_rate_hz,
)
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SetTimer,
    Usage,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality

__all__ = ["OpenAIChatAudio"]

_RATE_HZ = 24_000
_FORMATS = ("pcm16", "wav")
_AUDIO = "audio"
_DONE = "[DONE]"
_UNANNOUNCED_END = "no [DONE]"
_UNANNOUNCED_END_NS = 2_000_000_000
_UNNAMED = "reply_1"
_STATUSES = {401: FailureKind.AUTHENTICATION, 403: FailureKind.AUTHENTICATION, 429: FailureKind.RATE_LIMITED}


class OpenAIChatAudio(RequestDialect):
    """A `Dialect` that tracks the state of one turn.

    Args:
        settings: ``extra`` overrides fields of the request body.

    Raises:
        UsageError: Chat completions do not support these settings, or the base URL is not a URL.
    """

    input_rate_hz = _RATE_HZ

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = http_url(settings.base_url, "chat/completions", {})
        self._body = merged(_request_body(settings), settings.extra)
        if self._body.get("stream") is not True and "stream_options" not in settings.extra:
            del self._body["stream_options"]  # OpenAI rejects them without streaming
        audio = self._body.get("audio")
        if isinstance(audio, dict) and audio.get("format") not in _FORMATS:
            came = audio.get("format")
            raise UsageError(f"endpoint.extra.audio.format: expected 'pcm16' or 'wav', got {came!r}")
        self._response_id: str | None = None
        self._speaks = False  # audio has started and has not ended
        self._finish_reason: str | None = None
        self._usage: Usage | None = None

    def dial(self) -> Dial:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        return Dial(self._url, headers | bearer_header(self.settings))

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message == _DONE or (not message and self._finish_reason is not None):
            return self._end()
        if not message:
            return self.cut_off("a 'finish_reason'")
        try:
            event = parse_object(message)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if self.over or not self.requested:
            return ()
        return self.handled(self._handle, Fields("response", event), at_ns)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._end() if name == _UNANNOUNCED_END and self._finish_reason is not None else ()

    def audio_fields_of(self, event: Mapping[str, Any]) -> Collection[str]:
        return ("data", "content") if event.get("modality") == _AUDIO else ("data",)

    # -- The request -------------------------------------------------------------------------------------

    def request(self, wav: str) -> dict[str, Any]:
        return self._body | {"messages": self.messages(wav)}

    def part(self, wav: str) -> dict[str, Any]:
        return {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}}

    # -- The answer --------------------------------------------------------------------------------------

    def _handle(self, event: Fields, at_ns: int) -> list[Output]:
        kind = event.text("object") or ""
        if "error" in event or kind == "error":
            return [self._error(event)]
        if "choices" not in event and not kind.startswith("chat.completion"):
            return [self.unknown(kind or event.text("type") or "an object without 'choices'")]
        outputs: list[Output] = []
        name = self._begin(event.text("id"), outputs)
        if "usage" in event:
            self._usage = _usage(event.child("usage"))
        spoken = event.text("modality") == _AUDIO
        whole = False
        for choice in event.children("choices"):
            if choice.integer("index"):  # only choice 0 was requested
                continue
            whole = "message" in choice
            said = choice.child("message" if whole else "delta")
            if spoken and "audio" not in said:
                rate_hz = choice.child("audio_metadata").integer("sample_rate_hz") or _RATE_HZ
                outputs.extend(self._play(said, "content", name, rate_hz))
            else:
                self._say(said, name, whole, outputs)
            self._finish_reason = choice.text("finish_reason") or self._finish_reason
        if whole:
            outputs.extend(self._end())
        elif self._finish_reason is not None and (self._speaks or self.settings.modality is Modality.TEXT):
            outputs.append(SetTimer(_UNANNOUNCED_END, at_ns + _UNANNOUNCED_END_NS))
        return outputs

    def _begin(self, name: str | None, outputs: list[Output]) -> str:
        if self._response_id is None:
            self._response_id, self.begun = name or _UNNAMED, True
            outputs.append(ResponseStarted(self._response_id))
        return self._response_id

    def _say(self, said: Fields, name: str, whole: bool, outputs: list[Output]) -> None:
        audio = said.child("audio")
        outputs.extend(self._play(audio, "data", name, _RATE_HZ))
        for text in (audio.text("transcript"), said.text("content"), said.text("refusal")):
            if text:
                outputs.append(ReplyText(name, text, final=whole))

    def _play(self, audio: Fields, field: str, name: str, rate_hz: int) -> list[Output]:
        """Return the audio in a base64 field; report invalid audio as a defect of the event."""
        try:
            data = pybase64.b64decode(audio.text(field) or "", validate=True)
            codec = _codec(data, rate_hz)
        except ValueError as error:
            audio.wrong.append(f"response: expected base64 audio in {field!r}: {error}")
            return []
        if not data:
            return []
        self._speaks = True
        return [ReplyAudio(name, data, codec, audio.text("id"))]

    def _end(self) -> list[Output]:
        if self.over or not self.requested:
            return []
        self.over = True
        if self._response_id is None:
            text = "expected a response, got the end of the stream"
            return [EndpointProblem(FailureKind.NO_RESPONSE, text, fatal=True)]
        outputs: list[Output] = [SetTimer(_UNANNOUNCED_END, None)]
        if self._speaks:
            outputs.append(ReplyAudioDone(self._response_id))
        reason = self._finish_reason or "no finish_reason"
        complete = reason == "stop"
        status = ResponseStatus.COMPLETED if complete else ResponseStatus.INCOMPLETE
        said = "" if complete else self.clean(reason)
        outputs.append(ResponseDone(self._response_id, status, said, self._usage))
        return outputs

    def _error(self, event: Fields) -> EndpointProblem:
        """Return the failure described by an error: an object, flat fields or text."""
        error = event.child("error") if "error" in event else event
        code, status = error.text("code") or error.text("type"), error.integer("code")
        text = self.clean(describe(error) or event.text("error") or "")
        event.wrong.clear()  # an error of any form is a failure
        kind = fatal_kind(code, error.text("type"), text) or _STATUSES.get(status or 0)
        self.over = True
        return EndpointProblem(
            kind or FailureKind.ENDPOINT_ERROR,
            text or "the endpoint reported an error without details",
            fatal=True,
            code=code,
            retry_after_s=retry_after_s(text),
        )


def _request_body(settings: EndpointSettings) -> dict[str, Any]:
    """Return the request body, without the messages and the user's ``extra``."""
    refuse_settings(settings, turn_detection="chat completions have no detector; remove this setting")
    speaks = settings.modality is Modality.AUDIO
    return given(
        stream=True,
        stream_options={"include_usage": True},
        model=settings.model,
        modalities=["text", "audio"] if speaks else ["text"],
        audio=given(format="pcm16", voice=settings.voice) if speaks else None,
        max_completion_tokens=settings.max_output_tokens,
    )


def _codec(data: bytes, rate_hz: int) -> Codec:
    """Return the codec of reply audio: PCM at the given rate, unless the data is a WAV file.

    Raises:
        ValueError: The rate is invalid.
    """
    name = CodecName.WAV if data.startswith(b"RIFF") else CodecName.PCM16
    if name is CodecName.WAV:
        rate_hz = wav_rate_hz(data) or 0
    if rate_hz not in RATES_HZ:
        raise ValueError(f"cannot play audio at {rate_hz} Hz")
    return Codec(name, rate_hz)


def _usage(usage: Fields) -> Usage:
    heard, said = usage.child("prompt_tokens_details"), usage.child("completion_tokens_details")
    return Usage(
        input_tokens=usage.integer("prompt_tokens"),
        output_tokens=usage.integer("completion_tokens"),
        input_audio_tokens=heard.integer("audio_tokens"),
        output_audio_tokens=said.integer("audio_tokens"),
        cached_tokens=heard.integer("cached_tokens"),
    )
