"""Scores by cue: values compared with an export of the run, and cells with few scripts."""

import csv
import io
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest
from click.testing import CliRunner

from live_eval.analysis.summary.cue_maps import CueMap
from live_eval.cli import cli
from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.types import Case, Failure, Task, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import summary_of

CUES = {"sigh": "sigh sound", "shouting": "shout", "neutral": "neutral"}
SCRIPTS = {"sigh": range(9), "shouting": range(9, 14), "neutral": range(14)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine scripts with a sigh and five shouted ones, each also neutral; one turn fails."""
    path = tmp_path_factory.mktemp("cues") / "run"
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as scores:
        for name, numbers in SCRIPTS.items():
            for number in numbers:
                variant = Variant.NEUTRAL if name == "neutral" else Variant.TARGET
                case = Case(
                    case_id=f"{number}/{variant}",
                    script_id=str(number),
                    variant=variant,
                    audio_path=Path("x.wav"),
                    cue=cue_of(CUES[name]),
                )
                plan = TurnPlan(first_byte_ms=300.0 + 17 * number, reply_text="yes")
                if case.case_id == "3/target":
                    plan = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "nothing"))
                run.commit(spoken_turn(case, plan))
                if name != "neutral" and case.case_id != "3/target":
                    scores.put("rubric", "4", case.case_id, Scored({"c4": 1 + number % 4, "c1": 3.0}))
                values = {"pitch_hz": 150.0, "level": -25.0}  # neither direction is better
                scores.put("prosody", "1", case.case_id, Scored(values))
        run.end(finished=True)
    return path


@pytest.fixture(scope="module")
def cue_map(folder: Path) -> CueMap:
    (found,) = summary_of(folder).cue_maps
    return found


def test_every_value_equals_the_one_computed_from_an_export(folder: Path, cue_map: CueMap) -> None:
    done = CliRunner().invoke(cli, ["export", str(folder), "--format", "csv"], catch_exceptions=False)
    by_cue: dict[str, list[dict[str, str]]] = defaultdict(list)
    for turn in csv.DictReader(io.StringIO(done.stdout)):
        by_cue[turn["case.cue.attribute"]].append(turn)
    assert {cue: row.turns for cue, row in cue_map.rows} == {cue: len(turns) for cue, turns in by_cue.items()}
    assert [column.name for column in cue_map.columns] == ["rubric.c1", "rubric.c4"]
    for cue, row in cue_map.rows:
        times = [turn["latency_ms.voice_to_voice"] for turn in by_cue[cue]]
        assert row.voice_to_voice.value == pytest.approx(median(float(ms) for ms in times if ms))
        for column in cue_map.columns:
            mean = row.scores[column.name]
            scored = [turn for turn in by_cue[cue] if turn[f"scores.{column.name}"]]
            values = [float(turn[f"scores.{column.name}"]) for turn in scored]
            assert mean.n == len(values)
            assert mean.clusters == len({turn["case.script_id"] for turn in scored})
            assert mean.value == (pytest.approx(fmean(values)) if values else None)


def test_cells_of_fewer_than_eight_scripts_are_thin(cue_map: CueMap) -> None:
    printed = {row["cue"]: row for row in cue_map.as_json()["rows"]}
    c4 = {cue: row["scores"][1] for cue, row in printed.items()}
    assert {cue: (cell["scripts"], cell["thin"]) for cue, cell in c4.items()} == {
        "sigh": (8, False),
        "shout": (5, True),
        "neutral": (0, True),
    }
    assert printed["neutral"]["voice_to_voice"]["thin"] is False
    assert list(printed)[-1] == "neutral"


def test_the_worst_and_the_best_cue_are_named_if_several_have_enough_scripts(cue_map: CueMap) -> None:
    assert cue_map.main is not None
    assert cue_map.main.name == "rubric.c4"
    assert "fewer than two cues have 8 scripts with C4" in cue_map.in_words, "only sighs have"
    (name, sigh), *others = cue_map.rows
    better = replace(sigh, scores={"rubric.c4": replace(sigh.scores["rubric.c4"], value=4.125)})
    several = replace(cue_map, rows=(("sob", better), (name, sigh), *others))
    named = "C4 speech information relevance"
    assert several.in_words == f"Worst cue by {named}: sigh, 2.12 (n 8); best: sob, 4.12 (n 8)."
    assert replace(several, main=None).in_words == ""
    substitute = replace(several, missing=("C4", "VES"))
    assert substitute.in_words == (
        f"Which cue is heard worst is unknown, because nothing judged C4, VES; {named} does not measure it."
    )


def test_a_run_without_cues_has_no_map(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as run:
        case = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=Path("x.wav"))
        run.commit(spoken_turn(case))
        run.end(finished=True)
    assert summary_of(tmp_path / "run").cue_maps == ()


def test_the_map_is_printed(folder: Path, cue_map: CueMap) -> None:
    done = CliRunner().invoke(cli, ["show", str(folder), "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["cue_maps"] == json.loads(json.dumps([cue_map.as_json()]))
    assert cue_map.task is Task.CONVERSATION
