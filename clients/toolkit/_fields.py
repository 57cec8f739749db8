"""Typed access to the fields of events that may be broken; every defect is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
import pybase64

from live_eval.dialect import Message
from live_eval.text.messages import MOST_VALUES, has_too_many_values

_T = TypeVar("_T")
_GREATEST = 2**63  # JSON writers know no greater integers, and some values are sent back
_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


class MalformedError(ValueError):
    """A message is broken and cannot be used; caught within the dialect."""


def parse_object(message: Message) -> dict[str, Any]:
    """Parse the JSON object in a text message.

    An object with more values than any event of any service is not parsed, since each value takes about a
    hundred bytes: it is returned as an event of an unknown type.

    Raises:
        MalformedError: The message is binary, not JSON, or not an object.
    """
    if isinstance(message, bytes):
        raise MalformedError(f"expected a text message, but {len(message)} bytes of binary came")
    if has_too_many_values(message):
        return {"type": f"(more than {MOST_VALUES} values, not read)", "characters": len(message)}
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError as error:
        raise MalformedError(f"expected JSON, but {len(message)} other characters came: {error}") from None
    if not isinstance(value, dict):
        raise MalformedError(f"expected a JSON object, but {_NAMES[type(value)]} came")
    return value


class Fields:
    """Typed access to the fields of an object in an event.

    A field that is missing or null reads as None. A field of the wrong type reads as None too and is added to
    `wrong`, so that the rest of the event can still be used.

    Args:
        where: The object's name in messages.
        values: The object.
        wrong: The list to which defects are added; a child shares its parent's.
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
        """Return a number, truncated to an integer: some servers send fractions of milliseconds."""
        value = self.number(name)
        if value is None or abs(value) < _GREATEST:
            return None if value is None else int(value)
        self.wrong.append(f"{self._where}: expected {name!r} to be a number of 64 bits, but {value:g} came")
        return None

    def child(self, name: str) -> Fields:
        """Return an object; an empty one if it is missing."""
        return Fields(f"{self._where}.{name}", self._typed(name, dict) or {}, self.wrong)

    def children(self, name: str) -> list[Fields]:
        """Return the objects of a list; an empty list if it is missing."""
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
            MalformedError: It is missing.
        """
        value = self._values.get(name)
        if not isinstance(value, str):
            raise MalformedError(self._defect(name, "a string", value))
        return value

    def need_name(self, name: str) -> str:
        """Return a non-empty string.

        Raises:
            MalformedError: It is missing.
        """
        value = self.need_text(name)
        if not value:
            raise MalformedError(f"{self._where}: expected {name!r} to be a name, got an empty string")
        return value

    def need_bytes(self, name: str) -> bytes:
        """Decode a string of base64.

        Raises:
            MalformedError: It is missing or not base64.
        """
        text = self.need_text(name)
        try:
            return pybase64.b64decode(text, validate=True)
        except ValueError as error:
            raise MalformedError(f"{self._where}: expected base64 in {name!r}: {error}") from None

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
        return f"{self._where}: expected {name!r} to be {expected}, but {came} came"
