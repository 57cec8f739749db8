"""Compute BERTScore: the similarity in meaning between the reply and the reference reply.

Source: Zhang, Kishore, Wu, Weinberger and Artzi, "BERTScore: Evaluating Text Generation with BERT" (ICLR
2020), computed by the authors' package ``bert_score`` (MIT). Each token's state in one layer of a language
model is compared with the states of the other text: the best cosine per token, F1 of both directions, times
100, higher is better. EchoMind uses bert-base-uncased, rescaled so that unrelated English sentences score
near 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges.networks._torch import (
    import_torchaudio,
    torch_device,
    without_remarks,
)
from live_eval.judges.specs.text import BERT_WEIGHTS
from live_eval.judges.text._reply import incomparable, reply_and_reference
from live_eval.judging import JudgedTurn, Judgement, Scored, judged_together
from live_eval.weights import find_weights, package_folder, weights_at

__all__ = ["BertScore", "baseline_file"]

# The best layer of the benchmark's model according to the authors of bert_score.
_LAYERS = {BERT_WEIGHTS.name: 9}
_AT_ONCE = 64


class BertScore:
    """BERTScore F1, times 100, higher is better; the default model's scores are rescaled and may be negative.

    Other models have no baseline, so their scores are not rescaled: ``rescaled`` in the detail is false, and
    the score version differs. Such scores are not comparable with published scores.

    Args:
        model: Name of published weights, or the folder of a transformers model.
        layer: Layer whose states are compared; empty for the default (the last layer for a folder).
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: A package, the weights, the layer or the device is missing.
    """

    def __init__(self, *, model: str = BERT_WEIGHTS.name, layer: str = "", device: str = "cpu") -> None:
        named = model == BERT_WEIGHTS.name
        found = find_weights(BERT_WEIGHTS) if named else weights_at(Path(model))
        where = torch_device(device)
        import_torchaudio()  # must precede transformers, which imports torchaudio itself
        # Use an absolute path, because bert_score downloads any name that begins with "scibert".
        folder = str(found.path.absolute())
        config = _config(folder)
        self._layer = _layer(layer, int(config.num_hidden_layers), _LAYERS.get(model))
        self._rescaled = named
        self._sha256 = found.sha256
        with without_remarks():
            from bert_score import BERTScorer

            try:
                self._scorer: Any = BERTScorer(
                    model_type=folder,
                    num_layers=self._layer,
                    batch_size=_AT_ONCE,
                    device=str(where),
                    lang="en",
                    rescale_with_baseline=named,
                    baseline_path=str(baseline_file(model)) if named else None,
                    use_fast_tokenizer=True,
                )
            except Exception as error:
                raise JudgeError(
                    f"{found.path}: transformers cannot load this model: {type(error).__name__}: {error}"
                ) from error
        # Convert bfloat16 weights, with which a score would depend on the rest of the batch.
        self._scorer._model.float()
        tokenizer, positions = self._scorer._tokenizer, _positions(config)
        tokenizer.model_max_length = min(tokenizer.model_max_length, positions or tokenizer.model_max_length)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply, in batches of similar length."""
        return judged_together(batch, incomparable, self._judge)

    def _judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        if not turns:
            return []
        pairs = [reply_and_reference(turn) for turn in turns]
        replies, references = [list(texts) for texts in zip(*pairs, strict=True)]
        with without_remarks():
            _, _, f1 = self._scorer.score(replies, references, batch_size=_AT_ONCE)
        detail = {"layer": self._layer, "rescaled": self._rescaled, "sha256": self._sha256}
        return [
            Scored({"": min(100.0 * value, 100.0)}, {**detail, "cut_off": any(map(self._is_cut, pair))})
            for pair, value in zip(pairs, f1.tolist(), strict=True)
        ]

    def _is_cut(self, text: str) -> bool:
        """Return whether a text exceeds the model's maximum length."""
        tokenizer = self._scorer._tokenizer
        if len(text) < tokenizer.model_max_length:  # every token has at least one character
            return False
        return bool(len(tokenizer(text, verbose=False)["input_ids"]) > tokenizer.model_max_length)


def baseline_file(model: str) -> Path:
    """Return the package's English baseline file for a model, or raise `JudgeError`."""
    folder = package_folder("bert_score")
    if folder is None:
        raise JudgeError(f"the package bert_score is missing: {install_command('torch')}")
    path = folder / "rescale_baseline" / "en" / f"{model}.tsv"
    if not path.is_file():
        raise JudgeError(f"{path}: no baseline file for {model}")
    return path


def _positions(config: Any) -> int | None:
    """Return the maximum number of tokens for a model, or None for no limit."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None:
        return None
    # In RoBERTa and related models, the padding index offsets the position numbers.
    kin = "roberta" in config.model_type or config.model_type == "camembert"
    return int(positions) - (config.pad_token_id + 1 if kin else 0)


def _config(folder: str) -> Any:
    from transformers import AutoConfig

    try:
        with without_remarks():
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
        layers = int(config.num_hidden_layers)
    except (OSError, ValueError, AttributeError) as error:
        raise JudgeError(f"{folder}: cannot read a language model from this folder: {error}") from error
    if layers < 1:
        raise JudgeError(f"{folder}: expected a language model with layers, got {layers}")
    if "t5" in folder and "t5" not in config.model_type:
        # bert_score detects T5 models by path and would initialise this model at random.
        raise JudgeError(
            f'{folder}: rename the folder, since bert_score treats any path with "t5" in it as a T5 model'
        )
    return config


def _layer(chosen: str, layers: int, usual: int | None) -> int:
    if not chosen:
        return usual or layers
    if not (chosen.isdecimal() and 1 <= int(chosen) <= layers):
        raise JudgeError(f"bertscore.layer = {chosen}: expected a layer from 1 to {layers}")
    return int(chosen)
