"""Base classes of dialects, which implement the behaviour common to most protocols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import orjson
import pybase64

from live_eval.clients.toolkit._messages import (
    Fields,
    MalformedError,
    hide_secrets,
    parse_object,
    redact_object,
    redact_raw,
    whole_samples,
)
from live_eval.clients.toolkit._settings import bearer_header, http_url, with_advice
from live_eval.clients.toolkit._wav import wav_header
from live_eval.dialect import (
    Close,
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    SdpBody,
    Send,
    SessionReady,
    SetTimer,
    Signalling,
    UnknownEvent,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import TurnMode

Handler: TypeAlias = Callable[[Fields, int], list[Output]]
"""Handle an event that arrived at a time in ns."""

NO_TOOL = "this client has no tools"
"""The answer to the call of a tool."""

_NAME_CHARACTERS = 100
_TEXT_CHARACTERS = 500
_READY = "ready"
_READY_NS = 2_000_000_000


def send_json(value: Mapping[str, object]) -> Send:
    """Send a JSON object as text.

    >>> send_json({"type": "hello"}).message
    '{"type":"hello"}'
    """
    return Send(orjson.dumps(value).decode())


def send_audio(before: str, data: bytes, after: str = '"}') -> Send:
    """Send base64 audio between two JSON fragments; a JSON encoder is too slow for every frame.

    >>> send_audio('{"type":"audio","data":"', b"pcm").message
    '{"type":"audio","data":"cGNt"}'
    """
    return Send(before + pybase64.b64encode_as_string(data) + after)


def text_in(body: str, field: str) -> str:
    """Return a text in the response to a `Lookup`.

    Raises:
        ValueError: The body is not a JSON object with a string in `field`.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ValueError(f"got {len(body)} characters that are not JSON") from None
    if not isinstance(found, dict) or field not in found:
        what = "an object without it" if isinstance(found, dict) else f"JSON of type {type(found).__name__}"
        raise ValueError(f"got {what}")
    text = found[field]
    if not isinstance(text, str):
        raise ValueError(f"got {type(text).__name__} as {field}")
    return text


