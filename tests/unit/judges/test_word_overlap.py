"""BLEU and ROUGE-L compared with independent implementations."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_eval.judges.word_overlap import Bleu, RougeL, word_tokens
from live_eval.judging import JudgedTurn, LocalJudge, Scored, Unscored
from live_eval.testing.judges import ordinary_turn

ORDINARY = ordinary_turn()
BLEU, ROUGE_L = Bleu(), RougeL()
REFERENCE = "Oh no, I'm so sorry. That sounds hard. Do you want to talk about it?"


def turn(reply: str, reference: str = REFERENCE) -> JudgedTurn:
    ordinary = ORDINARY
    return replace(ordinary, reply_text=reply, case=replace(ordinary.case, reference_text=reference))


def score(judge: LocalJudge, reply: str, reference: str = REFERENCE) -> float:
    [judgement] = judge.score([turn(reply, reference)])
    assert isinstance(judgement, Scored)
    return judgement.values[""]


def bleu4(reply: list[str], reference: list[str]) -> float:
    """Return BLEU-4 by its definition (Papineni et al. 2002), with an order without a match counted 0.1."""
    logs = []
    for n in range(1, 5):
        grams = Counter(tuple(reply[i : i + n]) for i in range(len(reply) - n + 1))
        wanted = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        matches = sum((grams & wanted).values())
        if n == 1 and matches == 0:
            return 0.0
        logs.append(math.log((matches or 0.1) / max(1, sum(grams.values()))))
    brevity = min(0.0, 1 - len(reference) / len(reply))
    return 100 * math.exp(brevity + sum(logs) / 4)


def lcs_f(reply: list[str], reference: list[str]) -> float:
    """Return the F-measure of the longest common subsequence, by the textbook algorithm."""
    table = [[0] * (len(reference) + 1) for _ in range(len(reply) + 1)]
    for i, a in enumerate(reply):
        for j, b in enumerate(reference):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    common = table[-1][-1]
    return 200 * common / (len(reply) + len(reference))


WORDS = st.lists(st.sampled_from(["i", "am", "so", "sorry", "for", "you", "today"]), min_size=1, max_size=12)


@given(WORDS, WORDS)
@settings(max_examples=60)
def test_bleu_is_bleu(reply: list[str], reference: list[str]) -> None:
    assert score(BLEU, " ".join(reply), " ".join(reference)) == pytest.approx(bleu4(reply, reference))


@given(WORDS, WORDS)
@settings(max_examples=60)
def test_rouge_l_is_rouge_l(reply: list[str], reference: list[str]) -> None:
    assert score(ROUGE_L, " ".join(reply), " ".join(reference)) == pytest.approx(lcs_f(reply, reference))


@pytest.mark.parametrize("judge", [BLEU, ROUGE_L])
def test_the_reference_itself_is_a_hundred_whatever_its_case(judge: LocalJudge) -> None:
    assert score(judge, REFERENCE.upper()) == pytest.approx(100)


@pytest.mark.parametrize("judge", [BLEU, ROUGE_L])
def test_typography_is_no_difference(judge: LocalJudge) -> None:
    assert score(judge, "Oh no, I’m so sorry… that’s hard.", "Oh no, I'm so sorry... that's hard.") == 100


def test_bleu_of_a_known_pair() -> None:
    # 4 of the reply's 5 words, 3 of its 4 bigrams, 2 of its 3 trigrams and 1 of its 2 4-grams match.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert score(Bleu(), "tea do you want to", "do you want to") == pytest.approx(expected)


def test_stems_count_where_asked_for() -> None:
    assert score(RougeL(), "talking", "talked") == 0
    assert score(RougeL(stemmer=True), "talking", "talked") == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("oh no. that's awful!", ["oh", "no", ".", "that", "'s", "awful", "!"]),
        ("i can't. are you ok?", ["i", "ca", "n't", ".", "are", "you", "ok", "?"]),
        (
            "mr. smith came at 5 p.m. yesterday.",
            ["mr.", "smith", "came", "at", "5", "p.m.", "yesterday", "."],
        ),
        ("it's 3.5 miles, right", ["it", "'s", "3.5", "miles", ",", "right"]),
        ("well... maybe.", ["well", "...", "maybe", "."]),
        ("", []),
    ],
)
def test_words_are_split_as_by_nltk(text: str, tokens: list[str]) -> None:
    # The tokens of nltk.word_tokenize with Punkt's trained data.
    assert word_tokens(text) == tokens


def test_without_words_there_is_no_score() -> None:
    for judge in (Bleu(), RougeL()):
        assert judge.score([turn(" … "), turn("yes", " !? ")]) == [
            Unscored("the reply is empty"),
            Unscored("the reference reply has no words"),
        ]
    [other] = RougeL().score([turn("こんにちは")])
    assert isinstance(other, Unscored)
