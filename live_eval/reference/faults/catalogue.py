"""List the faults that the endpoint can inject, each with its layer, argument and expected failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from live_eval.errors import FailureKind
from live_eval.impair.language import BoundedValue, ValueUnit

__all__ = ["FAULTS", "MOMENT", "SHARE", "FaultDescription", "FaultLayer", "FaultName", "Moment"]


class FaultLayer(StrEnum):
    """The layer on which a fault acts."""

    ACCEPT = "accept"
    """The TCP connection before any request; only process-wide."""
    REQUEST = "request"
    """The HTTP request for the session."""
    SIGNALLING = "signalling"
    """A WebRTC offer and answer."""
    SESSION = "session"
    """The connection of a session."""
    MESSAGES = "messages"
    """Single messages, or packets of a media track."""
    REPLY = "reply"
    """The progress of a reply."""
    AUDIO = "audio"
    """Reply audio and timestamps."""


class Moment(StrEnum):
    """The event that triggers a one-time fault that is not scheduled for a session time."""

    ACCEPT = "accept"
    """After a connection is accepted."""
    REQUEST = "request"
    """Instead of the response to the request."""
    OPEN = "open"
    """After the session has opened."""
    SPEECH = "speech"
    """When the user starts to speak."""
    REPLY = "reply"
    """In the middle of a reply."""


class FaultName(StrEnum):
    """The fault names; `FAULTS` describes each fault."""

    REFUSE = "refuse"
    SLOW_ACCEPT = "slow_accept"
    TLS = "tls"
    RESET = "reset"
    STATUS = "status"
    RATE_LIMIT = "rate_limit"
    UNAVAILABLE = "unavailable"
    REDIRECT = "redirect"
    NO_UPGRADE = "no_upgrade"
    BAD_ACCEPT = "bad_accept"
    NOT_HTTP = "not_http"
    SLOW_ANSWER = "slow_answer"
    REFUSE_SDP = "refuse_sdp"
    NO_CODEC = "no_codec"
    BAD_CANDIDATES = "bad_candidates"
    BAD_FINGERPRINT = "bad_fingerprint"
    NO_CHANNEL = "no_channel"
    NO_RTP = "no_rtp"
    NO_AGENT = "no_agent"
    AGENT_LEAVES = "agent_leaves"
    NEVER_READY = "never_ready"
    SESSION_CAP = "session_cap"
    CLOSE = "close"
    CLOSE_CHANNEL = "close_channel"
    MALFORMED = "malformed"
    BAD_UTF8 = "bad_utf8"
    BAD_FRAME = "bad_frame"
    HUGE = "huge"
    UNKNOWN_EVENT = "unknown_event"
    ERROR_EVENT = "error_event"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    REORDER = "reorder"
    SILENT = "silent"
    STALL = "stall"
    NO_DONE = "no_done"
    ENDLESS = "endless"
    EMPTY_REPLY = "empty_reply"
    TRANSCRIPT_ONLY = "transcript_only"
    AUDIO_AFTER_DONE = "audio_after_done"
    FAILED_RESPONSE = "failed_response"
    INCOMPLETE_RESPONSE = "incomplete_response"
    CANCELLED_RESPONSE = "cancelled_response"
    AUDIO_RATE = "audio_rate"
    CORRUPT_AUDIO = "corrupt_audio"
    SILENT_AUDIO = "silent_audio"
    SKEW = "skew"


_JSON = ("openai", "openai-beta", "openai-live", "gemini-live")
_SOCKETS = (*_JSON, "deepgram", "elevenlabs", "assemblyai", "ultravox", "moshi")
_BOTS = ("pipecat-webrtc", "fastrtc-webrtc")
_TRACKS = ("openai-webrtc", *_BOTS)
_HOSTED = ("elevenlabs-webrtc", "ultravox-webrtc")
_ROOMS = ("livekit", *_HOSTED)
_REQUESTS = ("opens2s",)  # one request for each turn
_ALL = (*_SOCKETS, *_TRACKS, *_ROOMS, *_REQUESTS)
_TURNS = (
    "openai",
    "openai-beta",
    "gemini-live",
    "deepgram",
    "assemblyai",
    "ultravox",
    "openai-webrtc",
    "opens2s",
)  # dialects whose messages mark the end of a reply
_NAMED = ("openai", "openai-beta", "openai-webrtc")  # dialects whose messages contain response IDs
_WITH_MESSAGES = (*_SOCKETS, "openai-webrtc")
_STREAMS = (*_SOCKETS, *_ROOMS)  # clients that open a WebSocket
_MEDIA = (*_TRACKS, *_ROOMS)


_DURATION = BoundedValue(ValueUnit.MILLISECONDS, 0, 3_600_000)
MOMENT = replace(_DURATION, choices=tuple(Moment), default=Moment.REPLY)
"""A moment: an event or a time since the session's start."""
SHARE = BoundedValue(ValueUnit.PERCENT, 0, 100)


