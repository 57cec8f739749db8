"""The rubric: its prompt, its parser, and turns that it skips."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import cue_of
from live_eval.errors import JudgeError
from live_eval.judges.rubric import Rubric
from live_eval.judges.specs.models import RUBRIC
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored, check_judgement
from live_eval.testing.judges import check_judge, ordinary_turn

SCALES = (
    "context_fit",
    "response_naturalness",
    "colloquialism_degree",
    "speech_information_relevance",
)


def answer(*scores: Any, **more: Any) -> str:
    value: dict[str, Any] = {}
    for scale, score in zip(SCALES, scores, strict=True):
        value |= {f"{scale}_reason": f"{scale}, for a reason", f"{scale}_score": score}
    return json.dumps(value | more)


def asked(turn: JudgedTurn) -> str:
    request = Rubric().request(turn)
    (message,) = request.messages
    assert message["role"] == "user"
    assert request.model == RUBRIC.model == "gpt-4o"
    assert request.json_object
    assert request.temperature == 0
    text: str = message["content"]
    return text


def test_keeps_the_contract() -> None:
    good = {
        answer(4, 5, 3, 2): 4.0,
        f"```json\n{answer(1.0, 5, 3, 2)}\n```": 1.0,
        answer(5, 1, 1, 1, x=1): 5.0,
    }
    check_judge(RUBRIC, Rubric(), long_replies=True, good_answers=good)


def test_asks_with_all_that_the_benchmark_gives() -> None:
    text = asked(ordinary_turn())
    assert '\nTopic: "work"\n' in text
    assert '\nWhat was said: "I did not get the job after all."\n' in text
    assert '\nHow it was said: "how the speaker sounds: sad expressive voice"\n' in text
    assert '\nReply: "I\'m sorry to hear that. Do you want to talk about it?"\n' in text
    for scale in SCALES:
        assert f'"{scale}_score"' in text


def test_a_neutral_take_is_called_one() -> None:
    turn = ordinary_turn()
    neutral = replace(turn, case=replace(turn.case, cue=cue_of("neutral"), topic=None))
    text = asked(neutral)
    assert '\nHow it was said: "neutral: a plain voice without any particular cue"\n' in text
    assert "\nTopic: null\n" in text


def test_four_ratings_are_read_with_their_reasons() -> None:
    judgement = Rubric().parse(answer(4, 5, 3, 2))
    assert isinstance(judgement, Scored)
    assert judgement.values == {"c1": 4.0, "c2": 5.0, "c3": 3.0, "c4": 2.0}
    assert judgement.detail["reasons"]["c4"] == "speech_information_relevance, for a reason"
    assert check_judgement(RUBRIC, judgement) is judgement


@pytest.mark.parametrize("score", [0, 6, 4.5, "4", "4/5", True, None])
@pytest.mark.parametrize("place", range(4))
def test_one_invalid_rating_invalidates_all(score: object, place: int) -> None:
    scores: list[object] = [4, 4, 4, 4]
    scores[place] = score
    judgement = Rubric().parse(answer(*scores))
    assert isinstance(judgement, Failed)
    assert judgement.reason.startswith(f"expected a whole number from 1 to 5 in {SCALES[place]}_score, got")


def test_a_missing_rating_is_named() -> None:
    value = json.loads(answer(4, 4, 4, 4))
    del value["colloquialism_degree_score"]
    judgement = Rubric().parse(json.dumps(value))
    assert judgement == Failed("expected the key colloquialism_degree_score")


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that.",
        "…",
        "Das tut mir leid, möchtest du darüber reden? Ich habe heute Zeit für dich, wenn du magst.",
    ],
)
def test_an_unrateable_reply_is_not_rated(reply: str) -> None:
    judge = Rubric()
    assert judge.unscorable(ordinary_turn()) is None
    verdict = judge.unscorable(replace(ordinary_turn(), reply_text=reply))
    assert isinstance(verdict, Unscored)
    assert reply not in verdict.reason, "equal reasons count together"


def test_a_users_own_prompt_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("{reply_text} ({delivery})", "utf-8")
    (message,) = Rubric(prompt=str(file)).request(ordinary_turn()).messages
    assert message["content"].startswith('"I\'m sorry to hear that. Do you want to talk about it?" ("how the')
    file.write_text("{reply_text}", "utf-8")
    with pytest.raises(JudgeError, match=r"expected the placeholder \{delivery\}"):
        Rubric(prompt=str(file))
