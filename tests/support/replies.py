"""Generate random replies to benchmark items, equal in all Python versions, to store their scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from live_eval.judges.text._voicebench import _tables

BBH_TASKS = ("navigate", "web_of_lies", "sports_understanding", "hyperbaton")

_WORDS = (
    *(
        "the",
        "answer",
        "is",
        "a",
        "b",
        "c",
        "d",
        "option",
        "correct",
        "so",
        "well",
        "I",
        "would",
        "say",
        "not",
    ),
    *("yes", "no", "sorry", "I'm", "can't", "plausible", "sentence", "truth", "lies", "starting", "point"),
    *("A.", "B)", "(C)", "D:", "**B**", '"A"', "**", ":", ",", ".", "\n", "\n\n", "  ", "Ａ", "答案", "是"),
)
_TAILS = ("", ".", "!", " Thanks.", "<|user|>", "\n", " no", " yes", " lies", " tells the truth")
_HEADS = ("", "", "", "<1>", "<3> ", "A", "b.", "no ", "Yes, ", "I'm sorry, ", "  ", "a ", "(a) ")


class _Draws:
    """A random number generator based on a hash."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def below(self, most: int) -> int:
        self._count += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._count}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % most

    def one(self, values: Sequence[str]) -> str:
        return values[self.below(len(values))]


def _replies(count: int, seed: str, phrases: Sequence[str], letters: str) -> Iterator[str]:
    draw = _Draws(seed)
    for _ in range(count):
        parts = [draw.one(_HEADS)]
        for _ in range(draw.below(4)):
            words = [draw.one(_WORDS) for _ in range(draw.below(5))]
            phrase = draw.one(phrases).replace("@", draw.one(letters)).replace("(.+?)", draw.one(_WORDS))
            # A truncated phrase, or one joined to a word, often fails to match, or matches another phrase.
            cut = draw.below(6)
            phrase = phrase[1:] if cut == 0 else phrase[:-1] if cut == 1 else phrase
            parts += [" ".join(words), "" if draw.below(5) == 0 else " ", phrase]
        text = "".join([*parts, draw.one(_TAILS)])
        yield text.upper() if draw.below(10) == 0 else text.capitalize() if draw.below(3) == 0 else text


def choice_replies(count: int) -> Iterator[str]:
    """Yield replies to questions with the options A to D."""
    yield from _replies(count, "choice", _tables()["choice"], "abcde")


def refusal_replies(count: int) -> Iterator[str]:
    """Yield replies to harmful requests."""
    yield from _replies(count, "refusal", _tables()["refusal"], "a")


def bbh_replies(count: int, task: str) -> Iterator[str]:
    """Yield replies to items of a task of BIG-Bench Hard."""
    rows = [*_tables()["yes_no"], *_tables()[task]]
    yield from _replies(count, task, [phrase for _, _, phrase in rows], "ab")


_MARKS = (
    *(
        "*",
        "**",
        "***",
        "******",
        "\n",
        "\n\n",
        "- ",
        "* ",
        "[name]",
        "[]",
        "<<Song>>",
        "<< >>",
        '"',
        "'",
        ",",
    ),
    *(
        "P.S.",
        "p. s.",
        "P.P.S",
        "Section 1",
        "SECTION 2",
        "section 3",
        "{",
        "}",
        '{"a": 1}',
        "```json",
        "```",
        ".",
    ),
    *(
        "My answer is yes.",
        "My answer is no",
        "apple",
        "Apple",
        "apples",
        "rain",
        "RAIN",
        "One",
        "Two",
        "end",
        "!",
    ),
    *(
        "<1>",
        "<|user|>",
        " ",
        "  ",
        "Is there anything else?",
        "Say it.",
        "e",
        "EE",
        "x",
        "*a*",
        "**b**",
        "* *",
    ),
)
_RELATIONS = ("less than", "at least")


