"""Assign batches to workers that have already loaded the judge, if possible. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["JudgeQueue", "QueuedBatch"]

MOST_LOSSES = 2
"""The number of lost workers after which a batch fails, because it may be the cause (memory)."""


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """A batch for a judge.

    Args:
        payload: Data for the worker.
        packages: Packages that the judge imports.
        effort: The judge's `JudgeSpec.effort`.
        losses: Number of workers lost while judging this batch.
    """

    judge: str
    payload: Any = field(repr=False)
    packages: frozenset[str] = frozenset()
    effort: float = 0.0
    losses: int = 0


class JudgeQueue:
    """A queue of batches for several workers."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedBatch] = deque()
        self._held: dict[Hashable, QueuedBatch] = {}
        self._loaded: dict[Hashable, dict[str, frozenset[str]]] = {}  # packages by judge, for each worker

    @property
    def pending(self) -> int:
        """The number of queued and running batches."""
        return len(self._waiting) + len(self._held)

    def add(self, task: QueuedBatch) -> None:
        """Add a batch."""
        self._waiting.append(task)

    def next_for(self, worker: Hashable) -> QueuedBatch | None:
        """Assign a batch to an idle worker.

        Judges that the worker has loaded take precedence, then judges that no other worker has loaded, then
        judges whose packages the worker has imported. Among equals, the judge with the most effort is chosen,
        so that scoring ends with a short batch, and then the oldest batch.
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

        task = max(self._waiting, key=rank)  # the first among equals
        self._waiting.remove(task)
        self._held[worker] = task
        mine[task.judge] = task.packages
        return task

    def finished(self, worker: Hashable) -> QueuedBatch:
        """Remove the batch that a worker has finished, and return it."""
        return self._held.pop(worker)

    def lost(self, worker: Hashable) -> QueuedBatch | None:
        """Remove a lost worker. Requeue its batch at the front, or return it if it has failed."""
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
        """Remove a worker that could not start its batch, and requeue the batch at the front."""
        self._loaded.pop(worker, None)
        task = self._held.pop(worker, None)
        if task is not None:
            self._waiting.appendleft(task)

    def abandoned(self) -> list[QueuedBatch]:
        """Remove and return all queued batches, for when no workers remain."""
        tasks, self._waiting = list(self._waiting), deque()
        return tasks
