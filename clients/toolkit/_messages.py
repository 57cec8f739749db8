"""Read typed fields of untrusted messages and redact messages for the log."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
import pybase64

from live_eval.dialect import Message
from live_eval.redaction import SECRET_FIELDS, SECRETS, mask_halves
from live_eval.text.message_limits import MOST_VALUES, has_too_many_values
from live_eval.types import Secret

_T = TypeVar("_T")
_INTEGER_BOUND = 2**63  # JSON encoders reject larger integers, and some values are sent back
_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}

_RAW_CHARACTERS = 500
_SHOWN_CHARACTERS = 4_000
_DEPTH = 24
_RAW_SECRET = re.compile(rf'("(?:{"|".join(sorted(SECRET_FIELDS))})"\s*:\s*")[^"]*')
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")


class MalformedError(ValueError):
    """An invalid message; caught within the dialect."""


def parse_object(message: Message) -> dict[str, Any]:
    """Parse the JSON object in a text message.

    To bound memory (about 100 bytes per value), an object with more values than any known event is returned
    unparsed, as an event of unknown type.

    Raises:
        MalformedError: The message is binary, not JSON, or not an object.
    """
    if isinstance(message, bytes):
        raise MalformedError(f"expected a text message, got {len(message)} bytes of binary data")
    if has_too_many_values(message):
        return {"type": f"(more than {MOST_VALUES} values, not read)", "characters": len(message)}
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError as error:
        raise MalformedError(f"expected JSON, got {len(message)} invalid characters: {error}") from None
    if not isinstance(value, dict):
        raise MalformedError(f"expected a JSON object, got {_NAMES[type(value)]}")
    return value


def whole_samples(data: bytes) -> bytes:
    """Return 16-bit samples as they are.

    Raises:
        MalformedError: The data ends within a sample, which would misalign all following samples.
    """
    if len(data) % 2:
        raise MalformedError(f"expected whole 16-bit samples, got {len(data)} bytes")
    return data


class Fields:
    """Typed access to the fields of an object in an event.

    A missing or null field is returned as None. A field of the wrong type is also None, and is added to
    `wrong`, so that the rest of the event can still be used.

    Args:
        where: The object's name in error messages.
        values: The parsed object.
        wrong: The list to which defects are added, shared with child objects.
    """

    __slots__ = ("_values", "_where", "wrong")

    def __init__(self, where: str, values: Mapping[str, Any], wrong: list[str] | None = None) -> None:
        self._where = where
        self._values = values
        self.wrong: list[str] = [] if wrong is None else wrong

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str | None:
        """Return a string."""
        return self._typed(name, str)

    def flag(self, name: str) -> bool | None:
        """Return a boolean."""
        return self._typed(name, bool)

    def number(self, name: str) -> float | None:
        """Return a number."""
        value = self._values.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        self._miss(name, "a number", value)
        return None

    def integer(self, name: str) -> int | None:
        """Return a number, truncated to an integer because some servers send fractional milliseconds."""
        value = self.number(name)
        if value is None or abs(value) < _INTEGER_BOUND:
            return None if value is None else int(value)
        self.wrong.append(f"{self._where}: expected {name!r} to be a number of 64 bits, got {value:g}")
        return None

    def child(self, name: str) -> Fields:
        """Return an object; an empty object if the field is missing."""
        return Fields(f"{self._where}.{name}", self._typed(name, dict) or {}, self.wrong)

    def children(self, name: str) -> list[Fields]:
        """Return the objects in a list; an empty list if the field is missing."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._miss(name, "a list of objects", value)
            return []
        return [Fields(f"{self._where}.{name}", item, self.wrong) for item in value]

    def need_text(self, name: str) -> str:
        """Return a string that may be empty.

        Raises:
            MalformedError: The field is missing, or not a string.
        """
        value = self._values.get(name)
        if not isinstance(value, str):
            raise MalformedError(self._defect(name, "a string", value))
        return value

    def need_name(self, name: str) -> str:
        """Return a non-empty string.

        Raises:
            MalformedError: The field is missing or empty.
        """
        value = self.need_text(name)
        if not value:
            raise MalformedError(f"{self._where}: expected a non-empty string in {name!r}")
        return value

    def need_bytes(self, name: str) -> bytes:
        """Decode a base64 string.

        Raises:
            MalformedError: The field is missing or not base64.
        """
        text = self.need_text(name)
        try:
            return pybase64.b64decode(text, validate=True)
        except ValueError as error:
            raise MalformedError(f"{self._where}: expected base64 in {name!r}: {error}") from None

    def need_samples(self, name: str) -> bytes:
        """Decode a base64 string of 16-bit samples.

        Raises:
            MalformedError: The field is missing, not base64, or ends within a sample.
        """
        return whole_samples(self.need_bytes(name))

    def json(self, name: str) -> str:
        """Return a value of any type as JSON; ``null`` if the field is missing.

        Raises:
            MalformedError: The value is nested too deeply.
        """
        try:
            return orjson.dumps(self._values.get(name)).decode()
        except orjson.JSONEncodeError as error:
            raise MalformedError(f"{self._where}: cannot send back {name!r}: {error}") from None

    def _typed(self, name: str, kind: type[_T]) -> _T | None:
        value = self._values.get(name)
        if value is None or isinstance(value, kind):
            return value
        self._miss(name, _NAMES[kind], value)
        return None

    def _miss(self, name: str, expected: str, value: object) -> None:
        self.wrong.append(self._defect(name, expected, value))

    def _defect(self, name: str, expected: str, value: object) -> str:
        came = "nothing" if value is None and name not in self._values else _NAMES[type(value)]
        return f"{self._where}: expected {expected} in {name!r}, got {came}"


