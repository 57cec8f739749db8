"""Prosody of signals with known pitch, level, pauses and pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.errors import JudgeError
from live_eval.judges import prosody
from live_eval.judges._prosody import RATE_HZ, ProsodyMeasures, measure
from live_eval.judges.prosody import Prosody
from live_eval.judges.specs import PROSODY
from live_eval.judges.text._syllables import syllables
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored, check_judgement
from live_eval.testing.judges import ordinary_turn, speechlike

Samples = NDArray[np.float32]


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


def voice(seconds: float, hz: float | Callable[[Any], Any], amplitude: float = 0.1) -> Samples:
    """Return a voice of nine harmonics; its pitch is a number or a function of the time in seconds."""
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    pitch = np.broadcast_to(hz(at) if callable(hz) else hz, at.shape)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    harmonics = np.stack([np.sin(k * phase) / k for k in range(1, 10)])
    return np.asarray(amplitude * harmonics.sum(axis=0), np.float32)


def glide(hz: float, st_s: float) -> Callable[[Any], Any]:
    return lambda at: hz * 2 ** (st_s * at / 12)


def noise(seconds: float, amplitude: float, seed: int = 3) -> Samples:
    return np.random.default_rng(seed).normal(0, amplitude, round(seconds * RATE_HZ)).astype(np.float32)


def sound(*pieces: Samples) -> Audio:
    return Audio(np.concatenate(pieces), RATE_HZ)


@pytest.fixture(scope="module")
def judge() -> Prosody:
    return Prosody(workers=2)


@pytest.fixture(scope="module")
def detector() -> Any:
    from swift_f0 import SwiftF0

    return SwiftF0(threads=1)


def measured(audio: Audio, detector: Any) -> ProsodyMeasures:
    found = measure(audio, detector)
    assert found is not None
    return found


# Pitch.


@pytest.mark.parametrize("hz", [65.0, 110.0, 180.0, 260.0, 420.0, 740.0])
def test_a_steady_pitch_is_found(hz: float, detector: Any) -> None:
    found = measured(sound(silence(0.3), voice(1.5, hz), silence(0.3)), detector)
    assert found.pitch_hz == pytest.approx(hz, rel=0.01)
    assert found.pitch_range_st == pytest.approx(0, abs=0.1)
    assert found.declination_st_s == pytest.approx(0, abs=0.1)
    assert found.pitch_end_st == pytest.approx(0, abs=0.1)
    assert found.voiced_s == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize("st_s", [-9.0, -3.0, 4.0, 8.0])
def test_a_glide_has_its_slope_and_its_range(st_s: float, detector: Any) -> None:
    found = measured(sound(silence(0.3), voice(2.0, glide(180, st_s)), silence(0.3)), detector)
    assert found.pitch_hz == pytest.approx(180 * 2 ** (st_s / 12), rel=0.01)  # its middle, after 1 s
    assert found.declination_st_s == pytest.approx(st_s, abs=0.1)
    assert found.pitch_range_st == pytest.approx(0.9 * 2 * abs(st_s), rel=0.05)
    # The last nine frames of 16 ms: their middle lies 72 ms before the end, 0.928 s behind the median.
    assert found.pitch_end_st == pytest.approx(0.928 * st_s, abs=0.2)


def test_each_phrase_declines_by_itself(detector: Any) -> None:
    phrases = [piece for _ in range(3) for piece in (voice(1.2, glide(220, -5)), silence(0.4))]
    found = measured(sound(silence(0.2), *phrases), detector)
    assert found.declination_st_s == pytest.approx(-5, abs=0.1)


def test_stray_octaves_do_not_move_a_slope(detector: Any) -> None:
    pieces = [voice(1.0, 200), voice(0.1, 400), voice(1.0, 200), voice(0.1, 100), voice(0.4, 200)]
    found = measured(sound(silence(0.3), *pieces, silence(0.3)), detector)
    assert found.declination_st_s == pytest.approx(0, abs=0.1)
    assert found.pitch_hz == pytest.approx(200, rel=0.01)


@pytest.mark.parametrize(
    "whisper",
    [
        noise(1.5, 0.05),
        # Noise with the envelope of syllables.
        noise(1.5, 0.05)
        * np.maximum(0, np.sin(2 * np.pi * 3 * np.arange(24_000) / RATE_HZ)).astype(np.float32),
        voice(0.1, 200),
    ],
    ids=["noise", "syllables", "too little voice"],
)
def test_unvoiced_audio_has_no_pitch(whisper: Samples, judge: Prosody) -> None:
    reply = sound(silence(0.5), whisper, silence(0.5))
    values = scored(judge, turn(reply)).values
    assert "level" in values
    assert not [name for name in values if name.startswith(("pitch", "declination"))]


# Level.


@pytest.mark.parametrize("seconds", [0.6, 3.0, 70.0])
def test_the_active_level_of_a_tone_is_its_power(seconds: float, detector: Any) -> None:
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    tone = (0.5 * np.sin(2 * np.pi * 440 * at)).astype(np.float32)
    assert measured(Audio(tone, RATE_HZ), detector).level_dbfs == pytest.approx(-9.03, abs=0.2)


def test_pauses_do_not_lower_the_active_level(detector: Any) -> None:
    whole = measured(sound(voice(10, 150)), detector).level_dbfs
    # Behind each second of voice, P.56 counts 0.2 s of the silence as active, after the 0.08 s in which its
    # envelope fades: 10 log 1/1.28 = -1.07 dB.
    pieces = [piece for _ in range(10) for piece in (voice(1, 150), silence(2))]
    assert measured(sound(*pieces), detector).level_dbfs == pytest.approx(whole - 1.07, abs=0.1)
    assert measured(sound(silence(20), voice(10, 150)), detector).level_dbfs == pytest.approx(whole, abs=0.1)


def independent_p56(samples: Samples) -> float:
    """Return the level by ITU-T P.56, literally: sample by sample, with thresholds at powers of two."""
    keep = np.exp(-1 / (RATE_HZ * 0.03))
    thresholds = [2.0 ** (power - 15) for power in range(15)]
    active, hung = [0] * 15, [3200] * 15
    p = q = energy = 0.0
    for value in samples.astype(float):
        energy += value * value
        p = keep * p + (1 - keep) * abs(value)
        q = keep * q + (1 - keep) * p
        for j, threshold in enumerate(thresholds):
            if q >= threshold:
                active[j] += 1
                hung[j] = 0
            elif hung[j] < 3200:
                active[j] += 1
                hung[j] += 1
    before: tuple[float, float] | None = None
    for threshold, count in zip(thresholds, active, strict=True):
        level = 10 * np.log10(energy / count)
        margin = level - 20 * np.log10(threshold)
        if margin <= 15.9 and before is not None:
            share = (15.9 - before[0]) / (margin - before[0])
            return float(before[1] + share * (level - before[1]))
        before = (margin, level)
    raise AssertionError("no level")


@pytest.mark.parametrize("pieces", ["voice", "voice and noise", "fading"])
def test_the_active_level_is_that_of_the_recommendation(pieces: str, detector: Any) -> None:
    samples = np.concatenate([voice(0.7, 150), silence(0.5), voice(0.4, 200, 0.05), silence(0.6)])
    if pieces == "voice and noise":
        samples += noise(2.2, 0.005)
    elif pieces == "fading":
        samples *= np.linspace(1, 0.05, len(samples)).astype(np.float32)
    ours = measured(Audio(samples, RATE_HZ), detector).level_dbfs
    assert ours == pytest.approx(independent_p56(samples), abs=0.15)


@pytest.mark.parametrize("gain_db", [-25.0, -6.0, 12.0])
def test_gain_changes_only_the_level(gain_db: float, detector: Any) -> None:
    pieces = [voice(0.8, glide(200, -6)), silence(0.3), voice(0.6, 180, 0.04), silence(0.5), voice(0.7, 150)]
    plain = sound(silence(0.3), *pieces, silence(0.2), noise(0.1, 1e-5))
    before = measured(plain, detector)
    after = measured(Audio(plain.samples * np.float32(10 ** (gain_db / 20)), RATE_HZ), detector)
    assert after.level_dbfs == pytest.approx(before.level_dbfs + gain_db, abs=0.05)
    assert after.speech_s == pytest.approx(before.speech_s, abs=0.02)
    assert after.pause_percent == pytest.approx(before.pause_percent, abs=0.5)
    assert after.level_range_db == pytest.approx(before.level_range_db, abs=0.2)
    assert after.pitch_hz == pytest.approx(before.pitch_hz, rel=0.005)


def test_the_level_range_is_that_of_the_voice(detector: Any) -> None:
    found = measured(sound(silence(0.3), voice(1, 200, 0.2), voice(1, 200, 0.05), silence(0.3)), detector)
    assert found.level_range_db == pytest.approx(12.04, abs=0.6)


def test_clicks_have_a_level(detector: Any) -> None:
    clicks = silence(2.0)
    clicks[4000] = 0.9
    assert -60 < measured(Audio(clicks, RATE_HZ), detector).level_dbfs < 0


def test_an_offset_is_not_audible(judge: Prosody) -> None:
    offset = Audio(np.full(2 * RATE_HZ, 0.5, np.float32), RATE_HZ)
    assert one(judge, turn(offset)) == Unscored("the reply is silent: nothing above -50 dBFS")
    shifted = sound(silence(0.3), voice(1, 200), silence(0.3))
    shifted.samples[:] += 0.3
    assert scored(judge, turn(shifted)).values["level"] == pytest.approx(
        scored(judge, turn(sound(silence(0.3), voice(1, 200), silence(0.3)))).values["level"], abs=0.05
    )


# Pauses.


def test_pauses_are_the_gaps_between_speech(detector: Any) -> None:
    pieces = [voice(1.0, 150), silence(0.4), voice(1.0, 150), silence(0.6), voice(1.0, 150)]
    found = measured(sound(silence(0.7), *pieces, silence(1.3)), detector)
    assert found.pause_s == pytest.approx(0.5, abs=0.02)
    assert found.pause_percent == pytest.approx(25, abs=1)
    assert found.speech_s == pytest.approx(3.0, abs=0.05)


def test_the_closure_of_a_consonant_is_no_pause(detector: Any) -> None:
    found = measured(
        sound(silence(0.3), voice(0.5, 150), silence(0.15), voice(0.5, 150), silence(0.3)), detector
    )
    assert (found.pause_percent, found.pause_s) == (0, None)
    assert found.speech_s == pytest.approx(1.15, abs=0.03)


def test_a_click_does_not_count_as_speech(detector: Any) -> None:
    click = noise(0.01, 0.2)
    found = measured(sound(click, silence(0.5), voice(1.0, 150), silence(0.5), click, silence(0.2)), detector)
    assert found.pause_percent == 0
    assert found.speech_s == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("snr_db", [0, 10])
def test_with_background_noise_pauses_and_pace_are_unknown(snr_db: float, judge: Prosody) -> None:
    pieces = [voice(1.0, 150), silence(0.5), voice(1.0, 150), silence(0.3)]
    clean = np.concatenate(pieces)
    power = float(np.mean(np.square(pieces[0])))
    loud = Audio(clean + noise(2.8, np.sqrt(power / 10 ** (snr_db / 10))), RATE_HZ)
    values = scored(judge, turn(loud)).values
    assert not {"pauses", "pause_s", "rate", "level_range", "declination"} & set(values)
    assert values["pitch_hz"] == pytest.approx(150, rel=0.01)
    faint = Audio(clean + noise(2.8, np.sqrt(power / 10**3.2)), RATE_HZ)
    assert scored(judge, turn(faint)).values["pauses"] == pytest.approx(20, abs=1.5)


# Pace.


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Sit down for a moment and drink some water.", 11),
        ("I couldn't have hoped for more, it's awesome!", 11),
        ("Somewhere, somebody carefully watched the apples.", 12),
        ("You're helped. They needed houses, and we don’t.", 10),  # as models write it
        ("Rhythm", 2),
        ("A", 1),
        ("...", None),
        ("", None),
        ("At 7:30.", None),
        ("こんにちは、元気ですか。 OK", None),
    ],
)
def test_syllables_by_spelling(text: str, count: int | None) -> None:
    assert syllables(text) == count


def test_the_rate_is_of_speech_without_pauses(judge: Prosody) -> None:
    text = "one two three four five six ten nine"  # eight syllables
    reply = sound(silence(0.5), voice(1.0, 150), silence(1.0), voice(1.0, 150), silence(0.5))
    values = scored(judge, replace(turn(reply), reply_text=text)).values
    assert values["rate"] == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("text", ["a", "word " * 40, "", None, "42"])
def test_a_text_that_was_not_said_has_no_rate(text: str | None, judge: Prosody) -> None:
    reply = sound(silence(0.5), voice(2.0, 150), silence(0.5))
    assert "rate" not in scored(judge, replace(turn(reply), reply_text=text)).values


@pytest.mark.slow
@pytest.mark.local
def test_a_voice_that_speaks_faster_is_measured_so(judge: Prosody) -> None:
    pytest.importorskip("hibari", reason="needs the extra `local`")
    from live_eval.speech.synthesis import Voice

    speaker = Voice()
    text = "We watched the storm from the porch until the lights went out."
    found = {}
    for speed in (0.7, 1.0, 1.4):
        spoken = replace(turn(speaker.speak(text, speed=speed)), reply_text=text)
        found[speed] = scored(judge, spoken).values
    assert found[1.4]["rate"] / found[1.0]["rate"] == pytest.approx(1.5, abs=0.15)
    assert found[0.7]["rate"] / found[1.0]["rate"] == pytest.approx(0.7, abs=0.07)
    for values in found.values():
        assert values["pitch_hz"] == pytest.approx(found[1.0]["pitch_hz"], rel=0.06)


# The reply relative to the speaker.


def turn(reply: Audio, speaker: Audio | None = None) -> JudgedTurn:
    return replace(ordinary_turn(), reply=reply, speaker=speaker)


def one(judge: Prosody, of: JudgedTurn) -> Judgement:
    [judgement] = judge.score([of])
    return check_judgement(PROSODY, judgement)


def scored(judge: Prosody, of: JudgedTurn) -> Scored:
    judgement = one(judge, of)
    assert isinstance(judgement, Scored), judgement
    return judgement


def test_steps_are_the_reply_less_the_speaker(judge: Prosody) -> None:
    case_text = "one two three four five six ten nine"
    slow = sound(
        silence(0.3), voice(1.0, glide(200, 4), 0.05), silence(0.5), voice(1.0, 200, 0.05), silence(0.3)
    )
    fast = resample(sound(silence(0.2), voice(1.0, 120), silence(0.2)), 24_000)
    of = turn(fast, slow)
    of = replace(of, reply_text="one two three four five six", case=replace(of.case, text=case_text))
    judgement = scored(judge, of)
    values = judgement.values
    assert values["rate_step"] == pytest.approx(6 - 4, abs=0.15)
    assert values["level_step"] == pytest.approx(6.0, abs=1.0)
    assert values["pauses_step"] == pytest.approx(-20, abs=1)
    assert values["pitch_range_step"] == pytest.approx(-3.8, abs=0.4)
    for side, measures in judgement.detail.items():
        assert set(measures) >= {"pitch_hz", "level_dbfs", "syllables_per_s"}, side
    assert judgement.detail["speaker"]["pause_percent"] == pytest.approx(20, abs=1)


def test_a_background_mix_omits_its_steps(judge: Prosody) -> None:
    reply = sound(silence(0.3), voice(1.0, 150), silence(0.3))
    values = scored(judge, turn(reply, sound(voice(1.0, 200) + noise(1.0, 0.05)))).values
    assert not {"level_step", "rate_step", "pauses_step"} & set(values)
    assert "pitch_range_step" in values


@pytest.mark.parametrize(
    ("speaker", "said"),
    [
        (None, None),
        (sound(silence(1)), "silent"),
        (sound(np.full(100, np.nan, np.float32)), "samples that are not finite"),
    ],
    ids=["absent", "silent", "broken"],
)
def test_a_speaker_without_measures_leaves_the_reply_its_own(
    speaker: Audio | None, said: str | None, judge: Prosody
) -> None:
    judgement = scored(judge, turn(sound(silence(0.3), voice(1.0, 150), silence(0.3)), speaker))
    assert judgement.detail.get("speaker") == said
    assert not [name for name in judgement.values if name.endswith("_step")]


def test_a_speaker_is_measured_once(judge: Prosody, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counting(audio: Audio, detector: Any) -> ProsodyMeasures | None:
        asked.append(len(audio.samples))
        return measure(audio, detector)

    monkeypatch.setattr(prosody, "measure", counting)
    reply = sound(silence(0.3), voice(1.0, 150), silence(0.3))
    speaker = sound(voice(1.0, 200), silence(0.5))
    fresh = Prosody(workers=1)
    first, again = (scored(fresh, turn(reply, speaker)) for _ in range(2))
    assert first == again
    assert len(asked) == 3


@pytest.mark.slow
def test_a_reply_of_five_minutes_is_measured(judge: Prosody) -> None:
    reply = speechlike(2.4)
    long = Audio(np.tile(reply.samples, 125), reply.rate_hz)
    values, few = scored(judge, turn(long)).values, scored(judge, turn(reply)).values
    assert values["pitch_hz"] == pytest.approx(few["pitch_hz"], rel=0.05)


def test_more_workers_give_the_same_numbers() -> None:
    turns = [
        turn(sound(silence(0.3), voice(1.0, hz), silence(0.3)), sound(voice(1.0, 100)))
        for hz in (90, 200, 300)
    ]
    assert Prosody(workers=1).score(turns) == Prosody(workers=3).score(turns)


def test_a_network_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> Any:
        raise OSError("no model.onnx")

    monkeypatch.setattr("swift_f0.SwiftF0", broken)
    with pytest.raises(JudgeError, match=r"swift-f0: no model\.onnx"):
        Prosody()
