"""EmoAlign: its classifier compared with funasr on random weights, its arithmetic with known voices."""

import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch", reason="needs the extra `emotion`")

import torch

import live_eval.judges.emoalign
from live_eval.audio import Audio
from live_eval.data.taxonomy import ATTRIBUTES, NEUTRAL, cue_of
from live_eval.errors import JudgeError
from live_eval.judges._emotions import EMOTIONS, FITTING
from live_eval.judges.emoalign import LOW_CONFIDENCE, EmoAlign
from live_eval.judges.networks._emotion2vec import RATE_HZ, Emotion2vec, label_of
from live_eval.judges.specs.sound import EMOALIGN, EMOTION2VEC_WEIGHTS
from live_eval.judging import Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn, speechlike
from live_eval.weights import FOLDER_VARIABLE, add_weights
from tests.support.extras import needs
from tests.support.random_networks import EMOTION_TOKENS, emotion2vec_folder

# Importing funasr and transformers takes seconds.
pytestmark = [needs("funasr", extra="emotion"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]
SMALL: dict[str, Any] = {"width": 64, "depth": 2, "prenet_depth": 2, "heads": 4, "channels": 32}
LABELS = ("angry", "disgusted", "fearful", "happy", "neutral", "other", "sad", "surprised", "unk")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emotion2vec_folder(tmp_path_factory.mktemp("emotion2vec"), likely=("sad",), spread=1.0, **SMALL)


def noisy(seconds: float, noise: float) -> NDArray[np.float32]:
    samples = speechlike(seconds, RATE_HZ).samples
    return (samples + np.random.default_rng(5).normal(0, noise, len(samples))).astype(np.float32)


SOUNDS = [noisy(1.2, 0.0), noisy(0.5, 0.1), noisy(2.03, 0.3)]


def rows(model: Emotion2vec, sounds: Sequence[NDArray[np.float32]]) -> list[list[float]]:
    return [list(model.probabilities(sound).values()) for sound in sounds]


def funasr_scores(folder: Path) -> list[list[float]]:
    from funasr import AutoModel

    threads = torch.get_num_threads()  # which it would change globally
    model = AutoModel(model=str(folder), disable_update=True, device="cpu", disable_pbar=True, ncpu=threads)
    return [
        model.generate(sound, granularity="utterance", extract_embedding=False)[0]["scores"]
        for sound in SOUNDS
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"layer_norm_first": True, "scale_per_layer": True, "conv_pos_pre_ln": True, "prenet_depth": 1},
        {"tokens": ("生气/angry", "unuse_0", "难过/sad", "<unk>"), "prefix": ""},
        pytest.param(
            {"width": 1024, "depth": 16, "prenet_depth": 8, "heads": 16, "channels": 512},
            marks=pytest.mark.timeout(600),
        ),
    ],
    ids=["as published but small", "other settings", "other classes", "as published"],
)
def test_gives_the_numbers_of_funasr(shape: dict[str, Any], tmp_path: Path) -> None:
    folder = emotion2vec_folder(tmp_path, **{**SMALL, **shape})
    ours = Emotion2vec(folder, CPU)
    expected = funasr_scores(folder)
    np.testing.assert_allclose(rows(ours, SOUNDS), expected, atol=1e-5)


@pytest.mark.slow
def test_a_long_recording_is_classified_in_windows(tmp_path: Path) -> None:
    folder = emotion2vec_folder(tmp_path, **SMALL)
    sound = SOUNDS[2]
    halves = rows(Emotion2vec(folder, CPU), np.array_split(sound, 2))
    [windowed] = rows(Emotion2vec(folder, CPU, window_s=1.5), [sound])
    np.testing.assert_allclose(windowed, np.mean(halves, axis=0), atol=1e-6)


@pytest.mark.slow
def test_reads_the_classes_of_the_model(folder: Path, tmp_path: Path) -> None:
    assert tuple(label_of(token) for token in EMOTION_TOKENS) == LABELS
    assert Emotion2vec(folder, CPU).labels == LABELS
    few = emotion2vec_folder(tmp_path, tokens=("生气/angry", "<unk>"), **SMALL)
    with pytest.raises(JudgeError, match="disgusted, fearful, happy, neutral, sad, surprised"):
        EmoAlign(weights=str(few))


