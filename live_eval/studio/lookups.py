"""What requests name: a run, a turn, numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from live_eval.errors import UsageError
from live_eval.recording import RunReader
from live_eval.studio.answers import NotFoundError
from live_eval.studio.library import Library

__all__ = ["count_in", "number_in", "open_turn"]


@contextmanager
def open_turn(library: Library, run_id: str, turn_id: str) -> Iterator[RunReader]:
    """Open the run that holds a turn.

    Raises:
        NotFoundError: There is no such run, or no such turn in it.
        StoreError: It cannot be read.
    """
    with RunReader.open(library.find(run_id, "run").path) as run:
        if turn_id not in run:
            raise NotFoundError(f"{run.path}: has no turn {turn_id[:100]!r}")
        yield run


def number_in(request: web.Request, name: str, default: float, low: float, high: float) -> float:
    """Return a number of the request's query.

    Raises:
        UsageError: It is no number from `low` to `high`.
    """
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(f"{name}: expected a number from {low:g} to {high:g}, found {text[:40]!r}")
    return value


def count_in(request: web.Request, name: str, default: int, high: int) -> int:
    """Return a whole number of the request's query, from 0 to `high`.

    Raises:
        UsageError: It is none.
    """
    value = number_in(request, name, default, 0, high)
    if value != int(value):
        raise UsageError(f"{name}: expected a whole number, found {value:g}")
    return int(value)
