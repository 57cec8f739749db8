"""Stimuli have exactly the boundaries in their manifest."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.trial import Trial
from live_eval.audio import Audio, int16_to_float, read_audio
from live_eval.campaigns.duplex.stimuli import (
    RATE_HZ,
    Composer,
    Gap,
    Line,
    Noise,
    NoiseKind,
    Recorded,
    Say,
    TrialScript,
    write_stimuli,
)
from live_eval.errors import UsageError
from live_eval.speech.voice_activity import speech_probabilities
from live_eval.timing import audible_end, audible_onset
from live_eval.types import Anchor, AnchorKind, SpeechKind, SpokenPart


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def samples(ns: int) -> int:
    return round(ns * RATE_HZ / 1e9)


def test_a_gap_is_exact_and_silent(composer: Composer) -> None:
    made = composer.compose((Say("I would like to"), Gap(400), Say("book a table.")))
    first, second = made.parts
    assert samples(second.onset_ns - first.end_ns) == 400 * RATE_HZ // 1000
    assert not made.pcm[samples(first.end_ns) : samples(second.onset_ns)].any()
    assert (first.text, second.text) == ("I would like to", "book a table.")


def test_an_utterance_begins_and_ends_with_its_audible_samples(composer: Composer) -> None:
    made = composer.compose((Say("Mm-hmm."),))
    (part,) = made.parts
    assert (audible_onset(made.pcm, RATE_HZ), audible_end(made.pcm, RATE_HZ)) == (0, len(made.pcm))
    assert (samples(part.onset_ns), samples(part.end_ns)) == (0, len(made.pcm))


@pytest.mark.slow
def test_the_same_pieces_give_the_same_samples(composer: Composer) -> None:
    pieces = (Say("Right."), Gap(100), Noise(NoiseKind.COUGH, 300, -20.0, seed=3))
    assert np.array_equal(composer.compose(pieces).pcm, Composer().compose(pieces).pcm)


def test_another_voice_is_lower_and_both_are_speech(composer: Composer) -> None:
    text = "Just leave the keys on the table, please."
    own, other = (composer.compose((Say(text, other=other),)).pcm for other in (False, True))
    assert centroid_hz(other) < 0.95 * centroid_hz(own)
    for pcm in (own, other):
        assert np.mean(speech_probabilities(audio_of(pcm)) > 0.5) > 0.7


@pytest.mark.parametrize("kind", NoiseKind)
def test_noise_has_the_requested_level_and_is_not_speech(composer: Composer, kind: NoiseKind) -> None:
    pcm = composer.compose((Noise(kind, 300, -20.0),)).pcm
    assert len(pcm) == 300 * RATE_HZ // 1000
    assert 20 * np.log10(np.sqrt(np.mean((pcm / 32768) ** 2))) == pytest.approx(-20, abs=0.1)
    assert np.mean(speech_probabilities(audio_of(pcm)) > 0.5) < 0.3


def test_an_utterance_without_sound_is_refused(composer: Composer) -> None:
    with pytest.raises(UsageError, match="silent"):
        composer.compose((Say(""),))
    with pytest.raises(UsageError, match="audible utterance"):
        composer.compose((Gap(100),))


def test_stimuli_are_only_for_their_user(tmp_path: Path) -> None:
    trial = TrialScript(Trial(trial_id="t", probe="t"), (Line(pieces=(Say("Yes."),)),))
    manifest = write_stimuli([trial], tmp_path / "stimuli")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (manifest, manifest.parent)} == {0o600, 0o700}


def test_a_manifest_contains_the_kind_and_anchor_of_each_utterance(tmp_path: Path) -> None:
    asked = Line(pieces=(Say("Tell me more."), Gap(200), Say("Please.")), reply="Gladly.")
    hum = Line(
        pieces=(Say("Mm-hmm."),),
        speech=SpeechKind.BACKCHANNEL,
        anchor=Anchor(AnchorKind.REPLY_AUDIBLE, 900_000_000),
    )
    trials = [TrialScript(Trial(trial_id=f"t{n}", probe="backchannel"), (asked, hum)) for n in (1, 2)]
    manifest = write_stimuli(trials, tmp_path)
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    first, second = rows[0]["turns"]
    assert rows[1]["turns"] == rows[0]["turns"], "one recording serves both"
    assert (rows[0]["id"], rows[0]["topic"]) == ("t1", "backchannel")
    assert (first["text"], first["reference_text"]) == ("Tell me more. Please.", "Gladly.")
    assert [part["text"] for part in first["parts"]] == ["Tell me more.", "Please."]
    assert (second["speech"], second["anchor"]) == ("backchannel", "reply_audible+900ms")
    assert "parts" not in second
    played = read_audio(tmp_path / first["audio"]).audio
    assert first["voice_end_ms"] == pytest.approx(1000 * len(played.samples) / RATE_HZ, abs=0.001)


def test_a_users_recording_is_copied_unchanged(tmp_path: Path) -> None:
    source = tmp_path / "mine.wav"
    source.write_bytes(b"not audio: it fails when it is played")
    parts = (SpokenPart(0, 1_000_000), SpokenPart(3_000_000, 4_000_000))
    lines = (Line(pieces=(Recorded(source, "Hello", None, parts),)),)
    manifest = write_stimuli([TrialScript(Trial(trial_id="own-1", probe="own"), lines)], tmp_path / "stimuli")
    (turn,) = json.loads(manifest.read_text("utf-8"))["turns"]
    assert (tmp_path / "stimuli" / turn["audio"]).read_bytes() == source.read_bytes()
    assert (turn["onset_ms"], turn["voice_end_ms"], len(turn["parts"])) == (0, 4, 2)


def test_stimuli_of_a_resumed_campaign_are_written_through_no_link(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine.wav", tmp_path / "theirs"
    mine.write_bytes(b"mine")
    theirs.write_bytes(b"theirs")
    trial = TrialScript(Trial(trial_id="own-1", probe="own"), (Line(pieces=(Recorded(mine),)),))
    manifest = write_stimuli([trial], tmp_path / "stimuli")
    (turn,) = json.loads(manifest.read_text("utf-8"))["turns"]
    copied = manifest.with_name(turn["audio"])
    copied.unlink()
    copied.symlink_to(theirs)
    write_stimuli([trial], tmp_path / "stimuli")
    assert (copied.read_bytes(), theirs.read_bytes()) == (b"mine", b"theirs")


def audio_of(pcm: NDArray[np.int16]) -> Audio:
    return Audio(int16_to_float(pcm), RATE_HZ)


def centroid_hz(pcm: NDArray[np.int16]) -> float:
    power = np.abs(np.fft.rfft(pcm)) ** 2
    return float(np.average(np.fft.rfftfreq(len(pcm), 1 / RATE_HZ), weights=power))
