"""Store the rows of the turn list by column."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["ListedTurn", "TurnRows"]

_NUMBERS = ("latency_ms", "scores")
_REPEATED = frozenset({"script_id", "cue", "topic", "text", "dialogue_id"})


class ListedTurn(Mapping[str, Any]):
    """A row of the turn list: JSON values by name."""

    __slots__ = ("_place", "_rows")

    def __init__(self, rows: TurnRows, place: int) -> None:
        self._rows = rows
        self._place = place

    def __getitem__(self, name: str) -> Any:
        numbers = self._rows.numbers.get(name)
        if numbers is None:
            return self._rows.columns[name][self._place]
        return {each: self.number(name, each) for each in numbers}

    def number(self, part: str, name: str) -> float | None:
        """Return a latency (in ``latency_ms``) or a score (in ``scores``)."""
        value = self._rows.numbers[part][name][self._place]
        return None if value != value else value

    def __iter__(self) -> Iterator[str]:
        yield from self._rows.names

    def __len__(self) -> int:
        return len(self._rows.names)


class TurnRows(Sequence[ListedTurn]):
    """The rows of the turn list, in recording order.

    Rows are stored by column, because 30,000 dictionaries would take 150 MB.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.columns: dict[str, list[Any]] = {}
        self.numbers: dict[str, dict[str, array[float]]] = {part: {} for part in _NUMBERS}
        self._count = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; all rows must have the same names."""
        self.names = self.names or tuple(row)
        for name, value in row.items():
            if name in self.numbers:
                for each, number in value.items():
                    column = self.numbers[name].setdefault(each, array("d"))
                    column.append(float("nan") if number is None else number)
            else:
                shared = sys.intern(value) if value is not None and name in _REPEATED else value
                self.columns.setdefault(name, []).append(shared)
        self._count += 1

    def fill(self, part: str, name: str, values: NDArray[np.float64]) -> None:
        """Set a column of numbers, shape (rows,), with NaN for missing values."""
        self.numbers[part][name] = array("d", np.ascontiguousarray(values).tobytes())

    def drop_empty(self, part: str, names: Iterable[str]) -> None:
        """Remove those of the named columns of numbers that have no values."""
        for name in names:
            if all(value != value for value in self.numbers[part].get(name, ())):
                self.numbers[part].pop(name, None)

    @overload
    def __getitem__(self, place: int) -> ListedTurn: ...
    @overload
    def __getitem__(self, place: slice) -> list[ListedTurn]: ...
    def __getitem__(self, place: int | slice) -> ListedTurn | list[ListedTurn]:
        if isinstance(place, slice):
            return [ListedTurn(self, each) for each in range(self._count)[place]]
        return ListedTurn(self, range(self._count)[place])

    def __len__(self) -> int:
        return self._count
