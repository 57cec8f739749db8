"""The sentence that a comparison begins with."""

from __future__ import annotations

import re

from live_eval.analysis.comparison.headline import headline
from live_eval.analysis.comparison.run_comparison import compare_runs
from tests.unit.analysis.comparison.test_run_comparison import drawn, made_run


def told(shift: float, scripts: int = 20) -> str:
    first = made_run("a", {"ves": drawn(1, scripts)})
    compared = compare_runs([first, made_run("b", {"ves": drawn(2, scripts, shift)})])
    return headline("a", compared.comparisons[0])


def test_a_difference_that_is_shown_is_named() -> None:
    assert told(2.0) == "b is better in ves; no difference is shown in 1 of 2 metrics."
    assert told(-2.0).startswith("b is worse in ves; ")


def test_a_difference_that_is_not_shown_has_the_scripts_that_would_show_it() -> None:
    sentence = told(0.05)
    found = re.fullmatch(
        r"no difference is shown in 2 of 2 metrics; 20 scripts are too few to show a difference in ves below "
        r"([\d.]+), and (\d+) would show the measured ([\d.]+)\.",
        sentence,
    )
    assert found is not None, sentence
    assert float(found[1]) > float(found[3])
    assert int(found[2]) > 20
