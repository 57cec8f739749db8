"""The probes play what they say, and a user's recordings where they fit."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import webrtcvad

from live_eval.analysis.turn_taking.outcomes import Rule, rule_of
from live_eval.audio import resample
from live_eval.campaigns.duplex.probes import (
    OWN,
    PROBES,
    Probe,
    note_on_pauses,
    probes_for,
    sentinel,
    sessions_of,
    trials_of,
)
from live_eval.campaigns.duplex.probes.own_recordings import inner_parts, own_probe
from live_eval.campaigns.duplex.stimuli import (
    LONGEST_SILENCE_MS,
    RATE_HZ,
    Composer,
    Gap,
    Line,
    Noise,
    Recorded,
    Say,
    TrialScript,
)
from live_eval.data import load, locate
from live_eval.data.dataset import DataKind, DataSet
from live_eval.errors import DataError, UsageError
from live_eval.reference.engine.endpointer import Detection, Endpointer, SpeechChangeKind
from live_eval.speech.boundaries import find_boundaries
from live_eval.speech.voice_activity import speech_probabilities
from live_eval.timing import audible_onset
from live_eval.types import Anchor, AnchorKind, Case, Cue, SpeechKind, SpokenPart, Variant
from tests.unit.campaigns.duplex.test_stimuli import audio_of

_RULES = {
    "response-latency": {Rule.ANSWER},
    "pause": {Rule.PAUSE},
    "filled-pause": {Rule.PAUSE},
    "expressive-pause": {Rule.PAUSE},
    "barge-in": {Rule.INTERRUPTION},
    "simultaneous": {Rule.INTERRUPTION},
    "correction": {Rule.INTERRUPTION},
    "backchannel": {Rule.BACKCHANNEL},
    "side-talk": {Rule.BACKCHANNEL, Rule.FALSE_TRIGGER},
    "noise": {Rule.BACKCHANNEL, Rule.FALSE_TRIGGER},
}


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def played(trial: TrialScript, composer: Composer) -> list[Case]:
    """The cases of a trial, as far as the rule depends on them."""
    return [case_of(line, composer) for line in trial.lines]


def case_of(line: Line, composer: Composer) -> Case:
    return Case(
        case_id="a",
        script_id="a",
        variant=Variant.TARGET,
        audio_path=Path("a.flac"),
        speech=line.speech,
        anchor=line.anchor,
        parts=composer.compose(line.pieces).parts,
    )


def test_every_probe_asks_what_it_is_for(composer: Composer) -> None:
    assert _RULES.keys() == PROBES.keys()
    for name, probe in PROBES.items():
        assert {rule_of(played(trial, composer)) for trial in trials_of([probe], 1, 0)} == _RULES[name]


def fluent_lines() -> list[Line]:
    """The utterances of speech that are not made to pause, each once."""
    lines = {line.pieces: line for lines in sessions_of(PROBES.values()) for line in lines}
    kinds = (Gap, Noise)
    return [line for line in lines.values() if not any(isinstance(piece, kinds) for piece in line.pieces)]


def test_no_utterance_has_unintended_pauses(composer: Composer) -> None:
    for line in fluent_lines():
        pcm = resample(audio_of(composer.compose(line.pieces).pcm), 16_000).int16()
        detector = webrtcvad.Vad(3)  # the setting that finds the most silence
        spoken = [
            detector.is_speech(pcm[at : at + 160].tobytes(), 16_000) for at in range(0, len(pcm) - 159, 160)
        ]
        found = np.flatnonzero(spoken)
        assert len(found)
        assert 10 * (np.diff(found).max() - 1) <= 200, line.text


@pytest.mark.parametrize("silence_ms", [300, 500, 900])
def test_no_detector_ends_a_turn_inside_an_utterance(composer: Composer, silence_ms: int) -> None:
    for line in fluent_lines():
        pcm = composer.compose(line.pieces).pcm
        detector = Endpointer(Detection(silence_ms=silence_ms))
        audio = audio_of(np.concatenate([pcm, np.zeros(RATE_HZ * 3 // 2, np.int16)]))
        changes = [change for each in speech_probabilities(audio) if (change := detector.feed(float(each)))]
        ends = [change.heard_ms for change in changes if change.kind is SpeechChangeKind.STOPPED]
        assert len(ends) == 1, line.text
        assert ends[0] > 1000 * len(pcm) / RATE_HZ, line.text


def test_every_stretch_of_an_interruption_is_annotated(composer: Composer) -> None:
    for trial in trials_of([PROBES["barge-in"]], 4, 0):
        made = composer.compose(trial.lines[1].pieces)
        gaps_ms = [(after.onset_ns - before.end_ns) / 1e6 for before, after in pairwise(made.parts)]
        assert gaps_ms, "each has two sentences"
        assert max(gaps_ms) <= LONGEST_SILENCE_MS + 0.001
        for before, after in pairwise(made.parts):
            begin, end = (ns * RATE_HZ // 1_000_000_000 for ns in (before.end_ns, after.onset_ns))
            assert audible_onset(made.pcm[begin + 1 : end], RATE_HZ) is None


def test_the_ladder_has_the_gaps_of_its_conditions() -> None:
    for trial in trials_of([PROBES["pause"]], 1, 0):
        (gap,) = (piece for piece in trial.lines[0].pieces if isinstance(piece, Gap))
        assert trial.trial.condition == f"{gap.ms} ms"


def test_barge_ins_are_anchored_to_the_audible_reply() -> None:
    anchors = [str(trial.lines[1].anchor) for trial in trials_of([PROBES["barge-in"]], 1, 0)]
    assert anchors == ["reply_audible+400ms", "reply_audible+900ms", "reply_audible+1500ms"]


def test_a_correction_knows_the_words_that_take_it_up() -> None:
    for trial in trials_of([PROBES["correction"]], 2, 0):
        assert trial.trial.meant
        assert trial.trial.meant[0] in trial.lines[1].text.lower()


def test_trials_cycle_through_the_variants_from_a_seeded_start() -> None:
    probes = list(PROBES.values())
    first, again, other = (trials_of(probes, 4, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({trial.trial.trial_id for trial in first}) == len(first)
    latency = [trial.lines[0].text for trial in first if trial.trial.probe == "response-latency"]
    assert len(set(latency)) == 4
    alone = trials_of([PROBES["backchannel"]], 4, 1)
    assert alone == [trial for trial in first if trial.trial.probe == "backchannel"], (
        "whatever else is played"
    )


def test_the_drift_check_asks_one_question() -> None:
    trials = sentinel("middle", 3)
    assert [trial.trial.trial_id for trial in trials] == [f"sentinel-middle-{n}" for n in (1, 2, 3)]
    assert len({trial.lines for trial in trials}) == 1


def test_an_unknown_probe_is_named() -> None:
    with pytest.raises(UsageError, match="unknown probe 'hum'; there are: response-latency, "):
        probes_for(["hum"], None)
    with pytest.raises(UsageError, match="needs --data"):
        probes_for([OWN], None)


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


def test_data_without_annotations_is_refused_where_a_probe_needs_them() -> None:
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


def test_the_pauses_of_expressive_speakers_come_from_the_data() -> None:
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
