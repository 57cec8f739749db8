"""OpenS2S, an empathetic speech model: ``POST /worker_generate_stream`` of its model worker, one per turn.

This is not realtime: the recording is sent after the user's turn ends, as with ``openai-chat-audio``. Message
shapes follow ``model_worker.py`` and ``web_demo.py`` of CASIA-LM/OpenS2S (359565c). Behaviour and decisions:

* The recording is a base64 WAV file (the worker resamples it to 16 kHz). ``endpoint.extra`` is merged over
  the request: ``temperature`` and ``top_p``, 1.0 each by default. A reply ends after 256 tokens, unless the
  length is set (at most 1,024), and nothing marks it as cut off.
* Earlier turns precede the recording as messages, whose content is a text or a recording.
* The worker puts its own system message before `instructions`; both apply.
* JSON objects end with a NUL byte. Each has the **whole text so far**, and some have a WAV file of 22.05 kHz
  with samples of **32-bit floats**.
* ``finalize`` marks the end of the audio, and thus of the reply. A response without it was cut off.
* A failure is an object with an ``error_code`` and a general text, without ``finalize``; the cause is in the
  worker's log only.

There is no detector, barge-in, cancelled or incomplete reply, usage or input transcript. A worker that is
full answers later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import (
    RATES_HZ,
    Fields,
    MalformedError,
    RequestDialect,
    TextSoFar,
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
    EndpointSettings,
    Message,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ResponseDone,
    ResponseStarted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus

__all__ = ["OpenS2S"]

_REPLY = "reply_1"
_MOST_TOKENS = 1024  # the worker's own limit


class OpenS2S(RequestDialect):
    """A `Dialect` that tracks the state of one turn.

    Raises:
        UsageError: The worker does not support these settings, or the base URL is not a URL.
    """

    input_rate_hz = 16_000

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(
            settings,
            modality="the worker always speaks; text output is not supported",
            turn_detection="the worker has no detector; remove this setting",
            voice="the worker has one voice; remove this setting",
        )
        if (settings.max_output_tokens or 0) > _MOST_TOKENS:
            raise UsageError(
                f"endpoint.max_output_tokens {settings.max_output_tokens}: expected {_MOST_TOKENS} or less"
            )
        self._url = http_url(settings.base_url, "worker_generate_stream", {})
        body = given(model=settings.model, max_new_tokens=settings.max_output_tokens)
        self._body = merged(body, settings.extra)
        self._text = TextSoFar()
        self._speaks = False

    def dial(self) -> Dial:
        return Dial(self._url, {"Content-Type": "application/json"} | bearer_header(self.settings))

    def request(self, wav: str) -> dict[str, Any]:
        return self._body | {"messages": self.messages(wav)}

    def part(self, wav: str) -> dict[str, Any]:
        return {"audio": wav}

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if not message:
            return self.cut_off("'finalize'")
        try:
            event = parse_object(message)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if self.over or not self.requested:
            return ()
        if not {"text", "audio", "finalize", "error_code"} & event.keys():
            return (self.unknown("an object without 'text'"),)
        return self.handled(self._on_piece, Fields("response", event), at_ns)

    def _on_piece(self, event: Fields, at_ns: int) -> list[Output]:
        text, code = event.text("text") or "", event.integer("error_code")
        if code:
            said = f"the worker failed: {text or 'no details'}; its log has the cause"
            return [self.fatal(FailureKind.ENDPOINT_ERROR, said, str(code))]
        outputs: list[Output] = [] if self.begun else [ResponseStarted(_REPLY)]
        self.begun = True
        outputs += self._text.said(_REPLY, text)
        outputs += self._audio(event)
        if event.flag("finalize"):
            self.over = True
            outputs += self._text.over(_REPLY)
            outputs += [ReplyAudioDone(_REPLY)] if self._speaks else []
            outputs.append(ResponseDone(_REPLY, ResponseStatus.COMPLETED))
        return outputs

    def _audio(self, event: Fields) -> list[Output]:
        """Return the audio of a piece; report invalid audio as a defect of the piece."""
        try:
            data = pybase64.b64decode(event.text("audio") or "", validate=True)
        except ValueError as error:
            event.wrong.append(f"response: expected base64 audio: {error}")
            return []
        if not data:
            return []
        rate_hz = wav_rate_hz(data) or 0
        if rate_hz not in RATES_HZ:
            event.wrong.append(f"response: expected a WAV file, got {len(data)} bytes")
            return []
        self._speaks = True
        return [ReplyAudio(_REPLY, data, Codec(CodecName.WAV, rate_hz))]
