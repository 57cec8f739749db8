"""Probes of a user's own recordings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile

from live_eval.campaigns.duplex.probes import (
    OWN,
    Probe,
    note_on_pauses,
    probes_for,
    trials_of,
)
from live_eval.campaigns.duplex.probes.own_recordings import inner_parts, own_probe
from live_eval.campaigns.duplex.stimuli import (
    RATE_HZ,
    Composer,
    Gap,
    Recorded,
    Say,
)
from live_eval.data import load, locate
from live_eval.data.dataset import DataKind, DataSet
from live_eval.errors import DataError
from live_eval.speech.boundaries import find_boundaries
from live_eval.types import Anchor, AnchorKind, Case, Cue, SpeechKind, SpokenPart, Variant
from tests.unit.campaigns.duplex.test_stimuli import audio_of

# -- Recordings of the user's --------------------------------------------------------------------------


def data_set(*cases: Case) -> DataSet:
    return DataSet(name="mine", root=Path("mine.jsonl"), kind=DataKind.MANIFEST, cases=cases)


OPENER = Case(
    case_id="d/1",
    script_id="d",
    variant=Variant.TARGET,
    audio_path=Path("opener.wav"),
    text="Tell me more.",
    dialogue_id="d",
)


OVER = replace(
    OPENER,
    case_id="d/2",
    audio_path=Path("hum.wav"),
    turn_index=1,
    speech=SpeechKind.BACKCHANNEL,
    anchor=Anchor(AnchorKind.REPLY_AUDIBLE, 900_000_000),
)


PLAIN = replace(OPENER, case_id="plain", dialogue_id=None)


def test_only_annotated_recordings_are_used() -> None:
    probe = own_probe(data_set(OPENER, OVER, PLAIN))
    (condition,) = probe.conditions
    assert (condition.name, condition.variants) == ("backchannel, reply_audible+900ms", 1)
    assert [line.text for line in condition.lines(0)] == ["Tell me more.", "Tell me more."]


def test_every_recording_of_the_user_is_used_at_least_once() -> None:
    both = [replace(PLAIN, case_id=f"p{n}", parts=(SpokenPart(0, n), SpokenPart(9, 10))) for n in (1, 2)]
    trials = trials_of([own_probe(data_set(*both))], 1, 0)
    assert len(trials) == 2


def test_trials_name_the_first_trial_with_the_same_recordings() -> None:
    other = replace(PLAIN, case_id="other", audio_path=Path("other.wav"))
    both = [replace(each, parts=(SpokenPart(0, 1), SpokenPart(9, 10))) for each in (PLAIN, other)]
    trials = trials_of([own_probe(data_set(*both))], 4, 0)
    assert [each.trial.recorded for each in trials] == [trials[at].trial.trial_id for at in (0, 1, 0, 1)]
    assert {each.trial.recorded for each in trials_of(probes_for(["barge-in"], None), 8, 0)} == {""}


def test_data_without_annotations_is_refused_if_a_probe_needs_them() -> None:
    with pytest.raises(DataError, match="annotations speech, anchor or parts, found none among 1"):
        probes_for([OWN], data_set(PLAIN))
    with pytest.raises(DataError, match="speakers who pause"):
        probes_for(["expressive-pause"], data_set(PLAIN))
    assert OWN not in [probe.name for probe in probes_for([], data_set(PLAIN))]


def test_pauses_of_a_recording_are_found() -> None:
    made = Composer().compose(
        (Say("I just do not know"), Gap(900), Say("what to do."), Gap(250), Say("Really."))
    )
    audio = audio_of(made.pcm)
    first, second = inner_parts(audio, find_boundaries(audio))
    assert first.end_ns / 1e6 == pytest.approx(made.parts[0].end_ns / 1e6, abs=150)
    assert second.onset_ns / 1e6 == pytest.approx(made.parts[1].onset_ns / 1e6, abs=100)


@pytest.mark.slow
def test_a_recording_that_pauses_over_a_reply_is_noted(tmp_path: Path) -> None:
    def recorded(gap_ms: int) -> Probe:
        made = Composer().compose((Say("I would like to know"), Gap(gap_ms), Say("who invented it.")))
        path = tmp_path / f"{gap_ms}.wav"
        soundfile.write(path, made.pcm, RATE_HZ)
        over = replace(OVER, audio_path=path, speech=SpeechKind.TURN)
        return own_probe(data_set(OPENER, over))

    paused, fluent = recorded(700), recorded(100)
    (line,) = paused.conditions[0].lines(0)[1:]
    (piece,) = line.pieces
    assert isinstance(piece, Recorded)
    assert len(piece.parts) == 2, "silence does not overlap"
    assert re.match(
        r"1 of 2 recordings with a pause of more than 200 ms, up to [67]\d\d ms", note_on_pauses([paused])
    )
    assert not note_on_pauses([fluent])


def test_the_pauses_of_expressive_speakers_are_taken_from_the_data() -> None:
    sample = load(locate("sample"))
    parts = (SpokenPart(0, 1_000_000), SpokenPart(5_000_000, 6_000_000))
    sobbing = replace(sample.cases[0], cue=Cue("sobbing sound", "sobbing"), parts=parts, dialogue_id=None)
    (probe,) = probes_for(["expressive-pause"], data_set(sobbing))
    (condition,) = probe.conditions
    assert condition.name == "sobbing"
    (line,) = condition.lines(0)
    (recorded,) = line.pieces
    assert isinstance(recorded, Recorded)
    assert recorded.parts == parts
