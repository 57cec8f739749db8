"""Find live-eval's fields in data set entries and validate their values.

An invalid value never raises: it is recorded as a problem of the row, and the report shows the case as a
failed turn.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.data.taxonomy import cue_of
from live_eval.errors import DataError, UsageError
from live_eval.files import read_text
from live_eval.text.suggestions import did_you_mean
from live_eval.types import Anchor, Cue, SpeechBoundaries, SpeechKind, SpokenPart, Variant

__all__ = [
    "DamagedLine",
    "FieldMap",
    "Row",
    "field_names",
    "inside",
    "parse_json",
    "read_entries",
    "read_json_lines",
    "relative_name",
    "speech_boundaries",
    "unique",
]

_UNCERTAIN_MS = 100
_PART = ("onset_ms", "end_ms")
_VARIANT = "{variant}"


class FieldMap:
    """Map live-eval's field names to their spellings in the data.

    Args:
        known: Spellings to try in order, by field name; may contain ``{variant}``.
        mapping: The user's spellings, which take precedence.
        variants: The variants to read from an entry.

    Raises:
        UsageError: The mapping names an unknown field.
    """

    def __init__(
        self,
        known: Mapping[str, Sequence[str]],
        mapping: Mapping[str, str],
        variants: Sequence[Variant] = (Variant.TARGET,),
    ) -> None:
        for name in mapping:
            if name not in known:
                raise UsageError(
                    f"data.fields: unknown field {name!r}{did_you_mean(name, known)}; "
                    f"expected one of {', '.join(known)}"
                )
        self._mapping = dict(mapping)
        self._known = {name: tuple(paths) for name, paths in known.items()}
        self._variants = variants

    def check_mapping(
        self, records: Sequence[Mapping[str, Any]], where: str, *, row: str = "entry", prefix: str = ""
    ) -> None:
        """Raise a `UsageError` if no entry of the file `where` has a field that the user mapped.

        `row` is the noun for an entry in messages; `prefix` is the prefix of field names in the user's
        mapping.
        """
        for name, spelled in self._mapping.items():
            if not any(
                self.find(record, name, variant) is not None
                for record in records
                for variant in self._variants
            ):
                raise UsageError(
                    f"{where}: no {row} has the field {spelled!r} mapped to {prefix}{name}"
                    f"{did_you_mean(spelled, field_names(records[0]) if records else ())}; "
                    f"found {_first_fields(records)}"
                )

    def check_recordings(
        self, records: Sequence[Mapping[str, Any]], where: str, *, row: str = "entry"
    ) -> None:
        """Raise a `DataError` if no entry refers to a recording; see `check_mapping` for the arguments."""
        if not any(self.offers(record, variant) for record in records for variant in self._variants):
            tried = ", ".join(self.paths("audio", Variant.TARGET))
            raise DataError(
                f"{where}: no {row} has a recording; expected one of the fields {tried}; "
                f"found {_first_fields(records)}; map yours with fields = {{ audio = … }}"
            )

    def paths(self, name: str, variant: Variant) -> list[str]:
        """Return the spellings to try for a field and a variant."""
        return [path.replace(_VARIANT, variant) for path in self._spellings(name)]

    def find(self, record: Mapping[str, Any], name: str, variant: Variant) -> Any:
        """Return the value of a field, or None if it is missing, null or blank."""
        return next(
            (value for path in self.paths(name, variant) if not _blank(value := _lookup(record, path))), None
        )

    def offers(self, record: Mapping[str, Any], variant: Variant) -> bool:
        """Return whether an entry has a field, valid or not, for a recording of this variant.

        A spelling without a variant belongs to the target.
        """
        for path in self._spellings("audio"):
            parent = path.rpartition(".")[0]
            mentions = [each for each in (path, parent) if _VARIANT in each]
            if variant is Variant.TARGET:
                mentions.append(path)
            if any(not _blank(_lookup(record, each.replace(_VARIANT, variant))) for each in mentions):
                return True
        return False

    def _spellings(self, name: str) -> tuple[str, ...]:
        return (self._mapping[name],) if name in self._mapping else self._known.get(name, ())


class Row:
    """Read an entry for one variant and collect its problems.

    `lacks_recording` is True if a missing recording name is one of the problems.
    """

    def __init__(self, fields: FieldMap, record: Mapping[str, Any], variant: Variant, where: str) -> None:
        self._fields = fields
        self._record = record
        self._variant = variant
        self._where = where
        self._no_object = False
        self.problems: list[str] = []
        self.lacks_recording = False

    @property
    def problem(self) -> str | None:
        """The problems of the entry, or None."""
        return "; ".join(self.problems) or None

    def complain(self, message: str) -> None:
        """Add a problem, unless already recorded or the entry is not an object."""
        problem = f"{self._where}: {message}"
        if problem not in self.problems and not self._no_object:
            self.problems.append(problem)

    def text(self, name: str) -> str | None:
        """Return a field as text, or None; a number is converted, anything else becomes a problem."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        self.complain(f"expected {name} to be text, got {_kind(value)}")
        return None

    def value(self, name: str) -> Any:
        """Return a field unchanged, or None if it is missing, null or blank."""
        return self._fields.find(self._record, name, self._variant)

    def complain_no_object(self, entry: Any) -> None:
        """Record as a problem that the entry is not an object."""
        wrong = f"{self._where}: expected an object, got {entry!r:.80}"
        self.problems = [entry.reason if isinstance(entry, DamagedLine) else wrong]
        self._no_object = True

    def complain_absent(self, name: str, what: str) -> None:
        """Record a missing field as a problem, with the attempted spellings and the entry's fields."""
        tried = list(self._fields.paths(name, self._variant))
        empty = tried if self.value(name) is None else ()
        found = [f"{each} (empty)" if each in empty else each for each in field_names(self._record)]
        self.complain(
            f"expected {what} under one of the fields {', '.join(tried)}; found {', '.join(found) or 'none'}"
        )

    def path(self, name: str, *roots: Path) -> Path | None:
        """Return a field as a path below the first root that contains the file, or else the first root."""
        stated = self.text(name)
        if stated is None:
            return None
        candidates = [path for root in roots if (path := inside(root, stated)) is not None]
        if not candidates:
            self.complain(f"the path {stated!r} given as {name} is outside {roots[0]}")
            return None
        return next((path for path in candidates if os.path.isfile(path)), candidates[0])

    def cue(self, name: str = "cue") -> Cue | None:
        """Return the cue in a field, or None."""
        phrase = self.text(name)
        return cue_of(phrase) if phrase else None

    def audio(self, *roots: Path) -> Path | None:
        """Return the path of the recording; a missing recording is a problem of the row."""
        before = len(self.problems)
        path = self.path("audio", *roots)
        self.lacks_recording = path is None
        if path is None and len(self.problems) == before:
            self.complain_absent("audio", "a recording")
        return path

    def boundaries(self, parts: Sequence[SpokenPart] = ()) -> SpeechBoundaries | None:
        """Return the annotated speech boundaries, by default derived from `parts`; None if missing or
        invalid.
        """
        marks = {name: self.value(name) for name in ("onset_ms", "voice_end_ms", "words_end_ms")}
        try:
            stated = speech_boundaries({name: value for name, value in marks.items() if value is not None})
        except ValueError as error:
            self.complain(str(error))
            return None
        if not parts:
            return stated
        onset_ns, end_ns = parts[0].onset_ns, parts[-1].end_ns
        if stated is None:
            return SpeechBoundaries(onset_ns=onset_ns, voice_end_ns=end_ns, method="annotation")
        if (stated.onset_ns, stated.voice_end_ns) != (onset_ns, end_ns):
            self.complain(
                f"the parts span {onset_ns / 1e6:.10g} to {end_ns / 1e6:.10g} ms, but onset_ms and "
                f"voice_end_ms are {stated.onset_ns / 1e6:.10g} and {stated.voice_end_ns / 1e6:.10g}"
            )
        return stated

    def parts(self) -> tuple[SpokenPart, ...]:
        """Return the annotated speech segments; empty if missing or invalid."""
        try:
            return _spoken_parts(self.value("parts"))
        except ValueError as error:
            self.complain(str(error))
            return ()

    def speech(self) -> SpeechKind:
        """Return the kind of utterance: by default, an ordinary turn."""
        stated = self.text("speech")
        try:
            return SpeechKind.TURN if stated is None else SpeechKind(stated.casefold())
        except ValueError:
            self.complain(f"expected speech to be one of {', '.join(SpeechKind)}, got {stated!r:.80}")
            return SpeechKind.TURN

    def anchor(self) -> Anchor | None:
        """Return the utterance's start time in its dialogue; None if missing or invalid."""
        stated = self.text("anchor")
        try:
            return None if stated is None else Anchor.parse(stated)
        except ValueError as error:
            self.complain(str(error))
            return None


