"""The bundled probes: their scripts, pauses and anchors."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import webrtcvad

from live_eval.analysis.turn_taking.outcomes import Rule, rule_of
from live_eval.audio import resample
from live_eval.campaigns.duplex.probes import (
    OWN,
    PROBES,
    probes_for,
    sentinel,
    sessions_of,
    trials_of,
)
from live_eval.campaigns.duplex.stimuli import (
    LONGEST_SILENCE_MS,
    RATE_HZ,
    Composer,
    Gap,
    Line,
    Noise,
    TrialScript,
)
from live_eval.errors import UsageError
from live_eval.reference.engine.endpointer import Detection, Endpointer, SpeechChangeKind
from live_eval.speech.voice_activity import speech_probabilities
from live_eval.timing import audible_onset
from live_eval.types import Case, Variant
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
    "noise": {Rule.BACKCHANNEL, Rule.BEFORE_REPLY, Rule.FALSE_TRIGGER},
}


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def played(trial: TrialScript, composer: Composer) -> list[Case]:
    """Return the cases of a trial with the fields that the rule depends on."""
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


@pytest.mark.slow
def test_every_probe_has_its_rule(composer: Composer) -> None:
    assert _RULES.keys() == PROBES.keys()
    for name, probe in PROBES.items():
        assert {rule_of(played(trial, composer)) for trial in trials_of([probe], 1, 0)} == _RULES[name]


def fluent_lines() -> list[Line]:
    """Return each spoken utterance without intended pauses once."""
    lines = {line.pieces: line for lines in sessions_of(PROBES.values()) for line in lines}
    kinds = (Gap, Noise)
    return [line for line in lines.values() if not any(isinstance(piece, kinds) for piece in line.pieces)]


def test_no_utterance_has_unintended_pauses(composer: Composer) -> None:
    for line in fluent_lines():
        pcm = resample(audio_of(composer.compose(line.pieces).pcm), 16_000).int16()
        detector = webrtcvad.Vad(3)  # the setting that detects the most silence
        spoken = [
            detector.is_speech(pcm[at : at + 160].tobytes(), 16_000) for at in range(0, len(pcm) - 159, 160)
        ]
        found = np.flatnonzero(spoken)
        assert len(found)
        assert 10 * (np.diff(found).max() - 1) <= 200, line.text


@pytest.mark.slow
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
    with pytest.raises(UsageError, match="unknown probe 'hum'; expected one of response-latency, "):
        probes_for(["hum"], None)
    with pytest.raises(UsageError, match="requires --data"):
        probes_for([OWN], None)


def test_a_plan_can_be_limited_to_some_conditions() -> None:
    limited = probes_for(["pause", "barge-in"], None, ["400 ms", "1500 ms"])
    assert [(probe.name, [each.name for each in probe.conditions]) for probe in limited] == [
        ("pause", ["400 ms", "1500 ms"]),
        ("barge-in", ["400 ms", "1500 ms"]),
    ]
    assert [probe.name for probe in probes_for(["pause", "barge-in"], None, ["200 ms"])] == ["pause"]
    with pytest.raises(UsageError, match=r"unknown condition '40 ms'.*; expected one of 200 ms, 400 ms"):
        probes_for(["pause"], None, ["40 ms"])
