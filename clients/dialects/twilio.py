"""Twilio Media Streams, with this client in Twilio's place: it calls the agent's WebSocket server.

Sources: https://www.twilio.com/docs/voice/media-streams/websocket-messages and pipecat-ai 1.14
(``pipecat.serializers.twilio``, ``pipecat.runner.utils``).

* We send ``connected`` and ``start``, then 20 ms of µ-law at 8 kHz in every ``media`` message, silence
  included: a phone line never pauses. ``stop`` is the last message. Numbers are strings.
* The agent's ``media`` may arrive faster than real time. It enters a playout queue, as at Twilio: a ``mark``
  is echoed when the audio before it has been played; ``clear`` empties the queue and echoes pending marks.
* A message with another ``streamSid`` is not played: Twilio drops it.
* No event marks a turn or a reply, so replies are detected by their energy, as they are played. ``clear`` is
  an interruption if audio was playing: pipecat sends it at the start of every user turn.
* A base URL with http or https is the agent's webhook: its TwiML contains the address and the parameters of
  the stream.
* A key (the auth token) signs both requests (``X-Twilio-Signature``: HMAC-SHA1 of the URL and the form).

There are no transcripts, responses, errors, manual turns, usage or rate limits, and the agent determines the
model, instructions and voice.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import samples_in
from live_eval.audio.pcm import encode
from live_eval.clients.dialects._twilio_webhook import signed, stream_in
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    MalformedError,
    http_url,
    refuse_settings,
    send_json,
    websocket_url,
)
from live_eval.dialect import (
    Close,
    Dial,
    EndpointProblem,
    EndpointSettings,
    Lookup,
    Output,
    QueuedAudio,
    Send,
    SetTimer,
    StreamInterrupted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.playout import PlayoutQueue

__all__ = ["Twilio"]

_POLICY = 1008  # RFC 6455, 7.4.1
_MS_NS = 1_000_000
_MARK, _DIGIT = "mark", "digit"
_MOST_MARKS = 10_000
_STILL_PLAYING_NS = (
    100 * _MS_NS
)  # an agent that sends at the pace of speech leaves the queue empty in between
_DIGIT_NS, _PAUSE_NS = 250 * _MS_NS, 500 * _MS_NS
_DIGITS = re.compile(r"[0-9*#w]*", re.ASCII)
_OPTIONS = ("account_sid", "call_sid", "dtmf", "from", "parameters", "to")
_CALLER, _CALLED = "+15550100001", "+15550100002"  # numbers that belong to nobody


class Twilio(EventDialect):
    """The protocol state of one call; a `Dialect`.

    Args:
        settings: ``extra`` may contain ``account_sid``, ``call_sid``, ``parameters`` (the stream's custom
            parameters) and ``dtmf``: keys to press after the start of the stream, w for a pause of 0.5 s.

    Raises:
        UsageError: A phone line does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    continuous_media = True
    type_field = "event"
    audio_fields = ("payload",)
    codec: ClassVar[Codec] = Codec(CodecName.PCMU, 8_000)

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(
            settings,
            modality="a phone line carries audio only; text output is not supported",
            instructions="the agent sets its own instructions; remove this setting",
            voice="the agent sets its own voice; remove this setting",
            turn_detection="the agent detects turns; remove this setting",
            transcription_model="a phone line carries no transcripts; remove this setting",
            max_output_tokens="a phone line sets no reply length limit; remove this setting",
        )
        webhook = settings.base_url.startswith("http")
        self._url = (http_url if webhook else websocket_url)(settings.base_url, "", {})
        self._options = _checked(settings.extra)
        self._parameters: Mapping[str, str] = self._options.get("parameters", {})
        self._digits = list(self._options.get("dtmf", ""))
        self._line = PlayoutQueue()
        self._marks: list[tuple[int, str]] = []
        # A webhook is told the name of the call before there is a time to derive it from.
        self._call_sid = self._options.get("call_sid", f"CA{uuid.uuid4().hex}" if webhook else "")
        self._stream_sid = ""
        self._account_sid = self._options.get("account_sid", f"AC{'0' * 32}")
        self._started_ns = 0
        self._sent = self._frames = 0
        self.handlers = {"media": self._on_media, "mark": self._on_mark, "clear": self._on_clear}

    def dial(self) -> Dial:
        if not self._url.startswith("http"):
            return Dial(self._url, signed(self.settings, self._url))
        form = {
            "AccountSid": self._account_sid,
            "ApiVersion": "2010-04-01",
            "CallSid": self._call_sid,
            "CallStatus": "ringing",
            "Direction": "inbound",
            "From": self._options.get("from", _CALLER),
            "To": self._options.get("to", _CALLED),
        }
        expected = "TwiML with <Connect><Stream url=…>"
        return Dial(
            self._url, signed(self.settings, self._url, form), lookup=Lookup(form, expected, self._answered)
        )

    def _answered(self, twiml: str) -> Dial:
        """Return the address of the stream in the answer of a webhook, and remember its parameters."""
        url, parameters = stream_in(twiml)
        self._parameters = {**parameters, **self._options.get("parameters", {})}
        return Dial(url, signed(self.settings, url))

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Begin the stream: agents send nothing before that, and often nothing before they speak."""
        sid = hashlib.md5(str(at_ns).encode(), usedforsecurity=False).hexdigest()
        self._call_sid = self._call_sid or f"CA{sid}"
        self._stream_sid, self._started_ns = f"MZ{sid}", at_ns
        dtmf = [SetTimer(_DIGIT, at_ns + _DIGIT_NS)] if self._digits else []
        return *self.hello(), *self.become_ready(self._call_sid), *dtmf

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        self._frames += 1
        payload = base64.b64encode(encode(np.frombuffer(pcm, "<i2"), self.codec)).decode()
        return (self.media(payload, max(0, at_ns - self._started_ns) // _MS_NS),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        if name == _MARK:
            return self._played(at_ns)
        if name != _DIGIT or not self._digits:
            return ()
        digit = self._digits.pop(0)
        next_ns = at_ns + (_PAUSE_NS if digit == "w" else _DIGIT_NS)
        pressed = [] if digit == "w" else [self.dtmf(digit)]
        return *pressed, *([SetTimer(_DIGIT, next_ns)] if self._digits else [])

    def finish(self, at_ns: int) -> Sequence[Output]:
        was_open, self.over = self.ready and not self.over, True
        return (*([self.goodbye()] if was_open else []), Close())

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        text = self.closed_text("during the call", code, reason)
        if code != _POLICY:
            return EndpointProblem(FailureKind.CLOSED, text, fatal=False)
        hint = "an agent that checks X-Twilio-Signature needs its auth token (--key-variable)"
        return self.fatal(FailureKind.AUTHENTICATION, f"{text}; {hint}")

    # -- Messages to the agent ---------------------------------------------------------------------------

    def hello(self) -> Sequence[Send]:
        """Return the messages that begin a stream."""
        start = {
            "accountSid": self._account_sid,
            "callSid": self._call_sid,
            "streamSid": self._stream_sid,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": self.codec.rate_hz, "channels": 1},
            "customParameters": self._parameters,
        }
        connected = send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        return connected, self._event("start", start=start)

    def media(self, payload: str, at_ms: int) -> Send:
        """Return the message of a frame."""
        audio = {"track": "inbound", "chunk": str(self._frames), "timestamp": str(at_ms), "payload": payload}
        return self._event("media", media=audio)

    def dtmf(self, digit: str) -> Send:
        """Return the message of a key that the caller pressed."""
        return self._event("dtmf", dtmf={"track": "inbound_track", "digit": digit})

    def marked(self, name: str) -> Send:
        """Return the echo of a mark."""
        return self._event("mark", mark={"name": name})

    def goodbye(self) -> Send:
        """Return the last message."""
        return self._event("stop", stop={"accountSid": self._account_sid, "callSid": self._call_sid})

    def _event(self, name: str, **fields: object) -> Send:
        self._sent += 1
        event = {"event": name, "sequenceNumber": str(self._sent), "streamSid": self._stream_sid}
        return send_json(event | fields)

    # -- Messages of the agent ---------------------------------------------------------------------------

    def _on_media(self, event: Fields, at_ns: int) -> list[Output]:
        self._check_stream(event)
        data = event.child("media").need_bytes("payload")
        self._line.push(at_ns, samples_in(data, self.codec), self.codec.rate_hz)
        return [QueuedAudio(data, self.codec)]

    def _on_mark(self, event: Fields, at_ns: int) -> list[Output]:
        self._check_stream(event)
        self._marks.append((self._line.due_ns, event.child("mark").need_text("name")))
        del self._marks[:-_MOST_MARKS]
        return self._played(at_ns)

    def _on_clear(self, event: Fields, at_ns: int) -> list[Output]:
        self._check_stream(event)
        stops = at_ns < self._line.due_ns + _STILL_PLAYING_NS
        self._line.drop(at_ns)
        echoes = [self.marked(name) for _, name in self._marks]
        self._marks.clear()
        return [*([StreamInterrupted()] if stops else []), *echoes, SetTimer(_MARK, None)]

    def _played(self, at_ns: int) -> list[Output]:
        """Echo the marks whose audio has been played, and wait for the next."""
        outputs: list[Output] = []
        while self._marks and self._marks[0][0] <= at_ns:
            outputs.append(self.marked(self._marks.pop(0)[1]))
        if self._marks:
            outputs.append(SetTimer(_MARK, self._marks[0][0]))
        return outputs

    def _check_stream(self, event: Fields) -> None:
        sid = event.need_text("streamSid")
        if sid != self._stream_sid:
            raise MalformedError(
                f"expected streamSid {self._stream_sid}, got {sid!r}: Twilio drops the message"
            )


def _checked(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a call; raise `UsageError` for an unknown or invalid one."""
    for name, value in extra.items():
        if name not in _OPTIONS:
            expected = ", ".join(_OPTIONS)
            raise UsageError(f"endpoint.extra.{name}: a call has no such option; expected one of {expected}")
        if name != "parameters" and not isinstance(value, str):
            raise UsageError(f"endpoint.extra.{name}: expected text, got {value!r}")
    parameters = extra.get("parameters", {})
    if not isinstance(parameters, Mapping) or not all(
        isinstance(value, str) for value in parameters.values()
    ):
        raise UsageError(
            f"endpoint.extra.parameters: expected an object with text values, got {parameters!r}"
        )
    if not _DIGITS.fullmatch(extra.get("dtmf", "")):
        raise UsageError(
            f"endpoint.extra.dtmf: expected keys (0-9, *, #) and w for a pause, got {extra['dtmf']!r}"
        )
    return extra
