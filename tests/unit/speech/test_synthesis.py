import numpy as np
import pytest

from live_eval.errors import UsageError
from live_eval.speech.synthesis import Voice, available


@pytest.fixture(scope="module")
def voice() -> Voice:
    pytest.importorskip("hibari", reason="needs the extra `local`")
    return Voice()


@pytest.mark.slow
@pytest.mark.local
def test_a_text_always_gives_the_same_samples(voice: Voice) -> None:
    first, second = voice.speak("Good morning."), voice.speak("Good morning.")
    assert first.rate_hz == 24_000
    assert first.samples.dtype == np.float32
    assert 0.5 < first.duration_ns / 1e9 < 3
    assert np.abs(first.samples).max() < 1
    np.testing.assert_array_equal(first.samples, second.samples)


@pytest.mark.local
def test_speed_changes_the_length(voice: Voice) -> None:
    usual, fast = voice.speak("Good morning to you all."), voice.speak("Good morning to you all.", speed=1.5)
    assert fast.duration_ns == pytest.approx(usual.duration_ns / 1.5, rel=0.15)
    with pytest.raises(UsageError, match=r"0\.5 to 2"):
        voice.speak("Good morning.", speed=3)


@pytest.mark.local
def test_a_text_without_words_gives_no_samples(voice: Voice) -> None:
    assert len(voice.speak("").samples) == 0


@pytest.mark.local
def test_a_missing_voice_is_reported_and_not_downloaded(
    voice: Voice, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path_factory.mktemp("empty")))
    assert "unknown voice" in (available("nobody") or "")
    with pytest.raises(UsageError, match=r"emma.*missing"):
        Voice("emma")
