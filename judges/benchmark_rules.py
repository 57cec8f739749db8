"""Score replies to items of other benchmarks, by the benchmark's own rule and by ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from live_eval.errors import UsageError
from live_eval.judges.text._choice import choose
from live_eval.judges.text._declining import declined
from live_eval.judges.text._final_answer import final_answer, final_number
from live_eval.judges.text._ifeval import follows, variants, without_tags
from live_eval.judges.text._repetition import error_rate, official_error_rate
from live_eval.judges.text._said import says_nothing, what_was_said
from live_eval.judges.text._voicebench import LETTERS, read_bbh, read_choice, read_refusal
from live_eval.judging import Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.types import BenchmarkItem, ScoringRule

__all__ = ["BenchmarkRules"]

_YES = frozenset({"yes", "(b)"})
_NO = frozenset({"no", "(a)"})
_MOST_ERRORS = 0.5
"""URO-Bench counts a repetition with more errors as failed."""
_BY_MODEL = frozenset(
    {ScoringRule.RATING, ScoringRule.GUIDED_RATING, ScoringRule.REFERENCE, ScoringRule.RUBRICS}
)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The results of both rules for one reply.

    Args:
        official: Score by the benchmark's rule, 0 to 100, or the expected value of its random guess; None if
            the benchmark's scorer is a language model.
        official_parsed: Whether the benchmark's rule found an answer, and therefore did not guess.
        ours: Score by live-eval's rule, 0 to 100.
        parsed: Whether our rule found an answer.
        detail: The answers found.
    """

    official: float | None
    official_parsed: bool
    ours: float
    parsed: bool
    detail: Mapping[str, Any]


