"""UTMOS compared with the package utmos-pytorch, with random weights of the real shapes."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `torch`")

import torch

from live_eval.audio import Audio
from live_eval.errors import JudgeError
from live_eval.judges.specs.sound import UTMOS, UTMOS_WEIGHTS
from live_eval.judges.utmos import RATE_HZ, ConvStack, Layer, Utmos, load_network
from live_eval.judging import Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.testing.judges import check_judge, ordinary_turn, speechlike
from live_eval.weights import FOLDER_VARIABLE, add_weights
from tests.support.extras import needs
from tests.support.random_networks import utmos_checkpoint

pytestmark = needs("utmos_pytorch", extra="torch")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return utmos_checkpoint(tmp_path_factory.mktemp("utmos") / UTMOS_WEIGHTS.files[0].name)


@pytest.fixture(scope="module")
def judge(checkpoint: Path) -> Utmos:
    return Utmos(weights=str(checkpoint))


def noisy(seconds: float, noise: float, offset: float = 0.0) -> Audio:
    """Return a voice in noise with a constant offset, as from a microphone, which group norm removes."""
    clean = speechlike(seconds, RATE_HZ)
    hiss = np.random.default_rng(5).normal(offset, noise, len(clean.samples))
    return Audio((clean.samples + hiss).astype(np.float32), RATE_HZ)


# Odd and even numbers of frames, because the package pads to even numbers.
SOUNDS = [noisy(1.2, 0.0), noisy(0.5, 0.1), noisy(1.43, 0.02, offset=0.2), noisy(2.0, 0.3)]


def turns(sounds: Sequence[Audio]) -> list[JudgedTurn]:
    return [replace(ordinary_turn(), turn_id=str(number), reply=sound) for number, sound in enumerate(sounds)]


def mos(judgements: Sequence[Judgement]) -> list[float]:
    scored = [judgement for judgement in judgements if isinstance(judgement, Scored)]
    assert len(scored) == len(judgements), judgements
    return [judgement.values[""] for judgement in scored]


@pytest.mark.slow
def test_gives_the_numbers_of_utmos_pytorch(judge: Utmos, checkpoint: Path) -> None:
    from utmos_pytorch import UTMOSScoreTorch

    with pytest.warns(FutureWarning, match="weight_norm"):
        theirs = UTMOSScoreTorch(str(checkpoint))
    expected = [float(theirs.score(torch.tensor(sound.samples))) for sound in SOUNDS]
    assert max(expected) - min(expected) > 0.1, "the weights hear no difference"
    assert mos(judge.score(turns(SOUNDS))) == pytest.approx(expected, abs=1e-5)
    # All in one batch, so that all except the longest are padded, and convolutions in several pieces.
    assert judge.rate([sound.samples for sound in SOUNDS], most_frames=100) == pytest.approx(
        expected, abs=1e-5
    )


@pytest.mark.slow
def test_keeps_the_contract_of_judges(judge: Utmos) -> None:
    check_judge(UTMOS, judge)


@pytest.mark.slow
def test_pieces_of_convolutions_join(judge: Utmos, checkpoint: Path) -> None:
    """The frames of a recording processed in pieces equal those of the package's layers at once."""
    ssl = load_network(checkpoint).get_submodule("feature_extractors.0.ssl_model")
    extractor = ssl.get_submodule("feature_extractor")
    blocks = list(extractor.get_submodule("conv_layers").children())
    stack = ConvStack.of(blocks)
    assert (stack.hop, stack.reach, stack.frames(399), stack.frames(400)) == (320, 400, 0, 1)
    audio = torch.tensor(noisy(0.9, 0.1).samples)[None]
    # Without the first layer's norm, which covers the whole recording.
    convolution = blocks[0].get_submodule("0")
    layers: list[Layer] = [lambda piece: torch.nn.functional.gelu(convolution(piece)), *blocks[1:]]
    with torch.inference_mode():
        whole = stack.run(layers, audio, 10_000)
        pieces = stack.run(layers, audio, 7)
    assert whole.shape == (1, stack.frames(audio.shape[1]), 512)
    torch.testing.assert_close(pieces, whole, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_a_telephone_band_and_clipping_are_recorded_with_the_score(judge: Utmos) -> None:
    clear = speechlike(0.6, 8_000)
    clipped = Audio(np.clip(20 * clear.samples, -1, 1), clear.rate_hz)
    for sound, least, most in ((clear, 0.0, 0.0), (clipped, 0.05, 0.5)):
        [judgement] = judge.score(turns([sound]))
        assert isinstance(judgement, Scored)
        assert judgement.detail["rate_hz"] == 8_000
        assert least <= judgement.detail["full_scale_share"] <= most


def test_what_cannot_be_rated(judge: Utmos) -> None:
    ordinary = replace(ordinary_turn(), reply=speechlike(0.6))
    silent = Audio(np.zeros(RATE_HZ, np.float32), RATE_HZ)
    broken = Audio(np.full(RATE_HZ, np.nan, np.float32), RATE_HZ)
    kinds = [
        type(judgement)
        for judgement in judge.score(
            [
                replace(ordinary, reply=None),
                replace(ordinary, reply=silent),
                ordinary,
                replace(ordinary, reply=speechlike(0.4)),
                replace(ordinary, reply=broken),
            ]
        )
    ]
    assert kinds == [Unscored, Unscored, Scored, Unscored, Failed]


def test_weights_are_found_by_name(
    judge: Utmos, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(JudgeError, match="live-eval weights fetch utmos22-strong"):
        Utmos()
    with pytest.raises(JudgeError, match="SHA-256 21b98001"):
        add_weights(UTMOS_WEIGHTS, checkpoint)
    unpinned = replace(UTMOS_WEIGHTS, files=tuple(replace(file, sha256=None) for file in UTMOS_WEIGHTS.files))
    monkeypatch.setattr("live_eval.judges.utmos.UTMOS_WEIGHTS", unpinned)
    add_weights(unpinned, checkpoint)
    assert mos(Utmos().score(turns(SOUNDS[1:2]))) == pytest.approx(mos(judge.score(turns(SOUNDS[1:2]))))
    other = tmp_path / "other.pt"
    other.write_bytes(b"not these")
    record = tmp_path / UTMOS_WEIGHTS.name / "weights.json"
    record.write_text(record.read_text("utf-8").replace(checkpoint.as_posix(), other.as_posix()), "utf-8")
    with pytest.raises(JudgeError, match="SHA-256"):
        Utmos()


@pytest.mark.slow
def test_other_weights_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="expected a file"):
        Utmos(weights=str(tmp_path / "none.pt"))
    path = tmp_path / "weights.pt"
    for garbage in (b"garbage", b"junk", b"hello\n", b""):
        path.write_bytes(garbage)
        with pytest.raises(JudgeError, match=r"weights\.pt: torch cannot load this checkpoint"):
            Utmos(weights=str(path))
    torch.save([1, 2], path)
    with pytest.raises(JudgeError, match="found none"):
        Utmos(weights=str(path))
    state = torch.load(checkpoint, weights_only=True)
    embedding = state.pop("output_layers.0.judge_embedding.weight")
    torch.save(state, path)
    # The package would rate with a random embedding.
    with pytest.raises(
        JudgeError, match=r"found no tensor output_layers\.0\.judge_embedding\.weight .* among its"
    ):
        Utmos(weights=str(path))
    torch.save({**state, "output_layers.0.judge_embedding.weight": embedding[:7]}, path)
    with pytest.raises(JudgeError, match=r"got \[7, 128\] for output_layers\.0\.judge_embedding.weight"):
        Utmos(weights=str(path))


class Executed:
    """An object that executes code if it is unpickled carelessly."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    path, mark = tmp_path / "weights.pt", tmp_path / "mark"
    path.write_bytes(pickle.dumps({"weight": Executed(mark)}))
    with pytest.raises(JudgeError, match="expected only tensors"):
        Utmos(weights=str(path))
    torch.save({"weight": Executed(mark)}, path)
    with pytest.raises(JudgeError, match="expected only tensors"):
        Utmos(weights=str(path))
    assert not mark.exists()


def test_a_missing_device_is_reported(checkpoint: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(JudgeError, match="--device cuda"):
        Utmos(weights=str(checkpoint), device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_same_numbers(judge: Utmos, checkpoint: Path) -> None:
    there = Utmos(weights=str(checkpoint), device="cuda")
    assert mos(there.score(turns(SOUNDS))) == pytest.approx(mos(judge.score(turns(SOUNDS))), abs=1e-4)
