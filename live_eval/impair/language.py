"""Parse the common syntax of impairments and of the reference endpoint's faults. Pure.

Items are separated by commas: ``NAME``, ``NAME=VALUE`` or ``NAME:VALUE``; faults also accept
``NAME=VALUE@CONDITION``. A value is a number with a unit (``1.2s``, ``17MB``, ``10%``), a word or a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["BoundedValue", "DamageItem", "ValueUnit", "items"]

_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z%]*)", re.ASCII | re.IGNORECASE)


class ValueUnit(StrEnum):
    """The unit in which a number is stored."""

    PERCENT = "%"
    MILLISECONDS = "ms"
    DECIBELS = "dB"
    KILOBITS = "kbps"
    BYTES = "B"
    PACKETS = "packets"
    NUMBER = "number"
    """An integer."""
    CHOICE = "choice"
    CHOICE_OR_PATH = "choice or path"
    PATH = "path"


_FACTORS: Mapping[ValueUnit, Mapping[str, float]] = {
    ValueUnit.PERCENT: {"%": 1},
    ValueUnit.MILLISECONDS: {"ms": 1, "s": 1_000},
    ValueUnit.DECIBELS: {"db": 1},
    ValueUnit.KILOBITS: {"kbps": 1, "mbps": 1_000},
    ValueUnit.BYTES: {"b": 1, "kb": 1_000, "mb": 1_000_000},
    ValueUnit.PACKETS: {"": 1},
    ValueUnit.NUMBER: {"": 1},
}


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """The value type of an impairment or a fault.

    Args:
        choices: Words that are also allowed.
    """

    unit: ValueUnit
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()
    default: str | None = None

    def read(self, text: str) -> float | str:
        """Parse a value: a number with a unit, a word or a path.

        Raises:
            ValueError: The value is not allowed. The message lists the allowed values.
        """
        if text in self.choices:
            return text
        if self.unit in _FACTORS:
            match = _NUMBER.fullmatch(text)
            factor = _FACTORS[self.unit].get(match[2].lower()) if match else None
            if match is not None and factor is not None:
                value = float(match[1]) * factor
                if self.low <= value <= self.high and not (self.unit is ValueUnit.NUMBER and value % 1):
                    return value
        elif self.names_file(text):
            path = Path(text).expanduser()
            if path.is_file() if self.unit is ValueUnit.PATH else path.is_dir():
                return text
            raise ValueError(f"{self.expected}; no such path: {text}")
        raise ValueError(f"{self.expected}, got {text!r}")

    def shown(self, value: float | str) -> str:
        """Format a value so that `read` parses it."""
        if isinstance(value, str):
            return value
        bare = self.unit in (ValueUnit.PACKETS, ValueUnit.NUMBER)
        return f"{value:.10g}{'' if bare else self.unit.value}"

    @property
    def expected(self) -> str:
        """A short description of the allowed values."""
        last = {ValueUnit.CHOICE: "", ValueUnit.CHOICE_OR_PATH: "FOLDER", ValueUnit.PATH: "FILE"}.get(
            self.unit, f"{self.shown(self.low)} to {self.shown(self.high)}"
        )
        return "|".join(filter(None, (*self.choices, last)))

    @property
    def described(self) -> str:
        """A description of the allowed values and the default."""
        return f"{self.expected} (default {self.default})" if self.default else self.expected

    def names_file(self, value: str) -> bool:
        """Return whether a value is a file or folder path."""
        return self.unit in (ValueUnit.CHOICE_OR_PATH, ValueUnit.PATH) and value not in self.choices


class DamageItem(NamedTuple):
    """A parsed item: its full text, name, value, and conditions (each written after an ``@``)."""

    text: str
    name: str
    value: str | None
    conditions: tuple[str, ...]


def items(texts: str | Iterable[str], *, conditional: bool = False) -> Iterator[DamageItem]:
    """Yield the items in texts.

    >>> next(items("reset=1.2s@first=2", conditional=True))
    DamageItem(text='reset=1.2s@first=2', name='reset', value='1.2s', conditions=('first=2',))

    Args:
        conditional: Whether items may have conditions; otherwise, an ``@`` is part of the value.
    """
    for text in ",".join([texts] if isinstance(texts, str) else texts).split(","):
        head, *conditions = text.strip().split("@") if conditional else (text.strip(),)
        name, *value = map(str.strip, re.split("[=:]", head, maxsplit=1))
        if text.strip():
            yield DamageItem(text.strip(), name, value[0] if value else None, tuple(conditions))