def hide_secrets(text: str, secrets: Collection[str]) -> str:
    """Return `text` without secrets, URL credentials or keys that the endpoint partly masked.

    Args:
        text: The text; only its first 4,000 characters are returned.
        secrets: The secrets.
    """
    # redact before truncating: a truncated secret would not be found
    return mask_halves(SECRETS.text(_without(_longest_first(secrets), text)))[:_SHOWN_CHARACTERS]


def _longest_first(secrets: Collection[str]) -> tuple[Secret, ...]:
    """Return the secrets in the order in which to remove them, as one may be part of another."""
    return tuple(map(Secret, sorted(secrets, key=len, reverse=True)))


def _without(secrets: Sequence[Secret], text: str) -> str:
    for secret in secrets:
        text = secret.redact(text)
    return text


def redact_raw(text: str, secrets: Collection[str]) -> dict[str, Any]:
    """Return the beginning of a message that cannot be parsed."""
    begin = SECRETS.text(_without(_longest_first(secrets), text))[:_RAW_CHARACTERS]
    begin = _RAW_SECRET.sub(r"\1***", begin)
    begin = _BASE64_RUN.sub(lambda run: f"({len(run.group())} characters of base64)", begin)
    return {"raw": begin.encode(errors="replace").decode(), "characters": len(text)}


def redact_object(
    event: dict[str, Any],
    secrets: Collection[str],
    audio_fields: Collection[str],
    secret_fields: Collection[str] = (),
) -> dict[str, Any]:
    """Return a copy of a message for the log.

    Args:
        event: The message.
        secrets: The session's secrets.
        audio_fields: Names of base64 audio fields.
        secret_fields: Names of secret fields, in addition to the default ones.

    Returns:
        The copy: audio becomes ``{"bytes": n}``; secret fields and every occurrence of a secret become
        ``***``.
    """
    rules = _Rules(_longest_first(secrets), audio_fields, {*SECRET_FIELDS, *secret_fields})
    return rules.members(event, _DEPTH - 1)


class _Rules(NamedTuple):
    """Field names and strings to remove from the log."""

    secrets: Sequence[Secret]
    audio_fields: Collection[str]
    secret_fields: Collection[str]

    def members(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        return {_without(self.secrets, name): self.member(name, item, depth) for name, item in fields.items()}

    def member(self, name: str, value: object, depth: int) -> object:
        if name in self.audio_fields and isinstance(value, str):
            return {"bytes": len(value) * 3 // 4 - value[-2:].count("=")}
        return "***" if name in self.secret_fields and value else self.copied(value, depth)

    def copied(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return _without(self.secrets, value)
        if not isinstance(value, dict | list):
            return value
        if depth == 0:
            return "(nested too deeply to be logged)"
        if isinstance(value, list):
            return [self.copied(item, depth - 1) for item in value]
        return self.members(value, depth - 1)
