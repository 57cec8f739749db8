"""Repetitions are scored as by URO-Bench's own evaluator.

`OFFICIAL` contains hashes of the scores, in thousandths, of `tests.support.replies.repetitions` by its
``metrics/mark_wer.py`` (github.com/Ruiqi-Yan/URO-Bench, 9e74bc0, run unchanged with jiwer 3.0.5 and cn2an
0.5.23), one for every 1,000.
"""

import hashlib
import importlib

import pytest

from live_eval.judges.benchmark_rules import BenchmarkRules
from live_eval.judges.text._repetition import error_rate, official_error_rate
from live_eval.judging import Scored, Unscored
from live_eval.types import ScoringRule
from tests.support.replies import repetitions
from tests.unit.judges.test_benchmark_rules import turn

COUNT = 20_000
BATCH = 1_000
OFFICIAL = {
    "en": [
        "fb4d5a042454",
        "ff53547cda75",
        "30edf770185f",
        "ae021b42e158",
        "67f1cbe8836d",
        "9952eca13bab",
        "1299c9c38012",
        "41f6f255c52d",
        "4cf79c42bdde",
        "84ecf856a3e6",
        "b0f9f3b9b6b2",
        "ffc37c76cec9",
        "54e4685a845b",
        "49acb6ec1da6",
        "83bab0cec767",
        "18b42b03fa52",
        "d1fefbc39492",
        "12779cfb368b",
        "5738fe75b6a6",
        "bcbc215ddbe2",
    ],
    "zh": [
        "44608dfaf5e6",
        "0e55301d3753",
        "2207baa2dd25",
        "c49fe988d18c",
        "3621d92152e3",
        "882fb30c931d",
        "11c32109250f",
        "0efa6d575557",
        "5cb2126de056",
        "896e23f1bee3",
        "6a571574bddb",
        "5798e9091e12",
        "49249cb57ea0",
        "415683cc347c",
        "c8777d613234",
        "14f9f8df04eb",
        "0ec91c396a95",
        "afa3ebc07314",
        "5cf4003970e7",
        "6143f9c6851c",
    ],
}


def thousandths(rate: float) -> str:
    return f"{round(1000 * (0 if rate > 0.5 else 1 - rate)):04}"


@pytest.mark.parametrize("count", [2 * BATCH, pytest.param(COUNT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("language", OFFICIAL)
def test_random_repetitions_are_scored_as_by_the_official_evaluator(language: str, count: int) -> None:
    if language == "zh":
        pytest.importorskip("cn2an")
        pytest.importorskip("zhon")
    scores = [thousandths(official_error_rate(*each, language)) for each in repetitions(count, language)]
    batches = ("".join(scores[at : at + BATCH]) for at in range(0, count, BATCH))
    found = [hashlib.sha256(each.encode()).hexdigest()[:12] for each in batches]
    assert found == OFFICIAL[language][: count // BATCH]


@pytest.mark.parametrize(
    ("reference", "said", "official", "ours"),
    [
        ("I'll go at 5, Dr. Lee!", "I will go at five doctor lee", 0, 0),
        ("red green blue pink", "", 1, 1),
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
