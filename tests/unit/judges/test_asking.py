"""Helpers of judges that call a model: prompts, audio parts and JSON answers."""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.audio import Audio
from live_eval.data import ATTRIBUTES, cue_of
from live_eval.errors import JudgeError
from live_eval.judges._asking import (
    LONGEST_SENT_S,
    PROMPTS,
    SENT_RATE_HZ,
    PromptTemplate,
    UnreadableError,
    delivery_of,
    read_object,
    read_rating,
    read_words,
    sound_part,
)
from live_eval.judges.specs.models import ARENA, BENCHMARK_MODEL, RUBRIC, VES
from live_eval.testing.judges import GARBAGE, speechlike

PLACES = frozenset({"delivery", "reply_text"})


def load(path: Path | str) -> PromptTemplate:
    return PromptTemplate.load(
        str(path), default=PROMPTS / "ves.md", places=PLACES, needed=frozenset({"delivery"})
    )


def test_values_are_filled_in_as_json_strings(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text('{delivery}: {"score": {1}} {{reply_text}} { reply_text }', "utf-8")
    filled = load(file).fill({"delivery": r"a {reply_text} \1 %s", "reply_text": None})
    assert filled == r'"a {reply_text} \\1 %s": {"score": {1}} {null} { reply_text }'
    assert load(file).fill({"delivery": " \n", "reply_text": " a "}).startswith("null: ")
    assert load(file).fill({"delivery": " \n", "reply_text": " a "}).endswith(' {" a "} { reply_text }')


def test_a_byte_order_mark_is_not_part_of_the_prompt(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("{delivery}", "utf-8-sig")
    assert load(file).text == "{delivery}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            b"{delivery} {mood}",
            r"unknown placeholder \{mood\} in the prompt; expected one of \{delivery\}, \{reply_text\}",
        ),
        (b"{reply_text}", r"expected the placeholder \{delivery\}"),
        (b"", r"expected the placeholder \{delivery\}"),
        (b"{delivery} \xff", "cannot read prompt"),
        (b'State: "{delivery}".', r"remove the quotes around \{delivery\}: it becomes a JSON string"),
        (b'{delivery}, {"reply": "{reply_text} "}', r"remove the quotes around \{reply_text\}"),
        (b'{delivery}"', r"remove the quotes around \{delivery\}"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(tmp_path: Path, text: bytes, complaint: str) -> None:
    file = tmp_path / "mine.md"
    file.write_bytes(text)
    with pytest.raises(JudgeError, match=complaint):
        load(file)


def test_a_missing_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"cannot read prompt .*nowhere\.md"):
        load(tmp_path / "nowhere.md")


@pytest.mark.parametrize(
    ("spec", "version", "file", "sha256"),
    [
        (RUBRIC, "5", "rubric.md", "f0617e768fd83526118369f5abadb061df31bb50fbe7ee425fc7cf0a87df65e3"),
        (VES, "4", "ves.md", "fa10027e58361ffbb2c36b1c0963b03e2bdc3bb46aa2960bde4ccbcb7cce5475"),
        (ARENA, "4", "arena.md", "c1c223febe6caa5f60b2f16202e32b9a1548cf3e9dcc5b5b438415deafd2ef2d"),
        (
            BENCHMARK_MODEL,
            "7",
            "benchmark_rating.md",
            "33054ff1f00a80f769ee2b7a1bd5fad5037fe6bf20779a12dd92831d6d241509",
        ),
        (
            BENCHMARK_MODEL,
            "7",
            "benchmark_reference.md",
            "00ff083ad4366efdcf94baae214aa73f8aca1a866c101bca96cc3acf6bb1d9da",
        ),
        (
            BENCHMARK_MODEL,
            "7",
            "benchmark_rubrics.md",
            "aad2af3ae46b938f16fa9e61121645abb59aa4d1358c7b0a8322b343f10c96f8",
        ),
        (
            BENCHMARK_MODEL,
            "7",
            "benchmark_guided.md",
            "56e053ad8c3b5a79cb9d5fa8d2ecc17683dcf00010745b25c23006d0eaf8c9eb",
        ),
    ],
)
def test_a_changed_prompt_raises_the_version(spec: Any, version: str, file: str, sha256: str) -> None:
    assert spec.version == version
    assert hashlib.sha256((PROMPTS / file).read_bytes()).hexdigest() == sha256


def test_every_cue_has_words() -> None:
    for attribute in ATTRIBUTES.values():
        delivery = delivery_of(cue_of(attribute.phrase))
        assert delivery is not None
        assert attribute.phrase in delivery
        assert ": " in delivery
    assert delivery_of(cue_of("a voice nobody named")) == "a voice nobody named"
    assert delivery_of(cue_of("Neutral")) == "neutral: a plain voice without any particular cue"
    assert delivery_of(None) is None


def sent(parts: list[dict[str, Any]]) -> tuple[str, Any, int]:
    text, sound = parts
    assert sound["input_audio"]["format"] == "wav"
    file = io.BytesIO(base64.b64decode(sound["input_audio"]["data"]))
    pcm, rate_hz = soundfile.read(file, dtype="int16")
    return text["text"], pcm, rate_hz


def test_audio_is_sent_as_wav() -> None:
    audio = speechlike(2.0, SENT_RATE_HZ)
    text, pcm, rate_hz = sent(sound_part("The reply", audio))
    assert text == "The reply:"
    assert rate_hz == SENT_RATE_HZ
    np.testing.assert_array_equal(pcm, audio.int16())


def test_audio_is_truncated_at_the_limit() -> None:
    audio = Audio(np.zeros(300 * SENT_RATE_HZ, np.float32), SENT_RATE_HZ)
    text, pcm, _ = sent(sound_part("The reply", audio))
    assert text == "The reply (its first 120 of 300 seconds):"
    assert len(pcm) == LONGEST_SENT_S * SENT_RATE_HZ


@pytest.mark.parametrize(
    "answer",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{\n"a": 1}```',
        '<think>\nIs {"a": 5} right?\n</think>\n\n{"a": 1}',
        '<think></think>```json\n{"a": 1}\n```',
    ],
)
def test_an_object_is_read(answer: str) -> None:
    assert read_object(answer) == {"a": 1}


@pytest.mark.parametrize(
    "answer",
    [
        *(answer for answer in GARBAGE if not answer.startswith('{"score": ') and answer != "{}"),
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        '{"a": 1} and more',
        'Here you are: {"a": 1}',
        '{"a": 1}{"a": 1}',
        "{'a': 1}",
        '{"a": 1,}',
    ],
)
def test_anything_else_is_not(answer: str) -> None:
    with pytest.raises(UnreadableError, match="expected one JSON object"):
        read_object(answer)


@pytest.mark.parametrize("value", [1, 5, 4.0, 3])
def test_a_rating_is_read(value: float) -> None:
    assert read_rating({"x": value}, "x") == value


@pytest.mark.parametrize("value", [0, 6, 4.5, "4", "4/5", True, None, [4], {}, -1, 10**400])
def test_invalid_ratings_are_rejected(value: object) -> None:
    with pytest.raises(UnreadableError, match="expected a whole number from 1 to 5 in x, got"):
        read_rating({"x": value}, "x")
    with pytest.raises(UnreadableError, match="expected the key y"):
        read_rating({"x": value}, "y")


def test_words_can_be_kept() -> None:
    value = read_object(r'{"why": "half \ud83d, whole \ud83d\ude42"}')
    assert read_words(value, "why") == "half ?, whole 🙂"
    assert read_words(value, "what") == ""
    json.dumps(read_words(value, "why")).encode()
    with pytest.raises(UnreadableError, match="expected a string in why, got a list"):
        read_words({"why": []}, "why")
