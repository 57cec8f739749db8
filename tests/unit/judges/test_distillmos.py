"""DistillMOS against the package's own inference, its windows, and wrong weights."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("distillmos") is None:  # which cannot be imported without a working torchaudio
    pytest.skip("needs the extra `torch`", allow_module_level=True)

import torch

from live_eval.audio import Audio, read_audio, resample
from live_eval.data import sample_path
from live_eval.errors import JudgeError
from live_eval.judges.distillmos import RATE_HZ, WINDOW_SAMPLES, DistillMos, window_starts
from live_eval.judges.networks._torch import import_torchaudio
from live_eval.judging import Scored
from live_eval.testing.judges import ordinary_turn

REPLIES = sorted(sample_path().rglob("*_response.flac"))


@pytest.fixture(scope="module")
def judge() -> DistillMos:
    return DistillMos()


@pytest.fixture(scope="module")
def package() -> Any:
    import_torchaudio()
    from distillmos import ConvTransformerSQAModel

    return ConvTransformerSQAModel().eval()


@pytest.mark.slow
def test_a_real_reply_gets_the_packages_number(judge: DistillMos, package: Any) -> None:
    torchaudio = import_torchaudio()
    sound = read_audio(REPLIES[0]).audio
    long = Audio(np.tile(sound.samples, 3)[: 9 * sound.rate_hz], sound.rate_hz)
    sounds = [sound, resample(long, RATE_HZ), resample(sound, 44_100)]
    theirs = []
    with torch.inference_mode():
        for sound in sounds:
            # As in its README.
            resampler = torchaudio.transforms.Resample(sound.rate_hz, RATE_HZ)
            theirs.append(float(package(resampler(torch.from_numpy(sound.samples))[None])))
    judgements = judge.score([replace(ordinary_turn(), reply=sound) for sound in sounds])
    scored = [judgement for judgement in judgements if isinstance(judgement, Scored)]
    assert [judgement.values[""] for judgement in scored] == pytest.approx(theirs, abs=1e-5)
    assert scored[1].detail["windows"] == 3
    assert [judgement.detail["rate_hz"] for judgement in scored] == [sound.rate_hz for sound in sounds]
    assert scored[0].detail["full_scale_share"] == 0


@pytest.mark.slow
def test_a_reply_at_an_odd_rate_is_rated(judge: DistillMos) -> None:
    sound = read_audio(REPLIES[0]).audio
    odd, ordinary = judge.score(
        [replace(ordinary_turn(), reply=resample(sound, rate)) for rate in (24_001, 24_000)]
    )
    assert isinstance(odd, Scored)
    assert isinstance(ordinary, Scored)
    # With another resampler, which affects the ratings.
    assert odd.values[""] == pytest.approx(ordinary.values[""], abs=0.3)


@pytest.mark.parametrize(
    ("samples", "starts"),
    [
        (1, [0]),
        (WINDOW_SAMPLES, [0]),
        (WINDOW_SAMPLES + 1, [0, 1]),
        (WINDOW_SAMPLES + 16_000, [0, 16_000]),
        (WINDOW_SAMPLES + 16_001, [0, 8_000, 16_001]),
    ],
)
def test_windows_are_evenly_spaced_and_at_most_a_second_apart(samples: int, starts: list[int]) -> None:
    assert window_starts(samples) == starts


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "distill_mos_v7.pt").write_bytes(b"other")
    found = importlib.util.spec_from_file_location("distillmos", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    with pytest.raises(JudgeError, match=r"distill_mos_v7\.pt: expected weights with SHA-256 b18b"):
        DistillMos()
    (tmp_path / "weights" / "distill_mos_v7.pt").unlink()
    with pytest.raises(JudgeError, match="cannot read the weights"):
        DistillMos()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JudgeError, match=r"pip install .*\[torch\]"):
        DistillMos()


def test_a_missing_device_is_reported() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(JudgeError, match="finds no CUDA device"):
        DistillMos(device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_same_numbers(judge: DistillMos) -> None:
    turns = [replace(ordinary_turn(), reply=read_audio(path).audio) for path in REPLIES[:3]]
    for here, there in zip(judge.score(turns), DistillMos(device="cuda").score(turns), strict=True):
        assert isinstance(here, Scored)
        assert isinstance(there, Scored)
        assert there.values[""] == pytest.approx(here.values[""], abs=1e-3)
