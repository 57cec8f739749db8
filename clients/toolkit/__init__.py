"""Building blocks for endpoint dialects.

Subclass one of these classes and override the methods in which the endpoint differs:

* `EventDialect`: an endpoint whose messages are JSON objects with a type;
* `Bot`: a bot with application-specific messages;
* `WebRtcBot`: a bot over WebRTC; its replies are detected by their energy;
* `PhoneLine`: a telephony provider that calls the agent and plays its audio from a queue;
* `RequestDialect`: one HTTP request for each turn;
* `BaseDialect`: anything else, including binary messages.

For a service that closely follows OpenAI, subclass
`live_eval.clients.dialects.openai_realtime.OpenAIRealtime` instead. Like every dialect, the toolkit is pure:
it imports no socket, event loop or clock.
"""

from live_eval.clients.toolkit._dialect import (
    NO_TOOL,
    BaseDialect,
    Bot,
    EventDialect,
    Handler,
    RequestDialect,
    WebRtcBot,
    send_audio,
    send_json,
    text_in,
)
from live_eval.clients.toolkit._messages import (
    Fields,
    MalformedError,
    hide_secrets,
    parse_object,
    redact_object,
    redact_raw,
)
from live_eval.clients.toolkit._phone_line import PhoneLine
from live_eval.clients.toolkit._responses import ResponseTracker, TrackedResponse, Truncation
from live_eval.clients.toolkit._settings import (
    bearer_header,
    check_extra,
    given,
    http_url,
    in_json,
    query_of,
    refusal_advice,
    refuse_settings,
    said_before,
    stored_agent,
    websocket_url,
    with_advice,
)
from live_eval.clients.toolkit._text_so_far import TextSoFar
from live_eval.clients.toolkit._unmarked import UnmarkedReplies
from live_eval.clients.toolkit._user_turns import UserTurns
from live_eval.clients.toolkit._wav import RATES_HZ, wav_header, wav_rate_hz
from live_eval.text.mappings import merged

__all__ = [
    "NO_TOOL",
    "RATES_HZ",
    "BaseDialect",
    "Bot",
    "EventDialect",
    "Fields",
    "Handler",
    "MalformedError",
    "PhoneLine",
    "RequestDialect",
    "ResponseTracker",
    "TextSoFar",
    "TrackedResponse",
    "Truncation",
    "UnmarkedReplies",
    "UserTurns",
    "WebRtcBot",
    "bearer_header",
    "check_extra",
    "given",
    "hide_secrets",
    "http_url",
    "in_json",
    "merged",
    "parse_object",
    "query_of",
    "redact_object",
    "redact_raw",
    "refusal_advice",
    "refuse_settings",
    "said_before",
    "send_audio",
    "send_json",
    "stored_agent",
    "text_in",
    "wav_header",
    "wav_rate_hz",
    "websocket_url",
    "with_advice",
]
