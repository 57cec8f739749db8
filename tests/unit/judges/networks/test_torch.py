"""Shared torch helpers: bounded batches, padding, devices, exact float32, torchaudio's import."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra `torch`")

import torch

from live_eval.errors import JudgeError
from live_eval.judges.networks._torch import (
    batches_by_length,
    exact_inference,
    import_torchaudio,
    padded,
    torch_device,
)


@given(st.lists(st.integers(0, 1_000), max_size=40), st.integers(1, 3_000))
def test_batches_hold_each_recording_once_and_stay_in_their_bound(lengths: list[int], most: int) -> None:
    batches = batches_by_length(lengths, most)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest <= most
    in_order = [lengths[place] for batch in batches for place in batch]
    assert in_order == sorted(lengths)


def test_padding_is_zeros_behind_each_recording() -> None:
    recordings = [np.full(length, 0.5, np.float32) for length in (3, 1, 0)]
    samples, lengths = padded(recordings, torch.device("cpu"))
    assert samples.tolist() == [[0.5, 0.5, 0.5], [0.5, 0, 0], [0, 0, 0]]
    assert samples.dtype == torch.float32
    assert lengths.tolist() == [3, 1, 0]
    assert padded([], torch.device("cpu"))[0].shape == (0, 0)


def test_an_unknown_device_is_refused() -> None:
    assert torch_device("cpu").type == "cpu"
    with pytest.raises(JudgeError, match="--device abacus: expected cpu or cuda"):
        torch_device("abacus")


def test_a_missing_cuda_device_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(JudgeError, match=r"--device cuda: torch .* finds no CUDA device"):
        torch_device("cuda")


def test_exact_float32_lasts_only_while_scoring() -> None:
    before = torch.backends.cudnn.allow_tf32
    with exact_inference():
        assert not torch.backends.cudnn.allow_tf32
        assert torch.is_inference_mode_enabled()
    assert torch.backends.cudnn.allow_tf32 == before
    assert not torch.is_inference_mode_enabled()


@pytest.mark.slow
def test_torchaudio_can_be_imported_where_its_wheel_looks_for_cuda() -> None:
    if importlib.util.find_spec("torchaudio") is None:
        pytest.skip("needs the extra `torch`")
    # In a separate process, which has not imported it before.
    program = (
        "import torch\n"
        "from live_eval.judges.networks._torch import import_torchaudio\n"
        "torchaudio = import_torchaudio()\n"
        "print(len(torchaudio.functional.resample(torch.zeros(24_000), 24_000, 16_000)))\n"
        "print(import_torchaudio() is torchaudio)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.stdout.split() == ["16000", "True"], ran.stderr


def test_a_missing_or_broken_torchaudio_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda _: None)
        with pytest.raises(JudgeError, match=r"pip install .*\[torch\]"):
            import_torchaudio()
    (tmp_path / "torchaudio.py").write_text("raise OSError('libcudart.so.13: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    with pytest.raises(JudgeError, match="or for the CPU: libcudart"):
        import_torchaudio()
