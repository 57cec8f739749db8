"""Replies that are no replies: what is taken for a refusal, for another language, and what is not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from judges._reply import other_language, refused, unreadable
from live_eval.testing.judges import ordinary_turn

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    *(ROOT / "live_eval" / "sample").glob("data_*/script_info_*.json"),
    *(ROOT.parent / "shared" / "echomind-demo").glob("data_*/script_info_*.json"),
]


def real_texts() -> Iterator[str]:
    """Reference replies and scripts of the sample, and of the demonstration where it is there."""
    for path in SCRIPTS:
        for entry in json.loads(path.read_text("utf-8")):
            yield entry["script"]
            for variant in ("target", "neutral", "alternative"):
                text = entry.get(f"{variant}_audio_info", {}).get(f"{variant}_response_text")
                if text:
                    yield text


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I can’t help with that request.",
        "I cannot provide that information.",
        "Sorry, I won't be able to help you with this.",
        "I'm unable to listen to audio.",
        "I'm not able to identify people by their voice.",
        "I can't determine the age of a speaker from a recording.",
        "As an AI language model, I cannot hear how you feel.",
        "I don't have the ability to process sounds.",
        "That would go against my guidelines.",
        "I'm sorry, I cannot engage with that.",
        "I am not able to answer that.",
    ],
)
def test_a_refusal_is_told(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't imagine how hard that must be.",
        "I can't believe you did it!",
        "Oh no, I can't even think of a worse day. What happened?",
        "You can't help how you feel.",
        "Sorry to hear that. Can I help with anything?",
        "I can't wait to hear how it went!",
        "I won't keep you, get some rest.",
        "That sounds rough; nobody could do that alone.",
        "I can hear you are tired, I'm not going to ask for more.",
        "I can't stress enough how well you did.",
        "Why not ask an AI?",
        "I can't recommend it enough, it is a lovely film.",
    ],
)
def test_sympathy_is_no_refusal(text: str) -> None:
    assert not refused(text)


def test_a_long_reply_that_declines_a_part_is_a_reply() -> None:
    assert not refused("I can't help with that part. " + "But here is what you could try next. " * 10)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das tut mir wirklich leid. Möchtest du darüber reden?", "de"),
        ("Oh nein, das klingt anstrengend.", "de"),
        ("Je suis vraiment désolé. Tu veux en parler ?", "fr"),
        ("Lo siento mucho. ¿Quieres hablar de ello?", "es"),
        ("¡Claro que sí!", "es"),
        ("Mi dispiace molto. Vuoi parlarne?", "it"),
        ("Sinto muito. Você quer conversar sobre isso?", "pt"),
        ("Het spijt me echt. Wil je erover praten?", "nl"),
        ("Bardzo mi przykro. Chcesz o tym porozmawiać?", "pl"),
        ("我很抱歉听到这个消息。你想谈谈吗？", "zh"),
        ("好的。", "zh"),
        ("それは大変でしたね。話を聞きましょうか？", "ja"),
        ("Мне очень жаль. Хочешь поговорить об этом?", "ru"),
        ("أنا آسف جدا. هل تريد التحدث عن ذلك؟", "ar"),
        ("Çok üzgünüm. Bunun hakkında konuşmak ister misin?", "tr"),
        ("정말 유감이에요. 이야기하고 싶으신가요?", "ko"),
    ],
)
def test_another_language_is_told(text: str, language: str) -> None:
    assert other_language(text, "en-US") == language
    assert other_language(text, language) is None


@pytest.mark.parametrize(
    "text",
    [
        *("Oh no!", "Okay.", "Hmm.", "Yes.", "No way!", "Congrats!", "Rest up, okay?", "Wow!", "Uh-oh."),
        *("B", "Oh, amazing!", "Bless you!", "Haha, nice.", "…", "42", "Ciao!"),
    ],
)
def test_a_word_or_two_tells_no_language(text: str) -> None:
    assert other_language(text, "en") is None


def test_a_language_that_nobody_can_tell_is_never_other() -> None:
    assert other_language("Good morning, how are you today?", "tlh") is None


def test_no_real_text_is_a_refusal_or_foreign() -> None:
    texts = list(real_texts())
    assert len(texts) > 20
    assert [text for text in texts if refused(text) or other_language(text, "en")] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("… !?", "the reply is empty"),
        ("I'm sorry, but I can't assist with that.", "the reply is a refusal"),
        ("Das tut mir wirklich leid, mein Lieber.", "the reply is in another language (de, expected en)"),
    ],
)
def test_what_is_no_reply_is_unscored_with_its_reason(text: str, reason: str) -> None:
    verdict = unreadable(replace(ordinary_turn(), reply_text=text))
    assert verdict is not None
    assert verdict.reason == reason


def test_an_ordinary_reply_is_rated() -> None:
    assert unreadable(ordinary_turn()) is None
