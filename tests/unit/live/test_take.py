"""Takes of a script: extraction from a microphone's audio, and checks."""

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Audio, int16_to_float, read_audio, resample
from live_eval.data import sample_path
from live_eval.live.take import TakeRecorder, check_take
from live_eval.types import SpeechBoundaries

RATE = 16_000
SPEECH = sample_path() / "data_human" / "audio" / "fast" / "le_101_fast_work_neutral.flac"
TEXT = "The meeting has been moved to the small room upstairs."


@pytest.fixture(scope="module")
def speech() -> NDArray[np.int16]:
    return resample(read_audio(SPEECH).audio, RATE).int16()


def silence(seconds: float) -> NDArray[np.int16]:
    return np.zeros(round(seconds * RATE), np.int16)


def recorded(*pieces: NDArray[np.int16]) -> tuple[TakeRecorder, list[bool]]:
    recorder = TakeRecorder(RATE)
    pcm = np.concatenate(pieces)
    return recorder, [recorder.push(pcm[at : at + 160]) for at in range(0, len(pcm), 160)]


def test_a_take_includes_a_second_before_and_more_after_the_speech(speech: NDArray[np.int16]) -> None:
    recorder, began = recorded(silence(4), speech, silence(3))
    assert recorder.complete
    assert sum(began) == 1
    audio = recorder.audio()
    assert len(speech) + 1.5 * RATE < len(audio) < len(speech) + 3 * RATE
    first = int(np.flatnonzero(np.abs(audio) > 500)[0])
    assert 0.8 * RATE < first < 1.3 * RATE


def test_a_pause_within_the_script_does_not_end_the_take(speech: NDArray[np.int16]) -> None:
    loud = np.flatnonzero(np.abs(speech) > 300)
    words = speech[loud[0] : loud[-1]]
    recorder, _ = recorded(words, silence(1.2), words, silence(0.5))
    assert not recorder.complete
    recorder.end()
    assert recorder.complete
    assert len(recorder.audio()) > 2 * len(words)


def test_silence_is_not_a_take_and_endless_speech_ends(speech: NDArray[np.int16]) -> None:
    recorder, began = recorded(silence(60))
    assert not recorder.complete
    assert not any(began)
    assert len(recorder.audio()) == 0
    endless, _ = recorded(*[speech] * 20)
    assert endless.complete
    assert len(endless.audio()) < 33 * RATE


def boundaries(audio: Audio, **values: object) -> SpeechBoundaries:
    end_ns = audio.duration_ns - 500_000_000
    return SpeechBoundaries(onset_ns=0, voice_end_ns=end_ns, words_end_ns=end_ns, **values)  # type: ignore[arg-type]


def test_checks(speech: NDArray[np.int16]) -> None:
    audio = Audio(int16_to_float(np.concatenate((speech, silence(1)))), RATE)
    good = check_take(audio, boundaries(audio), text=TEXT, heard=TEXT.upper())
    assert not good.problems
    assert good.usable
    assert -40 < good.level_dbfs < -10

    loud = Audio(np.minimum(np.float32(1), audio.samples * np.float32(30)), RATE)
    assert "clipped" in check_take(loud, boundaries(loud), text=TEXT, heard=TEXT).problems[0]
    cut_off = Audio(0.5 * np.clip(audio.samples, -0.2, 0.2), RATE)  # and attenuated later
    assert (
        "clipped at -20.0 dBFS" in check_take(cut_off, boundaries(audio), text=TEXT, heard=TEXT).problems[0]
    )
    faint = Audio(audio.samples * np.float32(0.005), RATE)
    assert "too quiet" in check_take(faint, boundaries(faint), text=TEXT, heard=TEXT).problems[0]
    other = check_take(audio, boundaries(audio), text=TEXT, heard="Something else entirely")
    assert other.problems == ("10 of 10 words differ from the script",)
    unheard = check_take(audio, boundaries(audio), text=TEXT, heard=None, unheard="no recogniser")
    assert not unheard.problems
    assert unheard.notes == ("words are not checked: no recogniser",)
    cut = SpeechBoundaries(onset_ns=0, voice_end_ns=audio.duration_ns)
    assert "cut off" in check_take(audio, cut, text=TEXT, heard=TEXT).problems[0]
    nothing = SpeechBoundaries(onset_ns=0, voice_end_ns=1, uncertain=True, reason="no speech found")
    assert check_take(audio, nothing, text=TEXT, heard=TEXT).problems == ("boundaries: no speech found",)
    sigh = boundaries(audio, uncertain=True, reason="sound continues for 900 ms after the last word")
    checked = check_take(audio, sigh, text=TEXT, heard=TEXT)
    assert not checked.problems
    assert checked.notes == ("sound continues for 900 ms after the last word",)


def test_a_take_without_speech_reports_its_length_and_peak() -> None:
    take = TakeRecorder(16_000)
    for _ in range(3):
        take.push(np.full(16_000, 16, np.int16))
    assert (take.unheard_s, round(take.peak_dbfs)) == (3.0, -66)
