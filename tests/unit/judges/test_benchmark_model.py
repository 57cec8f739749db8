import json
from dataclasses import replace
from typing import Any

import pytest

from live_eval.judges.benchmark_model import BenchmarkModel
from live_eval.judges.specs import BENCHMARK_MODEL
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored, check_judgement
from live_eval.testing.judges import check_judge, ordinary_turn
from live_eval.types import BenchmarkItem, ScoringRule


def turn(rule: ScoringRule, answer: str | None = None) -> JudgedTurn:
    item = BenchmarkItem(benchmark="voicebench", part="x", rule=rule, answer=answer)
    one = ordinary_turn()
    return replace(one, case=replace(one.case, item=item))


def asked(turn: JudgedTurn) -> str:
    request = BenchmarkModel().request(turn)
    (message,) = request.messages
    assert (request.model, request.temperature) == (BENCHMARK_MODEL.model, 0)
    return str(message["content"])


def test_keeps_the_contract() -> None:
    good = {json.dumps({"explanation": "x", "score": 4}): 4.0}
    check_judge(BENCHMARK_MODEL, BenchmarkModel(), long_replies=True, good_answers=good)


def test_an_open_answer_is_rated_without_a_reference() -> None:
    text = asked(turn(ScoringRule.RATING))
    assert 'What was asked: "I did not get the job after all."' in text
    assert "Reference" not in text


def test_a_suggested_answer_or_a_hint_is_considered() -> None:
    suggested = asked(turn(ScoringRule.GUIDED_RATING, "Oh no."))
    assert 'Suggested answer: "Oh no."' in suggested
    assert "Guidance for the rating: null" in suggested
    one = turn(ScoringRule.GUIDED_RATING)
    assert one.case.item is not None
    item = replace(one.case.item, details={"hint": "the speaker's emotion: sad"})
    text = asked(replace(one, case=replace(one.case, item=item)))
    assert "emotion: sad" in text


def test_an_answer_is_compared_with_its_reference() -> None:
    text = asked(turn(ScoringRule.REFERENCE, "Peru"))
    assert 'Reference answer: "Peru"' in text
    assert '"correct": true' in text


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ({"explanation": "x", "score": 5}, {"rating": 5.0}),
        ({"explanation": "x", "correct": True}, {"correct": 100.0}),
        ({"explanation": "x", "correct": False}, {"correct": 0.0}),
    ],
)
def test_answers_are_read(answer: dict[str, Any], values: dict[str, float]) -> None:
    judgement = check_judgement(BENCHMARK_MODEL, BenchmarkModel().parse(json.dumps(answer)))
    assert isinstance(judgement, Scored)
    assert judgement.values == values
    assert judgement.detail == {"explanation": "x"}


@pytest.mark.parametrize("answer", [{"score": 6}, {"correct": "yes"}, {"explanation": 3, "score": 1}, {}])
def test_other_answers_fail(answer: dict[str, Any]) -> None:
    assert isinstance(BenchmarkModel().parse(json.dumps(answer)), Failed)


def test_criteria_are_judged_in_the_conversation() -> None:
    one = turn(ScoringRule.RUBRICS)
    assert one.case.item is not None
    item = replace(one.case.item, details={"rubrics": ["Names Lima.", "Stays short."]})
    text = asked(replace(one, case=replace(one.case, item=item), earlier=(("Be short.", "Sure."),)))
    assert '"User: Be short.\\nAssistant: Sure."' in text
    assert '"1. Names Lima.\\n2. Stays short."' in text
    judgement = BenchmarkModel().parse('{"explanation": "x", "met": [true, false, true, true]}')
    assert isinstance(check_judgement(BENCHMARK_MODEL, judgement), Scored)
    assert judgement == Scored({"met": 75.0, "passed": 0.0}, {"explanation": "x", "criteria": 4})
    for bad in ('{"met": []}', '{"met": [1]}', '{"met": true}'):
        assert isinstance(BenchmarkModel().parse(bad), Failed)


def test_items_that_a_rule_scores_are_not_asked_about() -> None:
    judge = BenchmarkModel()
    assert isinstance(judge.unscorable(turn(ScoringRule.CHOICE, "A")), Unscored)
    assert isinstance(judge.unscorable(ordinary_turn()), Unscored)
    assert judge.unscorable(turn(ScoringRule.RATING)) is None
