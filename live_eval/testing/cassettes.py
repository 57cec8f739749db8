"""Cassettes: sessions on the wire, as JSON lines, to be replayed to a dialect.

The first line is the header; each further line is one step, in the order in which things happened::

    {"cassette": 1, "about": "a turn", "settings": {"turn_mode": "manual"}}
    {"at_ms": 0, "direction": "in", "message": {"type": "session.created"}}
    {"at_ms": 0, "direction": "out", "message": {"type": "session.update"}}
    {"at_ms": 20, "call": "frame", "count": 50}
    {"at_ms": 1020, "call": "end_turn"}
    {"at_ms": 1300, "event": "ResponseStarted", "response_id": "resp_1"}
    {"at_ms": 2000, "closed": {"code": 1000, "reason": ""}}

* ``direction`` ``in`` is a message of the endpoint, ``out`` one that the dialect sends. ``message`` is a
  string, the text as it went over the wire, or for the reader's sake an object, whose compact JSON did;
  a binary message is base64 under ``binary`` instead.
* ``call`` is what the session did: ``frame`` (`count` frames of 20 ms), ``end_turn``, ``interrupt``
  (`response_id`, `heard_ms`), ``finish``.
* ``closed`` is the end of the connection.
* ``event`` is an event that the dialect gives; the fields that are named must be equal (of `ReplyAudio`,
  ``bytes`` is the size of the data).

``out`` and ``event`` lines belong to the step before them. A cassette without any of either kind leaves
that kind unchecked; where there are some, all are there, but for the frames that calls of ``frame`` send.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from live_eval.dialect import EndpointSettings, Message
from live_eval.errors import DataError
from live_eval.types import Modality, Secret, TurnMode

__all__ = ["Call", "Cassette", "Closed", "Expected", "Received", "Sent", "Step", "read_cassette"]

_VERSION = 1
_CALLS = ("frame", "end_turn", "interrupt", "finish")


@dataclass(frozen=True, slots=True)
class Received:
    """A message of the endpoint."""

    at_ns: int
    message: Message


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the dialect sends."""

    at_ns: int
    message: Message


@dataclass(frozen=True, slots=True)
class Call:
    """Something that the session did."""

    at_ns: int
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of the connection."""

    at_ns: int
    code: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Expected:
    """An event that the dialect gives."""

    at_ns: int
    name: str
    fields: Mapping[str, Any]


Step: TypeAlias = Received | Sent | Call | Closed | Expected


@dataclass(frozen=True, slots=True)
class Cassette:
    """A session to be replayed.

    Args:
        name: For messages.
        about: What it shows, in words.
        steps: What happened, in order.
        settings: The session's settings, as `EndpointSettings` names them, without address and key.
    """

    name: str
    about: str
    steps: tuple[Step, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def endpoint_settings(self, base_url: str, key: Secret | None) -> EndpointSettings:
        """Return the settings of the session."""
        values = dict(self.settings)
        if "turn_mode" in values:
            values["turn_mode"] = TurnMode(values["turn_mode"])
        if "modality" in values:
            values["modality"] = Modality(values["modality"])
        return EndpointSettings(base_url=base_url, key=key, **values)


def read_cassette(path: Path) -> Cassette:
    """Read a cassette.

    Raises:
        DataError: The file is none; the message names the file, the line and what was expected.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    objects = [_object(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not objects or objects[0].get("cassette") != _VERSION:
        raise DataError(f'{path}, line 1: expected the header of a cassette, {{"cassette": {_VERSION}}}')
    header = objects[0]
    steps = []
    for number, line in enumerate(objects[1:], 2):
        try:
            steps.append(_step(line))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DataError(f"{path}, line {number}: not a step of a cassette: {error!r}") from None
    return Cassette(path.stem, header.get("about", ""), tuple(steps), header.get("settings", {}))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number}: expected JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}, line {number}: expected a JSON object")
    return value


def _step(line: dict[str, Any]) -> Step:
    at_ns = round(line.pop("at_ms") * 1_000_000)
    if "direction" in line:
        kinds: dict[str, Callable[[int, Message], Step]] = {"in": Received, "out": Sent}
        return kinds[line["direction"]](at_ns, _message(line))
    if "call" in line:
        name = line.pop("call")
        if name not in _CALLS:
            raise ValueError(f"unknown call {name!r}; there are {', '.join(_CALLS)}")
        return Call(at_ns, name, line)
    if "closed" in line:
        return Closed(at_ns, line["closed"]["code"], line["closed"]["reason"])
    return Expected(at_ns, line.pop("event"), line)


def _message(line: dict[str, Any]) -> Message:
    if "binary" in line:
        return base64.b64decode(line["binary"], validate=True)
    message = line["message"]
    return message if isinstance(message, str) else orjson.dumps(message).decode()
