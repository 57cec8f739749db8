"""Damage to recordings: levels, bands and boundaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Audio, read_audio, resample, write_flac
from live_eval.audio.speech_level import speech_level
from live_eval.errors import AudioError
from live_eval.impair import parse
from live_eval.impair.recording import ImpairedRecording, impair_recording, room_response
from live_eval.types import SpeechBoundaries

SAMPLE = Path(__file__).parents[3] / "live_eval" / "data" / "sample" / "data_human" / "audio"
RATE_HZ = 24_000
EDGES = SpeechBoundaries(onset_ns=100_000_000, voice_end_ns=2_000_000_000, words_end_ns=1_900_000_000)


@pytest.fixture(scope="module")
def clean() -> Audio:
    return resample(read_audio(SAMPLE / "fast" / "le_101_fast_work_neutral.flac").audio, RATE_HZ)


def impaired(clean: Audio, spec: str, seed: int = 1) -> ImpairedRecording:
    return impair_recording(clean, EDGES, parse(spec, seed))


def rms_db(samples: NDArray[np.floating]) -> float:
    return float(10 * np.log10(np.mean(np.square(samples.astype(np.float64)))))


@pytest.mark.parametrize("kind", ["white", "pink", "babble"])
@pytest.mark.parametrize("snr_db", [20, 0])
def test_noise_has_the_configured_ratio_and_continues_in_silence(
    clean: Audio, kind: str, snr_db: int
) -> None:
    heard = impaired(clean, f"noise={snr_db}dB,noise_type={kind}")
    # The mix may be attenuated, so the clean part is found by projection.
    x = clean.samples.astype(np.float64)
    y = heard.audio.samples.astype(np.float64)
    assert len(x) == len(y)
    down = float(x @ y / (x @ x)) if snr_db else 1.0
    noise = y - down * x
    ratio = speech_level(Audio((down * clean.samples).astype(np.float32), RATE_HZ)).dbfs - rms_db(noise)
    assert ratio == pytest.approx(snr_db, abs=0.3 if snr_db else 1.0)
    assert heard.background is not None
    assert rms_db(heard.background.samples) == pytest.approx(rms_db(noise), abs=1.5)
    assert heard.boundaries == EDGES


def test_the_same_seed_makes_the_same_noise(clean: Audio) -> None:
    first, again, other = (impaired(clean, "noise=5dB", seed).audio.samples for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_noise_comes_from_a_folder(clean: Audio, tmp_path: Path) -> None:
    at = np.arange(8_000) / 16_000
    hum = Audio((0.1 * np.sin(2 * np.pi * 100 * at)).astype(np.float32), 16_000)
    write_flac(tmp_path / "hum.flac", hum.int16(), hum.rate_hz)
    heard = impaired(clean, f"noise=10dB,noise_type={tmp_path}")
    assert heard.background is not None
    spectrum = np.abs(np.fft.rfft(heard.background.samples))
    peak_hz = np.argmax(spectrum) * RATE_HZ / len(heard.background.samples)
    assert peak_hz == pytest.approx(100, abs=2)


def test_a_folder_without_recordings_is_an_error_of_the_case(clean: Audio, tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="expected noise recordings"):
        impaired(clean, f"noise=10dB,noise_type={tmp_path}")


def test_gain_changes_the_level_and_clips_at_full_scale(clean: Audio) -> None:
    assert speech_level(impaired(clean, "gain=-12dB").audio).dbfs == pytest.approx(
        speech_level(clean).dbfs - 12, abs=0.01
    )
    loud = impaired(clean, "gain=40dB").audio.samples
    assert (np.abs(loud) >= 32_766 / 32_768).mean() > 0.1
    assert np.abs(loud).max() <= 1


def test_clipping_affects_the_configured_share(clean: Audio) -> None:
    samples = impaired(clean, "clip=10%").audio.samples
    share = float((np.abs(samples) > np.abs(samples).max() * 0.9999).mean()) / speech_level(clean).activity
    assert share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("spec", "passes_hz", "stops_hz"),
    [
        ("band=telephone", 1_000, (80, 5_000)),
        ("band=8khz", 3_000, (5_000,)),
        ("g711=mulaw", 1_000, (5_000,)),
        ("g711=alaw", 1_000, (5_000,)),
    ],
)
def test_narrow_bands_pass_speech_and_nothing_above(
    spec: str, passes_hz: float, stops_hz: tuple[float, ...]
) -> None:
    at = np.arange(RATE_HZ) / RATE_HZ
    tones = [
        Audio((0.3 * np.sin(2 * np.pi * hz * at)).astype(np.float32), RATE_HZ)
        for hz in (passes_hz, *stops_hz)
    ]
    passed, *stopped = (rms_db(impaired(tone, spec).audio.samples[2_400:-2_400]) for tone in tones)
    assert passed == pytest.approx(rms_db(tones[0].samples), abs=0.5)
    assert max(stopped) < passed - 30


def test_g711_has_the_noise_of_its_quantisation(clean: Audio) -> None:
    narrow, coded = (impaired(clean, spec).audio.samples for spec in ("band=8khz", "g711=mulaw"))
    assert 30 < rms_db(narrow) - rms_db(narrow - coded) < 45


@pytest.mark.parametrize(("rt60_ms", "direct_db"), [(300, 0), (1_000, 6)])
def test_a_room_decays_and_keeps_its_direct_sound_first(rt60_ms: float, direct_db: float) -> None:
    response = room_response(RATE_HZ, rt60_ms, direct_db, 1)
    assert rms_db(response[:1]) - 10 * np.log10(np.square(response[1:]).sum()) == pytest.approx(direct_db)
    # Schroeder's integral falls by 60 dB in RT60, measured between −5 and −25 dB.
    energy = np.cumsum(np.square(response[:0:-1]))[::-1]
    decay_db = 10 * np.log10(energy / energy[0])
    begin, end = (int(np.argmax(decay_db < level)) for level in (-5, -25))
    assert (end - begin) * 3 / RATE_HZ * 1_000 == pytest.approx(rt60_ms, rel=0.08)


def test_a_room_lengthens_the_recording_and_keeps_its_boundaries(clean: Audio) -> None:
    heard = impaired(clean, "reverb=400ms")
    assert len(heard.audio.samples) == pytest.approx(len(clean.samples) + 0.4 * RATE_HZ, abs=2)
    assert speech_level(heard.audio).dbfs == pytest.approx(speech_level(clean).dbfs, abs=0.5)
    assert heard.boundaries == EDGES


def test_a_room_from_a_file_begins_with_its_direct_sound(clean: Audio, tmp_path: Path) -> None:
    response = np.zeros(2_400, np.float32)
    response[700], response[1_900] = 0.9, 0.1
    write_flac(tmp_path / "room.flac", Audio(response, RATE_HZ).int16(), RATE_HZ)
    heard = impaired(clean, f"room={tmp_path / 'room.flac'}").audio.samples
    x = clean.samples
    assert np.dot(heard[: len(x)], x) / np.linalg.norm(heard[: len(x)]) / np.linalg.norm(x) > 0.98


@pytest.mark.parametrize("kind", ["resample", "stretch"])
def test_boundaries_move_with_the_speed(clean: Audio, kind: str) -> None:
    heard = impaired(clean, f"speed=125%,speed_type={kind}")
    assert len(heard.audio.samples) == round(len(clean.samples) / 1.25)
    assert heard.boundaries.onset_ns == 80_000_000
    assert heard.boundaries.voice_end_ns == 1_600_000_000
    assert heard.boundaries.words_end_ns == 1_520_000_000
    assert speech_level(heard.audio).dbfs == pytest.approx(speech_level(clean).dbfs, abs=1)


def test_silence_stays_silent() -> None:
    silent = Audio(np.zeros(RATE_HZ, np.float32), RATE_HZ)
    heard = impaired(silent, "noise=0dB,reverb=100ms,clip=5%,band=telephone,speed=90%")
    assert not heard.audio.samples.any()
