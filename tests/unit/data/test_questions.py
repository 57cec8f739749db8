"""Multiple-choice questions: options, keys and types in any spelling, and unusable questions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.data import QUESTION_TYPES, DataOptions, load
from live_eval.data._choices import parse_answer, parse_options
from live_eval.data.questions import question_type
from live_eval.errors import UsageError
from live_eval.types import Case, Task, Variant

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT.parent / "shared" / "echomind-demo"

ENTRY = {
    "question_id": "q1_id_7",
    "question": "What is heard?",
    "options_text": "A. A dog.\nB. A cat.",
    "audio_dir": "dog",
    "audio_name": "id_7_dog_family_target.wav",
    "answer": "B",
    "question_type": "Fine Grained Background Sound Detection",
}


def asked(tmp_path: Path, options: DataOptions | None = None, **changes: Any) -> Case:
    folder = tmp_path / "data_synthesis"
    (folder / "audio" / "dog").mkdir(parents=True)
    (folder / "MCQ").mkdir()
    soundfile.write(folder / "audio" / "dog" / "id_7_dog_family_target.wav", np.zeros(9), 24_000)
    script = {"case_id": "id_7", "target_audio_info": {"target_input_audio_file": "dog/id_7_target.wav"}}
    (folder / "script_info_synthesis.json").write_text(json.dumps([script]))
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
    (folder / "MCQ" / "understanding.json").write_text(json.dumps([entry]))
    [case] = load(tmp_path, options).of(Task.UNDERSTANDING)
    return case


def test_a_question_is_a_case_about_a_recording(tmp_path: Path) -> None:
    case = asked(tmp_path)
    assert case.problem is None
    assert case.question is not None
    assert (case.case_id, case.script_id, case.variant) == ("understanding/q1_id_7", "id_7", Variant.TARGET)
    assert case.audio_path == tmp_path / "data_synthesis/audio/dog/id_7_dog_family_target.wav"
    assert case.question.options == (("A", "A dog."), ("B", "A cat."))
    assert (case.question.answer, case.question.kind) == ("B", "background sound")


@pytest.mark.parametrize("answer", ["B", "b", "(B)", "B:", "B. A cat.", "b) a cat", "a cat.", "b."])
def test_a_key_is_a_letter_or_the_options_text(tmp_path: Path, answer: str) -> None:
    question = asked(tmp_path, answer=answer).question
    assert question is not None
    assert question.answer == "B"


def test_a_question_without_a_key_can_be_asked(tmp_path: Path) -> None:
    case = asked(tmp_path, answer=None)
    assert case.problem is None
    assert case.question is not None
    assert case.question.answer is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"options_text": None}, "expected options"),
        ({"options_text": "A. only one"}, "at least two options"),
        ({"options_text": "A. one\nC. three"}, "expected option B, got 'C. three'"),
        ({"options_text": "A. one\nB. two\nB. three"}, "expected option C, got 'B. three'"),
        ({"options_text": "A. one\nC. three\nB. two"}, "expected option B, got 'C. three'"),
        ({"options_text": "A. one\nB."}, "option B is empty"),
        ({"options_text": "A. Rain.\nB. rain"}, "options A and B are equal: 'rain'"),
        ({"options_text": [None, "x"]}, "expected option A to be text, got None"),
        ({"options_text": {"A": "x", "B": True}}, "expected option B to be text, got True"),
        ({"answer": "E"}, "expected the answer to be one of A, B, got 'E'"),
        ({"answer": "B. A dog."}, "the answer 'B. A dog.' contradicts option B, 'A cat.'"),
        ({"question": " "}, "expected a question under one of the fields question, question_text, query"),
        ({"question": " "}, ", question (empty)"),
        ({"audio_dir": "../..", "audio_name": "../../x.wav"}, "is outside"),
        ({"audio_name": None}, "expected a recording"),
    ],
)
def test_an_unusable_question_is_kept_with_its_problem(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    case = asked(tmp_path, **changes)
    assert case.problem is not None
    assert problem in case.problem
    assert "understanding.json, entry 1" in case.problem
    assert case.lacks_recording is ("audio_name" in changes)


def test_a_folder_does_not_lead_out_of_the_data(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    soundfile.write(elsewhere / "id_7_dog_family_target.wav", np.zeros(9), 24_000)
    for number, folder in enumerate((str(elsewhere), "../../../elsewhere")):
        case = asked(tmp_path / str(number), audio_dir=folder)
        assert case.problem is not None
        assert f"the path {folder!r} given as folder is outside" in case.problem
        assert not case.audio_path.is_relative_to(elsewhere)
    # A folder name from another machine is ignored if the recording is found next to the others.
    here = "dog/id_7_dog_family_target.wav"
    found = asked(tmp_path / "here", audio_dir=str(elsewhere), audio_name=here)
    assert found.problem is None
    assert found.audio_path == tmp_path / "here" / "data_synthesis" / "audio" / here
    assert asked(tmp_path / "dot", audio_dir=".", audio_name="dog/id_7_dog_family_target.wav").problem is None


@pytest.mark.parametrize(
    "changes", [{"answer": "E"}, {"options_text": None}, {"question": None}, {"audio_name": None}]
)
def test_the_type_of_an_unusable_question_is_kept(tmp_path: Path, changes: dict[str, Any]) -> None:
    case = asked(tmp_path, **changes)
    assert case.problem is not None
    assert case.question is not None
    assert case.question.kind == "background sound"
    assert case.question.answer in (None, "B")


def test_a_shared_question_id_is_numbered_and_noted(tmp_path: Path) -> None:
    asked(tmp_path)
    file = tmp_path / "data_synthesis" / "MCQ" / "understanding.json"
    file.write_text(json.dumps([ENTRY, ENTRY, {**ENTRY, "question_id": None}, 3]))
    data = load(tmp_path)
    first, again, without, none = data.of(Task.UNDERSTANDING)
    assert (first.problem, again.problem, without.problem) == (None, None, None)
    assert again.case_id == "understanding/q1_id_7#2"
    assert "several questions have the ID q1_id_7; repeated IDs are numbered" in " ".join(data.notes)
    assert none.problem is not None
    assert none.problem.endswith("entry 4: expected an object, got 3")


def test_fields_of_questions_can_be_mapped(tmp_path: Path) -> None:
    options = DataOptions(fields={"question.answer": "gold_letter"})
    question = asked(tmp_path, options, gold_letter="A", answer=None).question
    assert question is not None
    assert question.answer == "A"


def test_a_mapping_that_matches_no_question_is_refused(tmp_path: Path) -> None:
    told = r"MCQ/understanding.json: no entry has the field 'NOPE' mapped to question.answer; found ques"
    with pytest.raises(UsageError, match=told):
        asked(tmp_path, DataOptions(fields={"question.answer": "NOPE"}))
    (tmp_path / "data_synthesis" / "MCQ" / "reasoning.json").write_text(json.dumps([{"NOPE": "A"}]))
    assert load(tmp_path, DataOptions(fields={"question.answer": "NOPE"})).questions, "one file has it"


def test_a_missing_key_is_noted_with_the_spellings_tried(tmp_path: Path) -> None:
    asked(tmp_path, answer=None, solution="B")
    [note] = [note for note in load(tmp_path).notes if "answer key" in note]
    assert "MCQ/understanding.json: the answer key is missing from 1 of 1 questions; tried answer, " in note
    assert "the fields are: question_id, " in note
    assert "solution (--map question.answer=NAME)" in note


def script(case_id: str, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "case_id": case_id,
        "script": f"{case_id} says.",
        "spoken_info": "yawn",
        "topic": "work",
    }
    for variant in Variant:
        made[f"{variant}_audio_info"] = {
            f"{variant}_input_audio_file": f"{case_id}-{variant}.wav",
            f"{variant}_spoken_info": {"target": "yawn sound", "neutral": "neutral"}.get(variant, "sigh"),
        }
    return {**made, "language": "de", **changes}


def test_gaps_of_a_question_are_filled_from_its_recording_or_script(tmp_path: Path) -> None:
    asked(tmp_path)
    folder = tmp_path / "data_synthesis"
    (folder / "script_info_synthesis.json").write_text(json.dumps([script("one"), script("id_2")]))
    wanted = {"question": "What?", "options": ["x", "y"], "answer": "A"}
    entries = [
        {**wanted, "audio_name": "one-alternative.wav"},
        {**wanted, "audio_name": "id_2_neutral.wav"},
        {**wanted, "audio_name": "id_3_target.wav"},
        {**wanted, "audio_name": "one-target.wav", "text": "own", "topic": "home", "language": "fr"}
        | {"cue": "rain", "script_id": "own"},
    ]
    (folder / "MCQ" / "understanding.json").write_text(json.dumps(entries))
    found = [
        (case.script_id, case.variant, case.text, case.cue and case.cue.attribute, case.topic, case.language)
        for case in load(tmp_path).of(Task.UNDERSTANDING)
    ]
    assert found == [
        ("one", "alternative", "one says.", "sigh", "work", "de"),
        ("id_2", "neutral", "id_2 says.", "neutral", "work", "de"),
        ("id_3", "target", None, None, None, "en"),
        ("own", "target", "own", "rain", "home", "fr"),
    ]


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("A. one\n   and a half\nB) two", ["one and a half", "two"]),
        ("(a) one\n(b) two", ["one", "two"]),
        (["one", "two"], ["one", "two"]),
        (["A. one", "B. two"], ["one", "two"]),
        ({"a": "one", "b": "two"}, ["one", "two"]),
    ],
)
def test_options_in_any_spelling(given: Any, texts: list[str]) -> None:
    assert parse_options(given) == tuple(zip("AB", texts, strict=True))


def test_a_key_may_be_the_text_of_an_option() -> None:
    assert parse_answer("A. M. Smith", [("A", "B. M. Jones"), ("B", "A. M. Smith")]) == "B"
    assert parse_answer("It's rain", [("A", "It’s wind"), ("B", "It’s rain.")]) == "B"


@pytest.mark.parametrize(
    ("task", "spelled", "kind"),
    [
        (Task.UNDERSTANDING, "Fine Grained Nve Recognition", "non-verbal expression"),
        (Task.UNDERSTANDING, "Fine Grained Age Group Classification", "age group"),
        (Task.REASONING, "Multiple People Detection", "multiple people"),
        (Task.REASONING, "Empathy Aware Response Selection", "empathy-aware response selection"),
        (Task.REASONING, "something new", "something new"),
        (Task.REASONING, None, "unknown"),
    ],
)
def test_types_by_the_papers_names(task: Task, spelled: str | None, kind: str) -> None:
    assert question_type(task, spelled) == kind


def test_the_paper_has_eight_types_and_ten() -> None:
    assert [len(QUESTION_TYPES[task]) for task in (Task.UNDERSTANDING, Task.REASONING)] == [8, 10]
    for task, kinds in QUESTION_TYPES.items():
        assert {question_type(task, kind) for kind in kinds} == set(kinds)


@pytest.mark.echomind
@pytest.mark.skipif(not DEMO.is_dir(), reason="EchoMind's demonstration data is not next to the project")
def test_every_question_of_the_demonstration_can_be_asked() -> None:
    data = load(DEMO)
    cases = [*data.of(Task.UNDERSTANDING), *data.of(Task.REASONING)]
    assert len(cases) == 9
    for case in cases:
        assert case.problem is None
        assert case.audio_path.is_file()
        assert case.question is not None
        assert case.question.answer is not None
        assert case.question.kind in QUESTION_TYPES[case.task]


def test_transcription_takes_all_variants_or_only_the_target() -> None:
    data = load(ROOT / "live_eval" / "data" / "sample")
    everything = data.of(Task.TRANSCRIPTION)
    assert [case.case_id for case in everything] == [f"transcription/{case.case_id}" for case in data.cases]
    target = data.of(Task.TRANSCRIPTION, transcribe=[Variant.TARGET])
    assert {case.variant for case in target} == {Variant.TARGET}
