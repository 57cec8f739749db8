"""The columns that turn a dialogue into a script: speech, anchor and parts."""

import json
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import DataSet, load
from live_eval.types import Anchor, AnchorKind, SpeechKind, SpokenPart, Task
from tests.support.scripts import PARTS, row, script

MS = 1_000_000


def table(tmp_path: Path, text: str) -> DataSet:
    path = tmp_path / "mine.tsv"
    path.write_text(text, "utf-8")
    return load(path)


def test_a_script(tmp_path: Path) -> None:
    first, second = script(tmp_path, {}, {"speech": "Backchannel", "anchor": "reply_audible+900ms"})
    assert (first.problem, second.problem) == (None, None)
    assert (first.speech, first.anchor, first.parts) == (SpeechKind.TURN, None, ())
    assert second.speech is SpeechKind.BACKCHANNEL
    assert second.anchor == Anchor(AnchorKind.REPLY_AUDIBLE, 900 * MS)


def test_parts_are_the_boundaries_too(tmp_path: Path) -> None:
    case = row(tmp_path, parts=PARTS)
    assert case.problem is None
    assert case.parts == (
        SpokenPart(120 * MS, 870_500_000, "I would like"),
        SpokenPart(1_870 * MS, 2_400 * MS),
    )
    assert case.boundaries is not None
    assert (case.boundaries.onset_ns, case.boundaries.voice_end_ns) == (120 * MS, 2_400 * MS)
    assert case.boundaries.method == "annotation"


def test_a_table_has_parts_as_json(tmp_path: Path) -> None:
    text = json.dumps(PARTS).replace('"', '""')
    (case,) = table(tmp_path, f'audio\tspeech\tparts\na.wav\tnoise\t"{text}"\n').cases
    assert (case.problem, case.speech, len(case.parts)) == (None, SpeechKind.NOISE, 2)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"speech": "shout"},
            "expected speech to be one of turn, backchannel, vocal_tic, non_directed, noise",
        ),
        (
            {"anchor": "reply_audible+900ms"},
            "requires an earlier utterance, but this is not a turn of a dialogue",
        ),
        ({"anchor": "soon"}, "expected an anchor such as reply_audible+900ms"),
        ({"anchor": ["x"]}, "expected anchor to be text"),
        ({"parts": "later"}, "expected parts to be a list, got 'later'"),
        ({"parts": {"onset_ms": 1}}, "expected parts to be a list"),
        ({"parts": [7]}, "expected part 1 to be an object, got 7"),
        (
            {"parts": [{"onset_ms": 1}]},
            "expected end_ms of part 1 to be a number of milliseconds, got None",
        ),
        ({"parts": [{"onset_ms": 5, "end_ms": 5}]}, "part 1 goes from 5 to 5 ms"),
        ({"parts": [{"onset_ms": -1, "end_ms": 5}]}, "part 1 goes from -1 to 5 ms"),
        (
            {"parts": [*PARTS, PARTS[0]]},
            "part 3 goes from 120 to 870.5 ms and the previous part ends at 2400",
        ),
        ({"parts": [{**PARTS[0], "text": 3}]}, "expected the text of part 1 to be text"),
        (
            {"parts": PARTS, "onset_ms": 120, "voice_end_ms": 900},
            "the parts span 120 to 2400 ms, but onset_ms and voice_end_ms are 120 and 900",
        ),
    ],
)
def test_an_invalid_value_is_a_problem_of_the_row(
    tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    found = row(tmp_path, **fields).problem
    assert found is not None
    assert found.startswith("mine.jsonl, line 1: ")
    assert problem in found


def test_the_first_turn_has_no_anchor(tmp_path: Path) -> None:
    anchored = {"anchor": "reply_ended+1s"}
    first, second = script(tmp_path, anchored, anchored)
    assert first.problem is not None
    assert "the anchor reply_ended+1000ms requires an earlier utterance" in first.problem
    assert second.problem is None


def test_a_turn_to_be_transcribed_has_its_own_session(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    turns = [{"audio": "a.wav"}, {"audio": "b.wav", "speech": "noise", "anchor": "utterance_ended"}]
    path.write_text(json.dumps({"turns": turns}), "utf-8")
    _, second = load(path).of(Task.TRANSCRIPTION)
    assert (second.dialogue_id, second.anchor, second.speech) == (None, None, SpeechKind.TURN)