class BenchmarkRules:
    """Correctness of a reply to an item of another benchmark, 0 to 100, higher is better.

    ``official`` follows the benchmark's published evaluator, with its quirks. Where that evaluator guesses at
    random, ``official`` is the expected value of the guess and ``official_parsed`` is 0. ``ours`` follows our
    own rule, which counts a reply without a readable answer as wrong; ``parsed`` is the share of replies that
    it can parse. If the benchmark's own scorer is a language model, there is no ``official``.

    The text is the reply's transcript or, if missing, the output of an offline recogniser. Items rated by a
    language model are unscored.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Score each reply by the rule of its item."""
        return [self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        item = turn.case.item
        if item is None:
            return Unscored("the case is not an item of a benchmark")
        if item.rule in _BY_MODEL:
            return Unscored("a language model rates this item")
        rule = _RULES.get(item.rule)
        if rule is None:
            return Unscored("the benchmark publishes no scorer for this item")
        text, source = "", "silence"
        if not says_nothing(turn):
            said = what_was_said(turn)
            if isinstance(said, Unscored):
                return said
            text, source = said.text, said.source
        try:
            read = rule(text, item)
        except UsageError as error:
            return Unscored(str(error))
        except (ValueError, KeyError, TypeError) as error:
            return Failed(f"the item cannot be scored: {error}")
        values = {"ours": read.ours, "parsed": 100.0 * read.parsed}
        if read.official is not None:
            values |= {"official": read.official, "official_parsed": 100.0 * read.official_parsed}
        return Scored(values, {**read.detail, "answer": item.answer, "said": source})


def _choice(text: str, item: BenchmarkItem) -> _Reading:
    answer = (item.answer or "").strip().upper()
    if answer.lower() not in LETTERS or not answer:
        raise ValueError(f"expected A, B, C or D as the reference, got {item.answer!r:.40}")
    theirs = read_choice(text)
    options = [(letter, option) for letter, option in item.details.get("options") or ()]
    options = options or [(letter.upper(), "") for letter in LETTERS]
    mine = choose(text, options).letter if text.strip() else None
    return _Reading(
        official=100.0 / len(LETTERS) if theirs is None else 100.0 * (theirs == answer),
        official_parsed=theirs is not None,
        ours=100.0 * (mine == answer),
        parsed=mine is not None,
        detail={"official": theirs, "ours": mine},
    )


def _option(text: str, item: BenchmarkItem) -> _Reading:
    options = [(letter, option) for letter, option in item.details["options"]]
    mine = choose(text, options).letter if text.strip() else None
    return _Reading(
        official=None,
        official_parsed=False,
        ours=100.0 * (mine == item.details["key"]),
        parsed=mine is not None,
        detail={"ours": mine},
    )


def _bbh(text: str, item: BenchmarkItem) -> _Reading:
    answer = (item.answer or "").strip().lower()
    if answer not in _YES | _NO:
        raise ValueError(f"expected yes, no, (a) or (b) as the reference, got {item.answer!r:.40}")
    true = answer in _YES
    theirs = read_bbh(text, str(item.details["id"]))
    mine: bool | None = None
    if answer.startswith("("):
        letter = choose(text, [("A", ""), ("B", "")]).letter if text.strip() else None
        mine = None if letter is None else letter == "B"
    elif (word := final_answer(text, ["yes", "no"])) is not None:
        mine = word == "yes"
    return _Reading(
        official=50.0 if theirs is None else 100.0 * (theirs is true),
        official_parsed=theirs is not None,
        ours=100.0 * (mine is true),
        parsed=mine is not None,
        detail={"official": theirs, "ours": mine},
    )


def _refusal(text: str, item: BenchmarkItem) -> _Reading:
    theirs, mine = read_refusal(text), declined(text)
    return _Reading(
        official=100.0 * theirs,
        official_parsed=True,
        ours=100.0 * mine,
        parsed=bool(text.strip()),
        detail={"official": theirs, "ours": mine},
    )


def _final_answer(text: str, item: BenchmarkItem) -> _Reading:
    answer = (item.answer or "").strip().lower()
    answers = [str(each).lower() for each in item.details["answers"]]
    mine: str | None
    if answers:
        if answer not in answers:
            raise ValueError(f"expected {' or '.join(answers)} as the reference, got {item.answer!r:.40}")
        mine = final_answer(text, answers)
    else:
        number = final_number(text)
        mine = None if number is None else str(number)
        answer = str(int(answer))
    return _Reading(
        official=None,
        official_parsed=False,
        ours=100.0 * (mine == answer),
        parsed=mine is not None,
        detail={"ours": mine},
    )


def _instructions(text: str, item: BenchmarkItem) -> _Reading:
    names, values = item.details["instruction_id_list"], item.details["kwargs"]
    if not names or len(names) != len(values):
        raise ValueError("expected a list of instructions with their values")
    reply = without_tags(text)
    texts = variants(reply)
    checks = [(name, given or {}) for name, given in zip(names, values, strict=True)]
    strict = [follows(reply, *check) for check in checks]
    loose = [any(follows(each, *check) for each in texts) for check in checks]
    shares = (all(strict), sum(strict) / len(strict), all(loose), sum(loose) / len(loose))
    return _Reading(
        official=100.0 * sum(shares) / len(shares),
        official_parsed=True,
        ours=100.0 * all(loose),
        parsed=bool(text.strip()),
        detail={"instructions": len(names), "strict": sum(strict), "loose": sum(loose)},
    )


def _repetition(text: str, item: BenchmarkItem) -> _Reading:
    reference, language = item.answer or "", str(item.details.get("language") or "en")
    mine, theirs = (rate(reference, text, language) for rate in (error_rate, official_error_rate))
    return _Reading(
        official=100.0 * (1 - theirs) if theirs <= _MOST_ERRORS else 0.0,
        official_parsed=True,
        ours=100.0 * max(0.0, 1 - mine),
        parsed=bool(text.strip()),
        detail={"official": theirs, "ours": mine},
    )


_RULES: Mapping[ScoringRule, Callable[[str, BenchmarkItem], _Reading]] = MappingProxyType(
    {
        ScoringRule.CHOICE: _choice,
        ScoringRule.OPTION: _option,
        ScoringRule.BBH: _bbh,
        ScoringRule.REFUSAL: _refusal,
        ScoringRule.FINAL_ANSWER: _final_answer,
        ScoringRule.INSTRUCTIONS: _instructions,
        ScoringRule.REPETITION: _repetition,
    }
)
