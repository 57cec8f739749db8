"""Rate replies to open questions of other benchmarks with a language model."""

from __future__ import annotations

from typing import Any

from live_eval.judges._asking import (
    PROMPTS,
    PromptTemplate,
    UnreadableError,
    read_object,
    read_rating,
    read_words,
)
from live_eval.judges.specs.models import SMALL_TEXT_MODEL
from live_eval.judging import ChatRequest, Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.types import ScoringRule

__all__ = ["BenchmarkModel"]

_PROMPTS = {
    ScoringRule.RATING: ("benchmark_rating.md", frozenset({"prompt", "reply_text"})),
    ScoringRule.REFERENCE: ("benchmark_reference.md", frozenset({"prompt", "reference", "reply_text"})),
    ScoringRule.GUIDED_RATING: (
        "benchmark_guided.md",
        frozenset({"prompt", "hint", "reference", "reply_text"}),
    ),
    ScoringRule.RUBRICS: (
        "benchmark_rubrics.md",
        frozenset({"conversation", "prompt", "reply_text", "rubrics"}),
    ),
}


class BenchmarkModel:
    """Rating of an open answer, 1 to 5, agreement with a reference, 0 or 100, or criteria met, 0 to 100.

    VoiceBench (Chen et al., arXiv 2410.17196) asks gpt-4o-mini three times at temperature 0.5 and uses the
    mean of the ratings, or the majority of the verdicts. This judge asks once at temperature 0, with prompts
    in our own words and the benchmark's anchors. The published value for questions with a reference is
    probably a mean that includes the PEDANTS classifier, which we do not run. URO-Bench rates open answers in
    the same way, some of them with a suggested answer or by the speaker's emotion. Audio MultiChallenge asks
    o4-mini once per criterion; this judge asks about all criteria of an item at once. Items with another
    scoring rule are unscored.
    """

    def __init__(self) -> None:
        self._prompts = {
            rule: PromptTemplate.load("", default=PROMPTS / name, places=places, needed=places)
            for rule, (name, places) in _PROMPTS.items()
        }

    def unscorable(self, turn: JudgedTurn) -> Unscored | None:
        """Return why the model cannot rate the turn, or None if it can."""
        item = turn.case.item
        if item is None or item.rule not in _PROMPTS:
            return Unscored("a rule scores this item, not a language model")
        return None

    def request(self, turn: JudgedTurn) -> ChatRequest:
        """Return the request for a turn."""
        item = turn.case.item
        rule = item.rule if item is not None and item.rule in _PROMPTS else ScoringRule.RATING
        hint = item.details.get("hint") if item is not None else None
        criteria = (item.details.get("rubrics") or ()) if item is not None else ()
        text = self._prompts[rule].fill(
            {
                "prompt": turn.case.text,
                "reference": item.answer if item is not None else None,
                "hint": hint if isinstance(hint, str) else None,
                "conversation": "\n".join(
                    f"User: {said}\nAssistant: {reply}" for said, reply in turn.earlier
                ),
                "rubrics": "\n".join(f"{n}. {each}" for n, each in enumerate(criteria, 1)) or None,
                "reply_text": turn.reply_text,
            }
        )
        return ChatRequest(
            messages=[{"role": "user", "content": text}],
            model=SMALL_TEXT_MODEL,
            expected_detail={"criteria": len(criteria)} if rule is ScoringRule.RUBRICS else {},
        )

    def parse(self, answer: str) -> Judgement:
        """Return the rating or verdict in a response."""
        try:
            value = read_object(answer)
            detail: dict[str, Any] = {"explanation": read_words(value, "explanation")}
            if "met" in value:
                return _met(value["met"], detail)
            if "correct" not in value:
                return Scored({"rating": read_rating(value, "score")}, detail)
            if not isinstance(value["correct"], bool):
                raise UnreadableError(
                    f"expected true or false in correct, got {str(value['correct'])[:40]!r}"
                )
            return Scored({"correct": 100.0 * value["correct"]}, detail)
        except UnreadableError as error:
            return Failed(str(error))


def _met(verdicts: object, detail: dict[str, Any]) -> Judgement:
    if not isinstance(verdicts, list) or not verdicts or not all(isinstance(each, bool) for each in verdicts):
        raise UnreadableError(f"expected a list of true and false in met, got {str(verdicts)[:40]!r}")
    met = 100.0 * sum(verdicts) / len(verdicts)
    return Scored({"met": met, "passed": 100.0 * all(verdicts)}, {**detail, "criteria": len(verdicts)})
