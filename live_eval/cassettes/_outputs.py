"""Check the types of a dialect's outputs."""

from __future__ import annotations

import math
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from live_eval.dialect import (
    EndpointProblem,
    Interrupted,
    Output,
    PlaybackStarted,
    PlaybackStopped,
    QueuedAudio,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    StreamAudio,
    StreamInterrupted,
    StreamText,
    UnknownEvent,
)

__all__ = ["OF_A_RESPONSE", "OUTPUTS", "misfit", "out_of_place"]

OUTPUTS = get_args(Output)
OF_A_RESPONSE = (
    Interrupted,
    PlaybackStarted,
    PlaybackStopped,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
)
"""Events that require a response that has begun."""

_STREAM = (QueuedAudio, StreamAudio, StreamInterrupted, StreamText)
_PLAYBACK = (PlaybackStarted, PlaybackStopped)
_MOST_CHARACTERS = 8_000
_known: dict[type, tuple[tuple[str, Any], ...]] = {}


def misfit(output: Output) -> str | None:
    """Describe how an output violates its declared types; return None for a valid output.

    Whatever the endpoint sends, numbers must be finite and messages for users must be short.
    """
    for name, hint in _hints(type(output)):
        value = getattr(output, name)
        if not _fits(value, hint):
            return f"expected {type(output).__name__}.{name} to be {hint}, got {_short(value)}"
    shown = {EndpointProblem: "message", UnknownEvent: "type"}.get(type(output))
    if shown is not None and len(getattr(output, shown)) > _MOST_CHARACTERS:
        return f"{type(output).__name__}.{shown} is {len(getattr(output, shown))} characters long"
    return None


def out_of_place(event: Output, *, continuous: bool, track: bool) -> str | None:
    """Return the reason why a dialect of this type must not report this event, or None.

    Args:
        continuous: Whether the media are continuous, so that replies are detected by energy.
        track: Whether audio travels on a separate track.
    """
    name = type(event).__name__
    if continuous and isinstance(event, (ResponseStarted, *OF_A_RESPONSE)):
        return f"the dialect reported {name}, although its media are continuous, without response boundaries"
    if not continuous and isinstance(event, _STREAM):
        return f"the dialect reported {name}, although its media are not continuous"
    if track and isinstance(event, QueuedAudio | ReplyAudio | StreamAudio):
        return f"the dialect reported {name}, although its audio travels on a track"
    if not track and isinstance(event, _PLAYBACK):
        return f"the dialect reported {name}, although its audio travels in messages"
    return None


def _hints(kind: type) -> tuple[tuple[str, Any], ...]:
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = tuple(get_type_hints(kind).items())
    return found


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = _parts(hint)
    if origin is UnionType:
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if hint in (None, NoneType):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, hint):
        return False
    return not is_dataclass(hint) or all(
        _fits(getattr(value, name), inner) for name, inner in _hints(type(value))
    )


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}…"
