"""Encode records as columns, and decode them: dataclasses are JSON, arrays are int64 blobs."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from live_eval.audio.rtp import MediaStats
from live_eval.dialect import RateLimit
from live_eval.errors import StoreError
from live_eval.redaction import SECRETS
from live_eval.timing import Latencies, ResponseRecord, TurnTrace
from live_eval.types import Case, Failure, Usage

T = TypeVar("T")

TIMING: TypeAdapter[Latencies] = TypeAdapter(Latencies)
_NUMBERS: TypeAdapter[Mapping[str, float]] = TypeAdapter(Mapping[str, float])

_CASE: TypeAdapter[Case] = TypeAdapter(Case)
_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {
    "failure": TypeAdapter(Failure),
    "media": TypeAdapter(MediaStats),
    "rate_limits": TypeAdapter(tuple[RateLimit, ...]),
    "timing": TIMING,
    "usage": TypeAdapter(Usage),
    "warnings": TypeAdapter(tuple[Failure, ...]),
}
"""Types of fields stored as JSON."""

TURN_FIELDS = (
    "repeat",
    "attempt",
    "failure",
    "warnings",
    "heard_text",
    "session_id",
    "model",
    "wall_ns",
    "late_speech_frames",
    "skipped_silence_frames",
    "rate_limits",
    "media",
    "both_rate_hz",
)
TRACE_FIELDS = ("frame_deadline_ns", "frame_sent_ns", "probe_at_ns", "probe_lag_ns")
RESPONSE_FIELDS = ("chunk_arrival_ns", "chunk_samples", "rate_hz", "text", "reason", "usage")
"""Fields of `TurnRecord`, `TurnTrace` and `ResponseRecord` that have a column with the same name."""

_MAX_REASON = 300
_MOST = 1e15  # statistics over larger values could overflow
_NEVER_TOO_DEEP = 2 * 250
"""Shorter JSON texts cannot reach the 254 levels that orjson writes."""
DAMAGED = "it is damaged: delete it or get another copy"

_TEXT_COLUMNS = frozenset({"reply_text", "heard_text", "session_id", "model", "text", "reason"})
_FORMER_NAMES = {"edges": "boundaries", "edges_uncertain": "boundaries_uncertain"}
_JSON_COLUMNS = frozenset({"marks", "trace", *_ADAPTERS})


@contextmanager
def decoding(where: str) -> Iterator[None]:
    """Convert errors caused by a damaged or forged database to a `StoreError` that names `where`."""
    try:
        yield
    except StoreError:
        raise
    except sqlite3.Error as error:
        raise StoreError(f"cannot read {where}: {in_one_line(error)}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"{where} is damaged: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """Return an error's message on one line, shortened, because SQLite and pydantic quote their input."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])[:_MAX_REASON]
    return blocking_reason(error) or " ".join(f"{error}".split())[:_MAX_REASON] or type(error).__name__


def blocking_reason(error: Exception) -> str | None:
    """Return the reason why a database is unusable, or None if SQLite's own message is clear enough."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the higher bits are the extended code
        case sqlite3.SQLITE_FULL:
            return "no space left on the device"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "the database is locked by another program; close that program and retry"
        case sqlite3.SQLITE_INTERRUPT:
            return f"reading takes too long for its size; {DAMAGED}"
    return None


def loads(text: str | bytes) -> Any:
    """Parse JSON text.

    Raises:
        ValueError: The text is not JSON, a number is not finite or exceeds 64 bits, or nesting is too
            deep.
    """
    value = orjson.loads(text)
    if len(text) < _NEVER_TOO_DEEP:
        return value
    try:
        orjson.dumps(value)
    except TypeError:
        raise ValueError("it is nested too deeply") from None
    return value


def decode(adapter: TypeAdapter[T], text: str) -> T:
    """Parse a dataclass written by `dump`."""
    return cast(T, adapter.validator.validate_python(loads(text)))


def columns(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return a record's fields as column values: dataclasses as JSON, arrays as blobs."""
    return {name: _column(name, getattr(record, name)) for name in names}