def parse_json(text: str, where: str, *, line: int | None = None) -> Any:
    """Parse JSON from the file `where` or one of its lines; a `DataError` contains the line number."""
    place = where if line is None else f"{where}, line {line}"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}, line {line or error.lineno}, column {error.colno}"
        raise DataError(f"{place}: invalid JSON: {error.msg}") from None
    except RecursionError:
        raise DataError(f"{place}: the JSON is nested too deeply") from None
    except ValueError as error:  # Python rejects numbers with too many digits
        raise DataError(f"{place}: invalid JSON: {error}") from None


def read_entries(path: Path) -> list[Any]:
    """Return the entries of a JSON file that contains a list.

    Raises:
        DataError: The file cannot be read, is not a list, or is empty.
    """
    content = parse_json(read_text(path, links=True), str(path))
    if not isinstance(content, list):
        is_a = f"an object with {', '.join(field_names(content))}" if isinstance(content, dict) else content
        raise DataError(f"{path}: expected a list of entries, got {is_a!s:.200}")
    if not content:
        raise DataError(f"{path}: expected a list of entries, got an empty list")
    return content


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line of a file that is not JSON, with the reason."""

    reason: str


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the JSON value of each line of a file, or a `DamagedLine` for invalid JSON.

    Raises:
        DataError: The file cannot be read.
    """
    for number, line in enumerate(read_text(path, links=True, errors="surrogateescape").split("\n"), 1):
        if line.strip():
            try:
                line.encode()
                yield number, parse_json(line, str(path), line=number)
            except UnicodeEncodeError:
                yield number, DamagedLine(f"{path}, line {number}: expected UTF-8, got an invalid byte")
            except DataError as error:
                yield number, DamagedLine(str(error))


