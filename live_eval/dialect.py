"""The contract of endpoint dialects: pure protocol code. Messages in, actions and events out.

A dialect imports no socket, no event loop and no clock. The session reports everything that happens, with its
time, and carries out the outputs of the dialect in order:

* `Send` sends a message, `SetTimer` leads to a call of `Dialect.timer`, `Close` ends the connection;
* `Reconnect` replaces the connection by a new one, as `Dialect.dial` then defines;
* every other output is an event of the turn. Audio in events is *undecoded* bytes with their codec: decoding
  takes time, and happens after the turn.

If media travel on a separate track (`Dial.signalling`), the user's frames and the reply's packets bypass the
dialect. `PlaybackStarted` and `PlaybackStopped` then mark the packets of a reply; if the endpoint does not
mark its replies (`Dialect.continuous_media`), the session finds them by their energy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from live_eval.audio import Codec
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode, Usage

__all__ = [
    "ClientSpec",
    "Close",
    "Committed",
    "Dial",
    "Dialect",
    "Emulation",
    "EndpointProblem",
    "EndpointSettings",
    "Event",
    "InputTranscript",
    "Interrupted",
    "Message",
    "Output",
    "PlaybackStarted",
    "PlaybackStopped",
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
    HTTP = "http"
    """One request per turn: not realtime, and its latency is not comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How the reference endpoint emulates a service, so that its client can be tested and calibrated.

    Args:
        base_path: Path of the base URL to give the client, such as ``"/v1"``.
        lossy_input: Whether the user's audio goes through a lossy codec.
        exclusive: Whether there is one session at a time.
        calibrates: Whether `live-eval calibrate` uses this client to measure its kind of transport.
    """

    base_path: str = ""
    lossy_input: bool = False
    exclusive: bool = False
    calibrates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """The specification of a client plugin, which can be read without loading the client. An entry point
    names it.

    Args:
        name: Its name for ``--endpoint``.
        title: The service's name in reports.
        dialect: The implementation, ``"module:Class"``: a class that takes `EndpointSettings`.
        transport: The implementation, ``"module:Class"``: a class that takes a `Clock`.
        transport_kind: The kind of that transport.
        base_url: The service's URL; None if the user must pass it, or if `launch` starts the service.
        model: Default model, or None.
        voice: Default voice, or None.
        transcription_model: Default model for transcribing the input, or None.
        key_variable: Environment variable that holds the API key, or None if none is needed.
        input_rate_hz: Sample rate of the user's audio on the wire.
        output_rate_hz: Sample rate of the reply's audio.
        frame_ms: Length of a frame of user audio.
        turn_modes: The turn modes that the service offers; the first is the default.
        takes_instructions: Whether a session takes a system prompt.
        session_limit_s: The service ends a session after this long, or None.
        sessions: How many sessions the service accepts at a time by default, which limits a run; None if
            unknown.
        greets: Whether the service speaks first, at `base_url` or as `launch` starts it. None if unknown: the
            first sessions of a run wait for a greeting.
        limits: Other limits that users should know.
        docs_url: The vendor's documentation.
        verified: When this client was tried against the vendor's own service, or None if never.
        launch: ``"module:function"`` that starts the service for a run without a base URL: called with the
            data set's folder and the folder for logs, it returns an asynchronous context manager of the base
            URL. None if it cannot be started.
        emulation: How the reference endpoint emulates the service; None if it does not.
    """

    name: str
    title: str
    dialect: str
    transport: str
    base_url: str | None = None
    transport_kind: TransportKind = TransportKind.WEBSOCKET
    model: str | None = None
    voice: str | None = None
    transcription_model: str | None = None
    key_variable: str | None = None
    input_rate_hz: int = 24_000
    output_rate_hz: int = 24_000
    frame_ms: int = 20
    turn_modes: tuple[TurnMode, ...] = (TurnMode.SERVER_VAD, TurnMode.MANUAL)
    takes_instructions: bool = True
    session_limit_s: int | None = None
    sessions: int | None = None
    greets: bool | None = None
    limits: str = ""
    docs_url: str = ""
    verified: str | None = None
    launch: str | None = None
    emulation: Emulation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The settings of one session with an endpoint.

    Args:
        base_url: For example ``"wss://api.openai.com/v1"``; http and https count as ws and wss.
        instructions: The system prompt; empty for none.
        turn_detection: The vendor's settings for its detector, merged over the default; the key ``type``
            chooses the detector (``server_vad``, ``semantic_vad``).
        transcription_model: The model that transcribes the input, or None.
        language: BCP 47 tag of the speech, or None.
        max_output_tokens: The longest reply, or None for no limit.
        extra: Merged into the session's settings, spelled as the vendor spells them.
        ice_servers: STUN and TURN servers for WebRTC, such as ``"stun:HOST:3478"``.
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


class SdpBody(StrEnum):
    """The form of a session description in the body of an HTTP request or answer."""

    SDP = "sdp"
    """Plain, ``application/sdp``."""
    FORM = "form"
    """As the part ``sdp`` of ``multipart/form-data``."""
    JSON = "json"
    """As ``sdp`` of an object that also has a ``type``."""


@dataclass(frozen=True, slots=True)
class Signalling:
    """How to set up a WebRTC connection: POST the offer to `Dial.url` with `Dial.headers`.

    Args:
        fields: Further members of the JSON object, or parts of the form (objects as JSON).
        channel: Label of the data channel to open for messages; None for no channel.
        patch_candidates: Whether to PATCH our candidates to the same URL, with the answer's ``pc_id``.
        ice_servers: STUN and TURN servers; without any, only this host's own addresses are offered.
    """

    offer: SdpBody
    answer: SdpBody
    fields: Mapping[str, Any] = field(default_factory=dict)
    channel: str | None = None
    patch_candidates: bool = False
    ice_servers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Dial:
    """Where and how to connect. The headers may contain a key, so they are never logged.

    Args:
        keepalive: Whether to send pings; some services answer them too late.
        signalling: How to set up a WebRTC connection; None for other transports.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    subprotocols: Sequence[str] = ()
    keepalive: bool = True
    signalling: Signalling | None = None


