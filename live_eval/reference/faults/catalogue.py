"""The faults that the endpoint can inject: where each acts, its argument, and what a client is to call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from live_eval.errors import FailureKind

__all__ = ["FAULTS", "Argument", "FaultDescription", "FaultLayer", "FaultName", "Moment"]


class FaultLayer(StrEnum):
    """Where a fault acts."""

    ACCEPT = "accept"
    """On the TCP connection, before any request; for the whole process only."""
    REQUEST = "request"
    """On the HTTP request that asks for the session."""
    SIGNALLING = "signalling"
    """On a WebRTC offer and its answer."""
    SESSION = "session"
    """On the connection of a session."""
    MESSAGES = "messages"
    """On single messages, or the packets of a media track."""
    REPLY = "reply"
    """On the course of a reply."""
    AUDIO = "audio"
    """On the sound of a reply, and on stamps."""


class Moment(StrEnum):
    """When a fault strikes that happens once, unless it is a time since the session began."""

    ACCEPT = "accept"
    """As soon as the connection is accepted."""
    REQUEST = "request"
    """In place of the answer to the request."""
    OPEN = "open"
    """As soon as the session is open."""
    SPEECH = "speech"
    """When the user begins to speak."""
    REPLY = "reply"
    """In the middle of a reply."""


class Argument(StrEnum):
    """What may follow the name of a fault, after a colon."""

    NONE = "none"
    DURATION = "duration"
    """``1.2s`` or ``500ms``."""
    SIZE = "size"
    """``17MB``, ``64kB`` or ``500B``."""
    NUMBER = "number"
    SHARE = "share"
    """``10%``."""
    TEXT = "text"
    """One of the choices."""
    MOMENT = "moment"
    """A `Moment`, or a duration since the session began."""


class FaultName(StrEnum):
    """The faults by name; `FAULTS` describes them."""

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
_SOCKETS = (*_JSON, "moshi")
_BOTS = ("pipecat-webrtc", "fastrtc-webrtc")
_TRACKS = ("openai-webrtc", *_BOTS)
_ALL = (*_SOCKETS, *_TRACKS)
_TURNS = ("openai", "openai-beta", "gemini-live", "openai-webrtc")  # their messages say when a reply ends
_NAMED = ("openai", "openai-beta", "openai-webrtc")  # their messages name responses
_WITH_MESSAGES = (*_SOCKETS, "openai-webrtc")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDescription:
    """A fault.

    Args:
        name: Its name.
        layer: Where it acts.
        help: What it does.
        argument: What follows its name.
        default: The argument if none is given; empty if it is optional and means something else, or missing.
        required: Whether the argument must be given.
        choices: The arguments that a text may be.
        most: The greatest number.
        moves: Whether ``@MOMENT`` sets when it happens; otherwise in the middle of a reply, or all the time.
        dialects: The dialects that it applies to.
        kind: The failure that a client should report with the default argument; None if the turn should be
            captured.
        kinds: The same for single dialects that differ.
    """

    name: FaultName
    layer: FaultLayer
    help: str
    argument: Argument = Argument.NONE
    default: str = ""
    choices: tuple[str, ...] = ()
    most: int = 0
    moves: bool = False
    dialects: tuple[str, ...] = _ALL
    kind: FailureKind | None = None
    kinds: Mapping[str, FailureKind | None] = field(default_factory=dict)

    def expected(self, dialect: str) -> FailureKind | None:
        """Return the failure that a client of `dialect` should report; None for a captured turn."""
        return self.kinds.get(dialect, self.kind)


def _each(dialects: tuple[str, ...], kind: FailureKind | None) -> dict[str, FailureKind | None]:
    return dict.fromkeys(dialects, kind)


_K, _N, _A, _L = FailureKind, FaultName, Argument, FaultLayer

_LIST = (
    # -- Accept ----------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.REFUSE,
        layer=_L.ACCEPT,
        argument=_A.DURATION,
        help="nothing listens at the port; with DURATION, only for so long from the start",
        kind=_K.CONNECTION_REFUSED,
    ),
    FaultDescription(
        name=_N.SLOW_ACCEPT,
        layer=_L.ACCEPT,
        argument=_A.DURATION,
        default="30s",
        help="reads nothing from a new connection for so long",
        kind=_K.CONNECT_TIMEOUT,
    ),
    FaultDescription(
        name=_N.TLS,
        layer=_L.ACCEPT,
        argument=_A.TEXT,
        default="untrusted",
        choices=("untrusted", "alert", "plain", "reset"),
        help="speaks TLS with a certificate that nobody trusts, answers a TLS client with an alert or with "
        "plain text, or resets the connection; clients connect with wss:// or https://",
        kind=_K.TLS,
    ),
    FaultDescription(
        name=_N.RESET,
        layer=_L.SESSION,
        argument=_A.MOMENT,
        default="reply",
        moves=True,
        help="resets the TCP connection: RST, without a farewell; over WebRTC at accept or request only",
        dialects=_SOCKETS,
        kind=_K.CLOSED,
    ),
    # -- Request ---------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.STATUS,
        layer=_L.REQUEST,
        argument=_A.NUMBER,
        default="500",
        most=599,
        help="refuses the request with this HTTP status",
        kind=_K.SERVER_ERROR,
    ),
    FaultDescription(
        name=_N.RATE_LIMIT,
        layer=_L.REQUEST,
        argument=_A.DURATION,
        help="refuses the request with 429; with DURATION, Retry-After says so",
        kind=_K.RATE_LIMITED,
    ),
    FaultDescription(
        name=_N.UNAVAILABLE,
        layer=_L.REQUEST,
        argument=_A.DURATION,
        help="refuses the request with 503; with DURATION, Retry-After says so",
        kind=_K.UNAVAILABLE,
    ),
    FaultDescription(
        name=_N.REDIRECT,
        layer=_L.REQUEST,
        help="redirects the request (302) to another host",
        kind=_K.HANDSHAKE,
    ),
    FaultDescription(
        name=_N.NO_UPGRADE,
        layer=_L.REQUEST,
        help="answers the request with 200 and a web page",
        kind=_K.HANDSHAKE,
        kinds=_each(_TRACKS, _K.SDP_REFUSED),
    ),
    FaultDescription(
        name=_N.BAD_ACCEPT,
        layer=_L.REQUEST,
        help="accepts the WebSocket with a wrong Sec-WebSocket-Accept",
        dialects=_SOCKETS,
        kind=_K.HANDSHAKE,
    ),
    FaultDescription(
        name=_N.NOT_HTTP,
        layer=_L.REQUEST,
        help="answers the request with something that is not HTTP",
        kind=_K.HANDSHAKE,
    ),
    FaultDescription(
        name=_N.SLOW_ANSWER,
        layer=_L.REQUEST,
        argument=_A.DURATION,
        default="30s",
        help="answers the request after so long",
        kind=_K.CONNECT_TIMEOUT,
    ),
    # -- Signalling ------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.REFUSE_SDP,
        layer=_L.SIGNALLING,
        help="refuses the offer as invalid",
        dialects=_TRACKS,
        kind=_K.SDP_REFUSED,
    ),
    FaultDescription(
        name=_N.NO_CODEC,
        layer=_L.SIGNALLING,
        help="answers with a codec that was not offered",
        dialects=_TRACKS,
        kind=_K.CODEC_REFUSED,
    ),
    FaultDescription(
        name=_N.BAD_CANDIDATES,
        layer=_L.SIGNALLING,
        help="answers with an address where nothing listens",
        dialects=_TRACKS,
        kind=_K.ICE_FAILED,
    ),
    FaultDescription(
        name=_N.BAD_FINGERPRINT,
        layer=_L.SIGNALLING,
        help="answers with the fingerprint of another certificate",
        dialects=_TRACKS,
        kind=_K.DTLS_FAILED,
    ),
    FaultDescription(
        name=_N.NO_CHANNEL,
        layer=_L.SIGNALLING,
        help="connects the media, but never opens the data channel",
        dialects=_TRACKS,
        kind=_K.CHANNEL_CLOSED,
    ),
    FaultDescription(
        name=_N.NO_RTP,
        layer=_L.SIGNALLING,
        help="opens the data channel and announces reply audio, but never sends a packet",
        dialects=_TRACKS,
        kind=_K.NO_RTP,
    ),
    # -- Session ---------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.NEVER_READY,
        layer=_L.SESSION,
        help="accepts the connection, then sends nothing at all",
        dialects=_WITH_MESSAGES,
        kind=_K.NO_SESSION,
    ),
    FaultDescription(
        name=_N.SESSION_CAP,
        layer=_L.SESSION,
        argument=_A.DURATION,
        default="1s",
        help="ends the session after so long, as the dialect does when its time is up",
        kind=_K.SESSION_EXPIRED,
        kinds=_each(_BOTS, _K.CLOSED),
    ),
    FaultDescription(
        name=_N.CLOSE,
        layer=_L.SESSION,
        argument=_A.NUMBER,
        default="1011",
        most=4999,
        moves=True,
        help="closes the connection with this code; 1006 without a farewell; over WebRTC there are no codes",
        kind=_K.CLOSED,
        kinds={"gemini-live": _K.ENDPOINT_ERROR},
    ),
    FaultDescription(
        name=_N.CLOSE_CHANNEL,
        layer=_L.SESSION,
        help="closes the data channel in the middle of a reply's events, but continues to send audio",
        dialects=_TRACKS,
        kind=_K.CHANNEL_CLOSED,
    ),
    # -- Messages --------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.MALFORMED,
        layer=_L.MESSAGES,
        moves=True,
        help="sends a message that breaks off, then continues",
        dialects=_WITH_MESSAGES,
        kind=_K.MALFORMED_MESSAGE,
    ),
    FaultDescription(
        name=_N.BAD_UTF8,
        layer=_L.MESSAGES,
        moves=True,
        help="sends a text message that is not UTF-8",
        dialects=_SOCKETS,
        kind=_K.MALFORMED_MESSAGE,
    ),
    FaultDescription(
        name=_N.BAD_FRAME,
        layer=_L.MESSAGES,
        moves=True,
        help="sends a frame with an opcode that RFC 6455 reserves",
        dialects=_SOCKETS,
        kind=_K.MALFORMED_MESSAGE,
    ),
    FaultDescription(
        name=_N.HUGE,
        layer=_L.MESSAGES,
        argument=_A.SIZE,
        default="17MB",
        moves=True,
        help="sends a message of an unknown type that has this size",
        dialects=_SOCKETS,
        kind=_K.MESSAGE_TOO_BIG,
    ),
    FaultDescription(
        name=_N.UNKNOWN_EVENT,
        layer=_L.MESSAGES,
        moves=True,
        help="sends an event of an unknown type, then continues",
        dialects=_WITH_MESSAGES,
    ),
    FaultDescription(
        name=_N.ERROR_EVENT,
        layer=_L.MESSAGES,
        moves=True,
        help="sends a non-fatal error event, then continues; Gemini Live closes the connection",
        dialects=_WITH_MESSAGES,
        kinds={"gemini-live": _K.ENDPOINT_ERROR},
    ),
    FaultDescription(
        name=_N.DUPLICATE,
        layer=_L.MESSAGES,
        argument=_A.NUMBER,
        default="3",
        most=1000,
        help="sends every N-th delta of audio, or packet, twice",
        kinds={"moshi": _K.MALFORMED_AUDIO},
    ),
    FaultDescription(
        name=_N.MISSING,
        layer=_L.MESSAGES,
        argument=_A.NUMBER,
        default="10",
        most=1000,
        help="does not send every N-th delta of audio, or packet",
        kinds={"moshi": _K.MALFORMED_AUDIO},
    ),
    FaultDescription(
        name=_N.REORDER,
        layer=_L.MESSAGES,
        argument=_A.NUMBER,
        default="3",
        most=1000,
        help="sends every N-th delta of audio, or packet, after the next one",
        kinds={"moshi": _K.MALFORMED_AUDIO},
    ),
    # -- Reply -----------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.SILENT,
        layer=_L.REPLY,
        help="listens, but never answers",
        kind=_K.NO_RESPONSE,
    ),
    FaultDescription(
        name=_N.STALL,
        layer=_L.REPLY,
        argument=_A.DURATION,
        help="stops in the middle of a reply; with DURATION, continues after so long",
        dialects=_TURNS,
        kind=_K.STALLED,
    ),
    FaultDescription(
        name=_N.NO_DONE,
        layer=_L.REPLY,
        help="sends the whole reply, but never ends the response",
        dialects=_TURNS,
        kind=_K.STALLED,
    ),
    FaultDescription(
        name=_N.ENDLESS,
        layer=_L.REPLY,
        help="repeats the reply forever, at the pace of speech",
        kind=_K.ENDLESS,
    ),
    FaultDescription(
        name=_N.EMPTY_REPLY,
        layer=_L.REPLY,
        help="completes the response without audio or text",
        kind=_K.NO_RESPONSE,
        kinds=_each(_TURNS, _K.EMPTY_REPLY),
    ),
    FaultDescription(
        name=_N.TRANSCRIPT_ONLY,
        layer=_L.REPLY,
        help="sends the transcript of the reply and completes it, without audio",
        dialects=_WITH_MESSAGES,
        kind=_K.NO_RESPONSE,
        kinds=_each(_TURNS, _K.EMPTY_REPLY),
    ),
    FaultDescription(
        name=_N.AUDIO_AFTER_DONE,
        layer=_L.REPLY,
        help="sends one more chunk of audio after the response is done",
        dialects=("openai", "openai-beta", "gemini-live"),
    ),
    FaultDescription(
        name=_N.FAILED_RESPONSE,
        layer=_L.REPLY,
        help="ends the response as failed, before any audio",
        dialects=_WITH_MESSAGES,
        kind=_K.RESPONSE_FAILED,
        kinds={"gemini-live": _K.ENDPOINT_ERROR} | _each(("openai-live", "moshi"), _K.NO_RESPONSE),
    ),
    FaultDescription(
        name=_N.INCOMPLETE_RESPONSE,
        layer=_L.REPLY,
        help="ends the response as incomplete after half of the reply",
        dialects=_NAMED,
        kind=_K.RESPONSE_INCOMPLETE,
    ),
    FaultDescription(
        name=_N.CANCELLED_RESPONSE,
        layer=_L.REPLY,
        help="cancels the response by itself after half of the reply",
        dialects=_TURNS,
        kind=_K.RESPONSE_CANCELLED,
    ),
    # -- Audio -----------------------------------------------------------------------------------------
    FaultDescription(
        name=_N.AUDIO_RATE,
        layer=_L.AUDIO,
        argument=_A.NUMBER,
        default="16000",
        most=48_000,
        help="sends audio of this sample rate, and says so where the dialect's audio messages do",
        dialects=_JSON,
        kinds={"gemini-live": _K.WRONG_RATE},
    ),
    FaultDescription(
        name=_N.CORRUPT_AUDIO,
        layer=_L.AUDIO,
        argument=_A.NUMBER,
        default="3",
        most=1000,
        help="replaces the audio of every N-th delta, or packet, by bytes that are none",
        kind=_K.MALFORMED_AUDIO,
        kinds=_each(_JSON, _K.MALFORMED_MESSAGE),
    ),
    FaultDescription(
        name=_N.SILENT_AUDIO,
        layer=_L.AUDIO,
        help="replies with digital silence of the right length",
        kinds=_each(("openai-live", "moshi", *_BOTS), _K.NO_RESPONSE),
    ),
    FaultDescription(
        name=_N.SKEW,
        layer=_L.AUDIO,
        argument=_A.SHARE,
        default="10%",
        help="stamps run so much fast: positions in the input, times of transcripts, RTP timestamps",
        dialects=("openai", "openai-beta", "openai-live", *_TRACKS),
    ),
)

FAULTS: Mapping[FaultName, FaultDescription] = MappingProxyType({each.name: each for each in _LIST})
"""Every fault by name, by layer."""
