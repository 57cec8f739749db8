"""Define the interface between a scoring run and the workers for its judges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from live_eval.judging import JudgedTurn, Judgement, JudgeSpec

__all__ = ["JudgePool", "JudgedBatch"]


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """The judgements of a batch, one per turn, or why there are none; `seconds` includes the loading time."""

    judgements: Sequence[Judgement]
    problem: str | None
    seconds: float


class JudgePool(Protocol):
    """A pool of workers that run judges. Only one thread may call its methods."""

    @property
    def ahead(self) -> int:
        """The maximum number of queued or running batches."""
        ...

    def takes(self, spec: JudgeSpec) -> bool:
        """Return whether the pool runs this judge; other judges run in this process."""
        ...

    def missing(self, spec: JudgeSpec) -> str | None:
        """Return the judge's missing requirement, or None."""
        ...

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """Queue a batch for a judge that the pool runs; the future never raises an error."""
        ...
