"""Define the format of cassettes: recorded sessions as JSON lines.

The first line is the header; each following line is one step, in session order::

    {"cassette": 1, "about": "a turn", "settings": {"turn_mode": "manual"}}
    {"at_ms": 0, "direction": "in", "message": {"type": "session.created"}}
    {"at_ms": 0, "direction": "out", "message": {"type": "session.update"}}
    {"at_ms": 20, "call": "frame", "count": 50}
    {"at_ms": 1020, "call": "end_turn"}
    {"at_ms": 1300, "event": "ResponseStarted", "response_id": "resp_1"}
    {"at_ms": 2000, "closed": {"code": 1000, "reason": ""}}

* ``direction`` ``in`` is a message from the endpoint; ``out`` is a message that the dialect sends.
  ``message`` is the text on the wire or, for legibility, an object whose compact JSON is that text; a binary
  message is base64 under ``binary`` instead.
* ``call`` is a call from the session to the dialect: ``opened`` (without it, the connection opens with the
  first step), ``frame`` (`count` frames, or one frame with ``pcm`` in base64 or a number of bytes of
  ``silence``; the messages of frames are not included), ``end_turn``, ``interrupt`` (`response_id`,
  `heard_ms`), ``timer`` (`name`), ``finish``.
* ``turn`` is a report from the session to the turn: ``user_speaks`` (`onset_ns` and `voice_end_ns`, relative
  to ``at_ms``; the latter is -1 while unknown), ``user_done``, ``over`` (the session stopped waiting),
  ``failed`` (`kind`, `message`).
* ``rtp`` is a packet of the endpoint's media track; the user's packets bypass the dialect and are omitted.
* ``closed`` is the end of the connection.
* ``event`` is an event of the dialect; the listed fields must be equal (for audio, ``bytes`` is the data
  size and ``crc32`` its checksum).

``out`` and ``event`` lines belong to the previous step; lines before the first step are the dialect's
response to the opened connection. Without ``out`` lines messages are not checked, and without ``event`` lines
events are not checked; otherwise the cassette lists all of them.

Golden sessions are written by hand. Recordings (``live-eval run --record-wire``) contain every call and
event, and have ``turn_id``, ``attempt``, ``endpoint``, ``limits`` and ``origin_ns`` in the header; only they
contain ``turn`` and ``rtp``. Secrets are ``***`` (see `live_eval.redaction`); settings contain neither
address nor key.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import RtpPacket
from live_eval.dialect import EarlierTurn, EndpointSettings, Event, Message
from live_eval.errors import DataError
from live_eval.files import atomic_text, read_text
from live_eval.redaction import Concealer
from live_eval.types import Modality, Secret, TurnMode

__all__ = [
    "Call",
    "Cassette",
    "Closed",
    "Expected",
    "Received",
    "Sent",
    "SessionReport",
    "Step",
    "WireRecord",
    "expected",
    "read_cassette",
    "write_cassette",
]

_VERSION = 1
_DEEPEST = 200  # deeper messages are kept as text because parsers differ in their limits
_CALLS: Mapping[str, Mapping[str, type]] = {
    "opened": {},
    "frame": {"pcm": bytes, "count": int},
    "end_turn": {},
    "interrupt": {"response_id": str, "heard_ms": int},
    "timer": {"name": str},
    "finish": {},
}
_TURN: Mapping[str, Mapping[str, type]] = {
    "user_speaks": {"onset_ns": int, "voice_end_ns": int},
    "user_done": {},
    "over": {},
    "failed": {"kind": str, "message": str},
}
_HEADER = {"turn_id": str, "attempt": int, "endpoint": str, "limits": dict, "origin_ns": int}
_LONGEST_WORDS = 16_384  # longer messages contain audio
_LATEST_NS = 1 << 62  # the store uses 63 bits for times
_LONGEST_SILENCE = 1 << 16  # bytes in a frame
_MOST_FRAMES = 100_000  # half an hour of frames

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the endpoint."""

    at_ns: int
    message: Message


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the dialect sends."""

    at_ns: int
    message: Message


@dataclass(frozen=True, slots=True)
class Call:
    """A call from the session to the dialect."""

    at_ns: int
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A report from the session to the turn."""

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
    """An event of the dialect."""

    at_ns: int
    name: str
    fields: Mapping[str, Any]


def expected(at_ns: int, event: Event) -> Expected:
    """Return an event as a step: its fields as JSON values, audio as its size and checksum."""
    values = {one.name: _plain(getattr(event, one.name)) for one in fields(event)}
    data = values.pop("data", None)
    if data is not None:
        values |= {"bytes": len(data), "crc32": zlib.crc32(data)}
    return Expected(at_ns, type(event).__name__, values)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return value


Step: TypeAlias = Received | Sent | Call | SessionReport | RtpPacket | Closed | Expected