@dataclass(frozen=True, slots=True)
class FaultDescription:
    """The description of a fault.

    Args:
        layer: Layer on which the fault acts.
        value: Type of the argument. Omitting an argument without a default changes the fault's effect.
        help: Effect of the fault.
        moves: Whether ``@MOMENT`` sets when the fault occurs; if not, it occurs in the middle of a reply or
            is permanent.
        dialects: Dialects to which the fault applies.
        kind: Failure kind that a client should report with the default argument; None if the turn should
            succeed.
        kinds: Failure kinds that differ from `kind`, by dialect.
    """

    name: FaultName
    layer: FaultLayer
    value: BoundedValue | None
    help: str
    moves: bool = False
    dialects: tuple[str, ...] = _ALL
    kind: FailureKind | None = None
    kinds: Mapping[str, FailureKind | None] = field(default_factory=dict)

    def expected(self, dialect: str) -> FailureKind | None:
        """Return the failure that a client of `dialect` should report; None if the turn should succeed."""
        return self.kinds.get(dialect, self.kind)


def _each(dialects: tuple[str, ...], kind: FailureKind | None) -> dict[str, FailureKind | None]:
    return dict.fromkeys(dialects, kind)


_K, _N, _L, _U = FailureKind, FaultName, FaultLayer, ValueUnit

