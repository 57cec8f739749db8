"""Assign batches to workers that have already loaded the judge, if possible. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from live_eval.judging import JudgedTurn, JudgeSpec
from live_eval.scoring.judge_pool import JudgedBatch

__all__ = ["JudgeBatch", "JudgeQueue"]

MOST_LOSSES = 2
"""The number of lost workers after which a batch fails, because it may be the cause (memory)."""


@dataclass(slots=True, eq=False)
class JudgeBatch:
    """A batch for a worker.

    Args:
        version: Version under which the scores are stored.
        turns: Turns with only the audio that the judge uses.
        losses: Number of workers lost while judging this batch.
        answer: Receives the result.
    """

    spec: JudgeSpec
    version: str
    turns: Sequence[JudgedTurn]
    losses: int = 0
    answer: Future[JudgedBatch] = field(default_factory=Future)


class JudgeQueue:
    """A queue of batches for several workers."""

    def __init__(self) -> None:
        self._waiting: deque[JudgeBatch] = deque()
        self._held: dict[Hashable, JudgeBatch] = {}
        self._loaded: dict[Hashable, dict[str, Sequence[str]]] = {}  # packages by judge, for each worker

    @property
    def pending(self) -> int:
        """The number of queued and running batches."""
        return len(self._waiting) + len(self._held)

    def add(self, batch: JudgeBatch) -> None:
        """Add a batch."""
        self._waiting.append(batch)

    def next_for(self, worker: Hashable) -> JudgeBatch | None:
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

        def rank(batch: JudgeBatch) -> tuple[bool, bool, bool, float]:
            return (
                batch.spec.name in mine,
                batch.spec.name not in elsewhere,
                not imported.isdisjoint(batch.spec.packages),
                batch.spec.effort,
            )

        batch = max(self._waiting, key=rank)  # the first among equals
        self._waiting.remove(batch)
        self._held[worker] = batch
        mine[batch.spec.name] = batch.spec.packages
        return batch

    def finished(self, worker: Hashable) -> JudgeBatch:
        """Remove the batch that a worker has finished, and return it."""
        return self._held.pop(worker)

    def lost(self, worker: Hashable) -> JudgeBatch | None:
        """Remove a lost worker. Requeue its batch at the front, or return it if it has failed."""
        self._loaded.pop(worker, None)
        batch = self._held.pop(worker, None)
        if batch is None:
            return None
        batch.losses += 1
        if batch.losses >= MOST_LOSSES:
            return batch
        self._waiting.appendleft(batch)
        return None

    def returned(self, worker: Hashable) -> None:
        """Remove a worker that could not start its batch, and requeue the batch at the front."""
        self._loaded.pop(worker, None)
        batch = self._held.pop(worker, None)
        if batch is not None:
            self._waiting.appendleft(batch)

    def abandoned(self) -> list[JudgeBatch]:
        """Remove and return all queued batches, for when no workers remain."""
        batches, self._waiting = list(self._waiting), deque()
        return batches
