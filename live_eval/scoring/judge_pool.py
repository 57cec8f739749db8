"""The contract between a scoring and the workers that run its judges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from live_eval.judging import JudgedTurn, Judgement, JudgeSpec

__all__ = ["JudgePool", "JudgedBatch"]


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """The judgements of a batch, one per turn, or why the judge could not run; `seconds` includes loading."""

    judgements: Sequence[Judgement]
    problem: str | None
    seconds: float


class JudgePool(Protocol):
    """Runs judges in several workers. Only one thread calls it."""

    @property
    def ahead(self) -> int:
        """The number of batches that may wait or be in progress."""
        ...

    def takes(self, spec: JudgeSpec) -> bool:
        """Return whether it runs this judge; other judges run in this process."""
        ...

    def missing(self, spec: JudgeSpec) -> str | None:
        """Return which requirement of the judge is missing, in words, or None."""
        ...

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """Queue a batch for a judge that it takes; the future never raises."""
        ...