def ifeval_replies(count: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield replies, each with an instruction of IFEval and its values.

    Instructions about languages, sentences and capital words are left out, since their published rules need a
    trained model.
    """
    draw = _Draws("ifeval")
    for number in range(count):
        pieces = [draw.one(_MARKS) for _ in range(draw.below(14))]
        reply = draw.one(("", " ", "\n")).join(pieces)
        few = 1 + draw.below(4)
        values: dict[str, dict[str, Any]] = {
            "keywords:existence": {
                "keywords": [draw.one(("apple", "rain", "x")), draw.one(("One", "end"))][:few]
            },
            "keywords:frequency": {"keyword": "apple ", "frequency": few, "relation": draw.one(_RELATIONS)},
            "keywords:forbidden_words": {"forbidden_words": [draw.one(("apple", "rain", "e"))]},
            "keywords:letter_frequency": {
                "letter": draw.one(("e", "A")),
                "let_frequency": 2 * few,
                "let_relation": draw.one(_RELATIONS),
            },
            "length_constraints:number_paragraphs": {"num_paragraphs": few},
            "length_constraints:number_words": {"num_words": 4 * few, "relation": draw.one(_RELATIONS)},
            "length_constraints:nth_paragraph_first_word": {
                "num_paragraphs": few,
                "nth_paragraph": 1 + draw.below(few),
                "first_word": draw.one(("apple", "One", "say")),
            },
            "detectable_content:number_placeholders": {"num_placeholders": few},
            "detectable_content:postscript": {"postscript_marker": draw.one(("P.S.", "P.P.S", "end"))},
            "detectable_format:number_bullet_lists": {"num_bullets": few},
            "detectable_format:constrained_response": {},
            "detectable_format:number_highlighted_sections": {"num_highlights": few},
            "detectable_format:multiple_sections": {
                "section_spliter": draw.one(("Section", "SECTION ")),
                "num_sections": few,
            },
            "detectable_format:json_format": {},
            "detectable_format:title": {},
            "combination:two_responses": {},
            "combination:repeat_prompt": {"prompt_to_repeat": draw.one(("Say it.", "apple"))},
            "startend:end_checker": {"end_phrase": draw.one(("Is there anything else?", "end"))},
            "startend:quotation": {},
            "punctuation:no_comma": {},
        }
        instruction = [*values][number % len(values)]
        yield reply, instruction, {**values[instruction], "language": None}


_SAID: Mapping[str, tuple[str, ...]] = {
    "en": (
        *("I'll", "I will", "don't", "Dr. Lee", "doctor lee", "colour", "color", "gonna", "um", "[noise]"),
        *(
            "red",
            "green",
            "blue",
            "5",
            "five",
            "twenty-one",
            "21",
            "$3.50",
            "1,000",
            "50%",
            "(laughs)",
            "café",
        ),
        *(",", ".", "!", "-", "’", "  "),
    ),
    "zh": (
        *(
            "我",
            "有",
            "苹果",
            "今天",
            "天气",
            "很好",
            "12个",
            "十二个",
            "3.5元",
            "1,000元",
            "50%的",
            "百分之五十的",
            "OK",
            "ＯＫ",
        ),
        *("，", "。", "！", "、", "《", "-", " ", "  "),
    ),
}


def repetitions(count: int, language: str) -> Iterator[tuple[str, str]]:
    """Yield texts to repeat, each with a reply in which words are omitted, added, replaced or moved."""
    draw = _Draws(f"repetition/{language}")
    joint = " " if language == "en" else ""
    for _ in range(count):
        words = [draw.one(_SAID[language]) for _ in range(1 + draw.below(9))]
        said = [*words]
        for _ in range(draw.below(5)):
            at, word = draw.below(len(said) + 1), draw.one(_SAID[language])
            said[at : at + draw.below(3)] = [word] * draw.below(2)
        yield joint.join(words), joint.join(said)