# -- Actions: what the session must do next ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message now."""

    message: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `Dialect.timer(name, …)` at `at_ns`. Replaces the timer of that name; None cancels it."""

    name: str
    at_ns: int | None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection and drop all timers."""

    code: int = 1000
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Call `Dialect.dial` and connect again, drop this connection, and call `Dialect.opened`.

    For services that end connections but let sessions continue. Meanwhile the dialect keeps the user's frames
    until it can send them. A second request while connecting has no effect.
    """


# -- Events: what happened -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionReady:
    """The endpoint accepted our settings; the user may speak."""

    session_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The endpoint detected that the user began to speak, as it reports `audio_ms` into its input buffer."""

    audio_ms: int | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The endpoint detected that the user stopped, as it reports `audio_ms` into its input buffer."""

    audio_ms: int | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The endpoint accepted the user's turn as complete."""

    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class InputTranscript:
    """The transcript of the user's audio; often it is not from the model that answers.

    Args:
        text: A piece to append or, if `final`, the whole text of the item.
        failed: Whether the item could not be transcribed: no more text follows.
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
    """A chunk of reply audio, as on the wire."""

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
    """The media track carries this response from now on."""

    response_id: str


@dataclass(frozen=True, slots=True)
class PlaybackStopped:
    """The media track no longer carries this response."""

    response_id: str


@dataclass(frozen=True, slots=True)
class StreamAudio:
    """A chunk of continuous audio, silence included, as on the wire; its energy shows the replies."""

    data: bytes = field(repr=False)
    codec: Codec


@dataclass(frozen=True, slots=True)
class StreamText:
    """A piece of the endpoint's text, if it does not mark its responses."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamInterrupted:
    """The endpoint stopped the reply that its continuous audio carries now."""


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Text of the reply: the transcript of its audio, or the reply itself in text mode.

    Args:
        text: A piece to append or, if `final`, the whole text of the part, which replaces the pieces.
    """

    response_id: str
    text: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """A response ended.

    Args:
        reason: Why it did not complete ("turn_detected", "max_output_tokens", an error's text).
    """

    response_id: str
    status: ResponseStatus
    reason: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The endpoint stopped the response because the user spoke: audio that was not yet played is dropped."""

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
    """The endpoint reported the remainder of its rate limits."""

    limits: tuple[RateLimit, ...]


@dataclass(frozen=True, slots=True)
class EndpointProblem:
    """An error of the endpoint, or of its messages.

    Args:
        message: What was expected and what was found.
        fatal: Whether it ends the session.
        code: The endpoint's code for it.
        retry_after_s: Seconds that the endpoint asks us to wait before the next attempt.
    """

    kind: FailureKind
    message: str
    fatal: bool
    code: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A message of a type that the dialect does not know; it causes a warning."""

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
    """The protocol state of one session, constructed with `EndpointSettings`.

    A session may have several turns: each response and each item of the user has its own name.

    The order of calls: `dial`; `opened` once the transport is connected (both again after `Reconnect`); then
    `received`, `frame`, `end_turn`, `interrupt` and `timer` in any order; `finish` at the end; `closed` if
    the connection ends before that. After `closed` no method is called, not even `finish`. No method raises
    because of an endpoint's message: a malformed one becomes an `EndpointProblem`.
    """

    @property
    def needs_continuous_input(self) -> bool:
        """Whether input must flow, as silence, while nobody speaks, in every turn mode."""
        ...

    @property
    def continuous_media(self) -> bool:
        """Whether the endpoint's audio flows without marked responses, so that its energy shows them."""
        ...

    def dial(self) -> Dial:
        """Return where and how to connect."""
        ...

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Begin the session: the transport is connected."""
        ...

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle a message that arrived at `at_ns`."""
        ...

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Encode a frame of the user's audio, ahead of time; not called if audio travels on a track.

        Args:
            pcm: int16 little-endian mono at the specification's input rate.
            at_ns: When it is due: up to a frame later than now, or earlier if the event loop was late.
        """
        ...

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        """Commit the user's turn and ask for a response (manual turns only)."""
        ...

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Stop the reply, of which the user has heard `heard_ms`."""
        ...

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Handle a timer that the dialect set."""
        ...

    def finish(self, at_ns: int) -> Sequence[Output]:
        """End the session as the vendor requires, and return `Close`.

        `Close` may follow later, when the endpoint's farewell arrives or a timer fires: the session waits a
        few seconds for it.
        """
        ...

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Handle the end of the connection by the endpoint."""
        ...

    def redact(self, message: Message) -> dict[str, Any]:
        """Return a message of either direction as a JSON object for the log, with the size of its audio.

        The result must contain no secret, and depend on the message and the settings alone: another dialect
        than the session's may be asked. A message that cannot be parsed goes under ``"raw"``.
        """
        ...
