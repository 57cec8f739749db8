"""Scripts for a person to perform, and the data set of the takes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import read_audio, write_flac
from live_eval.data import (
    ATTRIBUTES,
    Consent,
    DataOptions,
    PerformedSet,
    consent_question,
    cue_of,
    direction,
    load,
    performable,
    sample_path,
)
from live_eval.errors import DataError
from live_eval.types import Case, CoarseDimension, Variant

CONSENT = Consent("May we?", "A. B.", "2026-11-28T12:00:00+00:00")
PCM = (np.sin(np.arange(24_000) / 20) * 8_000).astype(np.int16)


def case(script: str = "id_1", variant: Variant = Variant.TARGET, cue: str = "sigh sound") -> Case:
    return Case(
        case_id=f"{script}/{variant}",
        script_id=script,
        variant=variant,
        audio_path=Path("absent.wav"),
        text="Everything is fine.",
        cue=cue_of(cue),
        script_cue=cue_of("sigh sound"),
        topic="home",
        reference_text="You sigh.",
    )


def test_every_cue_of_a_voice_has_a_direction() -> None:
    for attribute in ATTRIBUTES.values():
        shown = direction(cue_of(attribute.phrase))
        assert (shown is not None) == (attribute.coarse is CoarseDimension.PARALINGUISTIC), attribute
        assert shown is None or "cue" not in shown
    assert direction(cue_of("neutral")) == "in your normal voice"
    assert direction(cue_of("like a pirate")) == "with this cue: like a pirate"
    assert direction(None) is None


def test_scripts_that_no_voice_can_perform_are_omitted_with_all_their_styles() -> None:
    rain = replace(case("id_2"), cue=cue_of("sound of raining"))
    neutral = replace(case("id_2", Variant.NEUTRAL, "neutral"))
    silent = replace(case("id_3"), text=None)
    chosen, notes = performable([case(), rain, neutral, silent, replace(case(), case_id="human:id_1/target")])
    assert [each.case_id for each in chosen] == ["id_1/target"]
    assert notes == ["2 takes omitted: a cue that no voice can perform", "1 take omitted: no text"]


def test_accepted_takes_are_a_data_set_in_the_benchmarks_layout(tmp_path: Path) -> None:
    made = PerformedSet(tmp_path / "takes")
    made.begin(CONSENT)
    takes = [
        made.take_of(each)
        for each in (case(), case(variant=Variant.NEUTRAL, cue="neutral"), case("../\x1b[2J\ud800"))
    ]
    assert made.load() is None
    for take in takes:
        made.record(take, PCM, 24_000)
        assert take.audio_path.is_relative_to(tmp_path / "takes" / "data_human" / "audio")
        assert take.audio_path.stat().st_mode & 0o077 == 0
        made.accept(take)
    rejected = made.take_of(case("id_9"))
    made.record(rejected, PCM, 24_000)
    made.discard(rejected)
    found = load(tmp_path / "takes")
    assert {each.case_id for each in found.cases} == {take.case_id for take in takes}
    first = next(each for each in found.cases if each.case_id == "id_1/target")
    assert (first.text, first.topic, first.reference_text, first.source) == (
        "Everything is fine.",
        "home",
        "You sigh.",
        "human",
    )
    assert first.cue == cue_of("sigh sound")
    assert first.problem is None
    assert len(list((tmp_path / "takes" / "data_human" / "audio").iterdir())) == 3
    assert found.fingerprint == getattr(made.load(), "fingerprint", None)
    assert json.loads((tmp_path / "takes" / "consent.json").read_text())["given_by"] == "A. B."
    assert found.licence == made.planned(takes, root=tmp_path).licence
    assert "consent" in found.licence


def test_takes_accepted_despite_problems_are_marked_and_can_be_excluded(tmp_path: Path) -> None:
    made = PerformedSet(tmp_path / "takes")
    made.begin(CONSENT)
    for script, problems in (("a", ()), ("b", ("clipped", "too quiet"))):
        take = made.take_of(case(script))
        made.record(take, PCM, 24_000)
        made.accept(take, problems)
    found = load(tmp_path / "takes")
    noted = "1 take with problems that the performer accepted: b/target (clipped; too quiet)"
    assert [each.case_id for each in found.cases] == ["a/target", "b/target"]
    assert any(noted in note for note in found.notes)
    found = load(tmp_path / "takes", DataOptions(flawed_takes=False))
    assert [each.case_id for each in found.cases] == ["a/target"]
    assert any(f"{noted}: excluded" in note for note in found.notes)


def test_reference_replies_are_copied(tmp_path: Path) -> None:
    spoken, damaged = tmp_path / "spoken.flac", tmp_path / "damaged.flac"
    write_flac(spoken, PCM, 24_000)
    damaged.write_bytes(b"fLaC")
    made = PerformedSet(tmp_path / "takes")
    made.begin(CONSENT)
    for script, reference in (("a", spoken), ("b", damaged), ("c", tmp_path / "absent.flac")):
        take = made.take_of(replace(case(script), reference_audio_path=reference))
        made.record(take, PCM, 24_000)
        made.accept(take)
    found = {each.script_id: each.reference_audio_path for each in load(tmp_path / "takes").cases}
    assert [name for name, path in found.items() if path is not None] == ["a"]
    assert found["a"] is not None
    assert np.array_equal(read_audio(found["a"]).audio.int16(), PCM)


def test_takes_do_not_mix_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="expected a new or empty folder"):
        PerformedSet(tmp_path).begin(CONSENT)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match="expected a new or empty folder"):
        PerformedSet(tmp_path / "link").begin(CONSENT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "mine.txt"]


def test_nothing_is_written_before_consent(tmp_path: Path) -> None:
    made = PerformedSet(tmp_path / "takes")
    made.take_of(case())
    assert not (tmp_path / "takes").exists()
    assert str(tmp_path / "takes") in consent_question(made.folder, "a model")


def test_the_bundled_sample_can_be_performed() -> None:
    chosen, notes = performable(load(sample_path()).cases)
    assert len({each.script_id for each in chosen}) == 5
    assert notes
