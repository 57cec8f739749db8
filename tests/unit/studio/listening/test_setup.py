"""The cases that a listening test takes from runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live_eval.errors import FailureKind, UsageError
from live_eval.recording import AUDIO_FOLDER, RunWriter
from live_eval.studio.listening.listening_test import (
    ListeningKind,
    ReferenceKind,
    rating_scales,
)
from live_eval.studio.listening.setup import plan_test
from live_eval.studio.listening.votes import FOLDER
from live_eval.types import Case, Failure, Variant
from tests.support.listening import write_listened_run
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.studio.listening.listeners import new_file

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING


SCALES = tuple(rating_scales())


def test_cases_are_spread_over_scripts_and_paths_are_relative(runs: tuple[Path, Path]) -> None:
    file = new_file(runs, limit=4)
    test = file.read().test
    assert len(test.cases) == 4
    assert [run.path for run in test.runs] == ["../one", "../two"]
    assert new_file(runs, limit=4).path.name == "ab-2.jsonl"


def test_runs_that_are_not_comparable_are_refused(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    folder = tmp_path / FOLDER

    def refused(*folders: Path, kind: ListeningKind = AB, match: str, **options: object) -> None:
        with pytest.raises(UsageError, match=match):
            plan_test(kind, folders, folder, **options)  # type: ignore[arg-type]

    refused(runs[0], match="expected 2 runs, got 1")
    refused(*runs, write_listened_run(tmp_path / "three", hz=1), match="expected 2 runs, got 3")
    refused(runs[0], runs[0], match="got a duplicate")
    refused(*runs, scales=("rubric.c1",), match="expected none")
    refused(*runs, kind=RATING, match="expected some, each once, got none")
    refused(*runs, kind=RATING, scales=(SCALES[0],) * 2, match="expected some, each once")
    refused(*runs, kind=RATING, scales=SCALES, reference=ReferenceKind.NONE, match="ratings require")
    refused(*runs, kind=RATING, scales=("dnsmos.ovrl",), match="got dnsmos.ovrl")
    refused(runs[0], write_listened_run(tmp_path / "other" / "one", hz=1), match="rename all but one")
    shutil.rmtree(runs[1] / AUDIO_FOLDER)
    refused(*runs, match="one has 10 turns with audio, two has 0 turns with audio")
    stranger = tmp_path / "stranger"
    with RunWriter.create(stranger, {}) as run:
        case = Case(case_id="x", script_id="x", variant=Variant.TARGET, audio_path=Path("a.wav"))
        run.commit(spoken_turn(case))
        run.end()
    refused(runs[0], stranger, match="no case in common")


def test_turns_that_failed_or_have_no_audio_are_omitted(tmp_path: Path) -> None:
    def write(folder: Path, broken: int) -> Path:
        with RunWriter.create(folder, {}) as run:
            for number in range(4):
                name = f"id_{number}"
                case = Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path("a.wav"))
                failure = Failure(FailureKind.NO_RESPONSE, "none")
                plan = TurnPlan(first_byte_ms=None, failure=failure) if number == broken else TurnPlan()
                run.commit(spoken_turn(case, plan))
                run.commit(spoken_turn(case, plan, repeat=1))
            run.end()
        return folder

    file = new_file((write(tmp_path / "one", 0), write(tmp_path / "two", 3)), limit=0)
    # Votes name cases, so a repeated case is heard once.
    assert sorted(case.turn_id for case in file.read().test.cases) == ["id_1", "id_2"]


def test_references_outside_the_runs_need_a_folder_of_the_user(tmp_path: Path) -> None:
    reference = tmp_path / "data" / "a.wav"
    runs = [
        write_listened_run(tmp_path / name, hz=300, cases=2, reference=reference) for name in ("one", "two")
    ]
    folder = tmp_path / FOLDER
    with pytest.raises(UsageError, match="--data"):
        plan_test(AB, runs, folder, reference=ReferenceKind.REPLY)
    assert plan_test(AB, runs, folder, reference=ReferenceKind.USER).cases
    allowed = plan_test(AB, runs, folder, reference=ReferenceKind.REPLY, recordings=[reference.parent])
    assert len(allowed.cases) == 2
