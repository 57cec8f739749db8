"""Dialogues in manifests, and the bundled ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import SAMPLE_DIALOGUES, DataSet, check, load, locate, select
from live_eval.types import Case, Task


def manifest(folder: Path, *rows: Any) -> DataSet:
    path = folder / "manifest.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return load(path)


def turn(name: str, **more: Any) -> dict[str, Any]:
    return {"audio": f"{name}.wav", "text": name, **more}


def names(cases: list[Case]) -> list[str]:
    return [case.case_id for case in cases]


@pytest.fixture
def data(tmp_path: Path) -> DataSet:
    return manifest(
        tmp_path,
        {
            "id": "d",
            "topic": "work",
            "language": "de",
            "turns": [turn("x", cue="rain"), turn("y", topic="z")],
        },
        turn("single"),
        {"id": "e", "turns": [turn("u"), turn("v", cue="whisper", script_cue="rain")]},
    )


def test_each_turn_is_a_case(data: DataSet) -> None:
    assert names(list(data.cases)) == ["d/1", "d/2", "single", "e/1", "e/2"]
    assert [case.dialogue_id for case in data.cases] == ["d", "d", None, "e", "e"]
    assert [case.turn_index for case in data.cases] == [0, 1, 0, 0, 1]
    assert [case.script_id for case in data.cases] == ["d", "d", "single", "e", "e"]
    assert [case.problem for case in data.cases] == [None] * 5
    assert data.notes == ()


def test_fields_of_a_row_apply_to_its_turns(data: DataSet) -> None:
    first, second = data.cases[:2]
    assert (first.topic, second.topic) == ("work", "z")
    assert (first.language, second.language) == ("de", "de")
    assert first.audio_path.name == "x.wav"


def test_a_turn_has_its_own_cue(data: DataSet) -> None:
    cues = [case.script_cue.attribute if case.script_cue else None for case in data.cases]
    assert cues == ["rain", None, None, None, "rain"]


def test_a_dialogue_without_an_id_is_named_after_its_line(tmp_path: Path) -> None:
    data = manifest(tmp_path, {"turns": [turn("a"), turn("b")]}, {"turns": [turn("c")]})
    assert names(list(data.cases)) == [
        "manifest.jsonl, line 1/1",
        "manifest.jsonl, line 1/2",
        "manifest.jsonl, line 2/1",
    ]


def test_two_dialogues_with_one_id(tmp_path: Path) -> None:
    data = manifest(tmp_path, {"id": "d", "turns": [turn("a")]}, {"id": "d", "turns": [turn("b"), turn("c")]})
    assert names(list(data.cases)) == ["d/1", "d#2/1", "d#2/2"]
    assert [case.problem is None for case in data.cases] == [True, False, False]
    assert "the ID d was used by an earlier row" in (data.cases[2].problem or "")


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([], "expected a list of turns under 'turns', got []"),
        ("x", "expected a list of turns under 'turns', got 'x'"),
        ({"audio": "a.wav"}, "expected a list of turns under 'turns'"),
        ([turn("a"), 7], "expected turn 2 to be an object, got 7"),
        ([turn("a"), {"text": "no recording"}], "expected a recording under one of the fields"),
    ],
)
def test_unreadable_turns_are_failed_turns(tmp_path: Path, turns: Any, said: str) -> None:
    data = manifest(tmp_path, turn("fine"), {"id": "d", "turns": turns})
    problems = [case.problem for case in data.cases if case.problem]
    assert len(problems) == 1
    assert problems[0].startswith("manifest.jsonl, line 2: ")
    assert said in problems[0]


def test_selecting_a_turn_selects_its_dialogue(data: DataSet) -> None:
    assert names(select(data.cases, cues=["whisper"])) == ["e/1", "e/2"]
    assert names(select(data.cases, limit=1)) == ["d/1", "d/2"]
    assert names(select(data.cases, case_ids=["e/2", "single"])) == ["single", "e/1", "e/2"]
    assert names(select(data.cases, case_ids=["d"])) == ["d/1", "d/2"]


def test_transcription_has_a_session_for_each_turn(data: DataSet) -> None:
    cases = data.of(Task.TRANSCRIPTION)
    assert names(list(cases)) == [f"transcription/{case.case_id}" for case in data.cases]
    assert {case.dialogue_id for case in cases} == {None}
    assert [case.script_id for case in cases] == [case.script_id for case in data.cases]


def test_the_bundled_dialogues() -> None:
    """At least four dialogues of three turns; the cue changes midway; every turn has a reference reply."""
    path = locate(SAMPLE_DIALOGUES)
    report = check(load(path))
    assert report.ok
    assert report.dataset.notes == ()
    dialogues: dict[str | None, list[Case]] = {}
    for case in report.dataset.cases:
        dialogues.setdefault(case.dialogue_id, []).append(case)
    assert len(dialogues) >= 4
    for turns in dialogues.values():
        assert [case.turn_index for case in turns] == [0, 1, 2]
        cues = [case.cue.attribute for case in turns if case.cue is not None]
        assert len(cues) == 3
        assert len(set(cues)) == 2
        assert all(case.reference_text and case.text for case in turns)
    kinds = {(file.format, file.subtype, file.rate_hz, file.channels, file.notes) for file in report.files}
    assert kinds == {("FLAC", "PCM_16", 24_000, 1, ())}
    assert {file.path for file in report.files} == set(path.parent.glob("*.flac"))
    assert sum(file.path.stat().st_size for file in report.files) < 1_000_000