class BaseDialect:
    """Base class whose methods do nothing by default; a subclass implements at least `dial` and `received`.

    Attributes:
        settings: The session settings.
        ready: Whether the session is ready; see `become_ready`.
        last_error: The last reported error, or None once the endpoint has continued; see `ended`.
        over: Whether the session failed or we closed it; the end of the connection is then not reported.
        secrets: Strings to redact: the key and any that a subclass adds.
        advice: What the user can do about a failure, by kind or, while connecting, by HTTP status; added to
            the messages of `fatal` and `ended`, and to those of the transport if `dial` returns it.
    """

    needs_continuous_input: bool = False
    """Whether input must flow (as silence) while the user is silent."""
    continuous_media: bool = False
    """Whether the endpoint's audio has no response boundaries; replies are then detected by their energy."""

    audio_fields: ClassVar[Collection[str]] = ("audio",)
    """Message fields with base64 audio; the log shows only its size."""
    secret_fields: ClassVar[Collection[str]] = ()
    """Message fields with secrets, in addition to those recognised by name."""
    binary_text: ClassVar[bool] = False
    """Whether binary messages contain text."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.ready = False
        self.over = False
        self.last_error: str | None = None
        key = settings.key.reveal() if settings.key is not None else ""
        self.secrets = {key} if key else set()
        self.advice: dict[FailureKind | int, str] = {}

    # -- Defaults of the contract ------------------------------------------------------------------------

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Do nothing: the endpoint sends the first message."""
        return ()

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Do nothing: audio is sent on a track."""
        return ()

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        """Do nothing: the endpoint decides when a turn ends."""
        return ()

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Do nothing: the endpoint stops when it detects user speech."""
        return ()

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Do nothing: no timer is set."""
        return ()

    def finish(self, at_ns: int) -> Sequence[Output]:
        """Close without a final message."""
        self.over = True
        return (Close(),)

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Report the end of the connection once, unless we caused it."""
        if self.over:
            return ()
        self.over = True
        return (self.closing(code, reason, at_ns),)

    def redact(self, message: Message) -> dict[str, Any]:
        """Return a copy of a message for the log, without secrets or audio."""
        if isinstance(message, bytes):
            if not self.binary_text:
                return {"raw": {"bytes": len(message)}}
            message = message.decode(errors="replace")
        try:
            event = parse_object(message)
        except MalformedError:
            return redact_raw(message, self.secrets)
        return redact_object(event, self.secrets, self.audio_fields_of(event), self.secret_fields)

    # -- For subclasses ----------------------------------------------------------------------------------

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        """Return the problem for the end of the connection, which is fatal if the session was not ready.

        Once the session is ready, it decides whether a reply was due.
        """
        when = "in the session" if self.ready else "before the session was ready"
        return self.ended(self.closed_text(when, code, reason))

    def ended(self, text: str) -> EndpointProblem:
        """Return the problem for the end of the connection: fatal before the session is ready or after an
        error.

        The error is `last_error`.
        """
        kind = FailureKind.CLOSED
        if self.last_error is not None:
            kind, text = FailureKind.ENDPOINT_ERROR, f"{text}, after {self.last_error}"
        fatal = kind is FailureKind.ENDPOINT_ERROR or not self.ready
        return EndpointProblem(kind, with_advice(text, self.advice.get(kind)), fatal=fatal)

    def audio_fields_of(self, event: Mapping[str, Any]) -> Collection[str]:
        """Return the names of a message's audio fields; override this if they depend on the message."""
        return self.audio_fields

    def clean(self, text: str) -> str:
        """Return text from the endpoint without secrets, at most 500 characters."""
        return hide_secrets(text, self.secrets)[:_TEXT_CHARACTERS]

    def closed_text(self, when: str, code: int | None, reason: str) -> str:
        """Return the error message for a connection closed by the endpoint."""
        return f"the endpoint closed the connection {when}: {self.end_in_words(code, reason)}"

    def end_in_words(self, code: int | None, reason: str) -> str:
        """Return the code and the reason of a connection's end; a lost connection has a reason only."""
        text = self.clean(reason)
        return text if code is None and text else f"code {code}, reason {text!r}"

    def unknown(self, name: str) -> UnknownEvent:
        """Return the event for a message of an unknown type."""
        return UnknownEvent(self.clean(name)[:_NAME_CHARACTERS])

    def address_in(self, body: str, field: str, public: Collection[str] = ()) -> Dial:
        """Return the WebSocket address in the response to a `Lookup`.

        Its query parameters are secrets, except for `public`.

        Raises:
            ValueError: The body is not a JSON object with a string in `field`.
        """
        url = text_in(body, field)
        self.secrets |= {value for name, value in parse_qsl(urlsplit(url).query) if name not in public}
        return Dial(url)

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        """Report once that the session is ready; its ID is stored, so secrets are removed from it."""
        if self.ready:
            return []
        self.ready = True
        return [SessionReady(session_id and self.clean(session_id), model)]

    def handled(self, handler: Handler, event: Fields, at_ns: int) -> list[Output]:
        """Return the outputs of a handler and the defects that it found in the event."""
        try:
            outputs = handler(event, at_ns)
        except MalformedError as error:
            return [self.malformed(str(error))]
        if event.wrong:
            outputs.append(self.malformed("; ".join(event.wrong)))
        return outputs

    def tool_called(self, name: str | None, *answer: Output, place: str = "agent") -> list[Output]:
        """Return the warning that the model called a tool, and the answer for which the agent waits.

        Args:
            name: The tool.
            answer: The message with the error `NO_TOOL` as result.
            place: Where the user configured the tool.
        """
        called = self.clean(name or "unnamed")
        text = (
            f"the agent called the tool {called!r}, which this client cannot run; remove it from the {place}"
        )
        return [self.warning(text), *answer]

    def malformed(self, message: str) -> EndpointProblem:
        """Return the problem for a malformed message; the session continues."""
        return EndpointProblem(FailureKind.MALFORMED_MESSAGE, self.clean(message), fatal=False)

    def warning(self, message: str, code: str | None = None) -> EndpointProblem:
        """Return a problem that does not end the session."""
        return EndpointProblem(FailureKind.NOT_FATAL_ERROR, self.clean(message), fatal=False, code=code)

    def refused(
        self, said: str, code: str | None = None, kind: FailureKind | None = None, what: str = "session"
    ) -> EndpointProblem:
        """Return the failure of a session that the endpoint refused with an error; call it before `ready`.

        Args:
            said: The endpoint's error.
            code: Its code.
            kind: `SESSION_REFUSED` by default, which is not retried: the same settings would be refused
                again.
            what: The vendor's name for a session.
        """
        text = f"the endpoint refused the {what}: {said}"
        return self.fatal(kind or FailureKind.SESSION_REFUSED, text, code)

    def fatal(
        self, kind: FailureKind, message: str, code: str | None = None, retry_after_s: float | None = None
    ) -> EndpointProblem:
        """Return a problem that ends the session, and set `over`."""
        self.over = True
        text = with_advice(self.clean(message), self.advice.get(kind))
        return EndpointProblem(kind, text, fatal=True, code=code, retry_after_s=retry_after_s)