@dataclass(frozen=True, slots=True)
class Cassette:
    """A session to replay.

    Args:
        settings: Session settings with the field names of `EndpointSettings`, without address and key.
        recorded: ``turn_id``, ``attempt``, ``endpoint``, ``limits`` and ``origin_ns`` (the time of 0 on the
            machine's clock) of a recording; empty for a golden session.
    """

    name: str
    about: str
    steps: tuple[Step, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    recorded: Mapping[str, Any] = field(default_factory=dict)

    def endpoint_settings(self, base_url: str, key: Secret | None) -> EndpointSettings:
        """Return the settings of the session.

        Raises:
            DataError: The cassette has an unknown setting or value.
        """
        values = dict(self.settings)
        known = {one.name for one in fields(EndpointSettings)} - {"base_url", "key"}
        if unknown := sorted(values.keys() - known):
            raise DataError(
                f"{self.name}: unknown settings {', '.join(unknown)}: expected one of {sorted(known)}"
            )
        try:
            for name, kind in (("turn_mode", TurnMode), ("modality", Modality)):
                if name in values:
                    values[name] = kind(values[name])
            values["history"] = [EarlierTurn(**turn) for turn in values.get("history", ())]
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.name}: {error}") from None
        return EndpointSettings(base_url=base_url, key=key, **values)


