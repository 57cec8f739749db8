"""Sessions that may go on over another connection."""

from __future__ import annotations

import secrets

from live_eval.reference.engine import Engine

__all__ = ["Shelf"]

_KEPT = 64


class Shelf:
    """Keeps the engines of sessions by handle, the newest of them.

    A handle stands for the session as it is when it goes on, not as it was when the handle was given.
    """

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}

    def put(self, engine: Engine, former: str | None) -> str:
        """Keep a session.

        Args:
            engine: Its engine.
            former: Its handle so far, which is forgotten, or None.

        Returns:
            Its handle.
        """
        if former is not None:
            self._engines.pop(former, None)
        handle = secrets.token_urlsafe(24)
        self._engines[handle] = engine
        while len(self._engines) > _KEPT:
            del self._engines[next(iter(self._engines))]
        return handle

    def take(self, handle: str) -> Engine | None:
        """Return the session of a handle, or None where there is none; a handle is good once."""
        return self._engines.pop(handle, None)
