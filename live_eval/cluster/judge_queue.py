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
        losses: How many workers were lost over it.
    """

    judge: str
    payload: Any = field(repr=False)
    losses: int = 0


class JudgeQueue:
    """The batches that wait, and those that workers have."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedBatch] = deque()
        self._held: dict[Hashable, QueuedBatch] = {}
        self._loaded: dict[Hashable, set[str]] = {}

    @property
    def under_way(self) -> int:
        """How many batches wait or are being judged."""
        return len(self._waiting) + len(self._held)

    def add(self, task: QueuedBatch) -> None:
        """Let a batch wait for a worker."""
        self._waiting.append(task)

    def next_for(self, worker: Hashable) -> QueuedBatch | None:
        """Give an idle worker a batch: the first for a judge that it has loaded, else the first of all."""
        loaded = self._loaded.setdefault(worker, set())
        task = next((each for each in self._waiting if each.judge in loaded), None)
        if task is None and self._waiting:
            task = self._waiting[0]
        if task is None:
            return None
        self._waiting.remove(task)
        self._held[worker] = task
        loaded.add(task.judge)
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
