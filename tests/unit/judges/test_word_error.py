"""Word error rates, raw and normalised."""

import importlib
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from live_eval.audio import Audio
from live_eval.errors import JudgeError, UsageError
from live_eval.judges import word_error
from live_eval.judges.word_error import WordErrorHeard, WordErrorSaidBack, WordErrorSpoken
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored
from live_eval.speech.recognition import Transcript
from live_eval.testing.judges import ordinary_turn

ORDINARY = ordinary_turn()


def heard(script: str, text: str, language: str = "en") -> Judgement:
    ordinary = ORDINARY
    case = replace(ordinary.case, text=script, language=language)
    [judgement] = WordErrorHeard().score([replace(ordinary, case=case, heard_text=text)])
    return judgement


@pytest.mark.parametrize(
    ("script", "text", "raw", "normalized"),
    [
        ("I can't go.", "I can't go.", 0, 0),
        ("I won't go.", "i will not go", 400 / 3, 0),
        ("Twenty one dogs", "21 dogs", 200 / 3, 0),
        ("Um, hello there", "hello there", 100 / 3, 0),
        ("hello  there\nyou", "hello there you", 0, 0),
        ("I’ll be there at eight, see you then.", "I'll be there at eight, see you then.", 0, 0),
        ("“It’s cold…” he’s said", "\"It's cold...\" he's said", 0, 0),
        ("colour me red", "color me red", 100 / 3, 0),
        ("go", "no no no", 300, 300),
        ("one two three four", "", 100, 100),
        ("we saw the cat", "we saw a cat sit", 50, 50),
    ],
)
def test_counts_errors_per_hundred_words(script: str, text: str, raw: float, normalized: float) -> None:
    judgement = heard(script, text)
    assert isinstance(judgement, Scored)
    assert judgement.values == pytest.approx({"raw": raw, "normalized": normalized})


def test_chinese_counts_characters() -> None:
    pytest.importorskip("cn2an")
    judgement = heard("我有12个苹果。", "我有十二 个苹", "zh-CN")
    assert isinstance(judgement, Scored)
    assert judgement.values == pytest.approx({"characters": 100 / 7})


def test_chinese_without_its_package_is_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    judgement = heard("我有苹果。", "我有苹果", "zh")
    assert isinstance(judgement, Unscored)
    assert "[chinese]" in judgement.reason


def test_keeps_counts_for_pooling() -> None:
    judgement = heard("we saw the cat", "we saw a cat sit")
    assert isinstance(judgement, Scored)
    counts = {"errors": 2, "words": 4, "substitutions": 1, "deletions": 0, "insertions": 1}
    assert judgement.detail == {"raw": counts, "normalized": counts}


@pytest.mark.parametrize(("script", "language"), [("Um, uh.", "en"), (" ", "en"), ("Guten Tag", "de")])
def test_without_a_rate_there_is_no_value(script: str, language: str) -> None:
    assert isinstance(heard(script, "hello", language), Unscored)


class Parrot:
    """A recogniser with a constant transcript."""

    name = "parrot"
    heard: ClassVar[list[Audio]] = []

    def __init__(self, **_: object) -> None:
        self.heard.clear()

    def language_problem(self, language: str) -> str | None:
        return None if language == "en" else "knows only English"

    def transcribe(self, audio: Audio, **_: object) -> Transcript:
        self.heard.append(audio)
        return Transcript("I am sorry to hear it", (), "en")


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> type[Parrot]:
    monkeypatch.setattr(word_error, "Recogniser", Parrot)
    return Parrot


def said(text: str, reply: Audio | None = None) -> Judgement:
    ordinary = ORDINARY
    turn = replace(ordinary, reply_text=text, reply=reply or ordinary.reply)
    [judgement] = WordErrorSpoken().score([turn])
    return judgement


def test_compares_the_audio_with_the_transcript(parrot: type[Parrot]) -> None:
    judgement = said("I'm sorry to hear it.")
    assert isinstance(judgement, Scored)
    assert judgement.values == pytest.approx({"raw": 60.0, "normalized": 0.0})
    assert judgement.detail["recognised"] == "I am sorry to hear it"
    assert judgement.detail["recogniser"] == "parrot"
    assert [audio.rate_hz for audio in parrot.heard] == [16_000]


@pytest.mark.parametrize("seconds", [0.2, 3.0])
def test_what_cannot_be_heard_is_not_recognised(parrot: type[Parrot], seconds: float) -> None:
    silence = Audio(np.zeros(round(seconds * 24_000), np.float32), 24_000)
    assert isinstance(said("hello", silence), Unscored)
    assert parrot.heard == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("…", "the reply is empty"),
        ("Das tut mir wirklich leid, mein Lieber.", "the reply is in another language (de, expected en)"),
    ],
)
def test_an_unusable_transcript_is_unscored(parrot: type[Parrot], text: str, reason: str) -> None:
    assert said(text) == Unscored(reason)
    assert parrot.heard == []


def test_a_refusal_is_spoken_like_anything_else(parrot: type[Parrot]) -> None:
    assert isinstance(said("I'm sorry, but I can't help with that."), Scored)


def test_a_missing_recogniser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(**_: object) -> None:
        raise UsageError("recognition needs a Whisper model")

    monkeypatch.setattr(word_error, "Recogniser", absent)
    with pytest.raises(JudgeError, match="needs a Whisper model"):
        WordErrorSpoken()


@pytest.mark.slow
@pytest.mark.local
def test_a_real_voice_is_understood() -> None:
    pytest.importorskip("faster_whisper")
    pytest.importorskip("hibari")
    from live_eval.speech.synthesis import Voice

    text = "I am sorry to hear that. Do you want to talk about it?"
    judgement = said(text, Voice().speak(text))
    assert isinstance(judgement, Scored)
    assert judgement.values["normalized"] <= 10


def test_a_shared_reply_is_resampled_once() -> None:
    turn: JudgedTurn = ordinary_turn()
    assert turn.reply_at(16_000) is turn.reply_at(16_000)
    assert turn.reply_at(24_000) is turn.reply


def test_a_repetition_is_compared_with_the_script() -> None:
    case = replace(ORDINARY.case, text="The cat sat.")
    said = [replace(ORDINARY, case=case, reply_text=text) for text in ("the cat sat", "It says: the cat sat")]
    exact, framed = WordErrorSaidBack().score(said)
    assert isinstance(exact, Scored)
    assert isinstance(framed, Scored)
    assert exact.values == pytest.approx({"raw": 200 / 3, "normalized": 0})
    assert framed.values["normalized"] == pytest.approx(200 / 3)
    assert exact.detail["said"] == "transcript"


def test_without_a_transcript_a_recogniser_hears_what_is_said_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.judges.text._said._recogniser", Parrot)
    case = replace(ORDINARY.case, text="I am sorry to hear")
    mute = replace(ORDINARY, case=case, reply_text=None)
    heard_back, silent = WordErrorSaidBack().score([mute, replace(mute, reply=None)])
    assert isinstance(heard_back, Scored)
    assert heard_back.values["normalized"] == pytest.approx(20)
    assert heard_back.detail["said"] == "parrot"
    assert isinstance(silent, Unscored)