class RequestDialect(BaseDialect):
    """Base class of dialects that send the recording of a turn as one HTTP request; there is no session.

    A subclass implements `request`, `part` and the answer, and sets `begun` and `over`. An empty message is
    the end of a response; see `cut_off`.

    Attributes:
        requested: Whether the request was sent.
        begun: Whether the response began.

    Raises:
        UsageError: The turn mode is not ``manual``.
    """

    binary_text = True
    input_rate_hz: ClassVar[int]
    """Sample rate of the recording."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        if settings.turn_mode is not TurnMode.MANUAL:
            raise UsageError(
                f"turns.mode: expected 'manual' (each turn is one request), got {settings.turn_mode.value!r}"
            )
        self.requested = self.begun = False
        self._frames: list[bytes] = []

    def request(self, wav: str) -> Mapping[str, object]:
        """Return the request with the user's recording, a WAV file in base64."""
        raise NotImplementedError

    def part(self, wav: str) -> Mapping[str, object]:
        """Return the content part of a recording, a WAV file in base64."""
        raise NotImplementedError

    def messages(self, wav: str) -> list[dict[str, object]]:
        """Return the chat's messages: the instructions, if any, the earlier turns, and the recording."""
        said: list[dict[str, object]] = []
        if self.settings.instructions:
            said.append({"role": "system", "content": self.settings.instructions})
        for turn in self.settings.history:
            heard = [self.part(self._wav(pybase64.b64decode(turn.audio)))] if turn.audio else turn.text
            said += [{"role": "user", "content": heard}, {"role": "assistant", "content": turn.reply}]
        return [*said, {"role": "user", "content": [self.part(wav)]}]

    def _wav(self, pcm: bytes) -> str:
        return pybase64.b64encode_as_string(wav_header(len(pcm), self.input_rate_hz) + pcm)

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Report that the session is ready."""
        return (SessionReady(),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Keep a frame for the request."""
        if not self.requested:
            self._frames.append(pcm)
        return ()

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        """Send the request, once."""
        if self.requested:
            return ()
        self.requested = True
        pcm = b"".join(self._frames)
        self._frames.clear()
        return (send_json(self.request(self._wav(pcm))),)

    def cut_off(self, missing: str) -> Sequence[Output]:
        """Return the failure of a response that has ended without `missing`, unless it is over."""
        if self.over or not self.requested:
            return ()
        self.over = True
        text = f"the response ended without {missing}: it was cut off"
        return (EndpointProblem(FailureKind.CLOSED, text, fatal=True),)

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        """Return the failure of the request."""
        when = "before the response was complete" if self.begun else "before the response began"
        text = f"the connection ended {when}: {self.clean(reason) or 'no reason given'}"
        return EndpointProblem(FailureKind.CLOSED, text, fatal=True)


