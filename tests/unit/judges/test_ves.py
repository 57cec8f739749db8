"""Vocal empathy: the prompt, the audio sent to the model, and the parser."""

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.audio import Audio
from live_eval.data import cue_of
from live_eval.judges.specs.models import VES
from live_eval.judges.ves import Ves
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn, speechlike

GOOD = '{"explanation": "Soft and slow.", "VES_score": 4}'


def parts(turn: JudgedTurn, **options: str) -> list[dict[str, Any]]:
    request = Ves(**options).request(turn)
    assert request.model == VES.model == "gemini-2.5-pro"
    (message,) = request.messages
    return list(message["content"])


def heard(part: dict[str, Any]) -> Any:
    assert part["type"] == "input_audio"
    pcm, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(part["input_audio"]["data"])), dtype="int16")
    assert rate_hz == 16_000
    return pcm


@pytest.mark.parametrize("options", [{}, {"speaker_audio": "yes"}])
def test_keeps_the_contract(options: dict[str, str]) -> None:
    good = {GOOD: 4.0, '{"VES_score": 1.0}': 1.0}
    check_judge(VES, Ves(**options), long_replies=True, good_answers=good)


def test_the_model_hears_the_reply_and_reads_the_state_but_not_the_words() -> None:
    turn = ordinary_turn()
    prompt, what, sound = parts(turn)
    assert '\nState: "how the speaker sounds: sad expressive voice"\n' in prompt["text"]
    assert what["text"] == "The reply:"
    np.testing.assert_array_equal(heard(sound), turn.reply_at(16_000).int16())
    assert turn.reply_text is not None
    assert turn.case.text is not None
    assert turn.reply_text not in prompt["text"]
    assert turn.case.text not in prompt["text"]


def test_it_hears_the_speaker_if_selected_and_available() -> None:
    turn = replace(ordinary_turn(), speaker=speechlike(1.0, 8_000))
    assert len(parts(turn)) == 3
    _, first, speaker, second, _ = parts(turn, speaker_audio="yes")
    assert (first["text"], second["text"]) == ("The person:", "The reply:")
    assert len(heard(speaker)) == 16_000
    assert len(parts(ordinary_turn(), speaker_audio="yes")) == 3


def test_a_neutral_speaker_is_described_too() -> None:
    turn = ordinary_turn()
    prompt, *_ = parts(replace(turn, case=replace(turn.case, cue=cue_of("neutral"))))
    assert '\nState: "neutral: a plain voice without any particular cue"\n' in prompt["text"]


@pytest.mark.slow
def test_at_most_two_minutes_of_a_long_reply_are_sent() -> None:
    _, what, sound = parts(replace(ordinary_turn(), reply=speechlike(130.0, 8_000)))
    assert what["text"] == "The reply (its first 120 of 130 seconds):"
    assert len(heard(sound)) == 120 * 16_000


@pytest.mark.parametrize(
    "reply", [speechlike(0.2), Audio(np.zeros(48_000, np.float32), 24_000), speechlike(2.0, level=1e-6)]
)
def test_short_and_silent_replies_are_not_asked_about(reply: Audio) -> None:
    judge = Ves()
    assert judge.unscorable(ordinary_turn()) is None
    assert isinstance(judge.unscorable(replace(ordinary_turn(), reply=reply)), Unscored)


def test_an_answer_is_read() -> None:
    assert Ves().parse(GOOD) == Scored({"": 4.0}, {"explanation": "Soft and slow."})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"explanation": "", "VES_score": 0}', "expected a whole number from 1 to 5 in VES_score, got '0'"),
        ('{"VES_score": "4/5"}', "expected a whole number from 1 to 5 in VES_score, got '4/5'"),
        ('{"VES_score": true}', "expected a whole number from 1 to 5 in VES_score, got 'True'"),
        ('{"score": 4}', "expected the key VES_score"),
        ('{"VES_score": 4, "explanation": 4}', "expected a string in explanation, got a int"),
    ],
)
def test_an_invalid_answer_is_reported(answer: str, reason: str) -> None:
    assert Ves().parse(answer) == Failed(reason)


def test_a_users_own_prompt_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    file.write_text("Hear how they sound: {delivery}. Answer {} or {1}.", "utf-8")
    prompt, *_ = parts(ordinary_turn(), prompt=str(file))
    assert prompt["text"] == (
        'Hear how they sound: "how the speaker sounds: sad expressive voice". Answer {} or {1}.'
    )
