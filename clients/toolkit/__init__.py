"""The parts from which an endpoint's dialect is built.

Derive from one of these and write the methods in which the endpoint differs:

* `EventDialect`: its messages are JSON objects that name their type;
* `WebRtcBot`: a bot over WebRTC, whose replies are found by their energy;
* `BaseDialect`: anything else, binary messages included.

A service that is nearly OpenAI's is a subclass of `live_eval.clients.dialects.openai_realtime.OpenAIRealtime`
instead. Like every dialect, the toolkit is pure: it imports no socket, no event loop and no clock.
"""

from live_eval.clients.toolkit._dialect import (
    BaseDialect,
    EventDialect,
    Handler,
    WebRtcBot,
    send_audio,
    send_json,
)
from live_eval.clients.toolkit._messages import (
    Fields,
    MalformedError,
    hide_secrets,
    parse_object,
    redact_object,
    redact_raw,
)
from live_eval.clients.toolkit._responses import ResponseTracker, TrackedResponse, Truncation
from live_eval.clients.toolkit._settings import (
    bearer_header,
    given,
    http_url,
    merged,
    refuse_settings,
    websocket_url,
)
from live_eval.clients.toolkit._wav import RATES_HZ, wav_header, wav_rate_hz

__all__ = [
    "RATES_HZ",
    "BaseDialect",
    "EventDialect",
    "Fields",
    "Handler",
    "MalformedError",
    "ResponseTracker",
    "TrackedResponse",
    "Truncation",
    "WebRtcBot",
    "bearer_header",
    "given",
    "hide_secrets",
    "http_url",
    "merged",
    "parse_object",
    "redact_object",
    "redact_raw",
    "refuse_settings",
    "send_audio",
    "send_json",
    "wav_header",
    "wav_rate_hz",
    "websocket_url",
]
