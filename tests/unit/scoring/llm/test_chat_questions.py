"""The hash and the size of a request, and the combination of several answers."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from live_eval.judges.specs.models import RUBRIC, VES
from live_eval.judging import ChatRequest, Failed, Scored, Unscored
from live_eval.scoring.llm import question_key, without_payloads
from live_eval.scoring.llm.chat_questions import ChatQuestion, estimated_tokens
from live_eval.scoring.llm.driver import together


def request(text: str = "How kind?", sound: bytes = b"abc") -> ChatRequest:
    data = base64.b64encode(sound).decode()
    content = [
        {"type": "text", "text": text},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ]
    return ChatRequest(messages=[{"role": "user", "content": content}], model="m")


def key(
    asked: ChatRequest, model: str = "m", spec: Any = VES, base_url: str = "http://a", sample: int = 0
) -> str:
    return question_key(ChatQuestion.of(asked, model), spec, base_url, sample)


def test_the_same_question_has_the_same_key() -> None:
    assert key(request()) == key(request())
    assert key(request()) == key(request(), base_url="http://a/")
    assert len(key(request())) == 64


@pytest.mark.parametrize(
    "other",
    [
        key(request("How kind")),
        key(request(sound=b"abd")),
        key(replace(request(), temperature=0.5)),
        key(replace(request(), json_object=False)),
        key(request(), model="n"),
        key(request(), spec=replace(VES, version=VES.version + "+mine")),
        key(request(), spec=RUBRIC),
        key(request(), spec=None),
        key(request(), base_url="http://b"),
        key(request(), sample=1),
    ],
)
def test_another_question_has_another_key(other: str) -> None:
    assert key(request()) != other


def test_the_record_has_no_payload() -> None:
    sound = base64.b64encode(b"x" * 10_000).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{sound}"}}
    shown = json.dumps(without_payloads([*request(sound=b"x" * 10_000).messages, {"content": [image]}]))
    assert len(shown) < 500
    assert shown.count("10000 bytes") == 2
    assert "How kind?" in shown
    link = {"image_url": {"url": "https://example.org/cat.png"}}
    assert without_payloads(link) == link


def test_sizes_are_estimated_rather_too_high() -> None:
    english = "I did not get the job after all, and I do not know what to do. " * 20
    size = estimated_tokens([{"role": "user", "content": english}])
    assert len(english) / 4 < size.input < len(english) / 2
    ten_seconds = estimated_tokens(request(sound=bytes(320_000)).messages)
    assert 320 <= ten_seconds.audio_input <= 330
    assert ten_seconds.input > ten_seconds.audio_input


def scored(value: float, answer: str = "a") -> Scored:
    return Scored({"": value}, {"why": "so", "answer": answer, "calls": 1})


FAILED = Failed("refusal: no", {"problem": "refusal", "answer": "no", "calls": 1})


def test_one_sample_is_the_judgement() -> None:
    assert together([scored(3)], 1) == Scored({"": 3}, {"why": "so", "answer": "a", "calls": 1})
    assert together([FAILED], 1) == Failed("refusal: no", {"problem": "refusal", "answer": "no", "calls": 1})
    nothing = Unscored("the budget is spent: 1 calls")
    assert together([nothing], 1) == nothing


def test_several_samples_give_their_mean_and_spread() -> None:
    judgement = together([scored(2, "x"), FAILED, scored(5, "y")], 3)
    assert isinstance(judgement, Scored)
    assert judgement.values == {"": 3.5}
    assert judgement.detail["spread"] == {
        "": {"values": [2, 5], "min": 2, "max": 5, "sd": pytest.approx(2.1213, abs=1e-4)}
    }
    assert judgement.detail["samples_failed"] == 1
    assert judgement.detail["samples"][0] == {"values": {"": 2}, "why": "so", "answer": "x", "calls": 1}
    assert judgement.detail["samples"][1]["reason"] == "refusal: no"


def test_too_few_samples_are_a_failure_and_a_spent_budget_is_unscored() -> None:
    judgement = together([scored(2), FAILED, FAILED], 3)
    assert isinstance(judgement, Failed)
    assert judgement.reason == "refusal: no"
    assert judgement.detail["problem"] == "refusal"
    assert len(judgement.detail["samples"]) == 3
    nothing = Unscored("the budget is spent: 1 calls")
    assert together([scored(2), scored(3), nothing], 4) == nothing


def test_an_output_of_some_samples_is_their_mean() -> None:
    both = Scored({"a": 1.0, "b": 4.0})
    one = Scored({"a": 3.0})
    judgement = together([both, one], 2)
    assert isinstance(judgement, Scored)
    assert judgement.values == {"a": 2.0, "b": 4.0}
    assert judgement.detail["spread"]["b"]["sd"] is None