class WireRecord:
    """Record a session's steps, if `keeps` is set."""

    def __init__(self, *, keeps: bool) -> None:
        self._kept: list[Callable[[], Step]] | None = [] if keeps else None

    def keep(self, make: Callable[_P, Step], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Store a function that creates a step. `steps` calls it later, outside the event loop."""
        if self._kept is not None:
            self._kept.append(partial(make, *args, **kwargs))

    def steps(self) -> tuple[Step, ...]:
        """Return the recorded steps in order. Call it outside the event loop."""
        return tuple(make() for make in self._kept or ())


def read_cassette(path: Path, *, links: bool = True) -> Cassette:
    """Read a cassette; pass `links=False` for a folder from an untrusted source.

    Raises:
        DataError: The file is not a cassette. The message contains the line number.
    """
    lines = read_text(path, links=links).split("\n")  # not splitlines: JSON may contain other line separators
    objects = [_object(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not objects or objects[0].get("cassette") != _VERSION:
        raise DataError(f'{path}, line 1: expected the header of a cassette, {{"cassette": {_VERSION}}}')
    header = objects[0]
    wanted: dict[str, type] = {"about": str, "settings": dict, **_HEADER}
    for name, kind in wanted.items():
        if name in header and not _fits(header[name], kind):
            raise DataError(f"{path}, line 1: {name}: expected {kind.__name__}, got {header[name]!r:.80}")
    steps = []
    for number, line in enumerate(objects[1:], 2):
        try:
            steps.append(_step(line))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"[:300]
            raise DataError(f"{path}, line {number}: expected a cassette step: {why}") from None
    known = ("cassette", "about", "settings")
    recorded = {name: value for name, value in header.items() if name not in known}
    return Cassette(path.stem, header.get("about", ""), tuple(steps), header.get("settings", {}), recorded)


def write_cassette(path: Path, cassette: Cassette, key: Secret | None, origin_ns: int = 0) -> None:
    """Write a cassette atomically, with times relative to `origin_ns`; secrets become ``***``."""
    conceal = Concealer(key)
    header = {"cassette": _VERSION, "about": cassette.about, **cassette.recorded}
    header["settings"] = dict(cassette.settings)
    with atomic_text(path) as file:
        file.write(conceal.text(_json(header)) + "\n")
        for step in _concealed(cassette.steps, conceal):
            line = _line(step, conceal)
            text = _json({"at_ms": (step.at_ns - origin_ns) / 1_000_000, **line})
            # Messages are already redacted.
            file.write((text if "direction" in line else conceal.text(text)) + "\n")


def _concealed(steps: Sequence[Step], conceal: Concealer) -> list[Step]:
    """Redact secrets that span several messages or events."""
    found = list(steps)
    for kind in (Received, Sent, Expected):
        numbers, spoken = [], []
        for number, step in enumerate(steps):
            if isinstance(step, kind) and (value := _readable(step)) is not None:
                numbers.append(number)
                spoken.append(value)
        for number, before, value in zip(numbers, spoken, conceal.series(spoken), strict=True):
            if value is before:
                continue
            step = steps[number]
            if isinstance(step, Expected):
                found[number] = replace(step, fields=value["fields"])
            elif isinstance(step, Received | Sent):
                text = orjson.dumps(value)
                message = text if isinstance(step.message, bytes) else text.decode()
                found[number] = replace(step, message=message)
    return found


def _readable(step: Received | Sent | Expected) -> Any:
    """Return a step's JSON values, or None if the step has none."""
    if isinstance(step, Expected):
        return {"type": step.name, "fields": step.fields}
    message = step.message.encode("utf-8", "replace") if isinstance(step.message, str) else step.message
    shallow = message.count(b"{") + message.count(b"[") < _DEEPEST
    if len(message) > _LONGEST_WORDS or not message.startswith(b"{") or not shallow:
        return None
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        return None


def _line(step: Step, conceal: Concealer) -> dict[str, Any]:
    match step:
        case Received() | Sent():
            direction = "in" if isinstance(step, Received) else "out"
            return {"direction": direction, **_body(conceal.message(step.message))}
        case Call():
            arguments = {name: value for name, value in step.arguments.items() if name != "pcm"}
            return {"call": step.name, **arguments, **_audio(step.arguments.get("pcm"))}
        case SessionReport():
            return {"turn": step.name, **step.arguments}
        case RtpPacket():
            return {
                "rtp": {
                    "sequence": step.sequence,
                    "timestamp": step.timestamp,
                    "ssrc": step.ssrc,
                    "codec": step.codec.name.value,
                    "rate_hz": step.codec.rate_hz,
                    "payload": _base64(step.payload),
                }
            }
        case Closed():
            return {"closed": {"code": step.code, "reason": step.reason}}
        case Expected():
            return {"event": step.name, **step.fields}


def _audio(pcm: bytes | None) -> dict[str, Any]:
    if pcm is None:
        return {}
    if pcm.count(0) == len(pcm):
        return {"silence": len(pcm)}
    return {"pcm": _base64(pcm)}


def _body(message: Message) -> dict[str, Any]:
    if isinstance(message, bytes):
        return {"binary": _base64(message)}
    if message.startswith("{") and message.count("{") + message.count("[") < _DEEPEST:
        try:
            if orjson.dumps(orjson.loads(message)).decode() == message:
                return {"message": orjson.Fragment(message)}
        except (orjson.JSONDecodeError, TypeError):
            pass
    return {"message": message}


def _json(value: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # half a surrogate pair, or an integer beyond 64 bits
        return json.dumps(value, default=str)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: expected JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}, line {number}: expected a JSON object")
    return value


def _step(line: dict[str, Any]) -> Step:
    at_ns = round(line.pop("at_ms") * 1_000_000)
    if abs(at_ns) > _LATEST_NS:
        raise ValueError(f"at_ms is out of range: {at_ns / 1_000_000:g}")
    if "direction" in line:
        kinds: dict[str, Callable[[int, Message], Step]] = {"in": Received, "out": Sent}
        return kinds[line["direction"]](at_ns, _message(line))
    if "call" in line:
        name = line.pop("call")
        if name not in _CALLS:
            raise ValueError(f"unknown call {name!r}; expected one of {', '.join(_CALLS)}")
        if "silence" in line:
            line["pcm"] = _silence(line.pop("silence"))
        elif "pcm" in line:
            line["pcm"] = base64.b64decode(line["pcm"], validate=True)
        if not 0 <= line.get("count", 1) <= _MOST_FRAMES:
            raise ValueError(f"expected a count of at most {_MOST_FRAMES}, got {line['count']}")
        return Call(at_ns, name, _arguments(line, _CALLS[name], optional=name == "frame"))
    if "turn" in line:
        name = line.pop("turn")
        if name not in _TURN:
            raise ValueError(f"unknown turn report {name!r}; expected one of {', '.join(_TURN)}")
        return SessionReport(at_ns, name, _arguments(line, _TURN[name]))
    if "rtp" in line:
        return _packet(at_ns, line["rtp"])
    if "closed" in line:
        code, reason = line["closed"]["code"], line["closed"]["reason"]
        if not (code is None or _fits(code, int)) or not isinstance(reason, str):
            raise TypeError(
                f"closed: expected an integer or null as code, text as reason, got {code!r} and {reason!r}"
            )
        return Closed(at_ns, code, reason)
    name = line.pop("event")
    if not isinstance(name, str):
        raise TypeError(f"expected the name of an event, got {name!r}")
    return Expected(at_ns, name, line)


def _arguments(
    found: dict[str, Any], wanted: Mapping[str, type], *, optional: bool = False
) -> dict[str, Any]:
    if unknown := found.keys() - wanted.keys():
        raise ValueError(f"unknown arguments {', '.join(sorted(unknown))}")
    for name, kind in wanted.items():
        if not (optional and name not in found) and not _fits(found[name], kind):
            raise TypeError(f"{name}: expected {kind.__name__}, got {found[name]!r:.80}")
    return found


def _fits(value: Any, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int) and abs(value) <= _LATEST_NS
    return isinstance(value, kind)


@lru_cache(maxsize=16)
def _silence(size: int) -> bytes:
    if not 0 <= size <= _LONGEST_SILENCE:
        raise ValueError(f"expected at most {_LONGEST_SILENCE} bytes of silence, got {size}")
    return bytes(size)


def _packet(at_ns: int, fields: dict[str, Any]) -> RtpPacket:
    for name in ("rate_hz", "sequence", "timestamp", "ssrc"):
        if not _fits(fields[name], int) or not 0 <= fields[name] < 1 << 32:
            raise TypeError(f"{name}: expected an unsigned integer of 32 bits, got {fields[name]!r:.80}")
    codec = Codec(CodecName(fields["codec"]), fields["rate_hz"])
    payload = base64.b64decode(fields["payload"], validate=True)
    return RtpPacket(at_ns, fields["sequence"], fields["timestamp"], payload, codec, fields["ssrc"])


def _message(line: dict[str, Any]) -> Message:
    if "binary" in line:
        return base64.b64decode(line["binary"], validate=True)
    message = line["message"]
    return message if isinstance(message, str) else orjson.dumps(message).decode()
