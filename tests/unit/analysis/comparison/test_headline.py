"""The sentence that summarises a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from live_eval.analysis.comparison.difference import Verdict
from live_eval.analysis.comparison.headline import headline
from live_eval.analysis.comparison.run_comparison import compare_runs
from live_eval.analysis.comparison.series import ComparedRun
from tests.unit.analysis.comparison.test_run_comparison import drawn, made_run


def told(shift: float, scripts: int = 20, cases: int | None = None) -> str:
    first = made_run("a", {"ves": drawn(1, scripts)})
    first = replace(first, manifest={**first.manifest, "data": {"cases": cases}})
    compared = compare_runs([first, made_run("b", {"ves": drawn(2, scripts, shift)})])
    return headline("a", compared.comparisons[0])


def test_a_difference_that_is_shown_is_named() -> None:
    found = re.fullmatch(
        r"b is better in ves \(\+([\d.]+) \[\+([\d.]+) to \+([\d.]+)\]\); "
        r"no difference is shown in 1 of 2 metrics\.",
        told(2.0),
    )
    assert found is not None, told(2.0)
    value, low, high = map(float, found.groups())
    assert 1 < low < value < high < 3
    assert told(-2.0).startswith("b is worse in ves (−")


def test_the_correction_for_several_tests_is_named() -> None:
    runs = [
        made_run(name, {"ves": drawn(seed, 20, shift), "c1": drawn(seed + 2, 20)})
        for name, seed, shift in (("a", 1, 0.0), ("b", 2, 2.0))
    ]
    assert "; p is corrected for 2 tests (Holm); no" in headline("a", compare_runs(runs).comparisons[0])


def test_metrics_have_their_titles() -> None:
    runs = [made_run(name, {"ves": drawn(seed, 20, 2.0 * seed)}) for seed, name in enumerate("ab")]
    for run in runs:
        object.__setattr__(
            run, "series", {**run.series, "ves": replace(run.series["ves"], title="vocal empathy")}
        )
    (compared,) = compare_runs(runs).comparisons
    assert headline("a", compared).startswith("b is better in vocal empathy (+")


def test_a_difference_that_is_not_shown_has_the_scripts_that_would_show_it() -> None:
    sentence = told(-0.04, cases=100_000)
    found = re.fullmatch(
        r"no difference is shown in 2 of 2 metrics; 20 scripts are too few to show a difference in ves below "
        r"([\d.]+), and ([\d,]+) would show the measured ([\d.]+)\.",
        sentence,
    )
    assert found is not None, sentence
    assert float(found[1]) > float(found[3])
    needed = int(found[2].replace(",", ""))
    assert needed > 1_000
    assert f"{needed:,}" in sentence
    assert told(-0.04, cases=needed) == sentence
    assert told(-0.04) == told(-0.04, cases=needed - 1) == f"{sentence.partition(', and ')[0]}."


def test_too_few_scripts_are_not_reported_as_no_difference() -> None:
    assert told(2.0, scripts=3) == "there is too little data to say in 2 of 2 metrics."


def test_shares_have_percentage_points() -> None:
    random = np.random.default_rng(0)
    runs = [
        made_run(name, {"captured": {(f"s{n}/target", 0): float(random.random() < 0.9) for n in range(90)}})
        for name in "ab"
    ]
    runs = [replace(run, series={"captured": replace(run.series["captured"], unit="share")}) for run in runs]
    sentence = headline("a", compare_runs(runs).comparisons[0])
    assert re.search(r"90 scripts are too few to show a difference in captured below \d+ perc", sentence)


@pytest.mark.parametrize(("kind", "shift"), [("latency", 0.045), ("score", 0.0004)])
def test_a_difference_that_rounds_to_zero_is_not_a_finding(
    kind: Literal["latency", "score"], shift: float
) -> None:
    random = np.random.default_rng(3)
    before = {(f"s{script}/target", 0): 80.0 for script in range(40)}
    after = {key: 80.0 + shift * random.uniform(0.9, 1.1) for key in before}

    def run(name: str, values: Mapping[tuple[str, int], float]) -> ComparedRun:
        made = made_run(name, {"lead_silence": values})
        return replace(
            made, series={**made.series, "lead_silence": replace(made.series["lead_silence"], kind=kind)}
        )

    compared = compare_runs([run("a", before), run("b", after)]).comparisons[0]
    found = compared.differences["lead_silence"]
    assert found.p_holm is not None
    assert found.p_holm < 0.05
    assert found.verdict is Verdict.NOT_SHOWN
    assert found.in_words == "no difference shown: significant, but the difference rounds to 0"
    assert compared.differences["captured"].in_words == "no difference shown"
    assert headline("a", compared) == "no difference is shown in 2 of 2 metrics."
