"""Similarity of meaning of what is said back and the script: EchoMind's SemSim of its transcription task.

It differs from `judges.semsim` in what is compared: there a reply and a reference reply, here the words that
an endpoint says back and those that were spoken. The numbers that are published come out near 100.
"""

from __future__ import annotations

from collections.abc import Sequence

from judges._embedding import Embedder
from judges._said import SaidWords, what_was_said
from judges.specs.text import PACKAGED_EMBEDDING
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored

__all__ = ["TranscriptionSemSim"]


class TranscriptionSemSim:
    """Cosine of the embeddings of what is said back and of the script, times 100, higher is better.

    The reply is its transcript, or where the endpoint sends none, what an offline recogniser hears of it.

    Args:
        model: ``all-minilm-l6-v2``, name of published weights, or the folder of a model that
            sentence-transformers loads.
        device: Where to compute, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: A package, the weights or the device are not there, or they are not the weights that we
            know.
    """

    def __init__(self, *, model: str = PACKAGED_EMBEDDING, device: str = "cpu") -> None:
        self._embedder = Embedder(model, device)
        self._detail = {"model": model, "sha256": self._embedder.sha256}

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply with the script."""
        said = [_said(turn) for turn in batch]
        pairs = [
            (words.text.strip(), (turn.case.text or "").strip())
            for turn, words in zip(batch, said, strict=True)
            if isinstance(words, SaidWords)
        ]
        cosines = iter(self._embedder.cosines(pairs))
        return [
            words
            if isinstance(words, Unscored)
            else Scored({"": 100.0 * next(cosines)}, {**self._detail, "said": words.source})
            for words in said
        ]


def _said(turn: JudgedTurn) -> SaidWords | Unscored:
    said = what_was_said(turn)
    if isinstance(said, SaidWords) and not said.text.strip():
        return Unscored("no words were heard in the reply")
    return said
