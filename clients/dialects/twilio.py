"""Simulate a Twilio media stream to the agent's WebSocket server.

Sources: https://www.twilio.com/docs/voice/media-streams/websocket-messages and pipecat-ai 1.14
(``pipecat.serializers.twilio``, ``pipecat.runner.utils``).

* We send ``connected`` and ``start``, then 20 ms of µ-law at 8 kHz in every ``media`` message, silence
  included: a phone line never pauses. ``stop`` is the last message. Numeric fields are sent as strings.
* The agent's ``media`` may arrive faster than real time. As with Twilio, it enters a playout queue: a
  ``mark`` is echoed when the audio before it has been played; ``clear`` empties the queue and echoes pending
  marks.
* A message with another ``streamSid`` is not played: Twilio drops it.
* pipecat sends ``clear`` at the start of every user turn, even if nothing is playing.
* A base URL with http or https is the agent's webhook, whose TwiML contains the address and the parameters of
  the stream.
* A key (the auth token) signs both requests (``X-Twilio-Signature``: HMAC-SHA1 of the URL and the form).

There are no transcripts, responses, errors, manual turns, usage or rate limits.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from live_eval.clients.dialects._twilio_webhook import signed, stream_in
from live_eval.clients.toolkit import PhoneLine, http_url, send_json, websocket_url
from live_eval.dialect import Dial, EndpointProblem, EndpointSettings, Lookup, Send
from live_eval.errors import FailureKind, UsageError

__all__ = ["Twilio"]

_POLICY = 1008  # RFC 6455, 7.4.1


class Twilio(PhoneLine):
    """A `Dialect` that tracks the state of one call.

    Args:
        settings: See `PhoneLine`; ``extra`` may also contain ``account_sid`` and ``call_sid`` and, with
            a webhook, ``from`` and ``to``.
    """

    options = ("account_sid", "call_sid", *PhoneLine.options)
    stream_field = "streamSid"
    number_field = "sequenceNumber"

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._webhook = settings.base_url.startswith("http")
        for name in () if self._webhook else {"from", "to"} & self.extra.keys():
            raise UsageError(
                f"endpoint.extra.{name}: needs a webhook (http) as base URL: the stream has no field for it"
            )
        self._url = (http_url if self._webhook else websocket_url)(settings.base_url, "", {})
        self._account_sid = self.extra.get("account_sid", f"AC{'0' * 32}")
        # The webhook request contains the call ID before the stream opens, so the ID is random.
        self.call_id = self.extra.get("call_sid", f"CA{uuid.uuid4().hex}" if self._webhook else "")
        self.handlers = {"media": self.on_media, "mark": self.on_mark, "clear": self.on_clear}

    def dial(self) -> Dial:
        if not self._webhook:
            return Dial(self._url, signed(self.settings, self._url))
        form = {
            "AccountSid": self._account_sid,
            "ApiVersion": "2010-04-01",
            "CallSid": self.call_id,
            "CallStatus": "ringing",
            "Direction": "inbound",
            "From": self.caller,
            "To": self.called,
        }
        lookup = Lookup(form, "TwiML with <Connect><Stream url=…>", self._answered)
        return Dial(self._url, signed(self.settings, self._url, form), lookup=lookup)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        problem = super().closing(code, reason, at_ns)
        if code != _POLICY:
            return problem
        hint = "an agent that checks X-Twilio-Signature needs its auth token (--key-variable)"
        return self.fatal(FailureKind.AUTHENTICATION, f"{problem.message}; {hint}")

    def begin(self, digest: str) -> None:
        self.stream_id, self.call_id = f"MZ{digest}", self.call_id or f"CA{digest}"

    def hello(self) -> Sequence[Send]:
        start = {
            "accountSid": self._account_sid,
            "callSid": self.call_id,
            "streamSid": self.stream_id,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": self.codec.rate_hz, "channels": 1},
            "customParameters": self.parameters,
        }
        connected = send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        return connected, self.numbered("start", start=start)

    def dtmf(self, digit: str, at_ms: int) -> Send:
        return self.numbered("dtmf", dtmf={"track": "inbound_track", "digit": digit})

    def goodbye(self) -> Sequence[Send]:
        ids = {"accountSid": self._account_sid, "callSid": self.call_id}
        return (self.numbered("stop", stop=ids),)

    def _answered(self, twiml: str) -> Dial:
        """Return the stream's address from the webhook's response and store its parameters."""
        url, parameters = stream_in(twiml)
        self.parameters = {**parameters, **self.parameters}
        return Dial(url, signed(self.settings, url))
