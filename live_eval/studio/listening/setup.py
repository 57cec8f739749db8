"""Set up a listening test: check the runs and choose cases."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from live_eval.analysis.comparison.run_comparison import check_same_data
from live_eval.analysis.comparison.series import read_runs
from live_eval.analysis.statistics.sampling import spread_over_scripts
from live_eval.data import may_leave
from live_eval.errors import UsageError
from live_eval.recording import RunReader
from live_eval.studio.listening.listening_test import (
    ListenedCase,
    ListenedRun,
    ListeningKind,
    ListeningTest,
    ReferenceKind,
    rating_scales,
)
from live_eval.text.wording import counted

__all__ = ["plan_test"]


def plan_test(
    kind: ListeningKind,
    runs: Sequence[Path],
    folder: Path,
    *,
    limit: int = 20,
    scales: Sequence[str] = (),
    reference: ReferenceKind = ReferenceKind.USER,
    recordings: Sequence[Path] = (),
    seed: int = 0,
    wall_ns: int = 0,
) -> ListeningTest:
    """Plan a test on cases that have reply audio in all runs, spread evenly over scripts.

    Args:
        runs: Run folders with the same data: one or two for ratings, one to eight for MUSHRA, otherwise two.
        folder: Folder for the test file.
        limit: Maximum number of cases; 0 for all.
        recordings: Folders, besides the runs' own, whose recordings may be played to listeners.

    Raises:
        UsageError: The runs are not comparable or share no case with audio, a scale is unknown, ratings
            have no reference, or a reference reply must not be played.
        StoreError: A folder contains no run.
    """
    if kind is ListeningKind.RATING and reference is ReferenceKind.NONE:
        raise UsageError(
            "reference: ratings require 'user' or 'reply', because their scales refer to the user's side"
        )
    names = [run.resolve().name for run in runs]
    if len(runs) > 1:
        first, *others = read_runs(runs)
        for other in others:
            check_same_data(first, other, common=True)
    known = rating_scales()
    if unknown := [scale for scale in scales if scale not in known]:
        raise UsageError(f"scales: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    cases = _common_cases(runs, names)
    if kind is ListeningKind.MUSHRA:
        cases = _with_reference(runs[0], cases)
    order = spread_over_scripts({turn_id: case.script_id for turn_id, case in sorted(cases.items())}, seed)
    chosen = tuple(cases[turn_id] for turn_id in order[: limit or None])
    if reference is ReferenceKind.REPLY:
        _check_references(runs[0], chosen, recordings)
    return ListeningTest(
        kind=kind,
        runs=tuple(
            ListenedRun(name, Path(os.path.relpath(run.resolve(), folder.resolve())).as_posix())
            for name, run in zip(names, runs, strict=True)
        ),
        cases=chosen,
        scales=tuple(scales),
        reference=reference,
        seed=seed,
        created=datetime.fromtimestamp(wall_ns / 1e9, UTC).isoformat(timespec="seconds"),
    )


def _common_cases(runs: Sequence[Path], names: Sequence[str]) -> dict[str, ListenedCase]:
    """Return the first turn of each case that has reply audio in every run, by turn ID.

    Raises:
        UsageError: No case has reply audio in every run; the message contains each run's number of turns.
    """
    # votes refer to cases, so one turn per case
    found = [_audible(run) for run in runs]
    common = [turn_id for turn_id in found[0] if all(turn_id in turns for turns in found)]
    by_case: dict[str, ListenedCase] = {}
    for turn_id in sorted(common):
        by_case.setdefault(found[0][turn_id].case_id, found[0][turn_id])
    if not by_case:
        have = ", ".join(
            f"{name} has {counted(len(turns), 'turn')} with audio"
            for name, turns in zip(names, found, strict=True)
        )
        raise UsageError(f"no case has reply audio in every run: {have}")
    return {case.turn_id: case for case in by_case.values()}


def _with_reference(run: Path, cases: Mapping[str, ListenedCase]) -> dict[str, ListenedCase]:
    """Return the cases that have a reference reply.

    Raises:
        UsageError: No case has a reference reply.
    """
    with RunReader.open(run) as reader:
        found = {
            turn_id: case
            for turn_id, case in cases.items()
            if (path := reader.turn(turn_id).case.reference_audio_path) is not None and path.is_file()
        }
    if not found:
        raise UsageError("no case has a reference reply, which a MUSHRA test requires")
    return found


def _check_references(run: Path, cases: Sequence[ListenedCase], recordings: Sequence[Path]) -> None:
    """Check that the reference replies may be played to listeners; raise a `UsageError` otherwise."""
    with RunReader.open(run) as reader:
        for case in cases:
            path = reader.turn(case.turn_id).case.reference_audio_path
            if path is not None and not may_leave(path, run, recordings):
                raise UsageError(
                    f"reference replies in {path.resolve().parent} are outside the run: to play them to "
                    "listeners, start the studio with --data and their folder"
                )


def _audible(run: Path) -> dict[str, ListenedCase]:
    """Return a run's turns that have reply audio."""
    with RunReader.open(run) as reader:
        lost = reader.lost_audio()
        return {
            turn.turn_id: ListenedCase(turn.case.case_id, turn.turn_id, turn.case.script_id)
            for turn in reader.turns()
            if turn.captured and turn.has_reply and turn.turn_id not in lost
        }