def test_kaldiio_is_never_loaded(folder: Path) -> None:
    Emotion2vec(folder, CPU)
    assert "kaldiio" not in sys.modules  # its licence allows evaluation only


def test_funasr_does_not_change_logging(folder: Path) -> None:
    before = logging.getLogger().level, list(logging.getLogger().handlers)
    Emotion2vec(folder, CPU)
    assert (logging.getLogger().level, logging.getLogger().handlers) == before


def test_keeps_the_contract_of_judges(folder: Path) -> None:
    check_judge(EMOALIGN, EmoAlign(reference="audio", weights=str(folder)), tolerance=1e-3)


def test_keeps_the_contract_with_the_cue_as_reference(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classify each recording once: the network is the same with both references, and slow."""
    known: dict[bytes, dict[str, float]] = {}
    classify = Emotion2vec.probabilities

    def once(self: Emotion2vec, sound: NDArray[np.float32]) -> dict[str, float]:
        key = sound.tobytes()
        if key not in known:
            known[key] = classify(self, sound)
        return known[key]

    monkeypatch.setattr(Emotion2vec, "probabilities", once)
    check_judge(EMOALIGN, EmoAlign(reference="cue", weights=str(folder)), tolerance=1e-3)
    assert len(known) >= 4


def test_weights_are_found_by_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(JudgeError, match="live-eval weights fetch emotion2vec_plus_large"):
        EmoAlign()
    unpinned = replace(
        EMOTION2VEC_WEIGHTS, files=tuple(replace(file, sha256=None) for file in EMOTION2VEC_WEIGHTS.files)
    )
    with pytest.raises(JudgeError, match="SHA-256 be501a01"):
        add_weights(EMOTION2VEC_WEIGHTS, folder)
    monkeypatch.setattr(live_eval.judges.emoalign, "EMOTION2VEC_WEIGHTS", unpinned)
    add_weights(unpinned, folder)
    [judgement] = EmoAlign().score([ordinary_turn()])
    assert isinstance(judgement, Scored)
    other = tmp_path / "tokens.txt"
    other.write_text("<unk>", "utf-8")
    record = tmp_path / EMOTION2VEC_WEIGHTS.name / "weights.json"
    tokens = (folder / "tokens.txt").as_posix()
    record.write_text(record.read_text("utf-8").replace(tokens, other.as_posix()), "utf-8")
    with pytest.raises(JudgeError, match="SHA-256"):
        EmoAlign()


def test_other_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="expected a folder"):
        EmoAlign(weights=str(folder / "model.pt"))
    broken = tmp_path / "broken"
    emotion2vec_folder(broken, **SMALL)
    tensors = torch.load(broken / "model.pt", weights_only=True)["model"]
    tensors.pop("d2v_model.blocks.1.attn.qkv.weight")
    torch.save({"model": tensors}, broken / "model.pt")
    # funasr would classify with random attention weights.
    with pytest.raises(JudgeError, match=r"found no tensor blocks.1.attn.qkv.weight \[192, 64\]"):
        EmoAlign(weights=str(broken))
    settings = (broken / "config.yaml").read_text("utf-8")
    for wrong, message in [
        (
            settings.replace("extractor_mode: layer_norm", "extractor_mode: default"),
            "got Emotion2vec, default",
        ),
        (settings.replace("model: Emotion2vec", "model: Paraformer"), "got Paraformer"),
        ("model: [", "cannot read the emotion2vec settings"),
        ("just words", "cannot read the emotion2vec settings"),
        (settings.replace("embed_dim: 64", "embed_dim: wide"), "cannot read the emotion2vec settings"),
    ]:
        (broken / "config.yaml").write_text(wrong, "utf-8")
        with pytest.raises(JudgeError, match=message):
            EmoAlign(weights=str(broken))


class Voices:
    """A classifier that identifies each voice by its length, and counts its calls."""

    labels = LABELS

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.heard: list[float] = []

    def probabilities(self, sound: NDArray[np.float32]) -> dict[str, float]:
        seconds = len(sound) / RATE_HZ
        self.heard.append(seconds)
        return {label: VOICES[seconds].get(label, 0.0) for label in LABELS}


VOICES: dict[float, dict[str, float]] = {
    1.0: {"sad": 0.7, "neutral": 0.2, "unk": 0.1},
    2.0: {"sad": 0.2, "neutral": 0.6, "other": 0.2},
    3.0: {"happy": 1.0},
    4.0: {"other": 0.6, "sad": 0.4},
    5.0: {"unk": 1.0},
    6.0: {"sad": 0.4, "neutral": 0.3, "happy": 0.3},
}


@pytest.fixture
def align(monkeypatch: pytest.MonkeyPatch, folder: Path) -> EmoAlign:
    monkeypatch.setattr(live_eval.judges.emoalign, "Emotion2vec", Voices)
    return EmoAlign(weights=str(folder))


@pytest.fixture
def by_cue(monkeypatch: pytest.MonkeyPatch, folder: Path) -> EmoAlign:
    monkeypatch.setattr(live_eval.judges.emoalign, "Emotion2vec", Voices)
    return EmoAlign(weights=str(folder), reference="cue")


def turn(reply_s: float, reference_s: float | None = None, cue: str | None = None) -> JudgedTurn:
    ordinary = ordinary_turn()
    return replace(
        ordinary,
        case=replace(ordinary.case, cue=cue_of(cue) if cue is not None else None),
        reply=speechlike(reply_s, RATE_HZ),
        reference=speechlike(reference_s, RATE_HZ) if reference_s is not None else None,
    )


def scored(judgement: Judgement) -> Scored:
    assert isinstance(judgement, Scored), judgement
    return judgement


def test_a_reply_of_the_references_emotion(align: EmoAlign) -> None:
    [judgement] = align.score([turn(1.0, 1.0)])
    assert scored(judgement).values == pytest.approx({"top1": 100.0, "mass": 70.0, "cosine": 1.0})
    reply = scored(judgement).detail["reply"]
    assert (reply["emotion"], reply["confidence"], len(reply["probabilities"])) == ("sad", 0.7, 9)


def test_a_reply_of_another_emotion(align: EmoAlign) -> None:
    # Only emotions count in the cosine: (.2, .6) and (.7, .2) of (sad, neutral).
    cosine = (0.2 * 0.7 + 0.6 * 0.2) / (np.hypot(0.2, 0.6) * np.hypot(0.7, 0.2))
    [judgement] = align.score([turn(2.0, 1.0)])
    assert scored(judgement).values == pytest.approx({"top1": 0.0, "mass": 20.0, "cosine": cosine})
    assert scored(judgement).detail["reference"]["emotion"] == "sad"


def test_a_non_emotion_matches_no_emotion(align: EmoAlign) -> None:
    of_other, of_unknown, to_other = align.score([turn(4.0, 1.0), turn(5.0, 1.0), turn(1.0, 4.0)])
    assert scored(of_other).values == pytest.approx(
        {"top1": 0.0, "mass": 40.0, "cosine": 0.7 / np.hypot(0.7, 0.2)}
    )
    # A zero vector has no direction.
    assert scored(of_unknown).values == {"top1": 0.0, "mass": 0.0}
    assert to_other == Unscored("the reference reply's voice has no emotion that the classifier can name")


def test_low_confidence_is_recorded(align: EmoAlign) -> None:
    sure, doubtful_reply, doubtful_reference = align.score([turn(1.0, 2.0), turn(6.0, 1.0), turn(1.0, 6.0)])
    assert LOW_CONFIDENCE == 0.5
    flags = [
        scored(judgement).detail["low_confidence"] for judgement in (sure, doubtful_reply, doubtful_reference)
    ]
    assert flags == [False, True, True]


def test_a_reference_reply_is_heard_once(align: EmoAlign) -> None:
    several = [turn(1.0, 2.0), turn(3.0, 2.0), turn(1.0, 3.0)]
    first = align.score(several)
    model = align._model
    assert isinstance(model, Voices)
    assert sorted(model.heard) == [1.0, 1.0, 2.0, 3.0, 3.0]
    model.heard.clear()
    assert align.score(several) == first
    assert sorted(model.heard) == [1.0, 1.0, 3.0]


def test_references_that_cannot_be_heard(align: EmoAlign) -> None:
    fine = turn(1.0, 1.0)
    silent = Audio(np.zeros(RATE_HZ, np.float32), RATE_HZ)
    broken = Audio(np.full(RATE_HZ, np.inf, np.float32), RATE_HZ)
    judgements = align.score(
        [
            turn(1.0),
            replace(fine, reference=speechlike(0.4)),
            replace(fine, reference=silent),
            replace(fine, reference=broken),
            replace(fine, reply=silent),
        ]
    )
    assert judgements[:4] == [
        Unscored("no reference audio"),
        Unscored("the reference reply is shorter than 0.5 s"),
        Unscored("the reference reply is silent: nothing above -50 dBFS"),
        Failed("the reference reply has samples that are not finite"),
    ]
    assert isinstance(judgements[4], Unscored)


def test_against_the_table_by_cue(by_cue: EmoAlign) -> None:
    sad, happy = by_cue.score([turn(2.0, cue="sad"), turn(2.0, cue="happy")])
    # A neutral voice fits sadness; joy should be shared. There is no reference voice to match.
    assert scored(sad).values == pytest.approx({"top1": 100.0, "mass": 80.0})
    assert scored(happy).values == pytest.approx({"top1": 0.0, "mass": 0.0})
    assert scored(sad).detail["reference"] == {
        "source": "cue",
        "cue": "sad",
        "emotions": ["neutral", "sad"],
    }


def test_against_the_users_voice(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(live_eval.judges.emoalign, "Emotion2vec", Voices)
    mirror = EmoAlign(weights=str(folder), reference="speaker")

    def answered(reply_s: float, user_s: float) -> JudgedTurn:
        return replace(turn(reply_s), speaker=speechlike(user_s, RATE_HZ))

    same, other, unnamed = mirror.score([answered(1.0, 1.0), answered(3.0, 1.0), answered(1.0, 4.0)])
    assert scored(same).values["top1"] == 100.0
    assert scored(other).values["top1"] == 0.0
    detail = scored(other).detail
    assert [detail[key]["emotion"] for key in EMOALIGN.classes] == ["sad", "happy"]
    assert detail["reference"]["source"] == "speaker"
    assert unnamed == Unscored("the user's voice has no emotion that the classifier can name")
    assert mirror.score([replace(turn(1.0), speaker=None)]) == [Unscored("no speaker audio")]


def test_cues_that_name_no_emotion(by_cue: EmoAlign) -> None:
    assert by_cue.score([turn(1.0), turn(1.0, cue="a waterfall"), turn(1.0, cue="shout")]) == [
        Unscored("no cue"),
        Unscored("the cue is not in the table of fitting emotions"),
        Unscored("the cue alone does not determine the fitting emotion"),
    ]


def test_the_table_has_every_cue_and_never_hostility_or_fear() -> None:
    assert set(FITTING) == {*ATTRIBUTES, NEUTRAL.attribute}
    for name, fitting in FITTING.items():
        assert fitting.emotions <= set(EMOTIONS) - {"angry", "fearful"}, name
        assert fitting.why, name


def test_the_table_is_documented() -> None:
    text = (ROOT / "docs/reference/emotion.md").read_text("utf-8")
    found = re.findall(r"^\| ([a-z, ]+) \| (.+) \|$", text, re.MULTILINE)
    rows = {name: row for names, row in found for name in names.split(", ")}
    expected = {name: ", ".join(sorted(fitting.emotions)) or "(none)" for name, fitting in FITTING.items()}
    assert {name: row for name, row in rows.items() if name in expected} == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_same_numbers(folder: Path) -> None:
    here, there = Emotion2vec(folder, CPU), Emotion2vec(folder, torch.device("cuda"))
    np.testing.assert_allclose(rows(there, SOUNDS), rows(here, SOUNDS), atol=1e-5)
