"""Which worker judges what: first the judges that it has loaded; lost work is given away again.

Pure: it starts nothing and waits for nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["JudgeQueue", "QueuedBatch"]

MOST_LOSSES = 2
"""A batch whose worker was lost so often is given up: it may be what kills them (memory)."""


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """A batch for a judge.

    Args:
        judge: The judge's name.
        payload: What the worker gets.
        packages: The packages that the judge imports.
        effort: The judge's `JudgeSpec.effort`.
        losses: How many workers were lost over it.
    """

    judge: str
    payload: Any = field(repr=False)
    packages: frozenset[str] = frozenset()
    effort: float = 0.0
    losses: int = 0


class JudgeQueue:
    """The batches that wait, and those that workers have."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedBatch] = deque()
        self._held: dict[Hashable, QueuedBatch] = {}
        self._loaded: dict[Hashable, dict[str, frozenset[str]]] = {}  # by worker: judges, their packages

    @property
    def under_way(self) -> int:
        """How many batches wait or are being judged."""
        return len(self._waiting) + len(self._held)

    def add(self, task: QueuedBatch) -> None:
        """Let a batch wait for a worker."""
        self._waiting.append(task)

    def next_for(self, worker: Hashable) -> QueuedBatch | None:
        """Give an idle worker a batch.

        A judge that the worker has loaded comes first, then one that no other worker has loaded, then one
        whose packages the worker has imported. Among equals the judge with the greatest effort comes first,
        so that a short batch ends the scoring, then the batch that has waited longest.
        """
        if not self._waiting:
            return None
        mine = self._loaded.setdefault(worker, {})
        elsewhere = {judge for other, judges in self._loaded.items() if other != worker for judge in judges}
        imported = frozenset[str]().union(*mine.values())

        def rank(task: QueuedBatch) -> tuple[bool, bool, bool, float]:
            return (
                task.judge in mine,
                task.judge not in elsewhere,
                not imported.isdisjoint(task.packages),
                task.effort,
            )

        task = max(self._waiting, key=rank)  # the first of equals
        self._waiting.remove(task)
        self._held[worker] = task
        mine[task.judge] = task.packages
        return task

    def finished(self, worker: Hashable) -> QueuedBatch:
        """Take back the batch that a worker has finished."""
        return self._held.pop(worker)

    def lost(self, worker: Hashable) -> QueuedBatch | None:
        """Forget a worker; its batch is the next to be given away.

        Returns:
            The batch, if it is given up instead; None if it waits again, or if there was none.
        """
        self._loaded.pop(worker, None)
        task = self._held.pop(worker, None)
        if task is None:
            return None
        task.losses += 1
        if task.losses >= MOST_LOSSES:
            return task
        self._waiting.appendleft(task)
        return None

    def returned(self, worker: Hashable) -> None:
        """Take back the batch of a worker that could not begin it; it is the next to be given away."""
        self._loaded.pop(worker, None)
        task = self._held.pop(worker, None)
        if task is not None:
            self._waiting.appendleft(task)

    def abandoned(self) -> list[QueuedBatch]:
        """Take all batches that wait, since no worker is left."""
        tasks, self._waiting = list(self._waiting), deque()
        return tasks