def _column(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _ADAPTERS:
        return dump(_ADAPTERS[name], value)
    if isinstance(value, np.ndarray):
        return value.astype("<i8").tobytes()
    return well_formed(value) if isinstance(value, str) else value


def fields_in(row: sqlite3.Row, names: Iterable[str]) -> dict[str, Any]:
    """Decode fields encoded by `columns`."""
    return {name: _field(name, row[name]) for name in names}


def _field(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _ADAPTERS:
        return decode(_ADAPTERS[name], value)
    return from_blob(value) if isinstance(value, bytes) else value


def case_json(case: Case) -> str:
    """Return a case as JSON text, with relative paths to files in the working folder."""
    return dump(_CASE, _with_paths(case, _relative))


def case_from(text: str, origin: Path | None) -> Case:
    """Parse a case written by `case_json` in this or an earlier version.

    Relative paths are resolved against the working folder, then against `origin`, the run's working folder.
    Without `origin`, they are not resolved.
    """
    case: Case = _CASE.validator.validate_python(_current_names(mapping(text)))
    if origin is None:
        return case

    def found(path: Path) -> Path:
        # Unlike Path.exists(), os.path.exists() does not raise for long names and inaccessible folders.
        if path.is_absolute() or os.path.exists(path):
            return path
        moved = origin / path
        return moved if os.path.exists(moved) else path

    return _with_paths(case, found)


def _current_names(values: dict[str, Any]) -> dict[str, Any]:
    """Rename fields that had other names in earlier versions."""
    if values.keys().isdisjoint(_FORMER_NAMES):
        return values
    return {_FORMER_NAMES.get(name, name): value for name, value in values.items()}


def mapping(text: str) -> dict[str, Any]:
    """Parse the text of a JSON object."""
    value = loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def numbers(text: str) -> Mapping[str, float]:
    """Parse the text of a JSON object whose values are usable numbers."""
    values: Mapping[str, float] = orjson.loads(text)
    # fast path, because a run has tens of thousands of these texts
    if type(values) is not dict or not all(type(value) is float for value in values.values()):
        values = decode(_NUMBERS, text)
    if not all(map(is_usable, values.values())):
        raise ValueError(f"expected finite numbers below {_MOST:g}, got {text[:60]}")
    return values


def is_usable(value: float) -> bool:
    """Return whether a number is finite, and so small that statistics over it cannot overflow."""
    return abs(value) < _MOST  # false for NaN


def dump(adapter: TypeAdapter[T], value: T) -> str:
    """Encode a dataclass as JSON text; lone surrogates, which file names may contain, become ``?``."""
    try:
        return adapter.dump_json(value).decode()
    except (PydanticSerializationError, UnicodeError):
        return well_formed(json.dumps(adapter.dump_python(value), default=str, ensure_ascii=False))


def well_formed(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def dump_json(value: Any) -> str:
    """Encode plain data as JSON text; paths and numpy numbers become strings and numbers."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, default=str, option=options).decode()
    except TypeError:  # the text contains a lone surrogate
        return well_formed(json.dumps(value, default=str, ensure_ascii=False))


def from_blob(data: bytes) -> NDArray[np.int64]:
    """Decode a blob: int64, shape (n,)."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


def rest_json(record: TurnTrace | ResponseRecord) -> str:
    """Encode as JSON text the record fields that have no column of their own."""
    return dump_json({name: getattr(record, name) for name in _REST[type(record)].model_fields})


def trace_from(row: sqlite3.Row, responses: Sequence[ResponseRecord]) -> TurnTrace:
    """Decode the trace in a row of the `turns` table."""
    arrays = fields_in(row, TRACE_FIELDS)
    for one, other in (("frame_deadline_ns", "frame_sent_ns"), ("probe_at_ns", "probe_lag_ns")):
        if arrays[one].shape != arrays[other].shape:
            raise ValueError(f"{one} and {other} have different lengths")
    return TurnTrace(
        **vars(_REST[TurnTrace].model_validate(_current_names(mapping(row["trace"])))),
        **arrays,
        responses=tuple(responses),
    )


def response_from(row: sqlite3.Row, audio_file: Path | None) -> ResponseRecord:
    """Decode the response in a row of the `responses` table."""
    own = fields_in(row, RESPONSE_FIELDS)
    samples = own["chunk_samples"]
    if own["chunk_arrival_ns"].shape != samples.shape or (samples < 0).any():
        raise ValueError("chunk_arrival_ns and chunk_samples differ in length, or a length is negative")
    if row["rate_hz"] is not None and row["rate_hz"] <= 0:
        raise ValueError(f"rate_hz is {row['rate_hz']}")
    rest = vars(_REST[ResponseRecord].model_validate(loads(row["marks"])))
    heard_ns = list(chain.from_iterable(rest["heard_ns"] or ()))
    if heard_ns != sorted(heard_ns):
        raise ValueError("heard_ns is not sorted")
    return ResponseRecord(**rest, **own, audio_file=audio_file)


def _scalars(of: Any, *others: str) -> type[BaseModel]:
    """Return a pydantic model of a dataclass without the fields in `others`."""
    hints = get_type_hints(of)
    made: dict[str, Any] = {}
    for field in fields(of):
        if field.name not in others:
            factory = field.default_factory
            default = factory() if factory is not MISSING else field.default
            made[field.name] = (hints[field.name], ... if default is MISSING else default)
    return create_model(of.__name__, __config__=ConfigDict(extra="forbid"), **made)


_REST: Mapping[type, type[BaseModel]] = {
    TurnTrace: _scalars(TurnTrace, *TRACE_FIELDS, "responses"),
    ResponseRecord: _scalars(ResponseRecord, *RESPONSE_FIELDS, "audio_file"),
}


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _with_paths(case: Case, change: Callable[[Path], Path]) -> Case:
    names = ("audio_path", "reference_audio_path", "clean_audio_path")
    paths = {name: path for name in names if (path := getattr(case, name)) is not None}
    changed: dict[str, Any] = {name: new for name, path in paths.items() if (new := change(path)) is not path}
    return replace(case, **changed) if changed else case


def body_json(body: Any) -> str:
    """Return a message as JSON text, with secrets redacted."""
    text = dump_json(body)
    if SECRETS.suspects(text) or any(f'"{name}"' in text for name in SECRETS.fields):
        return dump_json(SECRETS.body(body))
    return text


def without_secrets(column: str, value: Any) -> Any:
    """Redact secrets in a column's value; leave file names and turn IDs unchanged."""
    if not isinstance(value, str) or not SECRETS.suspects(value):
        return value
    if column in _TEXT_COLUMNS:
        return SECRETS.text(value)
    return dump_json(SECRETS.values(orjson.loads(value))) if column in _JSON_COLUMNS else value
