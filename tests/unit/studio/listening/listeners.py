"""Listening tests and their votes."""

from __future__ import annotations

from pathlib import Path

from live_eval.studio.listening.listening_test import (
    ListenedCase,
    ListenedRun,
    ListeningKind,
    ListeningTest,
    ReferenceKind,
    rating_scales,
)
from live_eval.studio.listening.setup import plan_test
from live_eval.studio.listening.votes import FOLDER, VoteFile

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING
MUSHRA = ListeningKind.MUSHRA


SCALES = tuple(rating_scales())


def a_test(kind: ListeningKind = AB, cases: int = 10) -> ListeningTest:
    return ListeningTest(
        kind=kind,
        runs=(ListenedRun("one", "../one"), ListenedRun("two", "../two")),
        cases=tuple(ListenedCase(f"id_{n}/target", f"id_{n}/target", f"id_{n}") for n in range(cases)),
        scales=SCALES if kind is RATING else (),
        seed=5,
    )


def every_run(_run: Path) -> bool:
    """A studio that shows every run."""
    return True


def new_file(
    runs: tuple[Path, ...],
    kind: ListeningKind = AB,
    reference: ReferenceKind = ReferenceKind.NONE,
    limit: int = 20,
) -> VoteFile:
    folder = runs[0].parent / FOLDER
    scales = SCALES if kind is RATING else ()
    test = plan_test(kind, runs, folder, limit=limit, scales=scales, reference=reference)
    return VoteFile.create(folder, test)