class EventDialect(BaseDialect):
    """Base class of dialects whose messages are JSON objects with a type.

    A subclass fills `handlers`, keyed by type, and calls `become_ready` once the session is ready.
    """

    type_field: ClassVar[str] = "type"
    """The field that names an event's type."""
    before_ready: ClassVar[Collection[str] | None] = None
    """Events that may arrive before the session is ready; None for any."""
    binary_audio: ClassVar[bool] = False
    """Whether binary messages contain 16-bit samples, in both directions."""
    ignored: ClassVar[Collection[str]] = frozenset()
    """Known events that need no handling, or their prefixes (``duplex.``); they are logged."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers: dict[str, Handler] = {}

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Send a frame as a binary message, if the dialect sends audio as such."""
        return (Send(pcm),) if self.binary_audio else ()

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Handle the samples in a binary message; for dialects with `binary_audio`."""
        raise NotImplementedError

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle an event or, in a binary message, audio of the endpoint."""
        try:
            if self.binary_audio and isinstance(message, bytes):
                return self.audio(whole_samples(message), at_ns) if message else ()
            event = parse_object(message)
        except MalformedError as error:
            return (self.no_event("(no JSON object)", str(error)),)
        name = event.get(self.type_field)
        if not isinstance(name, str):
            return (self.no_event("(no type)", f"expected a string in {self.type_field!r}"),)
        handler = self.handler_of(name, event)
        if handler is None:
            return () if self.ignores(name) else (self.unknown(name),)
        if not self.ready and self.before_ready is not None and name not in self.before_ready:
            return (self.warning(f"ignored {name}: it arrived before the session was ready"),)
        return self.handled(handler, Fields(name, event), at_ns)

    def handler_of(self, name: str, event: Mapping[str, Any]) -> Handler | None:
        """Return the handler of an event, or None if the event is unknown or ignored."""
        return self.handlers.get(name)

    def no_event(self, name: str, problem: str) -> Output:
        """Return the output for a message that is not an event."""
        return self.malformed(problem)

    def ignores(self, name: str) -> bool:
        """Return whether an event needs no handling."""
        return name in self.ignored or f"{name.partition('.')[0]}." in self.ignored


class Bot(EventDialect):
    """Base class for bots with application-specific messages; a subclass implements `hello` and `dial`.

    A bot is ready after its first event, or after two seconds without one. Application messages are unknown
    events.
    """

    needs_continuous_input = True  # a bot's detector needs silence to end a turn

    def hello(self, at_ns: int) -> Sequence[Output]:
        """Send the bot's first message once the connection is open."""
        raise NotImplementedError

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        """Report once that the bot is ready."""
        outputs = super().become_ready(session_id, model)
        return [SetTimer(_READY, None), *outputs] if outputs else []

    def no_event(self, name: str, problem: str) -> Output:
        """Return an unknown event for an application message."""
        return UnknownEvent(name)

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Send the first message and wait up to two seconds for a response, which not every bot sends."""
        return (*self.hello(at_ns), SetTimer(_READY, at_ns + _READY_NS))

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle an event; the first one also shows that the bot is ready."""
        return self.ready_before(super().received(message, at_ns))

    def ready_before(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Return the outputs, preceded by readiness unless they contain only problems and unknown events."""
        if all(isinstance(output, EndpointProblem | UnknownEvent) for output in outputs):
            return outputs
        return (*self.become_ready(), *outputs)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Treat a bot as ready if it has not responded in time."""
        return self.become_ready() if name == _READY else ()


class WebRtcBot(Bot):
    """Base class for WebRTC bots, whose replies are detected by their energy.

    Args:
        settings: The session settings. ``extra`` is added to the offer. A key is sent as a bearer token, for
            bots behind a gateway. The bot determines the model, instructions and voice.

    Raises:
        UsageError: The base URL is not a URL.
    """

    continuous_media = True  # the track does not mark replies

    path: ClassVar[str]
    """Path of the offer under the base URL."""
    channel: ClassVar[str]
    """Label of the data channel."""
    patch_candidates: ClassVar[bool] = False
    """Whether candidates follow in a PATCH."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = http_url(settings.base_url, self.path, {})

    def fields(self) -> dict[str, Any]:
        """Return the fields of the offer other than ``sdp`` and ``type``."""
        return dict(self.settings.extra)

    def dial(self) -> Dial:
        """Return the URL, headers and body of the offer request."""
        return Dial(
            self._url,
            bearer_header(self.settings),
            signalling=Signalling(
                offer=SdpBody.JSON,
                answer=SdpBody.JSON,
                fields=self.fields(),
                channel=self.channel,
                patch_candidates=self.patch_candidates,
                ice_servers=self.settings.ice_servers,
            ),
        )

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Do nothing: the session decides whether a reply was due."""
        return ()
