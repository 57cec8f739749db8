"""Start the same session of several runs at the same moment, so that conditions are equal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

__all__ = ["PairedRun", "Pairing"]


class Pairing:
    """A group of runs that start each common session together.

    All runs have the same session order. A session starts once each run has reached it, does not plan it, or
    has ended.

    Args:
        runs: Number of runs; a session waits until each has planned its sessions or has ended.
    """

    def __init__(self, runs: int) -> None:
        self.runs = tuple(PairedRun(self) for _ in range(runs))
        """The runs, each for one caller."""
        self._changed = asyncio.Event()

    def awaited(self, session: str) -> bool:
        """Return whether a run has not yet reached a session."""
        return any(run.ahead is None or session in run.ahead for run in self.runs)

    def wake(self) -> None:
        """Wake all waiting sessions in the same iteration of the event loop."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait for a change."""
        await self._changed.wait()


class PairedRun:
    """One run's part in a `Pairing`."""

    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing
        self.ahead: set[str] | None = None
        """Sessions that the run has not reached yet; None until they are planned."""

    def plan(self, sessions: Iterable[str]) -> None:
        """Set the sessions that the run will start, by ID."""
        self.ahead = set(sessions)
        self._pairing.wake()

    async def start(self, session: str) -> None:
        """Wait until the session starts in every run; a session that has already started does not wait."""
        assert self.ahead is not None
        if session not in self.ahead:
            return
        self.ahead.remove(session)
        self._pairing.wake()
        while self._pairing.awaited(session):
            await self._pairing.wait()

    def leave(self) -> None:
        """End the run's part, so that other runs no longer wait for it."""
        self.plan(())
