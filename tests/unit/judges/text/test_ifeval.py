"""Instructions are checked as by VoiceBench's copy of IFEval.

`OFFICIAL` contains hashes of the decisions of its evaluator (github.com/MatthewCYM/VoiceBench, 5338154, run
unchanged) on the replies of `tests.support.replies`, one for 1,000 each: 2 for strictly, 1 for loosely, or 0.
"""

import hashlib
from typing import Any

import pytest

from live_eval.data.benchmarks.voicebench import INSTRUCTIONS, unusable_values
from live_eval.judges.text._ifeval import RULES, follows, variants, without_tags
from tests.support.replies import ifeval_replies

BATCH = 1_000
OFFICIAL = [
    "928619e52686",
    "a42d5dc39b65",
    "22fe8bb380f5",
    "dc884426bea3",
    "d032b8cf1661",
    "094448008934",
    "cbd63d9f60d5",
    "73dd9840b3c3",
    "9ecb8e1161a0",
    "9608c7c7029c",
    "17c9c69b6273",
    "a5e81c49038a",
    "ae3259d84a9c",
    "138c3090bace",
    "130b72c0e4fc",
    "83c1f484739a",
    "59ab908bfd87",
    "69d2733a08da",
    "fa7e63fce0aa",
    "3cf648f92b8c",
]


def decision(reply: str, instruction: str, values: Any) -> str:
    text = without_tags(reply)
    strict = follows(text, instruction, values)
    loose = any(follows(each, instruction, values) for each in variants(text))
    return "2" if strict and loose else "1" if loose else "0"


@pytest.mark.parametrize("count", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_random_replies_are_checked_as_by_the_official_evaluator(count: int) -> None:
    text = "".join(decision(*each) for each in ifeval_replies(count))
    hashes = [
        hashlib.sha256(text[at : at + BATCH].encode()).hexdigest()[:12] for at in range(0, count, BATCH)
    ]
    assert hashes == OFFICIAL[: count // BATCH]


def test_random_replies_cover_all_instructions_but_those_of_trained_models() -> None:
    covered = {instruction for _, instruction, _ in ifeval_replies(100)}
    assert set(RULES) - covered == {
        "language:response_language",
        "length_constraints:number_sentences",
        "change_case:capital_word_frequency",
        "change_case:english_capital",
        "change_case:english_lowercase",
    }


@pytest.mark.parametrize(
    ("reply", "instruction", "values", "expected"),
    [
        (
            "Bonjour, je voudrais un café, s'il vous plaît.",
            "language:response_language",
            {"language": "fr"},
            True,
        ),
        ("Good morning, I would like a coffee.", "language:response_language", {"language": "fr"}, False),
        ("ALL OF THIS IS WRITTEN IN CAPITALS.", "change_case:english_capital", {}, True),
        ("Not all of this is.", "change_case:english_capital", {}, False),
        ("all of this is written in small letters.", "change_case:english_lowercase", {}, True),
        (
            "One. Two. Three.",
            "length_constraints:number_sentences",
            {"num_sentences": 3, "relation": "at least"},
            True,
        ),
        (
            "One. Two.",
            "length_constraints:number_sentences",
            {"num_sentences": 2, "relation": "less than"},
            False,
        ),
        (
            "NASA and ESA met.",
            "change_case:capital_word_frequency",
            {"capital_frequency": 2, "capital_relation": "at least"},
            True,
        ),
        ("", "punctuation:no_comma", {}, False),
    ],
)
def test_instructions(reply: str, instruction: str, values: dict[str, Any], expected: bool) -> None:
    assert follows(reply, instruction, values) is expected


@pytest.mark.parametrize(
    ("instruction", "values", "message"),
    [
        ("detectable_format:rhyme", {}, "unknown instruction"),
        (
            "length_constraints:number_words",
            {"num_words": None, "relation": "at least"},
            "missing value num_words",
        ),
        (
            "length_constraints:number_words",
            {"num_words": 3, "relation": "about"},
            "expected relation: less than or at least",
        ),
        ("keywords:existence", {"keywords": ["("]}, "invalid values"),
        ("keywords:frequency", {"keyword": 5, "frequency": 1, "relation": "at least"}, "invalid values"),
    ],
)
def test_unusable_instructions(instruction: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        follows("Some reply.", instruction, values)


def test_data_check_accepts_the_instructions_that_have_a_rule() -> None:
    assert RULES.keys() == INSTRUCTIONS.keys()


WRONG_VALUES: tuple[Any, ...] = (None, 0, "", [], "(", ["("], {})


def test_data_check_names_the_values_that_a_rule_cannot_use() -> None:
    others: list[tuple[str, str, dict[str, Any]]] = [  # of the instructions without random replies
        ("", "language:response_language", {"language": "en"}),
        ("", "length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"}),
        ("", "change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}),
    ]
    seen = set()
    for reply, instruction, values in [*ifeval_replies(60), *others]:
        seen.add(instruction)
        assert list(unusable_values(instruction, values)) == []
        for name in values:
            for wrong in WRONG_VALUES:
                altered = {**values, name: wrong}
                try:
                    follows(reply or "x", instruction, altered)
                except ValueError:
                    problem = f"instruction {instruction}: expected "
                    [told] = unusable_values(instruction, altered)
                    assert told.startswith(problem), altered
                    assert f" as {name}, got " in told
    assert seen >= {name for name, needed in INSTRUCTIONS.items() if needed}
    # A rule would read each letter of a text as a keyword.
    assert list(unusable_values("keywords:existence", {"keywords": "rain"})) == [
        "instruction keywords:existence: expected a list of regular expressions as keywords, got 'rain'"
    ]
