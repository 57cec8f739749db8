"""Compute the accuracy on multiple-choice questions: the chosen letter compared with the answer key."""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.judges.text._choice import choose
from live_eval.judges.text._said import says_nothing, what_was_said
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored

__all__ = ["Mcq"]


class Mcq:
    """Correctness of the chosen option, 0 or 100, higher is better.

    The text is the reply's transcript or, if missing, the output of an offline recogniser. A silent reply, or
    a reply that does not choose exactly one option, is wrong and stays in the denominator. ``parsed`` is the
    share of replies that choose exactly one option, ``refused`` the share of refusals.

    EchoMind (Zhou et al., ICLR 2026) also extracts the letter, but does not describe how.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Parse the choice in each reply and compare it with the answer key."""
        return [self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        question = turn.case.question
        if question is None:
            return Unscored("the case has no question")
        if question.answer is None:
            return Unscored("the question has no answer key")
        if says_nothing(turn):
            values = {"accuracy": 0.0, "parsed": 0.0, "refused": 0.0}
            return Scored(values, {"chosen": None, "answer": question.answer, "read_from": "silence"})
        said = what_was_said(turn)
        if isinstance(said, Unscored):
            return said
        choice = choose(said.text, question.options)
        return Scored(
            {
                "accuracy": 100.0 * (choice.letter == question.answer),
                "parsed": 100.0 * (choice.letter is not None),
                "refused": 100.0 * (choice.how == "refused"),
            },
            {
                "chosen": choice.letter,
                "answer": question.answer,
                "read_from": choice.how,
                "said": said.source,
            },
        )
