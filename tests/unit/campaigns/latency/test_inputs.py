from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, read_audio, write_flac
from live_eval.campaigns.latency.inputs import write_inputs, write_sentinel
from live_eval.data import load
from live_eval.errors import UsageError
from live_eval.speech.boundaries import annotated_boundaries
from live_eval.timing import audible_end, audible_onset
from live_eval.types import Case, SpeechBoundaries, Variant

RATE = 16_000


def case(folder: Path, number: int) -> Case:
    """A second of a tone between 0.2 s of silence, annotated."""
    tone = 0.3 * np.sin(2 * np.pi * (300 + 100 * number) * np.arange(RATE) / RATE)
    silence = np.zeros(RATE // 5)
    path = folder / f"{number}.flac"
    audio = Audio(np.concatenate((silence, tone, silence)).astype(np.float32), RATE)
    write_flac(path, audio.int16(), RATE)
    return Case(
        case_id=f"case-{number}",
        script_id=f"case-{number}",
        variant=Variant.NEUTRAL,
        audio_path=path,
        boundaries=SpeechBoundaries(onset_ns=200_000_000, voice_end_ns=1_200_000_000, method="annotation"),
    )


@pytest.mark.parametrize("length_s", [0.4, 1.0, 3.7])
def test_inputs_contain_the_requested_speech_and_its_end(tmp_path: Path, length_s: float) -> None:
    data = load(write_inputs([case(tmp_path, number) for number in range(3)], length_s, tmp_path / "inputs"))
    assert len(data.cases) == 3
    for each in data.cases:
        audio = read_audio(each.audio_path).audio
        assert audio.duration_ns / 1e9 == pytest.approx(length_s, abs=1e-4)
        assert each.boundaries is not None
        found = annotated_boundaries(each.boundaries, audio.duration_ns)
        assert (found.onset_ns, found.uncertain) == (0, False)
        assert found.voice_end_ns / 1e9 == pytest.approx(length_s, abs=0.006)
    first, second = (read_audio(each.audio_path).audio.samples for each in data.cases[:2])
    assert not np.array_equal(first, second)


def test_unreadable_recordings_are_excluded(tmp_path: Path) -> None:
    absent = case(tmp_path, 0)
    absent.audio_path.unlink()
    data = load(write_inputs([absent, case(tmp_path, 1)], 0.5, tmp_path / "inputs"))
    assert len(data.cases) == 1
    with pytest.raises(UsageError, match=r"no recording can be read: .*no such file"):
        write_inputs([absent], 0.5, tmp_path / "none")


def test_the_drift_check_is_silence_a_noise_floor_and_a_known_clip(tmp_path: Path) -> None:
    (only,) = load(write_sentinel(tmp_path)).cases
    audio = read_audio(only.audio_path).audio
    pcm, rate_hz = audio.int16(), audio.rate_hz
    assert not pcm[:rate_hz].any()
    noise = pcm[rate_hz : 2 * rate_hz] / 32_768
    assert 20 * np.log10(np.sqrt(np.mean(noise**2))) == pytest.approx(-60, abs=0.5)
    assert only.boundaries is not None
    onset, end = audible_onset(pcm, rate_hz), audible_end(pcm, rate_hz)
    assert onset is not None
    assert end is not None
    assert only.boundaries.onset_ns / 1e9 == pytest.approx(onset / rate_hz, abs=0.1)
    assert only.boundaries.voice_end_ns / 1e9 == pytest.approx(end / rate_hz, abs=0.1)
    again = write_sentinel(tmp_path / "again").with_name("sentinel.flac")
    assert again.read_bytes() == only.audio_path.read_bytes()
