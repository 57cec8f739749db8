"""The interface of endpoint dialects: pure protocol code with messages in, actions and events out.

A dialect imports no socket, no event loop and no clock. The session reports every input with its time, and
executes the dialect's outputs in order:

* `Send` sends a message, `SetTimer` schedules a call of `Dialect.timer`, `Close` ends the connection;
* `Reconnect` replaces the connection with a new one, as specified by `Dialect.dial`;
* every other output is an event of the turn. Audio in events is *undecoded* bytes with their codec: decoding
  takes time and is done after the turn.

If media travel on a separate track (`Dial.signalling`), the user's frames and the reply's packets bypass the
dialect. `PlaybackStarted` and `PlaybackStopped` then mark a reply's packets; if the endpoint does not mark
its replies (`Dialect.continuous_media`), the session detects them by their energy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from live_eval.audio import Codec
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode, Usage

__all__ = [
    "Close",
    "Committed",
    "Dial",
    "Dialect",
    "EarlierTurn",
    "EndpointProblem",
    "EndpointSettings",
    "Event",
    "InputTranscript",
    "Interrupted",
    "Lookup",
    "Message",
    "Output",
    "PlaybackStarted",
    "PlaybackStopped",
    "QueuedAudio",
    "RateLimit",
    "RateLimits",
    "Reconnect",
    "ReplyAudio",
    "ReplyAudioDone",
    "ReplyText",
    "ResponseDone",
    "ResponseStarted",
    "SdpBody",
    "Send",
    "SessionReady",
    "SetTimer",
    "Signalling",
    "SpeechStarted",
    "SpeechStopped",
    "StreamAudio",
    "StreamInterrupted",
    "StreamText",
    "TransportKind",
    "UnknownEvent",
    "Usage",
]

Message: TypeAlias = str | bytes


class TransportKind(StrEnum):
    """The kind of connection for messages and audio."""

    WEBSOCKET = "websocket"
    WEBRTC = "webrtc"
    HTTP2 = "http2"
    """A bidirectional stream of events over HTTP/2, through the vendor's SDK."""
    HTTP = "http"
    """One request per turn: not realtime, and therefore without comparable latencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTurn:
    """A turn of a dialogue before the session.

    Args:
        text: The user's words; unused if there is audio.
        reply: The reply that they got.
        audio: The user's recording instead of the words: int16 little-endian mono at the specification's
            input rate, in base64; or empty.
    """

    text: str
    reply: str
    audio: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """Settings of one session with an endpoint.

    Args:
        base_url: Base URL, such as ``"wss://api.openai.com/v1"``; http and https count as ws and wss.
        instructions: System prompt, or empty.
        turn_detection: Vendor's settings of the speech detector, merged over the default; the key ``type``
            selects the detector (``server_vad``, ``semantic_vad``).
        transcription_model: Model for input transcription, or None.
        language: BCP 47 tag of the speech, or None.
        max_output_tokens: Maximum length of a reply in tokens, or None for no limit.
        extra: Additional session settings in the vendor's spelling.
        ice_servers: STUN and TURN servers for WebRTC, such as ``"stun:HOST:3478"``.
        key_id: Name of the key, for services that issue a key in two parts; or None.
        key_token: Session token of a temporary key, or None.
        ready_s: Time limit for the session to become ready after connecting, in seconds.
        history: Earlier turns of the dialogue, which the dialect sends before the session is ready.
    """

    base_url: str
    model: str | None = None
    voice: str | None = None
    instructions: str = ""
    modality: Modality = Modality.AUDIO
    turn_mode: TurnMode = TurnMode.SERVER_VAD
    turn_detection: Mapping[str, Any] = field(default_factory=dict)
    transcription_model: str | None = None
    language: str | None = None
    max_output_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    ice_servers: Sequence[str] = ()
    key: Secret | None = None
    key_id: str | None = None
    key_token: Secret | None = None
    ready_s: float = 15.0
    history: Sequence[EarlierTurn] = ()


class SdpBody(StrEnum):
    """Format of a session description in the body of an HTTP request or response."""

    SDP = "sdp"
    """Plain SDP, ``application/sdp``."""
    FORM = "form"
    """SDP in the part ``sdp`` of ``multipart/form-data``."""
    JSON = "json"
    """SDP in the member ``sdp`` of a JSON object that also has a ``type``."""
    MESSAGE = "message"
    """SDP in a message over a WebSocket at `Dial.url`, which remains open."""


@dataclass(frozen=True, slots=True)
class Signalling:
    """Signalling of a WebRTC connection: POST the offer to `Dial.url`, or send it as a message.

    Args:
        fields: Additional members of the JSON object, or parts of the form (objects as JSON).
        channel: Label of the data channel to open for messages; None for no channel.
        patch_candidates: Whether to PATCH local candidates to the same URL, with the answer's ``pc_id``.
        ice_servers: STUN and TURN servers; if empty, only this host's addresses are offered.
    """

    offer: SdpBody
    answer: SdpBody
    fields: Mapping[str, Any] = field(default_factory=dict)
    channel: str | None = None
    patch_candidates: bool = False
    ice_servers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request for a WebSocket's address, to `Dial.url` with `Dial.headers`.

    In a room, the response may name a WebSocket with a `Lookup` of its own. It is a connection, and its
    first message is the response; the connection stays open as long as the session.

    Args:
        form: Fields to POST, sent URL-encoded; without `form` and `json`, the request is a GET.
        json: Object to POST instead, sent as JSON.
        expected: Description of a usable response, for messages.
        read: Return the connection's parameters from the text of the response; raise `ValueError`, with the
            actual content, if it has none.
    """

    form: Mapping[str, str] | None = field(repr=False)
    expected: str
    read: Callable[[str], Dial] = field(repr=False)
    json: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Dial:
    """Connection parameters; never logged, since the headers may contain a key.

    Args:
        keepalive: Whether to send pings, to which some services respond too late.
        signalling: Signalling of a WebRTC connection; None for other transports.
        lookup: Request that returns the parameters of the WebSocket to connect to; None to connect to `url`.
        signed: Return headers that depend on the time, in nanoseconds since the Unix epoch; None for none.
        sdk: Parameters of a vendor's SDK that makes the connection, with the credentials for it.
        advice: What the user can do about a failed connection, by `FailureKind` or HTTP status.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    subprotocols: Sequence[str] = ()
    keepalive: bool = True
    signalling: Signalling | None = None
    lookup: Lookup | None = None
    signed: Callable[[int], Mapping[str, str]] | None = field(default=None, repr=False)
    sdk: Mapping[str, str] = field(default_factory=dict, repr=False)
    advice: Mapping[FailureKind | int, str] = field(default_factory=dict)


# -- Actions: what the session must do next ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message now."""

    message: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `Dialect.timer` at `at_ns`, replacing the timer with the same name; None cancels the timer."""

    name: str
    at_ns: int | None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection and drop all timers."""

    code: int = 1000
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Call `Dialect.dial`, replace the connection, and call `Dialect.opened`.

    This is for services whose sessions outlive their connections. The dialect buffers the user's frames until
    the new connection accepts them. Further requests while connecting have no effect.
    """


# -- Events: what happened -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionReady:
    """The endpoint accepted the session settings; the user may speak."""

    session_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The endpoint detected the start of the user's speech, at offset `audio_ms` of its input buffer."""

    audio_ms: int | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The endpoint detected the end of the user's speech, at offset `audio_ms` of its input buffer."""

    audio_ms: int | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The endpoint accepted the user's turn as complete."""

    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class InputTranscript:
    """Transcript of the user's audio, often not from the model that generates the reply.

    Args:
        text: Text to append or, if `final`, the item's complete text.
        failed: Whether transcription of the item failed: no more text follows.
    """

    text: str
    final: bool
    item_id: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The endpoint began a response."""

    response_id: str


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """A chunk of reply audio in wire format."""

    response_id: str
    data: bytes = field(repr=False)
    codec: Codec
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReplyAudioDone:
    """The endpoint reported that the response's audio is complete."""

    response_id: str


