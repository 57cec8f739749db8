"""The arena: an audio model compares two replies, played in order."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.audio import Audio
from live_eval.judges.arena import ArenaJudge
from live_eval.judges.specs.models import ARENA
from live_eval.judging import Failed, JudgeKind, Scored, SelectiveJudge, Unscored, check_judgement
from live_eval.testing.judges import GARBAGE, check_judge, odd_turns, ordinary_turn, speechlike

FIRST = replace(ordinary_turn(), reply=speechlike(1.0), reply_text="Oh no, I'm sorry.")
SECOND = replace(ordinary_turn(), reply=speechlike(2.0), reply_text="OK.")


def parts(*pair: Any) -> list[dict[str, Any]]:
    request = ArenaJudge().request(*pair)
    assert request.model == ARENA.model
    (message,) = request.messages
    return list(message["content"])


def seconds(part: dict[str, Any]) -> float:
    pcm, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(part["input_audio"]["data"])), dtype="int16")
    return float(len(pcm) / rate_hz)


def test_both_are_heard_and_read_in_their_order() -> None:
    prompt, first, sound, second, other = parts(FIRST, SECOND)
    assert '\nWhat was said: "I did not get the job after all."\n' in prompt["text"]
    assert '\nHow it was said: "how the speaker sounds: sad expressive voice"\n' in prompt["text"]
    assert '\nFirst reply: "Oh no, I\'m sorry."\n' in prompt["text"]
    assert '\nSecond reply: "OK."\n' in prompt["text"]
    assert (first["text"], second["text"]) == ("The first reply:", "The second reply:")
    assert (seconds(sound), seconds(other)) == (1.0, 2.0)
    prompt, _, sound, _, other = parts(SECOND, replace(FIRST, reply_text=None))
    assert "\nSecond reply: null\n" in prompt["text"]
    assert (seconds(sound), seconds(other)) == (2.0, 1.0)


def test_keeps_the_contract() -> None:
    check_judge(ARENA, ArenaJudge(), good_answers={'{"better": "second"}': -1.0})


def test_the_same_is_asked_again_in_plain_json() -> None:
    assert ARENA.kind is JudgeKind.PAIRWISE
    for odd in odd_turns(ARENA.needs | ARENA.uses):
        other = replace(FIRST, case=odd.case)
        assert parts(odd, other) == parts(odd, other)
        json.dumps(parts(odd, other), allow_nan=False)


def test_replies_to_different_cases_are_not_compared() -> None:
    other = replace(SECOND, case=replace(SECOND.case, case_id="another"))
    with pytest.raises(
        ValueError, match="expected two replies to the same case, got 'ordinary/target' and 'another'"
    ):
        ArenaJudge().request(FIRST, other)


def test_a_silent_reply_is_excluded() -> None:
    judge = ArenaJudge()
    assert isinstance(judge, SelectiveJudge)
    assert judge.unscorable(FIRST) is None
    silent = replace(FIRST, reply=Audio(np.zeros(48_000, np.float32), 24_000))
    assert isinstance(judge.unscorable(silent), Unscored)


@pytest.mark.parametrize(("better", "value"), [("first", 1.0), ("second", -1.0), ("tie", 0.0)])
def test_a_verdict_is_read(better: str, value: float) -> None:
    judgement = ArenaJudge().parse(json.dumps({"reason": "It is warm.", "better": better}))
    assert judgement == Scored({"": value}, {"reason": "It is warm."})
    assert check_judgement(ARENA, judgement) is judgement


@pytest.mark.parametrize(
    "answer",
    [*GARBAGE, '{"better": "First"}', '{"better": 1}', '{"better": "first or second"}', '{"better": ""}'],
)
def test_anything_else_is_none(answer: str) -> None:
    judgement = ArenaJudge().parse(answer)
    assert isinstance(judgement, Failed)
    assert judgement.reason.startswith("expected")