# fmt: off
_LIST = (
    FaultDescription(_N.REFUSE, _L.ACCEPT, _DURATION,
        "does not listen at the port; with DURATION, only for that time from the start",
        kind=_K.CONNECTION_REFUSED),
    FaultDescription(_N.SLOW_ACCEPT, _L.ACCEPT, replace(_DURATION, default="30s"),
        "reads nothing from a new connection for that time",
        kind=_K.CONNECT_TIMEOUT, kinds=_each(_REQUESTS, _K.NO_RESPONSE)),
    FaultDescription(_N.TLS, _L.ACCEPT,
        BoundedValue(_U.CHOICE, choices=("untrusted", "alert", "plain", "reset"), default="untrusted"),
        "uses an untrusted TLS certificate, answers a TLS client with an alert or with plain text, or resets "
        "the connection; clients connect with wss:// or https://", kind=_K.TLS),
    FaultDescription(_N.RESET, _L.SESSION, MOMENT,
        "resets the TCP connection (RST, without a close frame); over WebRTC only at accept or request",
        kind=_K.CLOSED, moves=True, dialects=(*_STREAMS, *_REQUESTS)),
    FaultDescription(_N.STATUS, _L.REQUEST, BoundedValue(_U.NUMBER, 1, 599, default="500"),
        "refuses the request with this HTTP status", kind=_K.SERVER_ERROR),
    FaultDescription(_N.RATE_LIMIT, _L.REQUEST, _DURATION,
        "refuses the request with 429; with DURATION, it sends Retry-After", kind=_K.RATE_LIMITED),
    FaultDescription(_N.UNAVAILABLE, _L.REQUEST, _DURATION,
        "refuses the request with 503; with DURATION, it sends Retry-After", kind=_K.UNAVAILABLE),
    FaultDescription(_N.REDIRECT, _L.REQUEST, None,
        "redirects the request (302) to another host", kind=_K.HANDSHAKE),
    FaultDescription(_N.NO_UPGRADE, _L.REQUEST, None,
        "answers the request with 200 and a web page",
        kind=_K.HANDSHAKE, kinds=_each(_TRACKS, _K.SDP_REFUSED) | _each(_REQUESTS, _K.CLOSED)),
    FaultDescription(_N.BAD_ACCEPT, _L.REQUEST, None,
        "accepts the WebSocket with a wrong Sec-WebSocket-Accept", kind=_K.HANDSHAKE, dialects=_STREAMS),
    FaultDescription(_N.NOT_HTTP, _L.REQUEST, None,
        "answers the request with bytes that are not HTTP", kind=_K.HANDSHAKE),
    FaultDescription(_N.SLOW_ANSWER, _L.REQUEST, replace(_DURATION, default="30s"),
        "answers the request after that time",
        kind=_K.CONNECT_TIMEOUT, kinds=_each(_REQUESTS, _K.NO_RESPONSE)),
    FaultDescription(_N.REFUSE_SDP, _L.SIGNALLING, None,
        "refuses the offer as invalid", kind=_K.SDP_REFUSED, dialects=_TRACKS),
    FaultDescription(_N.NO_CODEC, _L.SIGNALLING, None,
        "answers with a codec that was not offered", kind=_K.CODEC_REFUSED, dialects=_MEDIA),
    FaultDescription(_N.BAD_CANDIDATES, _L.SIGNALLING, None,
        "answers with an address where no server listens", kind=_K.ICE_FAILED, dialects=_MEDIA),
    FaultDescription(_N.BAD_FINGERPRINT, _L.SIGNALLING, None,
        "answers with the fingerprint of another certificate", kind=_K.DTLS_FAILED, dialects=_MEDIA),
    FaultDescription(_N.NO_CHANNEL, _L.SIGNALLING, None,
        "connects the media, but never opens the data channel", kind=_K.CHANNEL_CLOSED, dialects=_TRACKS),
    FaultDescription(_N.NO_RTP, _L.SIGNALLING, None,
        "opens the data channel and announces reply audio, but never sends a packet",
        kind=_K.NO_RTP, dialects=_MEDIA),
    FaultDescription(_N.NO_AGENT, _L.SESSION, None,
        "admits the client to a room without an agent", kind=_K.NO_SESSION, dialects=_ROOMS),
    FaultDescription(_N.AGENT_LEAVES, _L.SESSION, MOMENT,
        "the agent leaves the room", kind=_K.CLOSED, moves=True, dialects=_ROOMS),
    FaultDescription(_N.NEVER_READY, _L.SESSION, None,
        "accepts the connection, then sends nothing",
        kind=_K.NO_SESSION, dialects=(*_WITH_MESSAGES, *_ROOMS)),
    FaultDescription(_N.SESSION_CAP, _L.SESSION, replace(_DURATION, default="1s"),
        "ends the session after that time, as the dialect ends an expired one",
        kind=_K.SESSION_EXPIRED,
        kinds=_each((*_BOTS, "deepgram", "ultravox", *_ROOMS, *_REQUESTS), _K.CLOSED)),
    FaultDescription(_N.CLOSE, _L.SESSION, BoundedValue(_U.NUMBER, 1, 4_999, default="1011"),
        "closes the connection with this code; 1006: without a close frame; WebRTC has no codes",
        kind=_K.CLOSED, moves=True, kinds={"gemini-live": _K.ENDPOINT_ERROR}),
    FaultDescription(_N.CLOSE_CHANNEL, _L.SESSION, None,
        "closes the data channel in the middle of a reply's events, but continues to send audio",
        kind=_K.CHANNEL_CLOSED, dialects=_TRACKS),
    FaultDescription(_N.MALFORMED, _L.MESSAGES, None,
        "sends a truncated message, then continues",
        kind=_K.MALFORMED_MESSAGE, moves=True, dialects=(*_WITH_MESSAGES, *_ROOMS, *_REQUESTS)),
    FaultDescription(_N.BAD_UTF8, _L.MESSAGES, None,
        "sends a text message that is not UTF-8",
        kind=_K.MALFORMED_MESSAGE, moves=True, dialects=_STREAMS),
    FaultDescription(_N.BAD_FRAME, _L.MESSAGES, None,
        "sends a frame with an opcode that RFC 6455 reserves",
        kind=_K.MALFORMED_MESSAGE, moves=True, dialects=_STREAMS),
    FaultDescription(_N.HUGE, _L.MESSAGES, BoundedValue(_U.BYTES, 0, 200_000_000, default="17MB"),
        "sends a message of this size and of an unknown type",
        kind=_K.MESSAGE_TOO_BIG, moves=True, dialects=(*_SOCKETS, *_REQUESTS)),
    FaultDescription(_N.UNKNOWN_EVENT, _L.MESSAGES, None,
        "sends an event of an unknown type, then continues",
        moves=True, dialects=(*_WITH_MESSAGES, *_HOSTED, *_REQUESTS)),
    FaultDescription(_N.ERROR_EVENT, _L.MESSAGES, None,
        "sends a non-fatal error event, then continues; Gemini Live closes the connection",
        moves=True, dialects=(*_WITH_MESSAGES, *_HOSTED, *_REQUESTS),
        kinds=_each(("gemini-live", *_REQUESTS), _K.ENDPOINT_ERROR)),
    FaultDescription(_N.DUPLICATE, _L.MESSAGES, BoundedValue(_U.NUMBER, 1, 1_000, default="3"),
        "sends every N-th delta of audio, or packet, twice", kinds={"moshi": _K.MALFORMED_AUDIO}),
    FaultDescription(_N.MISSING, _L.MESSAGES, BoundedValue(_U.NUMBER, 1, 1_000, default="10"),
        "omits every N-th delta of audio, or packet", kinds={"moshi": _K.MALFORMED_AUDIO}),
    FaultDescription(_N.REORDER, _L.MESSAGES, BoundedValue(_U.NUMBER, 1, 1_000, default="3"),
        "sends every N-th delta of audio, or packet, after the next one",
        kinds={"moshi": _K.MALFORMED_AUDIO}),
    FaultDescription(_N.SILENT, _L.REPLY, None,
        "listens, but never answers", kind=_K.NO_RESPONSE),
    FaultDescription(_N.STALL, _L.REPLY, _DURATION,
        "stops in the middle of a reply; with DURATION, continues after that time",
        kind=_K.STALLED, dialects=_TURNS),
    FaultDescription(_N.NO_DONE, _L.REPLY, None,
        "sends the whole reply, but never ends the response", kind=_K.STALLED, dialects=_TURNS),
    FaultDescription(_N.ENDLESS, _L.REPLY, None,
        "repeats the reply forever, at the pace of speech", kind=_K.ENDLESS),
    FaultDescription(_N.EMPTY_REPLY, _L.REPLY, None,
        "completes the response without audio or text",
        kind=_K.NO_RESPONSE, kinds=_each(_TURNS, _K.EMPTY_REPLY)
        | _each(("deepgram", "ultravox"), _K.NO_RESPONSE)),
    FaultDescription(_N.TRANSCRIPT_ONLY, _L.REPLY, None,
        "sends the transcript of the reply and completes it, without audio",
        kind=_K.NO_RESPONSE, dialects=(*_WITH_MESSAGES, *_ROOMS),
        kinds=_each((*_TURNS, "elevenlabs"), _K.EMPTY_REPLY)),
    FaultDescription(_N.AUDIO_AFTER_DONE, _L.REPLY, None,
        "sends one more chunk of audio after the response is done",
        dialects=("openai", "openai-beta", "gemini-live")),
    FaultDescription(_N.FAILED_RESPONSE, _L.REPLY, None,
        "ends the response as failed, before any audio",
        kind=_K.RESPONSE_FAILED, dialects=(*_WITH_MESSAGES, *_HOSTED, *_REQUESTS),
        kinds=_each(("gemini-live", "elevenlabs", "elevenlabs-webrtc", *_REQUESTS), _K.ENDPOINT_ERROR)
        | _each(("openai-live", "deepgram", "ultravox", "moshi", "ultravox-webrtc"), _K.NO_RESPONSE)),
    FaultDescription(_N.INCOMPLETE_RESPONSE, _L.REPLY, None,
        "ends the response as incomplete after half of the reply",
        kind=_K.RESPONSE_INCOMPLETE, dialects=_NAMED),
    FaultDescription(_N.CANCELLED_RESPONSE, _L.REPLY, None,
        "cancels the response by itself after half of the reply",
        kind=_K.RESPONSE_CANCELLED, dialects=_TURNS,
        kinds={"deepgram": _K.STALLED, "opens2s": _K.ENDPOINT_ERROR}),
    FaultDescription(_N.AUDIO_RATE, _L.AUDIO, BoundedValue(_U.NUMBER, 1, 48_000, default="16000"),
        "sends audio at this sample rate, and reports it if the dialect's audio messages contain a rate",
        dialects=_JSON, kinds={"gemini-live": _K.WRONG_RATE}),
    FaultDescription(_N.CORRUPT_AUDIO, _L.AUDIO, BoundedValue(_U.NUMBER, 1, 1_000, default="3"),
        "replaces the audio of every N-th delta, or packet, with invalid bytes",
        kind=_K.MALFORMED_AUDIO,
        kinds=_each((*_JSON, "elevenlabs", "assemblyai", *_REQUESTS), _K.MALFORMED_MESSAGE)
        | _each(("deepgram", "ultravox"), None)),
    FaultDescription(_N.SILENT_AUDIO, _L.AUDIO, None,
        "replies with digital silence of the right length",
        kinds=_each(("openai-live", "moshi", *_BOTS, *_ROOMS), _K.NO_RESPONSE)),
    FaultDescription(_N.SKEW, _L.AUDIO, replace(SHARE, default="10%"),
        "speeds up timestamps by this share: positions in the input, transcripts, RTP",
        dialects=("openai", "openai-beta", "openai-live", *_MEDIA)),
)
# fmt: on

FAULTS: Mapping[FaultName, FaultDescription] = MappingProxyType({each.name: each for each in _LIST})
"""All faults by name, ordered by layer."""
