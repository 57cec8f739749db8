"""Record the steps of a session for a cassette."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from live_eval.cassettes import Step

__all__ = ["WireRecord"]

_P = ParamSpec("_P")


class WireRecord:
    """The steps of a session, recorded only if `keeps`."""

    def __init__(self, *, keeps: bool) -> None:
        self._kept: list[Callable[[], Step]] | None = [] if keeps else None

    def keep(self, make: Callable[_P, Step], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Record a step by its factory; `steps` calls it later, outside the event loop."""
        if self._kept is not None:
            self._kept.append(partial(make, *args, **kwargs))

    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order; none if they are not recorded. Call it outside the event loop."""
        return tuple(make() for make in self._kept or ())
