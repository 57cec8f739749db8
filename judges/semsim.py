"""Similarity of meaning of the reply's text and the reference reply: the cosine of sentence embeddings.

Source: Reimers and Gurevych, "Sentence-BERT" (EMNLP 2019), through sentence-transformers (Apache-2.0). The
benchmark takes the dot product of embeddings of unit length, as here, times 100; summaries name
Qwen3-Embedding-0.6B as its model. The default is all-MiniLM-L6-v2, whose weights a package carries.

The SemSim that the benchmark publishes is of its transcription task: what the model says back is held against
the script, and comes out near 100. The similarity of replies is another number, and lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from judges._embedding import Embedder
from judges._reply import incomparable
from judges.specs.text import PACKAGED_EMBEDDING
from live_eval.judging import JudgedTurn, Judgement, Scored

__all__ = ["SemSim"]


class SemSim:
    """Cosine of the embeddings of reply and reference reply, times 100, higher is better.

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
        """Compare each reply's text with the reference reply."""
        judgements: list[Judgement | None] = [incomparable(turn) for turn in batch]
        places = [place for place, judgement in enumerate(judgements) if judgement is None]
        pairs = [_texts(batch[place]) for place in places]
        for place, pair, cosine in zip(places, pairs, self._embedder.cosines(pairs), strict=True):
            cut_off = any(self._embedder.cuts(text) for text in pair)
            judgements[place] = Scored({"": 100.0 * cosine}, {**self._detail, "cut_off": cut_off})
        return [judgement for judgement in judgements if judgement is not None]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return where each text lies, by unit vectors: cue sensitivity asks for it."""
        return self._embedder.embed(texts)


def _texts(turn: JudgedTurn) -> tuple[str, str]:
    return (turn.reply_text or "").strip(), (turn.case.reference_text or "").strip()