@dataclass(frozen=True, slots=True)
class PlaybackStarted:
    """The media track starts to play this response."""

    response_id: str


@dataclass(frozen=True, slots=True)
class PlaybackStopped:
    """The media track no longer plays this response."""

    response_id: str


@dataclass(frozen=True, slots=True)
class StreamAudio:
    """A chunk of continuous audio in wire format, including silence; replies are detected by energy."""

    data: bytes = field(repr=False)
    codec: Codec


@dataclass(frozen=True, slots=True)
class QueuedAudio:
    """A chunk of PCM or G.711 for a phone line's playout queue; it may arrive faster than real time.

    The session plays it after the queued chunks, and then handles it as `StreamAudio`. `StreamInterrupted`
    empties the queue.
    """

    data: bytes = field(repr=False)
    codec: Codec


@dataclass(frozen=True, slots=True)
class StreamText:
    """Reply text from an endpoint that does not mark its responses.

    Args:
        text: Text to append or, if `final`, the complete text, which replaces the previous fragments.
    """

    text: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class StreamInterrupted:
    """The endpoint stopped the current reply in its continuous audio, and emptied its playout queue."""


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Reply text: the transcript of the audio, or the reply itself in text mode.

    Args:
        text: Text to append or, if `final`, the part's complete text, which replaces the previous fragments.
    """

    response_id: str
    text: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """A response ended.

    Args:
        reason: Why the response did not complete ("turn_detected", "max_output_tokens", an error's text).
    """

    response_id: str
    status: ResponseStatus
    reason: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The endpoint stopped the response because the user spoke: pending playout audio is dropped."""

    response_id: str


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate limit of the endpoint."""

    name: str
    limit: float
    remaining: float
    reset_s: float


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The endpoint reported its remaining rate limits."""

    limits: tuple[RateLimit, ...]


@dataclass(frozen=True, slots=True)
class EndpointProblem:
    """An error from the endpoint, or in its messages.

    Args:
        message: Expected and actual value.
        fatal: Whether the error ends the session.
        code: The endpoint's error code.
        retry_after_s: Retry delay requested by the endpoint, in seconds.
    """

    kind: FailureKind
    message: str
    fatal: bool
    code: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A message of an unknown type; it is reported as a warning."""

    type: str


Event: TypeAlias = (
    SessionReady
    | SpeechStarted
    | SpeechStopped
    | Committed
    | InputTranscript
    | ResponseStarted
    | ReplyAudio
    | ReplyAudioDone
    | PlaybackStarted
    | PlaybackStopped
    | QueuedAudio
    | StreamAudio
    | StreamText
    | StreamInterrupted
    | ReplyText
    | ResponseDone
    | Interrupted
    | RateLimits
    | EndpointProblem
    | UnknownEvent
)
Output: TypeAlias = Send | SetTimer | Close | Reconnect | Event


class Dialect(Protocol):
    """Protocol state of one session, constructed with `EndpointSettings`.

    A session may have several turns: each response and each user item has a unique ID.

    Call order: `dial`; `opened` when the transport is connected (both again after `Reconnect`); then
    `received`, `frame`, `end_turn`, `interrupt` and `timer` in any order; `finish` at the end; `closed` if
    the connection ends before that. No method is called after `closed`. No method raises because of an
    endpoint's message: a malformed message becomes an `EndpointProblem`.
    """

    @property
    def needs_continuous_input(self) -> bool:
        """Whether silence must be streamed while the user does not speak, in every turn mode."""
        ...

    @property
    def continuous_media(self) -> bool:
        """Whether the endpoint streams audio without marking responses, which are then detected by energy."""
        ...

    @property
    def secrets(self) -> set[str]:
        """Strings that `redact` hides: the key, and secrets issued by the endpoint (tokens, signed URLs).

        The set is changed in place, so that another instance can redact a session's messages.
        """
        ...

    def dial(self) -> Dial:
        """Return the connection parameters."""
        ...

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Begin the session after the transport has connected."""
        ...

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle a message that arrived at `at_ns`."""
        ...

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Encode a frame of the user's audio ahead of time; not called if audio travels on a track.

        Args:
            pcm: int16 little-endian mono at the specification's input rate.
            at_ns: Deadline of the frame: up to a frame ahead, or in the past if the event loop was late.
        """
        ...

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        """Commit the user's turn and request a response (manual turns only)."""
        ...

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Stop the reply after the user has heard `heard_ms` of it."""
        ...

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Handle a timer that the dialect set."""
        ...

    def finish(self, at_ns: int) -> Sequence[Output]:
        """End the session as the vendor requires, and return `Close`.

        `Close` may be returned later, when the endpoint's final message arrives or a timer fires; the session
        waits for it for a few seconds.
        """
        ...

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Handle the endpoint closing the connection."""
        ...

    def redact(self, message: Message) -> dict[str, Any]:
        """Return a sent or received message as a JSON object for the log, with audio replaced by its size.

        The result must contain no secret and must depend only on the message, the settings and `secrets`,
        since another instance of the dialect may be called. An unparsable message is stored under ``"raw"``.
        """
        ...
