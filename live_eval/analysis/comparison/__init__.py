"""Compare runs: paired by case, averaged within scripts, tested over scripts.

For every metric, the denominator is the turns that both runs have; those without a value in either run are
counted along with the pairs.
"""

from live_eval.analysis.comparison.boundaries import Boundaries
from live_eval.analysis.comparison.difference import Difference, Verdict, difference_of, script_differences
from live_eval.analysis.comparison.prompts import averaged, prompt_sensitivity, rank_prompts
from live_eval.analysis.comparison.run_settings import NOT_RECORDED, prompt_names, states_cue
from live_eval.analysis.comparison.runs import (
    RunComparison,
    check_same_data,
    check_same_measure,
    compare_runs,
    latencies_differ,
)
from live_eval.analysis.comparison.series import (
    ComparedRun,
    Series,
    compared_run,
    find_series,
    read_runs,
    score_series,
    series_of,
)
from live_eval.analysis.summary import TurnKey

__all__ = [
    "NOT_RECORDED",
    "Boundaries",
    "ComparedRun",
    "Difference",
    "RunComparison",
    "Series",
    "TurnKey",
    "Verdict",
    "averaged",
    "check_same_data",
    "check_same_measure",
    "compare_runs",
    "compared_run",
    "difference_of",
    "find_series",
    "latencies_differ",
    "prompt_names",
    "prompt_sensitivity",
    "rank_prompts",
    "read_runs",
    "score_series",
    "script_differences",
    "series_of",
    "states_cue",
]
