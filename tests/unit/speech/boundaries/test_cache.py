"""The cache of speech boundaries."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from live_eval.speech.boundaries import BoundaryCache, case_boundaries, find_boundaries
from tests.unit.speech.boundaries.takes import case, placed

RATE = 24_000


def test_boundaries_are_cached(
    speech: NDArray[np.float32], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = placed(speech, 300, 500)
    path = tmp_path / "a.wav"
    soundfile.write(path, audio.samples, RATE, subtype="FLOAT")
    cache = BoundaryCache(tmp_path / "cache")
    first = case_boundaries(case(path), audio, cache=cache)
    monkeypatch.setattr(
        "live_eval.speech.boundaries.find_boundaries", lambda *_, **__: pytest.fail("found again")
    )
    assert case_boundaries(case(path), audio, cache=cache) == first
    soundfile.write(path, audio.samples[::-1], RATE, subtype="FLOAT")
    with pytest.raises(pytest.fail.Exception, match="found again"):
        case_boundaries(case(path), audio, cache=cache)


def test_an_unreadable_or_read_only_cache_is_ignored(speech: NDArray[np.float32], tmp_path: Path) -> None:
    audio = placed(speech, 300, 500)
    path = tmp_path / "a.wav"
    soundfile.write(path, audio.samples, RATE, subtype="FLOAT")
    expected = find_boundaries(audio)
    (tmp_path / "file").write_text("in the way")
    assert case_boundaries(case(path), audio, cache=BoundaryCache(tmp_path / "file")) == expected
    folder = tmp_path / "cache"
    assert case_boundaries(case(path), audio, cache=BoundaryCache(folder)) == expected
    for entry in folder.iterdir():
        entry.write_text("{")
    assert case_boundaries(case(path), audio, cache=BoundaryCache(folder)) == expected