def speech_boundaries(marks: Mapping[str, Any]) -> SpeechBoundaries | None:
    """Return annotated speech boundaries.

    The marks ``onset_ms``, ``voice_end_ms`` and, optionally, ``words_end_ms`` are milliseconds from the
    recording's first sample, as numbers or numeric strings. Other keys are ignored.

    Raises:
        ValueError: The marks are incomplete, not numbers, or out of order.
    """
    values: dict[str, float] = {}
    for name in ("onset_ms", "voice_end_ms", "words_end_ms"):
        if (value := marks.get(name)) is not None:
            values[name] = _milliseconds(value, name)
    if not values:
        return None
    onset, voice_end = values.get("onset_ms"), values.get("voice_end_ms")
    if onset is None or voice_end is None:
        raise ValueError(f"expected onset_ms and voice_end_ms, got only {', '.join(values)}")
    words_end = values.get("words_end_ms")
    if not 0 <= onset < voice_end or (words_end is not None and not onset < words_end <= voice_end):
        raise ValueError(f"expected 0 <= onset_ms < words_end_ms <= voice_end_ms, got {values}")
    apart = 0.0 if words_end is None else voice_end - words_end
    return SpeechBoundaries(
        onset_ns=round(onset * 1e6),
        voice_end_ns=round(voice_end * 1e6),
        words_end_ns=None if words_end is None else round(words_end * 1e6),
        uncertain=apart > _UNCERTAIN_MS,
        reason=f"the last word ends {apart:.0f} ms before the voice" if apart > _UNCERTAIN_MS else "",
        method="annotation",
    )


