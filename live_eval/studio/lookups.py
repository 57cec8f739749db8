"""Look up the turn and the numbers in a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from live_eval.errors import UsageError
from live_eval.recording import RunReader
from live_eval.studio.answers import NotFoundError
from live_eval.studio.library import LIBRARY

__all__ = ["count_in", "number_in", "open_turn"]


@contextmanager
def open_turn(request: web.Request) -> Iterator[tuple[RunReader, str]]:
    """Open the run of the requested turn, and yield the run and the turn ID.

    Raises:
        NotFoundError: The run or the turn does not exist.
        StoreError: The run cannot be read.
    """
    turn_id = request.match_info["turn"]
    with RunReader.open(request.app[LIBRARY].find(request.match_info["run"], "run").path) as run:
        if turn_id not in run:
            raise NotFoundError(f"{run.path} contains no turn {turn_id[:100]!r}")
        yield run, turn_id


def number_in(request: web.Request, name: str, default: float, low: float, high: float) -> float:
    """Return a number from the request's query."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(f"{name}: expected a number from {low:g} to {high:g}, got {text[:40]!r}")
    return value


def count_in(request: web.Request, name: str, default: int, high: int) -> int:
    """Return an integer from the request's query, 0 to `high`."""
    value = number_in(request, name, default, 0, high)
    if value != int(value):
        raise UsageError(f"{name}: expected a whole number, got {value:g}")
    return int(value)
