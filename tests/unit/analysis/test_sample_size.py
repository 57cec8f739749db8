"""The number of scripts that a difference requires: published tables, simulation, and runs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from live_eval.analysis.comparison.series import ComparedRun, Series, read_runs
from live_eval.analysis.sample_size import Aim, detectable, plan_sample, power_of, scripts_needed
from live_eval.analysis.statistics.paired import sign_flip
from live_eval.analysis.summary.observations import TurnKey
from live_eval.cli import cli
from live_eval.errors import UsageError
from live_eval.types import Task


@pytest.mark.parametrize(
    ("effect", "power", "expected"),
    # Cohen's d_z, two-sided at 0.05, from G*Power's paired t test.
    [(0.2, 0.8, 199), (0.5, 0.8, 34), (0.5, 0.95, 54), (0.8, 0.8, 15)],
)
def test_sample_sizes_agree_with_published_tables(effect: float, power: float, expected: int) -> None:
    aim = Aim(detect=effect, power=power)
    assert scripts_needed(aim, 1.0) == expected
    assert power_of(effect, 1.0, expected) >= power > power_of(effect, 1.0, expected - 1)
    assert detectable(aim, 1.0, expected) == pytest.approx(effect, rel=0.03)


@pytest.mark.parametrize(("scripts", "alpha"), [(2, 0.05), (8, 0.05), (15, 0.001), (400, 0.05)])
def test_power_is_that_of_the_non_central_t(scripts: int, alpha: float) -> None:
    for effect in (0.0, 0.1, 0.4):
        centre, freedom = effect * math.sqrt(scripts), scripts - 1
        bound = scipy.stats.t.ppf(1 - alpha / 2, freedom)
        theirs = scipy.stats.nct.sf(bound, freedom, centre) + scipy.stats.nct.cdf(-bound, freedom, centre)
        assert power_of(effect, 1.0, scripts, alpha) == pytest.approx(theirs, rel=5e-3, abs=1e-6)


def test_more_tests_more_power_and_less_of_a_difference_take_more() -> None:
    aim = Aim(detect=0.3)
    assert scripts_needed(replace(aim, tests=10), 1.0) > scripts_needed(aim, 1.0)
    assert scripts_needed(replace(aim, power=0.9), 1.0) > scripts_needed(aim, 1.0)
    assert scripts_needed(replace(aim, detect=0.03), 1.0) == pytest.approx(7.849 / 0.03**2, rel=0.001)
    assert scripts_needed(aim, 0.0) == 8, "fewer are not tested"
    assert detectable(aim, 0.0, 8) == 0.0
    with pytest.raises(UsageError, match="more than 10000000 scripts"):
        scripts_needed(Aim(detect=1e-5), 1.0)


@pytest.mark.parametrize(
    "wrong", [{"detect": 0.0}, {"detect": math.nan}, {"power": 1.0}, {"alpha": 0.9}, {"tests": 0}]
)
def test_impossible_aims_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected"):
        Aim(**{"detect": 0.2, **wrong})  # type: ignore[arg-type]


def test_the_sign_flip_test_has_the_power_that_was_planned() -> None:
    aim = Aim(detect=0.4)
    scripts = scripts_needed(aim, 1.0)
    random = np.random.default_rng(1)
    shown = 0
    for trial in range(300):
        p = sign_flip(random.normal(0.4, 1.0, scripts), flips=999, seed=trial).p
        shown += p is not None and p < 0.05
    assert shown / 300 == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 300))


def made_run(
    name: str, seed: int, *, scripts: int = 400, repeats: int = 1, noise: float = 1.0, lack: float = 0.0
) -> ComparedRun:
    """Scripts with variance 1, shared by two variants, and independent noise in each turn."""
    easy = np.random.default_rng(0).normal(size=scripts)
    random = np.random.default_rng(seed)
    values: dict[TurnKey, float | None] = {
        (f"s{script}/{variant}", repeat): None
        if script < lack * scripts
        else float(easy[script] + noise * random.normal())
        for script in range(scripts)
        for variant in "tn"
        for repeat in range(repeats)
    }
    series = Series(
        name="rubric.c4",
        title="rubric.c4",
        kind="score",
        unit="of 5",
        higher_is_better=True,
        version="1",
        values=values,
    )
    return ComparedRun(
        name=name,
        path=Path(name),
        manifest={},
        ended=True,
        scripts={key: key[0].partition("/")[0] for key in values},
        contents=dict.fromkeys(values, ""),
        tasks=frozenset({Task.CONVERSATION}),
        timing_version=1,
        series={series.name: series},
    )


def test_two_runs_show_how_their_difference_varies() -> None:
    plan = plan_sample([made_run("a", 1), made_run("b", 2)], "C4", Aim(detect=0.2))
    [basis] = plan.bases
    assert basis.basis == "runs"
    assert basis.spread.value == pytest.approx(1.0, rel=0.1)  # √(2 · 1/2)
    assert basis.scripts_interval is not None
    assert basis.scripts_interval[0] < basis.scripts < basis.scripts_interval[1]
    assert (basis.play, basis.turns, plan.n_scripts) == (basis.scripts, 2 * basis.scripts, 400)
    assert basis.spread.value is not None
    assert basis.detectable == pytest.approx(2.8 * basis.spread.value / 20, rel=0.02)


def test_scripts_without_a_value_are_planned_too() -> None:
    plan = plan_sample([made_run("a", 1, lack=0.25), made_run("b", 2)], "C4", Aim(detect=0.2))
    assert plan.scored == 0.75
    assert plan.bases[0].play == math.ceil(plan.bases[0].scripts / 0.75)


def test_both_runs_decide_how_many_scripts_have_a_value() -> None:
    whole, part = made_run("a", 1), made_run("b", 2, lack=0.5)
    for runs in ([whole, part], [part, whole]):
        plan = plan_sample(runs, "C4", Aim(detect=0.2))
        assert (plan.scored, plan.n_scripts) == (0.5, 200)


def test_incomparable_runs_are_not_planned_from() -> None:
    first, other = made_run("a", 1), made_run("b", 2)
    [series] = other.series.values()
    rescored = replace(other, series={series.name: replace(series, version="2")})
    with pytest.raises(UsageError, match=r"cannot compare rubric.c4: judged by version 1 in a and by 2 in b"):
        plan_sample([first, rescored], "C4", Aim(detect=0.2))
    another = replace(other, series={"mine.c4": replace(series, name="mine.c4")})
    with pytest.raises(UsageError, match=r"it is rubric.c4 in a and mine.c4 in b"):
        plan_sample([first, another], "C4", Aim(detect=0.2))


@pytest.mark.parametrize(("tests", "fewest"), [(1, 8), (6, 8), (7, 9), (20, 10), (100, 12), (600, 15)])
def test_a_plan_has_enough_scripts_for_sign_flips(tests: int, fewest: int) -> None:
    aim = Aim(detect=1000.0, tests=tests)
    assert scripts_needed(aim, 1.0) == fewest
    assert sign_flip([1.0] * fewest).p == 2.0 ** (1 - fewest) < aim.level
    if fewest > 8:
        assert 2.0 ** (2 - fewest) >= aim.level
        assert detectable(aim, 1.0, fewest - 1) is None


def test_repetitions_do_not_make_a_plan_smaller() -> None:
    plan = plan_sample([made_run("a", 1, repeats=2, noise=0.0)], "C4", Aim(detect=0.2))
    assert plan.bases[-1].basis == "repetitions"
    assert plan.bases[-1].scripts == 8
    assert plan.as_json()["scripts"] == plan.bases[0].scripts > 100


def test_one_run_with_repetitions_gives_a_lower_bound() -> None:
    plan = plan_sample([made_run("a", 1, repeats=3)], "C4", Aim(detect=0.2))
    none, half, repetitions = plan.bases
    assert repetitions.basis == "repetitions"
    # The mean over two variants and three repetitions has a variance of 1/6 in addition to the script's 1.
    assert repetitions.spread.value == pytest.approx(math.sqrt(2 / 6), rel=0.1)
    assert repetitions.rho == pytest.approx(1 / (1 + 1 / 6), abs=0.03)
    assert (half.rho, none.rho) == (0.5, 0.0)
    assert repetitions.scripts < half.scripts < none.scripts
    assert repetitions.turns == repetitions.scripts * 6
    assert "a lower bound" in repetitions.in_words


def test_one_run_alone_uses_the_most_conservative_assumption() -> None:
    plan = plan_sample([made_run("a", 1)], "C4", Aim(detect=0.2))
    assert [basis.rho for basis in plan.bases] == [0.0, 0.5]
    careful, _ = plan.bases
    assert "assuming" in careful.in_words
    assert careful.spread.value == pytest.approx(math.sqrt(2 * 1.5), rel=0.1)
    assert plan.as_json()["scripts"] == careful.scripts


def test_too_few_scripts_are_refused() -> None:
    with pytest.raises(UsageError, match=r"a: expected rubric.c4 for at least 8 scripts, got 5"):
        plan_sample([made_run("a", 1, scripts=5)], "C4", Aim(detect=0.2))


def test_plans_are_made_from_folders(run_folder: Path, slower_run_folder: Path) -> None:
    asked = ["plan", "--detect", "50", "--metric", "first_byte", "--from", str(run_folder)]
    done = CliRunner().invoke(cli, [*asked, "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["metric"] == "first_byte"
    assert told["scripts"] == told["bases"][0]["scripts"] >= 8
    both = CliRunner().invoke(cli, [*asked, "--and", str(slower_run_folder)], catch_exceptions=False)
    assert "from the differences between first and second" in both.stdout
    assert "from first and second: 10 scripts, 83 % of those run; 2.00 turns per script" in both.stdout


def test_the_licence_of_the_data_is_noted(run_folder: Path) -> None:
    run = replace(read_runs([run_folder])[0], manifest={"data": {"licence": "Under L."}})
    assert plan_sample([run], "first_byte", Aim(detect=50)).notes[-1] == "Under L"


def test_large_numbers_are_written_out(monkeypatch: pytest.MonkeyPatch, run_folder: Path) -> None:
    run = made_run("a", 1, scripts=20)
    [one] = run.series.values()
    values = {key: 4000 * (value or 0.0) for key, value in one.values.items()}
    run = replace(run, series={one.name: replace(one, unit="ms", values=values)})
    monkeypatch.setattr("live_eval.analysis.comparison.series.read_runs", lambda paths: [run])
    asked = ["plan", "--detect", "1234567", "--metric", "C4", "--from", str(run_folder)]
    done = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert "to detect a difference of 1234570 ms in" in done.stdout
    assert re.search(r"; 20 scripts show \d{4} ms\n", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("unit", "told"), [("%", "0.2 percentage points in"), ("ms", "0.2 ms in"), ("of 5", "0.2 in")]
)
def test_a_difference_of_percentages_is_in_points(
    unit: str, told: str, monkeypatch: pytest.MonkeyPatch, run_folder: Path
) -> None:
    run = made_run("a", 1, scripts=20)
    run = replace(run, series={name: replace(one, unit=unit) for name, one in run.series.items()})
    monkeypatch.setattr("live_eval.analysis.comparison.series.read_runs", lambda paths: [run])
    asked = ["plan", "--detect", "0.2", "--metric", "C4", "--from", str(run_folder)]
    done = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert f"to detect a difference of {told} rubric.c4" in done.stdout
