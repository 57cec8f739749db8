"""Judging elsewhere: the contract between a scoring and machines that run its judges."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from live_eval.judging import JudgedTurn, Judgement, JudgeSpec

__all__ = ["JudgePool", "JudgedBatch"]


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """What a judge made of a batch.

    Args:
        judgements: One for each turn; empty if the judge could not run.
        problem: Why it could not run; None if it did.
        seconds: What it took, loading included.
    """

    judgements: Sequence[Judgement]
    problem: str | None
    seconds: float


class JudgePool(Protocol):
    """Runs judges on several machines. Only one thread calls it."""

    @property
    def ahead(self) -> int:
        """How many batches may wait or be judged at a time."""
        ...

    def takes(self, spec: JudgeSpec) -> bool:
        """Return whether it runs this judge; the others run where the scores are written."""
        ...

    def missing(self, spec: JudgeSpec) -> str | None:
        """Return what the judge needs and its machines do not have, in words, or None."""
        ...

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """Let a judge that it takes judge a batch; the future never raises."""
        ...
