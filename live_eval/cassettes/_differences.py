"""Describe the differences between a replayed session and its recording."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from live_eval.audio.rtp import MediaStats
from live_eval.cassettes import Expected
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseRecord
from live_eval.types import Failure

__all__ = ["event_differences", "failure_differences", "short", "turn_differences"]

_DERIVED = ("audio_file", "heard_ns", "discarded_ns")
"""Fields derived from other fields and from the audio; missing in older runs."""
_RESPONSE = tuple(field.name for field in fields(ResponseRecord) if field.name not in _DERIVED)
_SHOWN_EVENTS = 8
_SHOWN_CHARACTERS = 200


def event_differences(now: Sequence[Expected], before: Sequence[Expected]) -> Iterator[str]:
    """Describe the differences between a dialect's events and the recorded ones, one text each.

    Events are compared in chronological order, because events of different calls may interleave while sending
    blocks a session.
    """
    now, then = (sorted(events, key=lambda event: event.at_ns) for events in (now, before))
    if now == then:
        return
    matcher = difflib.SequenceMatcher(None, [*map(_text, now)], [*map(_text, then)], autojunk=False)
    pairs = [
        pair
        for what, begin, end, was_begin, was_end in matcher.get_opcodes()
        if what != "equal"
        for pair in zip_longest(now[begin:end], then[was_begin:was_end])
    ]
    # Equal events with different texts, such as 1 and 1.0, do not count as a difference.
    differences = [_event_difference(*pair) for pair in pairs if pair[0] != pair[1]]
    yield from differences[:_SHOWN_EVENTS]
    if len(differences) > _SHOWN_EVENTS:
        yield f"{len(differences) - _SHOWN_EVENTS} more events differ"


def turn_differences(now: TurnRecord, stored: TurnRecord) -> Iterator[str]:
    """Describe the differences between a replayed turn and the stored turn, one text each."""
    # Ignore warnings about the recording, which are created before the session.
    warnings = [warning for warning in stored.warnings if warning.kind is not FailureKind.AUDIO_ODD]
    pairs: dict[str, tuple[Any, Any]] = {
        "warnings": ([*map(_kind_and_message, now.warnings)], [*map(_kind_and_message, warnings)]),
        "session_id": (now.session_id, stored.session_id),
        "model": (now.model, stored.model),
        "heard_text": (now.heard_text, stored.heard_text),
        "reply_text": (now.reply_text, stored.reply_text),
        "rate_limits": (now.rate_limits, stored.rate_limits),
        "media": (now.media, _received(stored.media)),
        "ready_ns": (now.trace.ready_ns, stored.trace.ready_ns),
        "speech_stopped_ns": (now.trace.speech_stopped_ns, stored.trace.speech_stopped_ns),
        "committed_ns": (now.trace.committed_ns, stored.trace.committed_ns),
        "number of responses": (len(now.responses), len(stored.responses)),
    }
    for latency in fields(now.timing):
        pairs[latency.name] = (getattr(now.timing, latency.name), getattr(stored.timing, latency.name))
    yield from failure_differences(now.failure, stored.failure)
    yield from _field_differences(pairs, "")
    yield from _response_differences(now, stored)


def failure_differences(now: Failure | None, then: Failure | None) -> Iterator[str]:
    """Describe the differences between a failure and the stored failure, one text each."""
    yield from _field_differences({"failure": (_kind_and_message(now), _kind_and_message(then))}, "")


def short(value: object) -> str:
    """Format a value for a message."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def _response_differences(now: TurnRecord, stored: TurnRecord) -> Iterator[str]:
    for response, before in zip(now.responses, stored.responses, strict=False):
        pairs = {name: (getattr(response, name), getattr(before, name)) for name in _RESPONSE}
        yield from _field_differences(pairs, f" of response {response.response_id}")


def _field_differences(pairs: Mapping[str, tuple[Any, Any]], whose: str) -> Iterator[str]:
    for name, (now, then) in pairs.items():
        if not np.array_equal(now, then) if isinstance(now, np.ndarray) else now != then:
            yield f"{name}{whose}: now {short(now)}, before {short(then)}"


def _event_difference(now: Expected | None, then: Expected | None) -> str:
    if then is None:
        return f"the dialect now reports {_in_words(now)}"
    if now is None:
        return f"the dialect no longer reports {_in_words(then)}"
    if now.name != then.name or now.at_ns != then.at_ns:
        return f"the dialect now reports {_in_words(now)} instead of {_in_words(then)}"
    changed = next(
        name for name in (*now.fields, *then.fields) if now.fields.get(name) != then.fields.get(name)
    )
    value, was = now.fields.get(changed), then.fields.get(changed)
    return f"{changed} of {_in_words(now)}: now {short(value)}, before {short(was)}"


def _text(event: Expected) -> str:
    """Return a text that is independent of the order of fields, which a cassette may change."""
    return json.dumps([event.at_ns, event.name, event.fields], sort_keys=True, default=repr)


def _in_words(event: Expected | None) -> str:
    return f"{event.name} at {event.at_ns / 1e9:.9f} s" if event is not None else "nothing"


def _received(media: MediaStats | None) -> MediaStats | None:
    """Return the statistics without those of sent packets, which come from RTCP."""
    return None if media is None else replace(media, sent_packets=None, sent_lost=None, round_trip_ns=None)


def _kind_and_message(failure: Failure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.kind.value, failure.message)
