"""Call a judge repeatedly on the same input, without reusing earlier answers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import numpy as np

from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, JudgeKind, Judgement, JudgeSpec
from live_eval.scoring.judge_runner import JudgeOptions, load_judge_runner, missing_requirements
from live_eval.scoring.llm import AnswerCache, LlmUsage

__all__ = ["Asker", "Pair", "swapped"]

Pair: TypeAlias = tuple[JudgedTurn, JudgedTurn]


def swapped(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with both replies swapped."""
    return [(second, first) for first, second in pairs]


class Asker:
    """Calls a judge repeatedly.

    A local judge recomputes its scores in different batches; an LLM judge queries the model again.

    Args:
        stack: Exit stack for the judge's resources.
        answers: Store of model answers.
        again: Whether to repeat the calls of an earlier audit instead of reusing its answers.
        seed: Seed for a local judge's batches.

    Raises:
        JudgeError: The judge cannot run here or cannot be loaded.
    """

    def __init__(
        self,
        spec: JudgeSpec,
        options: JudgeOptions,
        stack: ExitStack,
        answers: AnswerCache,
        *,
        again: bool,
        seed: int = 0,
    ) -> None:
        absent = missing_requirements(spec, options)
        if absent is not None:
            raise JudgeError(f"judge {spec.name!r} cannot run here: missing {absent}")
        self._fresh = _FreshAnswers(answers, again=again)
        self._runner = load_judge_runner(
            spec, options, stack, answers=self._fresh, budget=options.llm.budget()
        )
        self._seed = seed
        self._local = spec.kind is JudgeKind.LOCAL

    @property
    def usage(self) -> LlmUsage:
        """The judge's model usage so far."""
        return self._runner.usage

    def judge(self, items: Sequence[Any], repeat: int = 0) -> list[Judgement]:
        """Return a judgement for each `JudgedTurn` or, with a pairwise judge, for each `Pair`.

        Args:
            items: Turns or pairs, with the judge's inputs.
            repeat: Number of the repeat. Repeat 0 reuses the answers from scoring; the others are
                independent.
        """
        if not items:
            return []
        self._fresh.repeat = repeat
        if not (self._local and repeat):
            return self._runner.judge(items)
        judgements: dict[int, Judgement] = {}
        for places in self._batches(len(items), repeat):
            found = self._runner.judge([items[place] for place in places])
            judgements.update(zip(places, found, strict=True))
        return [judgements[place] for place in range(len(items))]

    def _batches(self, count: int, repeat: int) -> list[list[int]]:
        """Return batches of indices: single items in the first repeat, then random groups of up to five."""
        random = np.random.default_rng([self._seed, repeat])
        places = random.permutation(count).tolist()
        batches: list[list[int]] = []
        while places:
            size = 1 if repeat == 1 else int(random.integers(1, 6))
            batches.append(places[:size])
            places = places[size:]
        return batches


class _FreshAnswers:
    """The stored answers, with separate entries for each repeat; repeat 0 shares those of scoring."""

    def __init__(self, answers: AnswerCache, *, again: bool) -> None:
        self._answers = answers
        self._again = again
        self.repeat = 0

    def answer(self, question: str) -> Mapping[str, Any] | None:
        if self.repeat and self._again:
            return None
        return self._answers.answer(self._key(question))

    def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
        self._answers.keep_answer(self._key(question), answer)

    def _key(self, question: str) -> str:
        if not self.repeat:
            return question
        return hashlib.sha256(f"{question} repeat {self.repeat}".encode()).hexdigest()