def _spoken_parts(value: Any) -> tuple[SpokenPart, ...]:
    """Return annotated speech segments.

    `value` is a list of objects with ``onset_ms`` and ``end_ms``, in milliseconds from the recording's first
    sample, and optionally ``text``; or the same list as JSON text; or None.

    Raises:
        ValueError: The value is not such a list, or the segments overlap or are out of order.
    """
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):  # invalid JSON is reported below as not a list
            value = json.loads(value)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"expected parts to be a list, got {_kind(value):.200}")
    parts: list[SpokenPart] = []
    for number, each in enumerate(value, 1):
        if not isinstance(each, Mapping):
            raise ValueError(f"expected part {number} to be an object, got {_kind(each):.200}")
        onset, end = (_milliseconds(each.get(name), f"{name} of part {number}") for name in _PART)
        text = each.get("text", "")
        if not isinstance(text, str):
            raise ValueError(f"expected the text of part {number} to be text, got {_kind(text):.200}")
        part = SpokenPart(round(onset * 1e6), round(end * 1e6), text.strip())
        if not (parts[-1].end_ns if parts else 0) <= part.onset_ns < part.end_ns:
            raise ValueError(
                f"expected parts in order, each with onset_ms < end_ms, but part {number} goes from "
                f"{onset:.10g} to {end:.10g} ms"
                + (f" and the previous part ends at {parts[-1].end_ns / 1e6:.10g}" if parts else "")
            )
        parts.append(part)
    return tuple(parts)


def _milliseconds(value: Any, what: str) -> float:
    """Parse a number of milliseconds from a number or a numeric string."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):  # OverflowError: an integer of any length
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected {what} to be a number of milliseconds, got {value!r:.80}")
    return number


def inside(root: Path, stated: str) -> Path | None:
    """Return the file at a path from the data, or None outside `root`; backslashes count as slashes."""
    # Do not resolve links: data sets often contain trusted links to other locations.
    if "\0" in stated:
        return None
    top = os.path.abspath(root)
    full = os.path.normpath(os.path.join(top, stated.replace("\\", "/")))
    if os.path.commonpath([top, full]) != top or full == top:
        return None
    return root / os.path.relpath(full, top)


def unique(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, with a numeric suffix if it is in `taken`, and add the result to `taken`."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}#{number}"
    taken.add(name)
    return name


def field_names(record: Mapping[str, Any]) -> list[str]:
    """Return the names of an entry's fields; nested names follow a dot."""
    names: list[str] = []
    for key, value in record.items():
        inner = list(value) if isinstance(value, Mapping) else []
        names.extend(f"{key}.{name}" for name in inner) if inner else names.append(str(key))
    return names


def _first_fields(records: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(field_names(records[0])) if records else "none"


def relative_name(stated: str) -> str:
    """Normalise a file name in the data to make references to the same file comparable."""
    return os.path.normpath(stated.replace("\\", "/"))


def _lookup(record: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or None; a key that contains the dot takes precedence."""
    if path in record:
        return record[path]
    key = next((key for key in record if str(key).strip().casefold() == path.casefold()), None)
    if key is not None:
        return record[key]
    head, dot, rest = path.partition(".")
    inner = _lookup(record, head) if dot else None
    return _lookup(inner, rest) if isinstance(inner, Mapping) else None


def _blank(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, (str, Mapping, Sequence)) and len(value) == 0)
        or (isinstance(value, str) and not value.strip())
    )


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with the fields {', '.join(field_names(value)) or 'none'}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a list of {len(value)}"
    return f"{value!r}"
