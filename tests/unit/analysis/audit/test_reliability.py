"""Metrics of an audit, on scores with known properties."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from live_eval.analysis.audit.labels import LabelTargets, against_json, agreement_json, read_labels
from live_eval.analysis.audit.reliability import (
    BothOrders,
    Degraded,
    Repeated,
    Visibility,
    consistency,
    degradation_effect,
    order_effect,
)
from live_eval.errors import DataError
from live_eval.judging import JudgeKind, JudgeSpec, Need, OutputSpec


def repeated(turns: int, repeats: int, within: float, between: float, seed: int = 0) -> list[Repeated]:
    random = np.random.default_rng(seed)
    means = random.normal(3, between, turns)
    return [
        Repeated(f"t{turn}", f"s{turn}", tuple(random.normal(mean, within, repeats).tolist()))
        for turn, mean in enumerate(means)
    ]


class TestConsistency:
    def test_a_judge_that_repeats_itself_exactly(self) -> None:
        found = consistency([Repeated(f"t{i}", f"s{i}", (float(i),) * 3) for i in range(10)])
        assert [found[name] for name in ("n", "identical", "deviation", "sd_within")] == [10, 1.0, 0.0, 0.0]
        assert found["icc"]["value"] == pytest.approx(1)
        assert found["worst"] is None

    def test_the_deviations_of_a_noisy_judge_are_found(self) -> None:
        found = consistency(repeated(400, 4, within=0.5, between=1.0))
        assert found["identical"] == 0
        assert found["sd_within"] == pytest.approx(0.5, abs=0.03)
        assert found["sd_between"] == pytest.approx(1.0, abs=0.08)
        # E|x − mean of 4| of a normal: σ √(2/π) √(3/4).
        assert found["deviation"] == pytest.approx(0.5 * math.sqrt(2 / math.pi * 3 / 4), abs=0.02)
        assert found["icc"]["value"] == pytest.approx(1 / 1.25, abs=0.04)
        low, high = found["icc"]["interval"]
        assert low < 1 / 1.25 < high

    def test_icc_of_the_textbook(self) -> None:
        # Shrout and Fleiss (1979), table 2: ICC(1,1) = 0.17.
        table = [(9, 2, 5, 8), (6, 1, 3, 2), (8, 4, 6, 8), (7, 1, 2, 6), (10, 5, 6, 9), (6, 2, 4, 7)]
        rows = [Repeated(f"t{i}", f"s{i}", tuple(map(float, row))) for i, row in enumerate(table)]
        assert consistency(rows)["icc"]["value"] == pytest.approx(0.17, abs=0.005)

    def test_a_judge_that_only_guesses(self) -> None:
        found = consistency(repeated(300, 3, within=1.0, between=0.0))
        assert found["icc"]["value"] == pytest.approx(0, abs=0.1)

    def test_turns_may_have_unequal_numbers_of_scores(self) -> None:
        rows = repeated(400, 5, within=0.5, between=1.0)
        fewer = [Repeated(r.turn_id, r.script_id, r.values[: 2 + i % 4]) for i, r in enumerate(rows)]
        found = consistency(fewer)
        assert found["sd_within"] == pytest.approx(0.5, abs=0.03)
        assert found["sd_between"] == pytest.approx(1.0, abs=0.08)

    def test_the_worst_turn(self) -> None:
        rows = [Repeated("calm", "a", (3.0, 3.0)), Repeated("wild", "b", (1.0, 5.0))]
        found = consistency(rows)
        assert found["worst"] == {"turn_id": "wild", "values": [1.0, 5.0]}
        assert found["identical"] == 0.5
        assert found["largest_difference"] == 4.0

    def test_without_spread_between_turns_there_is_no_icc(self) -> None:
        found = consistency([Repeated(f"t{i}", f"s{i}", (3.0, 3.0)) for i in range(10)])
        assert found["icc"]["value"] is None
        assert found["identical"] == 1
        assert consistency([])["n"] == 0
        assert consistency([Repeated("t", "s", (1.0, 2.0))])["sd_between"] is None


class TestOrder:
    def test_a_judge_that_ignores_the_order(self) -> None:
        rows = [BothOrders(f"t{i}", f"s{i}", v, -v) for i, v in enumerate((1, -1, 0, 1) * 5)]
        found = order_effect(rows)
        assert (found["flipped"]["value"], found["position"]["value"]) == (0, 0)
        assert found["preference"]["value"] == pytest.approx(0.25)
        assert found["ties"] == 0.25

    def test_a_judge_that_always_prefers_the_first(self) -> None:
        found = order_effect([BothOrders(f"t{i}", f"s{i}", 1, 1) for i in range(20)])
        assert (found["flipped"]["value"], found["position"]["value"], found["preference"]["value"]) == (
            1,
            1,
            0,
        )
        assert (found["position"]["interval"], found["position"]["reason"]) == (None, "all values are equal")
        low, high = found["flipped"]["interval"]
        assert 0.8 < low < high == 1

    def test_a_tie_that_becomes_none_is_a_flip(self) -> None:
        rows = [BothOrders("a", "a", 0, 1), BothOrders("b", "b", 1, -1)]
        assert order_effect(rows)["flipped"]["value"] == 0.5
        assert order_effect([])["n"] == 0


class TestSensitivity:
    @pytest.mark.parametrize(
        ("effect", "verdict"), [(-1.0, Visibility.SEES), (0.0, Visibility.BLIND), (1.0, Visibility.PREFERS)]
    )
    def test_the_same_difference_everywhere_is_seen(self, effect: float, verdict: Visibility) -> None:
        found = degradation_effect([Degraded(f"s{i}", 3.0, 3.0 + effect) for i in range(8)])
        assert (found["verdict"], found["difference"]["reason"]) == (verdict, "all values are equal")
        few = degradation_effect([Degraded(f"s{i}", 3.0, 3.0 + effect) for i in range(7)])
        assert few["verdict"] == Visibility.TOO_FEW

    @pytest.mark.parametrize(
        ("effect", "verdict"), [(-1.0, Visibility.SEES), (0.0, Visibility.BLIND), (1.0, Visibility.PREFERS)]
    )
    def test_the_interval_decides(self, effect: float, verdict: Visibility) -> None:
        random = np.random.default_rng(3)
        before = random.normal(3, 1, 40)
        after = before + random.normal(effect, 0.3, 40) - (random.normal(0, 0.3, 40).mean())
        rows = [Degraded(f"s{i % 20}", b, a) for i, (b, a) in enumerate(zip(before, after, strict=True))]
        found = degradation_effect(rows)
        assert found["verdict"] == verdict
        assert found["difference"]["value"] == pytest.approx(effect, abs=0.2)
        assert found["difference"]["scripts"] == 20

    @pytest.mark.parametrize(
        ("effect", "verdict"), [(-1.0, Visibility.SEES), (0.0, Visibility.BLIND), (1.0, Visibility.SEES)]
    )
    def test_without_a_direction_either_side_is_seen(self, effect: float, verdict: Visibility) -> None:
        random = np.random.default_rng(3)
        rows = [Degraded(f"s{i}", 3.0, 3.0 + effect + random.normal(0, 0.3)) for i in range(30)]
        found = degradation_effect(rows, directed=False)
        assert (found["verdict"], found["worse"]) == (verdict, None)
        assert found["difference"]["value"] == pytest.approx(effect, abs=0.2)

    def test_no_change_at_all_is_not_seen(self) -> None:
        found = degradation_effect([Degraded(f"s{i}", 3.0, 3.0) for i in range(10)])
        assert found["verdict"] == Visibility.BLIND
        assert found["worse"] == 0

    def test_few_scripts_are_too_few_however_many_turns(self) -> None:
        found = degradation_effect([Degraded(f"s{i % 7}", 3.0, 1.0) for i in range(70)])
        assert found["verdict"] == Visibility.TOO_FEW
        assert found["difference"]["reason"] == "fewer than 8 scripts"
        assert degradation_effect([])["verdict"] == Visibility.TOO_FEW


SPEC = JudgeSpec(
    name="rubric",
    version="1",
    title="",
    kind=JudgeKind.LOCAL,
    implementation="",
    outputs=(OutputSpec(name="c1", title=""), OutputSpec(name="c4", title="")),
    needs=frozenset({Need.REPLY_TEXT}),
)
TURNS = LabelTargets(
    scripts={**{f"t{i}": f"s{i}" for i in range(30)}, "c/1": "c", "c/2": "c"},
    cases={**{f"case{i}": (f"t{i}",) for i in range(30)}, "twice": ("c/1", "c/2")},
)


def labels_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


class TestLabels:
    def test_rows_are_read(self, tmp_path: Path) -> None:
        path = labels_file(
            tmp_path,
            "turn_id,rater,score,output,comment\n"
            't0,ann,4,c4,"fine,\nI think"\n'
            "t0,bob,3.5,rubric.c4,\n"
            "t1,ann,2,,\n"
            "\n"
            "t1,ann,2,vse,\n"
            "gone,ann,1,c1,\n",
        )
        with pytest.raises(DataError, match=r"labels\.csv:7: output 'vse'"):
            read_labels(path, SPEC, TURNS)
        path = labels_file(tmp_path, path.read_text("utf-8-sig").replace(",vse,", ",ves,"))
        found = read_labels(path, SPEC, TURNS)
        assert (found.rows, found.n_unknown, found.n_other) == (5, 1, 1)
        assert found.scores == {"c4": {"t0": {"ann": 4.0, "bob": 3.5}}, "c1": {"t1": {"ann": 2.0}}}

    def test_a_case_id_identifies_its_only_turn(self, tmp_path: Path) -> None:
        found = read_labels(labels_file(tmp_path, "case_id,score\ncase3,5\nnobody,1\n"), SPEC, TURNS)
        assert found.scores == {"c1": {"t3": {"": 5.0}}}
        assert found.n_unknown == 1

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", r"labels\.csv:1: expected the columns .* found nothing"),
            ("turn_id,points\n", r"labels\.csv:1: expected the columns"),
            ("score,score,turn_id\n", r"labels\.csv:1: .* found score twice"),
            ("turn_id,score\nt0,high\n", r"labels\.csv:2: score 'high': expected a number"),
            ("turn_id,score\nt0,\n", r"labels\.csv:2: score '': expected a number"),
            ("turn_id,score\nt0,nan\n", r"labels\.csv:2: score 'nan'"),
            ("turn_id,score\nt0,1\nt1\n", r"labels\.csv:3: expected 2 cells \(turn_id, score\), got 1"),
            ("turn_id,score\n,1\n", r"labels\.csv:2: expected a turn_id or a case_id"),
            ("case_id,score\ntwice,1\n", r"labels\.csv:2: case 'twice' has 2 turns"),
            (
                "turn_id,score,rater\nt0,1,ann\nt0,2,ann\n",
                r"labels\.csv:3: duplicate score by 'ann' of 't0'; the first is on line 2",
            ),
            ('turn_id,score\n"t0,1\n', r"labels\.csv:2: expected CSV: "),
        ],
    )
    def test_errors_name_their_line(self, tmp_path: Path, text: str, problem: str) -> None:
        with pytest.raises(DataError, match=problem):
            read_labels(labels_file(tmp_path, text), SPEC, TURNS)

    def test_a_missing_or_binary_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"cannot read .*none\.csv"):
            read_labels(tmp_path / "none.csv", SPEC, TURNS)
        (tmp_path / "bytes.csv").write_bytes(b"turn_id,score\nt0,\xff\n")
        with pytest.raises(DataError, match=r"bytes\.csv: expected UTF-8, got an invalid byte at offset 17"):
            read_labels(tmp_path / "bytes.csv", SPEC, TURNS)

    def test_agreement_of_known_strength(self, tmp_path: Path) -> None:
        lines = ["turn_id,rater,score,output"]
        for i in range(20):
            lines += [f"t{i},ann,{i},c1", f"t{i},bob,{i},c1", f"t{i},ann,{-i},c4"]
        lines.append("t25,ann,1,c1")
        labels = read_labels(labels_file(tmp_path, "\n".join(lines)), SPEC, TURNS)
        values = {f"t{i}": {"c1": float(i), "c4": float(i)} for i in range(20)}
        found = agreement_json(labels, SPEC, values, TURNS)
        assert found["raters"] == 2
        c1, c4 = found["outputs"]["rubric.c1"], found["outputs"]["rubric.c4"]
        assert (c1["n"], c1["n_unscored"]) == (20, 1)
        assert c1["spearman"]["value"] == pytest.approx(1)
        assert c1["kendall"]["value"] == pytest.approx(1)
        assert c1["alpha_interval"]["value"] == pytest.approx(1)
        assert c1["between_raters"]["alpha_ordinal"]["value"] == 1
        assert c1["between_raters"]["alpha_ordinal"]["n"] == 20
        assert c4["spearman"]["value"] == pytest.approx(-1)
        assert c4["alpha_ordinal"]["value"] < 0
        assert c4["between_raters"]["alpha_interval"]["reason"] == "no unit has two ratings"

    def test_labels_of_turns_without_scores(self, tmp_path: Path) -> None:
        labels = read_labels(labels_file(tmp_path, "turn_id,score\nt0,1\n"), SPEC, TURNS)
        found = agreement_json(labels, SPEC, {}, TURNS)["outputs"]["rubric.c1"]
        assert (found["n"], found["n_unscored"]) == (0, 1)
        assert found["spearman"]["value"] is None


def test_two_judges_are_compared_by_first_outputs_and_shared_names() -> None:
    other = JudgeSpec(
        name="twin",
        version="1",
        title="",
        kind=JudgeKind.LOCAL,
        implementation="",
        outputs=(OutputSpec(name="", title=""), OutputSpec(name="c4", title="")),
        needs=frozenset({Need.REPLY_TEXT}),
    )
    values = {f"t{i}": {"c1": float(i), "c4": float(i)} for i in range(12)}
    others = {f"t{i}": {"": float(-i), "c4": float(i)} for i in range(10)}
    main, same = against_json(SPEC, other, values, others, TURNS.scripts)
    assert (main["outputs"], main["n"]) == (["rubric.c1", "twin"], 10)
    assert main["spearman"]["value"] == pytest.approx(-1)
    assert same["outputs"] == ["rubric.c4", "twin.c4"]
    assert same["kendall"]["value"] == pytest.approx(1)
