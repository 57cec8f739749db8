import importlib

import pytest

from live_eval.judges.benchmark_rules import BenchmarkRules
from live_eval.judges.text._repetition import error_rate, official_error_rate
from live_eval.judging import Scored, Unscored
from live_eval.types import ScoringRule
from tests.unit.judges.test_benchmark_rules import turn


@pytest.mark.parametrize(
    ("reference", "said", "official", "ours"),
    [
        ("I'll go at 5, Dr. Lee!", "I will go at five doctor lee", 0, 0),
        ("red green blue pink", "", 4, 1),
        # the official rate is divided by the reply's two words, ours by the reference's four
        ("red green blue pink", "red green", 1, 0.5),
        ("red green", "red green blue pink", 0.5, 1),
    ],
)
def test_english_words(reference: str, said: str, official: float, ours: float) -> None:
    assert official_error_rate(reference, said, "en") == pytest.approx(official)
    assert error_rate(reference, said, "en") == pytest.approx(ours)


def test_chinese_characters() -> None:
    pytest.importorskip("cn2an")
    pytest.importorskip("zhon")
    assert official_error_rate("我有12个苹果。", "我有十二个苹果", "zh") == 0
    assert official_error_rate("我有苹果", "我 有苹果", "zh") == pytest.approx(1 / 5)
    assert error_rate("我有苹果，ＯＫ", "我 有苹果 ok!", "zh-CN") == 0
    assert error_rate("今天天气", "今天气", "zh") == pytest.approx(1 / 4)


def test_a_repetition_is_scored_by_both_rules() -> None:
    for reply, official, ours in (
        ("red green blue pink", 100, 100),
        ("red", 0, 25),
        ("red green pink", 66.667, 75),
    ):
        item = turn(reply, ScoringRule.REPETITION, "red green blue pink", language="en")
        (judgement,) = BenchmarkRules().score([item])
        assert isinstance(judgement, Scored)
        assert judgement.values["official"] == pytest.approx(official, abs=1e-3)
        assert judgement.values["ours"] == pytest.approx(ours)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    (judgement,) = BenchmarkRules().score([turn("我", ScoringRule.REPETITION, "我", language="zh")])
    assert isinstance(judgement, Unscored)
    assert "[chinese]" in judgement.reason
