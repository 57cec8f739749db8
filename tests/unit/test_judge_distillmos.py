"""DistillMOS against the package's own inference, its windows, and weights that are not its."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judges._torch import import_torchaudio
from judges.distillmos import RATE_HZ, WINDOW_SAMPLES, DistillMos, window_starts
from live_eval.audio import read_audio, resample
from live_eval.data import sample_path
from live_eval.errors import JudgeError
from live_eval.judging import Scored
from live_eval.testing.judges import ordinary_turn, speechlike

if importlib.util.find_spec("distillmos") is None:
    pytest.skip("needs the extra `torch`", allow_module_level=True)

REPLIES = sorted(sample_path().rglob("*_response.flac"))


@pytest.fixture(scope="module")
def judge() -> DistillMos:
    return DistillMos()


@pytest.fixture(scope="module")
def package() -> Any:
    import_torchaudio()
    from distillmos import ConvTransformerSQAModel

    return ConvTransformerSQAModel().eval()


def test_a_real_reply_gets_the_packages_number(judge: DistillMos, package: Any) -> None:
    import torch

    sounds = [resample(read_audio(path).audio, RATE_HZ).samples for path in REPLIES[:3]]
    sounds.append(np.concatenate([*sounds, *sounds])[: 3 * WINDOW_SAMPLES // 2])
    with torch.inference_mode():
        theirs = [float(package(torch.from_numpy(sound)[None])) for sound in sounds]
    ours = [float(np.mean(ratings)) for ratings in judge.rate(sounds)]
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert len(judge.rate(sounds)[-1]) > 1, "one of them takes several windows"


def test_a_score_says_how_many_windows_it_rests_on(judge: DistillMos) -> None:
    turns = [replace(ordinary_turn(), reply=speechlike(seconds)) for seconds in (2.0, 20.0)]
    short, long = judge.score(turns)
    assert isinstance(short, Scored)
    assert isinstance(long, Scored)
    assert (short.detail["windows"], long.detail["windows"]) == (1, 14)


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
def test_windows_lie_evenly_and_at_most_a_second_apart(samples: int, starts: list[int]) -> None:
    assert window_starts(samples) == starts


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "distill_mos_v7.pt").write_bytes(b"other")
    found = importlib.util.spec_from_file_location("distillmos", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    with pytest.raises(JudgeError, match=r"distill_mos_v7\.pt: expected weights with SHA-256 b18b"):
        DistillMos()
    (tmp_path / "weights" / "distill_mos_v7.pt").unlink()
    with pytest.raises(JudgeError, match="found no file"):
        DistillMos()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JudgeError, match=r"pip install 'live-eval\[torch\]'"):
        DistillMos()


def test_a_device_that_is_not_there_is_said() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(JudgeError, match="finds no CUDA device"):
        DistillMos(device="cuda")
