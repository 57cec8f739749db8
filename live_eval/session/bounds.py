"""Limit how much data an endpoint may send in a turn, and how long its strings may be. Pure.

Names and text are truncated on arrival, so later code need not check their length. A turn that exceeds the
message limits fails and ends its session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar, get_args

from live_eval.dialect import Event, RateLimits

__all__ = [
    "LOGGED_CHARACTERS",
    "MOST_BYTES",
    "MOST_LIMITS",
    "MOST_MESSAGES",
    "NAME_CHARACTERS",
    "TEXT_CHARACTERS",
    "WORDS_CHARACTERS",
    "bounded",
    "bounded_body",
    "bounded_name",
    "flood_of",
]

NAME_CHARACTERS: Final = 200
"""Maximum length of a name; longer names are truncated, with a digest appended to keep them distinct."""
WORDS_CHARACTERS: Final = 2_000
"""Maximum length of an error message or reason."""
TEXT_CHARACTERS: Final = 100_000
"""Maximum text length of an event or response: two hours of speech."""
LOGGED_CHARACTERS: Final = 10_000
"""Maximum length of a string in a logged message."""
MOST_LIMITS: Final = 100
"""Maximum number of rate limits per event."""

MOST_MESSAGES: Final = 100_000
"""Maximum number of messages per turn: half an hour of audio in chunks of 20 ms."""
MOST_BYTES: Final = 256 << 20
"""Maximum number of message bytes per turn: an hour of PCM in base64."""

_Event = TypeVar("_Event", bound=Event)
_DIGEST_CHARACTERS = 16


def bounded_name(name: str) -> str:
    """Return a name, truncated to `NAME_CHARACTERS`.

    >>> bounded_name("resp_1"), len(bounded_name("r" * 1_000_000))
    ('resp_1', 200)
    """
    if len(name) <= NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{name[: NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}…{digest}"


def bounded(event: _Event) -> _Event:
    """Truncate an event's strings to their limits; usually returns the same object."""
    if isinstance(event, RateLimits):
        limits = event.limits[:MOST_LIMITS]
        return replace(event, limits=tuple(replace(each, name=bounded_name(each.name)) for each in limits))
    changed: dict[str, Any] = {}
    for name, cut in _CUTS_OF[type(event)]:
        value = getattr(event, name)
        if value is not None and len(value) > NAME_CHARACTERS and (short := cut(value)) != value:
            changed[name] = short
    return replace(event, **changed) if changed else event


def flood_of(messages: int, size: int) -> str | None:
    """Return an error message if a turn has too many messages or bytes, otherwise None."""
    if messages <= MOST_MESSAGES and size <= MOST_BYTES:
        return None
    return (
        f"expected at most {MOST_MESSAGES} messages and {MOST_BYTES} bytes in one turn, got {messages} "
        f"and {size}"
    )


def bounded_body(value: Any) -> Any:
    """Return a message for the log, with strings truncated to 10,000 characters."""
    match value:
        case str() if len(value) > LOGGED_CHARACTERS:
            return f"{value[:LOGGED_CHARACTERS]}… ({len(value)} characters)"
        case list():
            return [bounded_body(item) for item in value]
        case dict():
            return {bounded_name(name): bounded_body(item) for name, item in value.items()}
    return value


def _words(text: str) -> str:
    return text if len(text) <= WORDS_CHARACTERS else f"{text[: WORDS_CHARACTERS - 1]}…"


def _text(text: str) -> str:
    return text[:TEXT_CHARACTERS]


_CUTS: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(("code", "item_id", "model", "response_id", "session_id", "type"), bounded_name),
    **dict.fromkeys(("message", "reason"), _words),
    "text": _text,
}
_CUTS_OF = {
    kind: tuple((each.name, _CUTS[each.name]) for each in fields(kind) if each.name in _CUTS)
    for kind in get_args(Event)
}
