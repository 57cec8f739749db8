"""Comparisons of runs: pairing, refusals and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval.analysis.comparison.difference import Verdict, difference_of
from live_eval.analysis.comparison.prompts import prompt_sensitivity
from live_eval.analysis.comparison.run_comparison import check_same_measure, compare_runs
from live_eval.analysis.comparison.run_settings import Setting
from live_eval.analysis.comparison.series import ComparedRun, Series, find_series, read_runs
from live_eval.analysis.statistics.paired import holm
from live_eval.analysis.summary.score_table import JudgeFacts
from live_eval.cli import cli
from live_eval.errors import UsageError
from live_eval.recording import RunWriter
from live_eval.report import write_report
from live_eval.types import Case, SpeechBoundaries, Task, Variant
from tests.support.records import TurnPlan, spoken_turn

ENDPOINT = {"name": "reference", "model": "m", "turn_mode": "server_vad"}


def series(name: str, values: Mapping[tuple[str, int], float | None], **changes: Any) -> Series:
    made = Series(
        name=name, title=name, kind="score", unit="", higher_is_better=True, version="1", values=values
    )
    return replace(made, **changes)


def made_run(
    name: str,
    scores: Mapping[str, Mapping[tuple[str, int], float | None]],
    *,
    prompt: str = "basic",
    data: Mapping[str, Any] | None = None,
    **changes: Any,
) -> ComparedRun:
    """A run whose cases are named SCRIPT/VARIANT."""
    keys = dict.fromkeys(key for values in scores.values() for key in values)
    captured = series("captured", dict.fromkeys(keys, 1.0), kind="turns", version="")
    run = ComparedRun(
        name=name,
        path=Path(name),
        manifest={
            "endpoint": ENDPOINT,
            "data": data or {"name": "d", "fingerprint": "f" * 64},
            "prompt": {"name": prompt, "sha256": prompt * 8},
            "config": {"endpoint": {"name": "reference", "base_url": None}},
        },
        ended=True,
        scripts={key: key[0].partition("/")[0] for key in keys},
        contents={key: (key[0], None) for key in keys},
        tasks=frozenset({Task.CONVERSATION}),
        timing_version=1,
        series={"captured": captured} | {name: series(name, values) for name, values in scores.items()},
    )
    return replace(run, **changes)


def drawn(seed: int, scripts: int = 20, shift: float = 0.0) -> dict[tuple[str, int], float | None]:
    random = np.random.default_rng(seed)
    easy = np.random.default_rng(0).normal(size=scripts)
    return {
        (f"s{script}/{variant}", 0): float(easy[script] + shift + 0.5 * random.normal())
        for script in range(scripts)
        for variant in ("target", "neutral", "alternative")
    }


# -- one metric --------------------------------------------------------------------------------------------


def test_a_script_counts_once_however_often_it_was_spoken() -> None:
    one = {("a/t", 0): 0.0, ("a/n", 0): 0.0, ("a/n", 1): 0.0, ("b/t", 0): 0.0}
    two = {("a/t", 0): 1.0, ("a/n", 0): 1.0, ("a/n", 1): 4.0, ("b/t", 0): 8.0}
    scripts = {key: key[0][0] for key in one}
    found = difference_of(series("x", one), series("x", two), scripts)
    assert found.difference.value == 5.0  # of 2 and 8
    assert (found.first, found.other) == (0.0, 5.0)
    assert (found.difference.n, found.difference.clusters, found.cases, found.turns) == (4, 2, 3, 4)
    assert found.verdict is Verdict.TOO_FEW
    assert found.in_words == "too few to say: fewer than 8 scripts"


def test_the_denominator_is_fixed_and_missing_turns_are_counted() -> None:
    keys = [(f"s{number}/t", 0) for number in range(12)]
    one: dict[tuple[str, int], float | None] = dict.fromkeys(keys, 1.0)
    two: dict[tuple[str, int], float | None] = dict.fromkeys(keys, 2.0)
    one[keys[0]] = one[keys[1]] = two[keys[1]] = two[keys[2]] = two[keys[3]] = None
    scripts = {key: key[0] for key in keys}
    found = difference_of(series("x", one), series("x", two), scripts, failed_other={keys[2]})
    assert (found.turns, found.difference.n) == (12, 8)
    assert (found.without_first, found.without_other, found.without_both) == (1, 2, 1)
    assert (found.failed_first, found.failed_other) == (0, 1)
    assert found.turns == found.difference.n + found.without_first + found.without_other + found.without_both
    assert found.effect.reason == "undefined for these values"  # all are equal
    assert found.as_json()["effect_size"] is None


def test_without_values_there_is_no_difference() -> None:
    keys = [(f"s{number}/t", 0) for number in range(12)]
    nothing = series("x", dict.fromkeys(keys))
    found = difference_of(nothing, nothing, {key: key[0] for key in keys})
    assert (found.difference.value, found.first, found.test.p) == (None, None, None)
    assert found.in_words == "too few to say: no values"


@pytest.mark.parametrize(
    ("higher", "shift", "expected"),
    [
        (True, 1.0, Verdict.BETTER),
        (True, -1.0, Verdict.WORSE),
        (False, 1.0, Verdict.WORSE),
        (False, -1.0, Verdict.BETTER),
        (None, 1.0, Verdict.HIGHER),
        (None, -1.0, Verdict.LOWER),
        (True, 0.0, Verdict.NOT_SHOWN),
    ],
)
def test_a_verdict_depends_on_the_direction(higher: bool | None, shift: float, expected: Verdict) -> None:
    first, other = drawn(1), drawn(2, shift=shift)
    scripts = {key: key[0].partition("/")[0] for key in first}
    one, two = (series("x", values, higher_is_better=higher) for values in (first, other))
    found = difference_of(one, two, scripts)
    assert found.verdict is expected
    # The same difference is not shown if the correction makes p large.
    assert replace(found, p_holm=0.05, tests=2).verdict is Verdict.NOT_SHOWN


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, Verdict.NOT_SHOWN), (1.0, Verdict.BETTER)])
def test_scripts_with_equal_differences_have_a_verdict_without_an_interval(
    shift: float, verdict: Verdict
) -> None:
    values = {(f"s{script}/t", 0): float(script) for script in range(8)}
    moved = {key: value + shift for key, value in values.items()}
    found = difference_of(series("x", values), series("x", moved), {key: key[0][:2] for key in values})
    assert (found.difference.interval, found.verdict) == (None, verdict)
    assert (found.as_json()["interval"], found.as_json()["reason"]) == (None, "all values are equal")


@pytest.mark.parametrize(("far", "close"), [(8.0, True), (1.0, False)])
def test_a_difference_that_d_z_does_not_support_is_a_close_call(far: float, close: bool) -> None:
    values = {(f"s{script}/t", 0): 0.0 for script in range(8)}
    # All differences have the same sign, so no sign flip is as extreme; one outlier makes them non-normal.
    moved = dict(zip(values, (1.0, 1.1, 0.9, 1.2, 0.8, 1.3, 0.7, far), strict=True))
    found = difference_of(series("x", values), series("x", moved), {key: key[0][:2] for key in values})
    assert found.verdict is Verdict.BETTER
    assert found.is_close is close
    assert found.effect.interval is not None
    assert (found.effect.interval.low <= 0) is close


@pytest.mark.parametrize(("metrics", "verdict"), [(1, "better"), (6, "better"), (7, "too few to say")])
def test_too_few_scripts_are_not_reported_as_no_difference(metrics: int, verdict: str) -> None:
    names = [f"m{number}" for number in range(metrics)]
    runs = [
        made_run("a", {name: drawn(1, scripts=8) for name in names}),
        made_run("b", {name: drawn(2, scripts=8, shift=50.0) for name in names}),
    ]
    differences = compare_runs(runs).comparisons[0].differences
    assert {differences[name].verdict.value for name in names} == {verdict}
    if verdict == "too few to say":
        assert differences["m0"].in_words == (
            "too few to say: with 8 scripts, p is at least 0.0078, too large for 7 tests; "
            "compare fewer metrics or runs"
        )


def test_a_large_difference_is_shown_among_very_many_tests() -> None:
    names = [f"m{number}" for number in range(300)]
    first, other = drawn(1, scripts=24), drawn(2, scripts=24, shift=5.0)
    runs = [made_run("a", dict.fromkeys(names, first)), made_run("b", dict.fromkeys(names, other))]
    compared = compare_runs(runs)
    assert compared.tests == 300
    assert {
        each.verdict for each in compared.comparisons[0].differences.values() if each.name != "captured"
    } == {Verdict.BETTER}


# -- several runs ------------------------------------------------------------------------------------------


def test_the_correction_covers_every_test_of_every_run() -> None:
    runs = [
        made_run(name, {"x": drawn(seed, shift=shift), "y": drawn(seed + 10)})
        for name, seed, shift in (("a", 1, 0.0), ("b", 2, 0.3), ("c", 3, 0.2))
    ]
    compared = compare_runs(runs)
    assert compared.tests == 4, "captured is the same everywhere"
    found = [d for comparison in compared.comparisons for d in comparison.differences.values()]
    tested = [d for d in found if d.test.informative]
    assert [d.p_holm for d in tested] == holm([d.test.p for d in tested])
    assert [d.p_holm for d in found if not d.test.informative] == [1.0, 1.0]
    one = compare_runs(runs[:2], ["X"])
    assert one.tests == 1
    assert list(one.comparisons[0].differences) == ["x"]
    alone = one.comparisons[0].differences["x"]
    assert alone.p_holm == alone.test.p


def test_runs_of_other_data_are_refused_with_the_difference() -> None:
    first = made_run("a", {"x": drawn(1)})
    other = made_run("b", {"x": drawn(2)}, data={"name": "e", "fingerprint": "0" * 64})
    with pytest.raises(UsageError, match=r"cannot compare a and b.* d \(fingerprint f{12}\) and e"):
        compare_runs([first, other])
    asked = made_run("b", {"x": drawn(2)}, tasks=frozenset({Task.REASONING}))
    with pytest.raises(UsageError, match="the tasks are conversation in one and reasoning in the other"):
        compare_runs([first, asked])
    said = replace(made_run("b", {"x": drawn(2)}), contents=dict.fromkeys(first.scripts, "else"))
    with pytest.raises(UsageError, match=r"the speech or the question differs in 60 turns"):
        compare_runs([first, said])
    apart = made_run("b", {"x": {("else/t", 0): 1.0}})
    with pytest.raises(UsageError, match="no case in common"):
        compare_runs([first, apart], common=True)


def test_runs_of_other_cases_are_compared_only_on_request() -> None:
    whole, part = drawn(1), dict(list(drawn(2).items())[:30])
    runs = [made_run("a", {"x": whole}), made_run("b", {"x": part}, ended=False)]
    with pytest.raises(UsageError, match=r"30 turns \(s10/target, .*…\) only in a \(b is incomplete\)"):
        compare_runs(runs)
    found = compare_runs(runs, common=True).comparisons[0].differences["x"]
    assert (found.turns, found.difference.clusters) == (30, 10)


def test_different_versions_endings_and_missing_metrics_are_noted() -> None:
    first = made_run("a", {"x": drawn(1), "y": drawn(3)})
    other = made_run("b", {"x": drawn(2), "z": drawn(3)})
    other = replace(
        other,
        manifest={
            **other.manifest,
            "endpoint": {**ENDPOINT, "turn_mode": "manual"},
            "config": {"endpoint": {"base_url": "ws://127.0.0.1:8000/v1"}},
        },
        series={**other.series, "x": replace(other.series["x"], version="2")},
    )
    [comparison] = compare_runs([first, other]).comparisons
    assert list(comparison.differences) == ["captured"]
    assert comparison.notes == (
        "latencies are not compared: the user's turns were ended by server_vad in a and by manual in b",
        "x is not compared: judged by version 1 in a and by 2 in b",
        "y is not compared: missing from b",
        "z is not compared: missing from a",
    )
    assert [setting.name for setting in comparison.settings] == ["endpoint.turn_mode", "endpoint.base_url"]
    retimed = replace(other, manifest=first.manifest, timing_version=2)
    assert "--retime" in compare_runs([first, retimed]).comparisons[0].notes[0]
    with pytest.raises(UsageError, match="at least two"):
        compare_runs([first])


def test_judges_whose_version_or_model_differs_are_settings_that_differ() -> None:
    ves = JudgeFacts("ves", "1", ())
    first = made_run("a", {"x": drawn(1)}, judges=(ves, JudgeFacts("rubric", "2", ("one",))))
    other = made_run("b", {"x": drawn(2)}, judges=(ves, JudgeFacts("rubric", "2", ("two",))))
    [[found]] = [each.settings for each in compare_runs([first, other]).comparisons]
    assert found == Setting("judge.rubric", "rubric by one, version 2", "rubric by two, version 2")
    [[none]] = [each.settings for each in compare_runs([first, replace(other, judges=())]).comparisons]
    assert none == Setting("judges", "ves, rubric", "")
    assert not compare_runs([first, replace(other, unread_scores="damaged")]).comparisons[0].settings


def test_sessions_of_simultaneous_runs_that_began_apart_are_noted() -> None:
    runs = [made_run("a", {"x": drawn(1)}), made_run("b", {"x": drawn(2)})]
    keys = list(runs[0].scripts)

    def note(delays_s: list[float], partner: str = "b") -> list[str]:
        first = replace(
            runs[0],
            manifest={**runs[0].manifest, "simultaneous_with": [partner] if partner else []},
            session_starts=dict.fromkeys(keys, 0),
        )
        starts = {key: round(delay * 1e9) for key, delay in zip(keys, delays_s, strict=False)}
        other = replace(
            runs[1], manifest={**runs[1].manifest, "simultaneous_with": ["a"]}, session_starts=starts
        )
        [comparison] = compare_runs([first, other]).comparisons
        return list(comparison.notes)

    assert note([0.02, -60, 0.5, 1.2]) == [
        "not simultaneous: 2 of 4 sessions began more than 1 s apart",
    ]
    assert note([0.02, -0.9]) == []
    assert note([60], partner="") == []


def test_latencies_of_several_definitions_are_not_compared() -> None:
    timed = {"voice_to_voice": replace(series("voice_to_voice", drawn(1)), kind="latency")}
    mixed = [
        replace(run, timing_version=None, series={**run.series, **timed})
        for run in (made_run("a", {"x": drawn(1)}), made_run("b", {"x": drawn(2)}))
    ]
    [comparison] = compare_runs(mixed).comparisons
    assert "voice_to_voice" not in comparison.differences
    assert comparison.notes == (
        "latencies are not compared: a and b: latencies follow several definitions; --retime recomputes them",
    )
    with pytest.raises(UsageError, match="several definitions"):
        check_same_measure(mixed[0], timed["voice_to_voice"], mixed[1], timed["voice_to_voice"])


def test_a_metric_is_found_by_the_end_of_its_name() -> None:
    run = made_run("a", {name: drawn(1) for name in ("rubric.c4", "ves", "mcq.accuracy:reasoning", "o.c4x")})
    assert find_series(run, "C4").name == "rubric.c4"
    assert find_series(run, "VES").name == "ves"
    assert find_series(run, "mcq.accuracy").name == "mcq.accuracy:reasoning"
    with pytest.raises(UsageError, match=r"a: metric 'c5': unknown; expected one of captured, rubric.c4"):
        find_series(run, "c5")
    both = made_run("a", {"rubric.c4": drawn(1), "mine.c4": drawn(1)})
    with pytest.raises(UsageError, match=r"ambiguous; expected one of rubric.c4, mine.c4"):
        find_series(both, "c4")
    tasks = ("mcq.accuracy:reasoning", "mcq.accuracy:understanding")
    asked = made_run("a", {name: drawn(1) for name in (*tasks, "mcq.parsed:reasoning")})
    for wanted in ("accuracy", "mcq.accuracy"):
        with pytest.raises(UsageError, match=f"{wanted}': ambiguous; expected one of {', '.join(tasks)}$"):
            find_series(asked, wanted)
    assert find_series(asked, "Accuracy:Reasoning").name == "mcq.accuracy:reasoning"
    assert find_series(asked, "parsed").name == "mcq.parsed:reasoning"
    alone = replace(made_run("a", {"mcq.accuracy": drawn(1)}), tasks=frozenset({Task.REASONING}))
    assert find_series(alone, "accuracy:reasoning").name == "mcq.accuracy"
    with pytest.raises(UsageError, match="expected one of"):
        find_series(alone, "accuracy:understanding")


# -- prompts -----------------------------------------------------------------------------------------------


def prompted(name: str, seed: int, c4: float, ves: float, **changes: Any) -> ComparedRun:
    scores = {"rubric.c4": drawn(seed, shift=c4), "ves": drawn(seed + 50, shift=ves)}
    return made_run(name, scores, prompt=name, **changes)


def test_runs_that_differ_only_in_the_prompt_have_a_best_prompt() -> None:
    runs = [prompted("no", 1, 0.0, 0.0), prompted("basic", 2, 0.1, 1.0), prompted("enhance", 3, 1.0, 0.9)]
    found = prompt_sensitivity(runs)
    assert found is not None
    assert found.prompts == {"no": "no", "basic": "basic", "enhance": "enhance"}
    c4, ves = found.best["rubric.c4"], found.best["ves"]
    assert c4.best == "enhance"
    assert c4.lead is not None
    assert c4.lead.verdict is Verdict.BETTER
    assert ves.lead is not None
    assert ves.lead.verdict is Verdict.NOT_SHOWN
    assert ves.best == max(ves.means, key=lambda name: ves.means[name])
    assert c4.means["enhance"] - c4.means["basic"] == pytest.approx(c4.lead.difference.value)


def told_cue(run: ComparedRun) -> ComparedRun:
    prompt = {**run.manifest["prompt"], "text": "You hear {cue}."}
    return replace(run, manifest={**run.manifest, "prompt": prompt})


def test_a_prompt_that_states_the_cue_is_excluded_from_the_best() -> None:
    told = told_cue(prompted("upper-bound", 4, 2.0, 2.0))
    found = prompt_sensitivity([prompted("no", 1, 0.0, 0.0), told, prompted("basic", 2, 1.0, 1.0)])
    assert found is not None
    assert found.stating_cue == ("upper-bound",)
    assert {best.best for best in found.best.values()} == {"basic"}
    assert "upper-bound: excluded as best prompt" in found.in_words()[1]
    alone = prompt_sensitivity([prompted("no", 1, 0.0, 0.0), told])
    assert alone is not None
    assert alone.best["ves"].reason == "expected at least two prompts that do not state the cue"


def test_the_best_prompt_uses_common_turns() -> None:
    runs = [prompted("no", 1, 0.0, 0.0), prompted("basic", 2, 0.1, 1.0)]
    # Otherwise, turns without a score for one prompt would favour the other.
    spoilt: dict[tuple[str, int], float | None] = {**runs[0].series["ves"].values, ("s0/target", 0): None}
    runs[0] = replace(
        runs[0], series={**runs[0].series, "ves": replace(runs[0].series["ves"], values=spoilt)}
    )
    found = prompt_sensitivity(runs)
    assert found is not None
    assert (found.best["ves"].n, found.best["rubric.c4"].n) == (59, 60)
    without = [replace(run, series={"captured": run.series["captured"]}) for run in runs]
    lacking = prompt_sensitivity(without)
    assert lacking is not None
    assert lacking.best["ves"].reason == "no and basic have no such score"


def test_a_prompt_that_was_run_twice_counts_once() -> None:
    def run(name: str, prompt: str, ves: float) -> ComparedRun:
        values = {key: value + ves for key, value in drawn(1).items() if value is not None}
        return made_run(name, {"ves": values}, prompt=prompt)

    # The best run is one of `basic`; the prompt with the better mean over its runs is `no`.
    runs = [run("a", "no", 1.0), run("b", "basic", 1.5), run("c", "basic", 0.1)]
    found = prompt_sensitivity(runs)
    assert found is not None
    ves = found.best["ves"]
    assert (ves.best, list(ves.means)) == ("a", ["a", "b"])
    assert ves.lead is not None
    assert ves.lead.difference.value == pytest.approx(1.0 - (1.5 + 0.1) / 2)
    assert "basic" in found.in_words()[-1]
    assert "over 2 runs" in found.in_words()[-1]
    repeated = prompt_sensitivity([*runs[1:], told_cue(run("d", "upper-bound", 2.0))])
    assert repeated is not None
    assert repeated.best["ves"].reason == "expected at least two prompts that do not state the cue"


def test_an_address_that_the_user_gave_is_a_difference() -> None:
    def at(run: ComparedRun, base_url: str | None) -> ComparedRun:
        return replace(run, manifest={**run.manifest, "config": {"endpoint": {"base_url": base_url}}})

    no, basic = prompted("no", 1, 0.0, 0.0), prompted("basic", 2, 0.1, 1.0)
    assert prompt_sensitivity([at(no, None), at(basic, None)]) is not None
    assert prompt_sensitivity([at(no, "ws://a/v1"), at(basic, "ws://a/v1")]) is not None
    assert prompt_sensitivity([at(no, "ws://a/v1"), at(basic, "ws://b/v1")]) is None
    assert prompt_sensitivity([at(no, None), at(basic, "ws://b/v1")]) is None


def test_runs_with_other_differences_have_no_best_prompt() -> None:
    first = prompted("no", 1, 0.0, 0.0)
    assert prompt_sensitivity([first, made_run("x", {"ves": drawn(1)}, prompt="no")]) is None
    other = prompted("basic", 2, 0.0, 0.0)
    other = replace(other, manifest={**other.manifest, "endpoint": {**ENDPOINT, "model": "another"}})
    assert prompt_sensitivity([first, other]) is None


# -- the command -------------------------------------------------------------------------------------------


def test_runs_are_compared_from_their_folders(run_folder: Path, slower_run_folder: Path) -> None:
    runs = [str(run_folder), str(slower_run_folder)]
    done = CliRunner().invoke(cli, ["compare", *runs, "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert (told["first"], told["correction"]["method"]) == ("first", "Holm")
    [comparison] = told["comparisons"]
    metrics = comparison["metrics"]
    byte = metrics["first_byte"]
    assert (byte["n"], byte["n_turns"], byte["n_scripts"]) == (19, 24, 10), "5: 2 failed, 3 uncertain"
    assert metrics["lead_silence"]["n"] == 22, "it does not begin with the end of speech"
    assert metrics["connect"]["n"] == 24, "the failed turns connected"
    assert byte["without"] == {"first": 0, "other": 0, "both": 5}
    assert byte["failed"] == {"first": 2, "other": 2}
    assert byte["verdict"] == "worse"
    assert byte["p"] == pytest.approx(2 / 2**10)
    assert byte["difference"] == pytest.approx(101, abs=0.3)
    clear = byte["without_flagged"]
    assert (clear["n"], clear["n_turns"], clear["verdict"]) == (18, 23, "worse"), "1 is flagged, in both"
    assert comparison["flagged"] == {"first": 1, "other": 1, "either": 1}
    assert metrics["ves"]["without_flagged"] is None
    assert comparison["boundaries"]["first"] == ["not recorded"]
    assert metrics["ves"]["verdict"] == "too few to say"
    assert metrics["captured"]["difference"] == 0
    assert (metrics["captured"]["interval"], metrics["captured"]["p"]) == (None, 1)
    assert told["prompt_sensitivity"] is None
    text = CliRunner().invoke(cli, ["compare", *runs], catch_exceptions=False).stdout
    assert "verdict" in text
    assert "no difference shown" in text
    assert text.count("mean over scripts") == 2
    assert "no interval of the difference: all values are equal (captured turns, connect, " in text
    assert text.count("equal") == 1, "no verdict of equality"
    assert "flagged (live-eval's own lag exceeded 20 ms): 1 turn in first, 1 in second" in text
    assert text.count("\n  without flagged  ") == 6, "one beneath each latency"
    assert "speech boundaries" not in text
    assert "failed turns stay in the denominator: 2 in first, 2 in second" in text


def test_a_difference_caused_by_our_own_lag_is_noted() -> None:
    """A loaded run in which a third of the turns are late and flagged."""
    first, other = drawn(1), drawn(2)
    late = frozenset(key for key in other if key[0].endswith("neutral"))
    other = {key: value + 5 if key in late and value is not None else value for key, value in other.items()}
    runs = [made_run("a", {"first_byte": first}), made_run("b", {"first_byte": other}, flagged=late)]
    for run in runs:
        of = run.series["first_byte"]
        object.__setattr__(run, "series", {**run.series, "first_byte": replace(of, kind="latency")})
    compared = compare_runs(runs)
    [comparison] = compared.comparisons
    clear = comparison.without_flagged["first_byte"]
    assert comparison.differences["first_byte"].verdict is Verdict.BETTER  # invented: higher is better
    assert (clear.verdict, clear.turns, clear.difference.clusters) == (Verdict.NOT_SHOWN, 40, 20)
    assert (clear.tests, compared.tests) == (1, 1)
    assert (comparison.flagged_first, comparison.flagged_other, comparison.flagged) == (0, 20, 20)
    told = "first_byte: better with the flagged turns, no difference shown without them"
    assert told in comparison.notes
    assert told in comparison.as_json()["notes"]


def played(path: Path, boundaries: SpeechBoundaries | None) -> Path:
    cases = [
        Case(case_id=f"c{n}", script_id=f"c{n}", variant=Variant.TARGET, audio_path=Path("x.wav"), text="a")
        for n in range(9)
    ]
    with RunWriter.create(path, {"endpoint": ENDPOINT, "data": {"name": "d", "fingerprint": "f"}}) as writer:
        for case in cases:
            writer.commit(spoken_turn(case, TurnPlan(reply_ms=100, boundaries=boundaries)))
        writer.end(finished=True)
    return path


ALONE = SpeechBoundaries(onset_ns=0, voice_end_ns=800_000_000, version="1")


@pytest.mark.parametrize(
    ("boundaries", "words"),
    [
        (ALONE, None),
        (None, "not recorded in b; the end of speech, at which latencies begin, is the same in all 9 turns"),
        (
            replace(ALONE, version="2", voice_end_ns=758_000_000),
            "detector version 2 without a recogniser in b; the end of speech, at which latencies begin, "
            "differs in 9 of 9 turns, by up to 42 ms",
        ),
        (replace(ALONE, recogniser="whisper-x"), "detector version 1 with whisper-x in b; "),
        (replace(ALONE, voice_end_ns=801_000_000), "differs in 9 of 9 turns, by up to 1 ms"),
    ],
    ids=["alike", "older run", "other version", "recogniser", "other end"],
)
def test_differing_speech_boundaries_are_noted(
    tmp_path: Path, boundaries: SpeechBoundaries | None, words: str | None
) -> None:
    folders = [played(tmp_path / "a", ALONE), played(tmp_path / "b", boundaries)]
    text = CliRunner().invoke(cli, ["compare", *map(str, folders)], catch_exceptions=False).stdout
    report = write_report(folders, form="md") or ""
    begins = "speech boundaries: detector version 1 without a recogniser in a; "
    for told in (text, report):
        assert (begins in told) is (words is not None)
        assert words is None or words in told
    told = json.loads(write_report(folders, form="json") or "")["comparisons"][0]["boundaries"]
    [comparison] = compare_runs(read_runs(folders)).comparisons
    assert told == comparison.as_json()["boundaries"]
    assert told["n_turns"] == 9


def test_the_licence_of_the_data_is_named(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        case = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=Path("a.wav"))
        with RunWriter.create(folder, {"data": {"fingerprint": "f" * 64, "licence": "Under L."}}) as run:
            run.commit(spoken_turn(case, TurnPlan()))
            run.end()
    assert compare_runs(read_runs(folders)).as_json()["licences"] == ["Under L"]
    text = CliRunner().invoke(cli, ["compare", *map(str, folders)], catch_exceptions=False).stdout
    assert text.splitlines()[-1] == "Under L"


def test_a_run_named_twice_is_refused(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="got a duplicate"):
        read_runs([run_folder, run_folder])
