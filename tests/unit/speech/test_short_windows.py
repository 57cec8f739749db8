"""Short recognition windows: minimal silence, and a full window if no words are found."""

from typing import Any

import numpy as np
import pytest

from live_eval.audio import Audio, read_audio
from live_eval.data import DataOptions, load, sample_path
from live_eval.speech.recognition import Recogniser

pytestmark = pytest.mark.local


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of the encoded windows, in frames of 10 ms."""
    faster_whisper = pytest.importorskip("faster_whisper", reason="needs the extra `local`")
    frames: list[int] = []
    encode = faster_whisper.WhisperModel.encode

    def noted(model: Any, features: Any) -> Any:
        frames.append(features.shape[-1])
        return encode(model, features)

    monkeypatch.setattr(faster_whisper.WhisperModel, "encode", noted)
    return frames


def test_short_speech_is_encoded_with_little_silence(encoded: list[int]) -> None:
    case = load(sample_path(), DataOptions()).cases[0]
    heard = Recogniser(short_windows=True).transcribe(read_audio(case.audio_path).audio, words=False)
    assert heard.text == case.text
    assert encoded == [800]


@pytest.mark.slow
def test_thirty_seconds_are_encoded_if_no_words_are_found(encoded: list[int]) -> None:
    hiss = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.001
    assert Recogniser(short_windows=True).transcribe(Audio(hiss, 16_000), words=False).text == ""
    assert encoded == [800, 3_000]
