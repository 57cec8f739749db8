"""The start and end of speech in recordings and cases."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from live_eval.audio import Audio, read_audio
from live_eval.errors import FailureKind, TurnError
from live_eval.speech.boundaries import METHOD_VERSION, BoundaryCache, case_boundaries, find_boundaries
from live_eval.speech.recognition import Recogniser, Transcript, Word
from live_eval.types import SpeechBoundaries
from tests.unit.speech.boundaries.takes import case, placed

RATE = 24_000


MS = 1_000_000


def noise(n: int, rms: float, seed: int = 0) -> NDArray[np.float32]:
    return (rms * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 96_000])
def test_gated_speech_is_found_in_its_place(speech: NDArray[np.float32], rate_hz: int) -> None:
    boundaries = find_boundaries(placed(speech, 300, 500, rate_hz))
    assert boundaries.onset_ns == pytest.approx(300 * MS, abs=20 * MS)
    assert boundaries.voice_end_ns == pytest.approx((300 + len(speech) * 1000 / RATE) * MS, abs=20 * MS)
    assert boundaries.method == "detector"
    assert not boundaries.uncertain, boundaries.reason


def test_without_noise_boundaries_are_accurate_to_a_few_milliseconds(speech: NDArray[np.float32]) -> None:
    boundaries = find_boundaries(placed(speech, 300, 500))
    assert boundaries.onset_ns == pytest.approx(300 * MS, abs=3 * MS)
    assert boundaries.voice_end_ns == pytest.approx((300 + len(speech) * 1000 / RATE) * MS, abs=3 * MS)


@pytest.mark.parametrize("gain_db", [-50, -20, 10])
def test_loudness_does_not_matter(speech: NDArray[np.float32], gain_db: float) -> None:
    audio = placed(speech, 300, 500)
    louder = Audio((audio.samples * 10 ** (gain_db / 20)).astype(np.float32), RATE)
    assert find_boundaries(louder).voice_end_ns == pytest.approx(
        find_boundaries(audio).voice_end_ns, abs=3 * MS
    )


def test_a_recording_may_end_and_begin_in_the_middle_of_speech(speech: NDArray[np.float32]) -> None:
    audio = Audio(speech, RATE)
    boundaries = find_boundaries(audio)
    assert boundaries.onset_ns <= 10 * MS
    assert boundaries.voice_end_ns >= audio.duration_ns - 10 * MS
    assert not boundaries.uncertain, boundaries.reason


def test_clicks_are_not_speech(speech: NDArray[np.float32]) -> None:
    audio = placed(speech, 600, 800)
    clicked = audio.samples.copy()
    for at_ms in (200, 600 + len(speech) * 1000 // RATE + 400):
        clicked[at_ms * RATE // 1000 :][:20] = 0.4
    assert find_boundaries(Audio(clicked, RATE)) == find_boundaries(audio)


def test_silence_around_a_noisy_recording_is_not_its_background(speech: NDArray[np.float32]) -> None:
    noisy = placed(speech, 600, 800)
    rms = float(np.sqrt((speech**2).mean())) * 10 ** (-15 / 20)
    samples = np.pad(noisy.samples + noise(len(noisy.samples), rms), (RATE, RATE))
    boundaries = find_boundaries(Audio(samples, RATE))
    assert boundaries.onset_ns == pytest.approx(1_600 * MS, abs=60 * MS)
    assert boundaries.voice_end_ns == pytest.approx((1_600 + len(speech) * 1000 / RATE) * MS, abs=60 * MS)


def test_noise_as_loud_as_the_voice_makes_the_end_uncertain(speech: NDArray[np.float32]) -> None:
    audio = placed(speech, 600, 800)
    boundaries = find_boundaries(Audio(audio.samples + noise(len(audio.samples), 0.2), RATE))
    assert boundaries.uncertain
    assert "noise hides the end" in boundaries.reason


def test_noise_does_not_move_the_boundaries_far(speech: NDArray[np.float32]) -> None:
    audio = placed(speech, 600, 800)
    rms = float(np.sqrt((speech**2).mean())) * 10 ** (-10 / 20)
    boundaries = find_boundaries(Audio(audio.samples + noise(len(audio.samples), rms), RATE))
    assert boundaries.voice_end_ns == pytest.approx((600 + len(speech) * 1000 / RATE) * MS, abs=60 * MS)


def test_a_breath_after_the_words_belongs_to_the_voice_and_makes_the_end_uncertain(
    speech: NDArray[np.float32],
) -> None:
    gap, length = RATE * 250 // 1000, RATE * 400 // 1000
    breath = np.hanning(length).astype(np.float32) * noise(length, 0.05)
    audio = placed(np.concatenate((speech, np.zeros(gap, np.float32), breath)), 200, 600)
    words_end = (200 + len(speech) * 1000 / RATE) * MS
    boundaries = find_boundaries(audio, words=[Word("said", 200 * MS, round(words_end), 0.9)])
    assert boundaries.words_end_ns == pytest.approx(words_end, abs=100 * MS)
    assert boundaries.voice_end_ns > words_end + 400 * MS
    assert boundaries.uncertain
    assert "after the last word" in boundaries.reason


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(RATE, np.float32), "no sound"),
        (noise(RATE, 0.05), "no speech"),
        (np.zeros(1, np.float32), "no sound"),
        (noise(RATE // 10, 0.1), ""),
    ],
)
def test_recordings_without_speech_still_have_boundaries(samples: NDArray[np.float32], reason: str) -> None:
    audio = Audio(samples, RATE)
    boundaries = find_boundaries(audio)
    assert 0 <= boundaries.onset_ns <= boundaries.voice_end_ns <= audio.duration_ns
    assert boundaries.uncertain
    assert reason in boundaries.reason


def test_an_annotation_takes_precedence(tmp_path: Path) -> None:
    known = SpeechBoundaries(onset_ns=1, voice_end_ns=2, method="annotation")
    assert (
        case_boundaries(case(tmp_path / "absent.wav", boundaries=known), Audio(noise(RATE, 0.1), RATE))
        is known
    )


@pytest.mark.parametrize(("onset_ms", "voice_end_ms"), [(0, 1_011), (1_003, 1_006), (0, 99_999_999)])
def test_an_annotation_beyond_the_recording_is_refused(
    tmp_path: Path, onset_ms: int, voice_end_ms: int
) -> None:
    boundaries = SpeechBoundaries(onset_ns=onset_ms * MS, voice_end_ns=voice_end_ms * MS, method="annotation")
    with pytest.raises(TurnError, match="recording of 1000 ms, got ") as caught:
        case_boundaries(case(tmp_path / "absent.wav", boundaries=boundaries), Audio(noise(RATE, 0.1), RATE))
    assert caught.value.kind is FailureKind.CASE_UNUSABLE


def test_an_annotation_beyond_the_end_by_rounding_is_clamped(tmp_path: Path) -> None:
    boundaries = SpeechBoundaries(
        onset_ns=0, voice_end_ns=1_009 * MS, words_end_ns=1_004 * MS, method="annotation"
    )
    found = case_boundaries(
        case(tmp_path / "absent.wav", boundaries=boundaries), Audio(noise(RATE, 0.1), RATE)
    )
    assert (found.voice_end_ns, found.words_end_ns) == (1_000 * MS, 1_000 * MS)


def test_an_impossible_clean_take_name_makes_the_boundaries_uncertain(
    speech: NDArray[np.float32], tmp_path: Path
) -> None:
    audio = placed(speech, 300, 500)
    soundfile.write(tmp_path / "a.wav", audio.samples, RATE, subtype="FLOAT")
    mixed = case(tmp_path / "a.wav", clean_audio_path=tmp_path / ("x" * 300 + ".wav"))
    boundaries = case_boundaries(mixed, audio, cache=BoundaryCache(tmp_path / "cache"))
    assert (boundaries.uncertain, boundaries.voice_end_ns) == (True, find_boundaries(audio).voice_end_ns)
    assert "File name too long" in boundaries.reason


def test_a_background_mix_inherits_the_boundaries_of_its_clean_take(
    speech: NDArray[np.float32], tmp_path: Path
) -> None:
    clean = placed(speech, 300, 700)
    soundfile.write(tmp_path / "clean.wav", clean.samples, RATE, subtype="FLOAT")
    mixed = Audio(clean.samples + noise(len(clean.samples), 0.02), RATE)
    boundaries = case_boundaries(case(tmp_path / "mix.wav", clean_audio_path=tmp_path / "clean.wav"), mixed)
    assert boundaries.method == "clean_take"
    assert replace(boundaries, method="detector") == find_boundaries(clean)


def test_an_unrelated_take_is_ignored(speech: NDArray[np.float32], tmp_path: Path) -> None:
    other = placed(speech[::-1].copy(), 300, 700)
    soundfile.write(tmp_path / "clean.wav", other.samples, RATE, subtype="FLOAT")
    audio = placed(speech, 300, 700)
    boundaries = case_boundaries(case(tmp_path / "mix.wav", clean_audio_path=tmp_path / "clean.wav"), audio)
    assert boundaries.method == "detector"


def test_a_missing_clean_take_makes_the_boundaries_uncertain(
    speech: NDArray[np.float32], tmp_path: Path
) -> None:
    audio = placed(speech, 300, 500)
    boundaries = case_boundaries(case(tmp_path / "a.wav", clean_audio_path=tmp_path / "gone.wav"), audio)
    assert boundaries.uncertain
    assert "gone.wav" in boundaries.reason
    assert boundaries.voice_end_ns == find_boundaries(audio).voice_end_ns


def test_boundaries_name_their_method_and_recogniser(speech: NDArray[np.float32], tmp_path: Path) -> None:
    audio = placed(speech, 300, 500)
    path = tmp_path / "a.wav"
    soundfile.write(path, audio.samples, RATE, subtype="FLOAT")
    cache = BoundaryCache(tmp_path / "cache")
    for _ in range(2):  # the second time from the cache
        alone = case_boundaries(case(path), audio, cache=cache)
        assert (alone.version, alone.recogniser) == (METHOD_VERSION, "")
        heard = case_boundaries(case(path), audio, recogniser=Hearing(), cache=cache)
        assert (heard.version, heard.recogniser) == (METHOD_VERSION, "told")
    known = SpeechBoundaries(onset_ns=1, voice_end_ns=2, method="annotation")
    annotated = case_boundaries(case(path, boundaries=known), audio, recogniser=Hearing(), cache=cache)
    assert (annotated.version, annotated.recogniser) == ("", "")


class Hearing(Recogniser):
    """A recogniser with a given transcript."""

    name = identity = "told"

    def __init__(self, *words: Word) -> None:
        self.told = words

    def transcribe(self, audio: Audio, *, words: bool = True, language: str | None = None) -> Transcript:
        return Transcript(" ".join(word.text for word in self.told), self.told, "en")


@pytest.mark.parametrize(("word", "script"), [("Now.", "Do it now!"), ("Can't.", "No, I really can’t!")])
def test_words_recognised_after_the_end_of_the_script_are_dropped(
    speech: NDArray[np.float32], tmp_path: Path, word: str, script: str
) -> None:
    audio = placed(np.concatenate((speech, np.zeros(RATE // 2, np.float32), speech)), 300, 500)
    first_end = 300 * MS + len(speech) * 1_000_000_000 // RATE
    heard = Hearing(
        Word(word, 300 * MS, first_end, 0.9), Word("Ha!", first_end + 500 * MS, 2 * first_end, 0.4)
    )
    path = tmp_path / "a.wav"
    assert not case_boundaries(case(path), audio, recogniser=heard).uncertain
    boundaries = case_boundaries(case(path, text=script), audio, recogniser=heard)
    assert boundaries.words_end_ns == pytest.approx(first_end, abs=100 * MS)
    assert boundaries.uncertain


def test_a_voice_without_words_has_an_uncertain_end(speech: NDArray[np.float32]) -> None:
    boundaries = find_boundaries(placed(speech, 300, 500), words=[])
    assert boundaries.words_end_ns is None
    assert boundaries.reason == "no words recognised"


def test_word_times_separate_words_from_later_sounds(speech: NDArray[np.float32]) -> None:
    audio = placed(np.concatenate((speech, np.zeros(RATE // 2, np.float32), speech)), 300, 500)
    first_end = 300 * MS + len(speech) * 1_000_000_000 // RATE
    words = [Word("said", 300 * MS, first_end, 0.9)]
    boundaries = find_boundaries(audio, words=words)
    assert boundaries.words_end_ns == pytest.approx(first_end, abs=100 * MS)
    assert boundaries.voice_end_ns > first_end + 500 * MS
    assert boundaries.uncertain


@pytest.mark.echomind
def test_the_breathless_recording_of_the_demo(echomind_demo: Path) -> None:
    folder = echomind_demo / "data_synthesis" / "audio" / "breath"
    (path,) = folder.glob("*_target.wav")
    boundaries = find_boundaries(read_audio(path).audio)
    assert boundaries.words_end_ns == pytest.approx(4_960 * MS, abs=100 * MS)
    assert boundaries.voice_end_ns == pytest.approx(5_830 * MS, abs=60 * MS)
    assert boundaries.uncertain
