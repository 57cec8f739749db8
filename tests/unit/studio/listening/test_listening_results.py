"""Results of listening tests, and their import by `arena` and `audit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval import registry
from live_eval.cli import cli
from live_eval.judging import Scored, score_name
from live_eval.recording import ScoreStore
from live_eval.scoring.judge_runner import JudgeOptions, scoring_version
from live_eval.studio.listening.listening_results import results_json, votes_csv
from live_eval.studio.listening.listening_test import (
    ListeningKind,
    ListeningTrial,
    ReferenceKind,
    rating_scales,
)
from live_eval.studio.listening.trial_desk import TrialDesk
from live_eval.testing.fake_clock import FakeClock
from tests.support.listening import vote_on_all
from tests.unit.studio.listening.listeners import new_file

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING


SCALES = tuple(rating_scales())


def prefers_two(trial: ListeningTrial) -> str:
    return "AB"[trial.runs.index("two")]


def test_arena_imports_the_votes(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs)
    vote_on_all(desk, clock, file, "Ana", prefers_two)
    # A formula, and a name that CSV has to quote.
    vote_on_all(desk, clock, file, '=Bo, "B"', lambda trial: "tie" if trial.case.script_id < "id_3" else "A")
    ballots = file.read()
    path = file.path.with_suffix(".csv")
    path.write_text(votes_csv(ballots), "utf-8")
    command = ["arena", *map(str, runs), "--votes", str(path), "--no-judge", "--json"]
    done = CliRunner().invoke(cli, [*command, "--output", str(path.with_name("arena.jsonl"))])
    assert done.exit_code == 0, done.output
    people = json.loads(done.output)["people"]
    assert (people["votes"], people["raters"], people["n_unknown"], people["n_other"]) == (20, 2, 0, 0)
    shown = results_json(ballots, file.path.parent)
    assert shown["ratings"] == people["ratings"]
    assert shown["position"] == people["position"]
    assert shown["between_listeners"]["n"] == 10


def test_audit_imports_the_ratings(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs, RATING, ReferenceKind.USER)

    def rating(trial: ListeningTrial) -> dict[str, int]:
        number = int(trial.case.script_id.removeprefix("id_"))
        return dict.fromkeys(SCALES, 1 + (number + (trial.runs == ("two",))) % 5)

    vote_on_all(desk, clock, file, "Ana", rating)
    vote_on_all(desk, clock, file, "Bo", rating)
    ballots = file.read()
    unjudged = results_json(ballots, file.path.parent)
    assert {(each["n"], each["n_unscored"]) for each in unjudged["agreement"].values()} == {(0, 20)}
    first = SCALES[0].partition(".")[0]
    assert f"live-eval score two --judges {first}" in unjudged["imports"]
    path = file.path.with_suffix(".csv")
    path.write_text(votes_csv(ballots, "two"), "utf-8")
    judges = {score.partition(".")[0] for score in SCALES}
    for name in judges:
        spec = registry.judge(name)
        with ScoreStore.open(runs[1]) as store:
            for case in ballots.test.cases:
                values = {output.name: float(2 + int(case.script_id[3:]) % 4) for output in spec.outputs}
                store.put(spec.name, scoring_version(spec, JudgeOptions()), case.turn_id, Scored(values))
        command = ["audit", name, str(runs[1]), "--parts", "agreement", "--labels", str(path), "--json"]
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        agreement = json.loads(done.output)["agreement"]
        assert (agreement["raters"], agreement["n_unknown"]) == (2, 0)
        for output in spec.outputs:
            figures = agreement["outputs"][score_name(spec.name, output.name)]
            assert figures["n"] == 10
            assert figures["between_raters"]["alpha_interval"]["value"] == pytest.approx(1.0)
    shown = results_json(ballots, file.path.parent)
    assert f"live-eval score two --judges {first}" not in shown["imports"]
    at = shown["imports"].index(f"live-eval score one --judges {first}")
    assert shown["imports"][at + 1] == f"live-eval audit {first} one --labels FILE"
    assert set(shown["agreement"]) == set(SCALES)
    assert {each["n"] for each in shown["agreement"].values()} == {10}  # only one run was judged
    assert len(shown["means"]) == 2 * len(SCALES)


def test_results_compare_people_with_scores_and_arenas(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs)
    turns = [case.turn_id for case in file.read().test.cases]
    for run, quality in zip(runs, (3.0, 4.0), strict=True):
        with ScoreStore.open(run) as store:
            for number, turn_id in enumerate(sorted(turns)):
                better = quality if number else 7 - quality  # reversed on one turn
                store.put("dnsmos", "1", turn_id, Scored({"ovrl": better}))
    heading = {"arena": 1, "runs": ["two", "one"], "judge": "toy", "version": "7"}
    verdicts = [{"turn_id": turn_id, "first": "two", "second": "one", "verdict": 1.0} for turn_id in turns]
    lines = "".join(json.dumps(row) + "\n" for row in (heading, *verdicts))
    (runs[0].parent / "arena-two-one.jsonl").write_text(lines, "utf-8")
    (runs[0].parent / "arena-else.jsonl").write_text("nonsense\n", "utf-8")
    vote_on_all(desk, clock, file, "Ana", prefers_two)
    judges = {row["judge"]: row["agreement"] for row in results_json(file.read(), file.path.parent)["judges"]}
    assert judges["dnsmos.ovrl"]["value"] == pytest.approx(0.9)
    assert judges["toy"]["value"] == 1.0
    assert judges["toy"]["interval"][0] < 1.0


def test_abx_counts_how_often_x_was_recognised(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs, ABX)
    trials = vote_on_all(desk, clock, file, "Ana", lambda trial: "AB"[trial.x or 0])
    assert all(trial.x is not None for trial in trials)
    vote_on_all(desk, clock, file, "Bo", lambda trial: "A")
    shown = results_json(file.read(), file.path.parent)
    assert shown["by_listener"]["Ana"]["value"] == 1.0
    assert shown["by_listener"]["Bo"]["value"] == 0.5
    assert shown["correct"]["value"] == 0.75
    rows = votes_csv(file.read()).splitlines()
    assert len(rows) == 21
    assert rows[0] == "case_id,first,second,x,chosen,correct,rater,turn_id,at"


def test_commands_quote_the_names_of_runs(runs: tuple[Path, Path]) -> None:
    spaced = runs[0].rename(runs[0].with_name("the first"))
    file = new_file((spaced, runs[1]))
    shown = results_json(file.read(), file.path.parent)
    assert shown["imports"] == ["live-eval arena 'the first' two --votes FILE --no-judge"]


def test_results_without_votes_have_reasons(runs: tuple[Path, Path]) -> None:
    for kind in (ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING):
        file = new_file(runs, kind, ReferenceKind.USER)
        shown = results_json(file.read(), file.path.parent)
        assert shown["votes"] == 0
    assert shown["agreement"] == {}
