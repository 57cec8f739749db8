"""Base classes of dialects: what nearly every protocol does the same way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import orjson
import pybase64

from live_eval.clients.toolkit._fields import Fields, MalformedError, parse_object
from live_eval.clients.toolkit._redact import hide_secrets, redact_object, redact_raw
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    Send,
    SessionReady,
    UnknownEvent,
)
from live_eval.errors import FailureKind

Handler: TypeAlias = Callable[[Fields, int], list[Output]]
"""Handles an event that arrived at a time in ns."""

_NAME_CHARACTERS = 100
_TEXT_CHARACTERS = 500


def send_json(value: Mapping[str, object]) -> Send:
    """Send a JSON object as text.

    >>> send_json({"type": "hello"}).message
    '{"type":"hello"}'
    """
    return Send(orjson.dumps(value).decode())


def send_audio(before: str, data: bytes, after: str = '"}') -> Send:
    """Send audio in base64 between two pieces of JSON; no JSON writer, since this runs for every frame.

    >>> send_audio('{"type":"audio","data":"', b"pcm").message
    '{"type":"audio","data":"cGNt"}'
    """
    return Send(before + pybase64.b64encode_as_string(data) + after)


class BaseDialect:
    """A `Dialect` that does nothing by default; a subclass adds at least `dial` and `received`.

    Args:
        settings: The settings of the session.

    Attributes:
        settings: The settings of the session.
        ready: Whether the session is ready; see `become_ready`.
        over: Whether we closed the session or it failed, so that the end of the connection needs no report.
        secrets: Texts that must not be shown: the key, and whatever else a subclass adds.
    """

    needs_continuous_input: bool = False
    """Whether input must flow (as silence) even while nobody speaks."""
    continuous_media: bool = False
    """Whether the endpoint's audio flows without marking responses, so that energy decides."""

    audio_fields: ClassVar[Collection[str]] = ("audio",)
    """Fields of messages that hold audio in base64; the log shows its size alone."""
    secret_fields: ClassVar[Collection[str]] = ()
    """Fields of messages that hold secrets, apart from those whose names say so."""
    binary_text: ClassVar[bool] = False
    """Whether binary messages hold text."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.ready = False
        self.over = False
        key = settings.key.reveal() if settings.key is not None else ""
        self.secrets = {key} if key else set()

    # -- Defaults of the contract ------------------------------------------------------------------------

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Wait: the endpoint speaks first."""
        return ()

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Do nothing: the audio travels on a track."""
        return ()

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        """Do nothing: the endpoint decides when a turn ends."""
        return ()

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Do nothing: the endpoint stops when it hears the user."""
        return ()

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Do nothing: no timer is set."""
        return ()

    def finish(self, at_ns: int) -> Sequence[Output]:
        """Close without a farewell."""
        self.over = True
        return (Close(),)

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        """Report the end of the connection once, unless we caused it; `closing` says what it means."""
        if self.over:
            return ()
        self.over = True
        return (self.closing(code, reason, at_ns),)

    def redact(self, message: Message) -> dict[str, Any]:
        """Return a message for the log, without secrets and audio."""
        if isinstance(message, bytes):
            if not self.binary_text:
                return {"raw": {"bytes": len(message)}}
            message = message.decode(errors="replace")
        try:
            event = parse_object(message)
        except MalformedError:
            return redact_raw(message, self.settings.key)
        return redact_object(event, self.settings.key, self.audio_fields_of(event), self.secret_fields)

    # -- For subclasses ----------------------------------------------------------------------------------

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        """Return what the connection's end means: fatal before the session was ready.

        After that, the session knows whether a reply was due.
        """
        when = "in the session" if self.ready else "before the session was ready"
        return EndpointProblem(FailureKind.CLOSED, self.closed_text(when, code, reason), fatal=not self.ready)

    def audio_fields_of(self, event: Mapping[str, Any]) -> Collection[str]:
        """Return the fields of a message that hold audio, if that depends on the message."""
        return self.audio_fields

    def clean(self, text: str) -> str:
        """Return a text of the endpoint without secrets, at most 500 characters."""
        return hide_secrets(text, sorted(self.secrets, key=len, reverse=True))[:_TEXT_CHARACTERS]

    def closed_text(self, when: str, code: int | None, reason: str) -> str:
        """Return in words that the endpoint closed the connection."""
        return f"the endpoint closed the connection {when}: code {code}, reason {self.clean(reason)!r}"

    def unknown(self, name: str) -> UnknownEvent:
        """Return the event for a message of an unknown type."""
        return UnknownEvent(self.clean(name)[:_NAME_CHARACTERS])

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        """Note that the session is ready, and report it once."""
        if self.ready:
            return []
        self.ready = True
        return [SessionReady(session_id, model)]

    def malformed(self, message: str) -> EndpointProblem:
        """Return the problem for a broken message; the session continues."""
        return EndpointProblem(FailureKind.MALFORMED_MESSAGE, self.clean(message), fatal=False)

    def warning(self, message: str, code: str | None = None) -> EndpointProblem:
        """Return a problem that does not end the session."""
        return EndpointProblem(FailureKind.NOT_FATAL_ERROR, self.clean(message), fatal=False, code=code)

    def fatal(
        self, kind: FailureKind, message: str, code: str | None = None, retry_after_s: float | None = None
    ) -> EndpointProblem:
        """Return a problem that ends the session, and note that it is over."""
        self.over = True
        text = self.clean(message)
        return EndpointProblem(kind, text, fatal=True, code=code, retry_after_s=retry_after_s)


class EventDialect(BaseDialect):
    """A dialect whose messages are JSON objects that name their type.

    A subclass fills `handlers`, by type, and calls `become_ready` once the session is.

    Args:
        settings: The settings of the session.
    """

    type_field: ClassVar[str] = "type"
    """The field that names an event's type."""
    before_ready: ClassVar[Collection[str]]
    """Events that may come before the session is ready."""
    ignored: ClassVar[Collection[str]] = frozenset()
    """Known events that need no handling, or their prefixes (``duplex.``); they are logged."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers: dict[str, Handler] = {}

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle an event of the endpoint."""
        try:
            event = parse_object(message)
            name = event.get(self.type_field)
            if not isinstance(name, str):
                raise MalformedError(f"expected an event whose {self.type_field!r} is a string")
            handler = self.handlers.get(name)
            if handler is None:
                return () if self.ignores(name) else (self.unknown(name),)
            if not self.ready and name not in self.before_ready:
                return (self.warning(f"{name} came before the session was ready; it is ignored"),)
            fields = Fields(name, event)
            outputs = handler(fields, at_ns)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if fields.wrong:
            outputs.append(self.malformed("; ".join(fields.wrong)))
        return outputs

    def ignores(self, name: str) -> bool:
        """Return whether an event is known to need no handling."""
        return name in self.ignored or f"{name.partition('.')[0]}." in self.ignored
