import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.data import NEUTRAL, DataKind, DataOptions, DataSet, check, load
from live_eval.errors import DataError, UsageError
from live_eval.types import CoarseDimension, Task, Variant

ALL = DataOptions(neutral_rule=False)


def entry(case_id: str = "id_1", cue: str = "sigh sound", **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "case_id": case_id,
        "script": "I got my results today.",
        "spoken_info": cue,
        "topic": "school",
    }
    for variant, phrase in (("target", cue), ("neutral", "neutral"), ("alternative", "child")):
        made[f"{variant}_audio_info"] = {
            f"{variant}_input_audio_file": f"sigh/{case_id}_{variant}.wav",
            f"{variant}_response_text": f"reply to {variant}",
            f"{variant}_response_audio_file": f"sigh/{case_id}_{variant}_response.wav",
            f"{variant}_spoken_info": phrase,
        }
    return made | changes


def write(root: Path, content: Any, part: str = "synthesis") -> Path:
    folder = root / f"data_{part}"
    (folder / "audio" / "sigh").mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"script_info_{part}.json").write_text(text, "utf-8")
    return folder


def read(root: Path, content: Any, options: DataOptions = ALL) -> DataSet:
    write(root, content)
    return load(root, options)


def problem_of(root: Path, content: Any, options: DataOptions = ALL) -> str:
    """Return the problem of the first case with a problem."""
    return next(case.problem for case in read(root, content, options).cases if case.problem is not None)


class TestLayout:
    @pytest.mark.parametrize("below", ["", "data_synthesis", "data_synthesis/script_info_synthesis.json"])
    def test_root_folder_and_file_are_recognised(self, tmp_path: Path, below: str) -> None:
        write(tmp_path, [entry()])
        data = load(tmp_path / below)
        assert data.kind is DataKind.ECHOMIND
        assert [case.case_id for case in data.cases] == ["id_1/target", "id_1/neutral", "id_1/alternative"]
        assert {case.source for case in data.cases} == {"synthesis"}

    def test_a_case_has_the_fields_of_its_entry(self, tmp_path: Path) -> None:
        target, neutral, alternative = read(tmp_path, [entry()]).cases
        audio = tmp_path / "data_synthesis" / "audio"
        assert target.script_id == "id_1"
        assert target.variant is Variant.TARGET
        assert target.audio_path == audio / "sigh" / "id_1_target.wav"
        assert target.text == "I got my results today."
        assert target.topic == "school"
        assert target.reference_text == "reply to target"
        assert target.reference_audio_path == audio / "sigh" / "id_1_target_response.wav"
        assert (target.language, target.boundaries, target.problem, target.clean_audio_path) == (
            "en",
            None,
            None,
            None,
        )
        assert target.cue is not None
        assert (target.cue.attribute, target.cue.phrase) == ("sigh", "sigh sound")
        assert neutral.cue == NEUTRAL
        assert alternative.cue is not None
        assert (alternative.cue.attribute, alternative.cue.coarse) == ("child", CoarseDimension.SPEAKER)
        assert {case.script_cue for case in (target, neutral, alternative)} == {target.cue}

    def test_variants_without_their_own_cue(self, tmp_path: Path) -> None:
        made = entry()
        for variant in Variant:
            del made[f"{variant}_audio_info"][f"{variant}_spoken_info"]
        target, neutral, alternative = read(tmp_path, [made]).cases
        assert target.cue == target.script_cue
        assert neutral.cue == NEUTRAL
        assert alternative.cue is None

    def test_human_twins_share_the_script_but_not_the_id(self, tmp_path: Path) -> None:
        write(tmp_path, [entry()], "synthesis")
        folder = write(tmp_path, [entry()], "human")
        both = load(tmp_path, ALL).cases
        assert [case.case_id for case in both[2:4]] == ["id_1/alternative", "human:id_1/target"]
        assert {case.script_id for case in both} == {"id_1"}
        assert both[3].source == "human"
        assert both[3].audio_path == folder / "audio" / "sigh" / "id_1_target.wav"
        assert load(folder, ALL).cases[0].case_id == "id_1/target"
        assert load(folder, ALL).cases[0].source == "human"

    def test_a_path_below_the_folder_itself_is_found_too(self, tmp_path: Path) -> None:
        made = entry(target_audio_info={"target_input_audio_file": "audio/sigh/a.wav"})
        folder = write(tmp_path, [made])
        soundfile.write(folder / "audio" / "sigh" / "a.wav", np.zeros(9), 24_000)
        assert load(tmp_path).cases[0].audio_path == folder / "audio" / "sigh" / "a.wav"

    def test_another_audio_root(self, tmp_path: Path) -> None:
        options = DataOptions(audio_root=tmp_path / "elsewhere")
        case = read(tmp_path, [entry()], options).cases[0]
        assert case.audio_path == tmp_path / "elsewhere" / "sigh" / "id_1_target.wav"

    def test_questions_are_counted(self, tmp_path: Path) -> None:
        folder = write(tmp_path, [entry()])
        (folder / "MCQ").mkdir()
        (folder / "MCQ" / "reasoning.json").write_text('[{"question_id": "q1"}, {"question_id": "q2"}]')
        assert load(tmp_path).question_counts == {"reasoning": 2}

    def test_a_broken_question_file_costs_only_its_own_questions(self, tmp_path: Path) -> None:
        folder = write(tmp_path, [entry()])
        (folder / "MCQ").mkdir()
        (folder / "MCQ" / "reasoning.json").write_text('[{"question_id": "q1"}]')
        for content, said in (
            ("[]", "expected a list of entries, got an empty list"),
            ("{}", "expected a list of entries, got an object with"),
            ("[oops]", "understanding.json, line 1, column 2: invalid JSON"),
        ):
            (folder / "MCQ" / "understanding.json").write_text(content)
            data = load(tmp_path)
            assert len(data.cases) == 3
            assert data.question_counts == {"reasoning": 1}
            assert any("understanding questions are excluded" in note and said in note for note in data.notes)
            assert said in data.absence(Task.UNDERSTANDING)
            assert not check(data).ok

    def test_clean_takes_named_by_the_data(self, tmp_path: Path) -> None:
        made = entry()
        made["target_audio_info"]["target_clean_audio_file"] = "sigh/id_1_neutral.wav"
        target, neutral, _ = read(tmp_path, [made]).cases
        assert target.clean_audio_path == neutral.audio_path

    @pytest.mark.parametrize("rule", [True, False])
    @pytest.mark.parametrize("there", [True, False])
    def test_neutral_is_the_clean_take_of_a_background(self, tmp_path: Path, rule: bool, there: bool) -> None:
        made = entry(cue="elderly")
        made["alternative_audio_info"]["alternative_spoken_info"] = "sound of raining"
        neutral = write(tmp_path, [made]) / "audio" / "sigh" / "id_1_neutral.wav"
        if there:
            soundfile.write(neutral, np.zeros(9), 24_000)
        by_variant = {case.variant: case for case in load(tmp_path, DataOptions(neutral_rule=rule)).cases}
        assert by_variant[Variant.TARGET].clean_audio_path is None
        assert by_variant[Variant.ALTERNATIVE].clean_audio_path == (neutral if there else None)
        assert (Variant.NEUTRAL in by_variant) is not rule


class TestNeutralRule:
    @pytest.mark.parametrize("cue", ["male", "female", "child", "adult", "Elderly"])
    def test_neutral_is_skipped_if_the_voice_gives_away_the_cue(self, tmp_path: Path, cue: str) -> None:
        data = read(tmp_path, [entry(cue=cue), entry("id_2")], DataOptions())
        assert [case.case_id for case in data.cases if case.variant is Variant.NEUTRAL] == ["id_2/neutral"]
        assert any("1 of 2 scripts without their neutral variant" in note for note in data.notes)

    def test_the_neutral_rule_can_be_turned_off(self, tmp_path: Path) -> None:
        data = read(tmp_path, [entry(cue="elderly")], ALL)
        assert len(data.cases) == 3
        assert not any("skipped" in note for note in data.notes)


class TestFields:
    @pytest.mark.parametrize("name", ["script", "text", "transcript", "spoken_text", "Script "])
    def test_spellings_of_the_text(self, tmp_path: Path, name: str) -> None:
        made = entry()
        made[name] = made.pop("script")
        assert read(tmp_path, [made]).cases[0].text == "I got my results today."

    def test_a_mapping_takes_precedence(self, tmp_path: Path) -> None:
        made = entry(words={"en": "Mapped."}, wav={"target": "b.wav"})
        options = DataOptions(fields={"text": "words.en", "audio": "wav.{variant}"})
        (case,) = read(tmp_path, [made], options).cases
        assert (case.variant, case.audio_path.name, case.text) == (Variant.TARGET, "b.wav", "Mapped.")

    def test_a_key_that_contains_a_dot(self, tmp_path: Path) -> None:
        data = read(tmp_path, [entry(**{"words.en": "Dotted."})], DataOptions(fields={"text": "words.en"}))
        assert data.cases[0].text == "Dotted."

    def test_a_mapping_to_a_missing_field_lists_the_existing_ones(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"no entry has the field 'txt' mapped to text; found case_id, "):
            read(tmp_path, [entry()], DataOptions(fields={"text": "txt"}))

    def test_a_mapping_of_an_unknown_field(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"unknown field 'words'.* expected one of id, text, "):
            read(tmp_path, [entry()], DataOptions(fields={"words": "script"}))

    def test_missing_optional_fields_are_noted_with_the_spellings_tried(self, tmp_path: Path) -> None:
        made = entry()
        del made["script"]
        data = read(tmp_path, [made])
        assert data.cases[0].text is None
        assert data.cases[0].problem is None
        assert any("text is missing from 3 of 3 cases; tried script, " in note for note in data.notes)

    def test_missing_variants_are_noted_and_have_no_case(self, tmp_path: Path) -> None:
        made = entry()
        del made["alternative_audio_info"]
        data = read(tmp_path, [made, entry("id_2")])
        assert len(data.cases) == 5
        assert any("alternative is missing from 1 of 2 scripts" in note for note in data.notes)

    def test_numbers_are_ids(self, tmp_path: Path) -> None:
        assert read(tmp_path, [entry() | {"case_id": 355}]).cases[0].case_id == "355/target"

    def test_entries_without_an_id_are_numbered(self, tmp_path: Path) -> None:
        assert read(tmp_path, [entry() | {"case_id": None}]).cases[0].case_id == "entry_1/target"


class TestBadEntries:
    """Such cases remain in the data, with a problem."""

    @pytest.mark.parametrize(
        "stated",
        [
            "../../secret.wav",
            "/etc/passwd",
            "sigh/../../../x.wav",
            "..\\..\\x.wav",
            "a\0b.wav",
            ".",
            "sigh/..",
        ],
    )
    def test_paths_that_lead_out_of_the_folder(self, tmp_path: Path, stated: str) -> None:
        made = entry(target_audio_info={"target_input_audio_file": stated})
        problem = problem_of(tmp_path, [made])
        assert "is outside" in problem
        assert "entry 1 (id_1, target)" in problem

    def test_reference_paths_that_lead_out(self, tmp_path: Path) -> None:
        made = entry()
        made["target_audio_info"]["target_response_audio_file"] = "/etc/shadow"
        assert "as reference_audio is outside" in problem_of(tmp_path, [made])

    def test_an_absolute_path_inside_is_inside(self, tmp_path: Path) -> None:
        stated = tmp_path / "data_synthesis" / "audio" / "sigh" / "a.wav"
        data = read(tmp_path, [entry(target_audio_info={"target_input_audio_file": str(stated)})])
        assert data.cases[0].audio_path == stated
        assert data.cases[0].problem is None

    def test_unknown_fields_are_named(self, tmp_path: Path) -> None:
        problem = problem_of(tmp_path, [entry(target_audio_info={"target_sound": "a.wav"}), entry("id_2")])
        assert (
            "expected a recording under one of the fields target_audio_info.target_input_audio_file"
            in problem
        )
        assert "found case_id, script, spoken_info, topic, target_audio_info.target_sound" in problem

    @pytest.mark.parametrize("value", [{"a": 1}, ["a.wav"], True])
    def test_values_that_are_not_text(self, tmp_path: Path, value: object) -> None:
        made = entry(target_audio_info={"target_input_audio_file": value})
        assert "expected audio to be text, got" in problem_of(tmp_path, [made])

    @pytest.mark.parametrize("bad", ["text", 7, None, [1]])
    def test_entries_that_are_not_objects(self, tmp_path: Path, bad: object) -> None:
        data = read(tmp_path, [bad, entry()])
        assert data.cases[0].problem is not None
        assert "entry 1: expected an object" in data.cases[0].problem
        assert [case.problem for case in data.cases[1:]] == [None] * 3

    def test_duplicate_ids(self, tmp_path: Path) -> None:
        cases = read(tmp_path, [entry(), entry()]).cases
        assert [case.case_id for case in cases[::3]] == ["id_1/target", "id_1/target#2"]
        assert len({case.case_id for case in cases}) == 6
        assert [case.problem is None for case in cases] == [True] * 3 + [False] * 3
        assert "the ID id_1 was used by an earlier entry" in (cases[3].problem or "")

    def test_a_missing_file_is_left_to_the_reader(self, tmp_path: Path) -> None:
        assert all(case.problem is None for case in read(tmp_path, [entry()]).cases)

    def test_a_file_name_that_is_too_long(self, tmp_path: Path) -> None:
        data = read(tmp_path, [entry(target_audio_info={"target_input_audio_file": "x" * 5_000})])
        assert len(data.fingerprint) == 64


class TestUnusableFiles:
    def test_malformed_json_is_reported_with_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"script_info_synthesis.json, line 3, column 5: invalid JSON"):
            read(tmp_path, '[\n  {"case_id": 1},\n    oops\n]')

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[]", "expected a list of entries, got an empty list"),
            ('{"data": [], "n": 1}', "expected a list of entries, got an object with data, n"),
            ("3", "expected a list of entries, got 3"),
            ("", "line 1, column 1: invalid JSON"),
            ("[" * 100_000, "nested too deeply"),
            ("[" + "1" * 5_000 + "]", "invalid JSON: Exceeds the limit"),
            ('[{"case_id": "a", "sound": "b"}]', "no entry has a recording.*; found case_id, sound"),
            ("[1, 2]", "no entry has a recording.*; found none"),
        ],
    )
    def test_json_that_is_not_a_list_of_entries(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(DataError, match=message):
            read(tmp_path, content)

    def test_other_encodings(self, tmp_path: Path) -> None:
        folder = write(tmp_path, [])
        (folder / "script_info_synthesis.json").write_bytes("[{'é'}]".encode("latin-1"))
        with pytest.raises(DataError, match=r"expected UTF-8, got an invalid byte at offset 3"):
            load(tmp_path)

    def test_a_byte_order_mark_is_ignored(self, tmp_path: Path) -> None:
        assert len(read(tmp_path, "\ufeff" + json.dumps([entry()])).cases) == 3

    def test_a_folder_of_the_layout_without_script_info(self, tmp_path: Path) -> None:
        (tmp_path / "data_human").mkdir()
        with pytest.raises(DataError, match=r"expected script_info_\*\.json in data_synthesis or data_human"):
            load(tmp_path)
        write(tmp_path, [entry()])
        assert "data_human has no script_info" in load(tmp_path).notes


class TestAnnotatedBoundaries:
    def annotate(self, root: Path, boundaries: object) -> DataSet:
        folder = write(root, [entry()])
        (folder / "edges.json").write_text(json.dumps(boundaries), "utf-8")
        return load(root)

    def test_annotations_override_detection(self, tmp_path: Path) -> None:
        marks = {"onset_ms": 120, "voice_end_ms": 5830.5, "words_end_ms": 4960}
        boundaries = self.annotate(tmp_path, {"sigh/./id_1_target.wav": marks}).cases[0].boundaries
        assert boundaries is not None
        assert (boundaries.onset_ns, boundaries.voice_end_ns, boundaries.words_end_ns) == (
            120_000_000,
            5_830_500_000,
            4_960_000_000,
        )
        assert boundaries.method == "annotation"
        assert boundaries.uncertain
        assert "870 ms" in boundaries.reason

    def test_words_that_end_with_the_voice_are_certain(self, tmp_path: Path) -> None:
        marks = {"onset_ms": 0, "voice_end_ms": 1_000, "words_end_ms": 900}
        boundaries = self.annotate(tmp_path, {"sigh/id_1_target.wav": marks}).cases[0].boundaries
        assert boundaries is not None
        assert (boundaries.uncertain, boundaries.reason) == (False, "")

    @pytest.mark.parametrize(
        ("marks", "message"),
        [
            ({"onset_ms": "soon", "voice_end_ms": 2}, "expected onset_ms to be a number of milliseconds"),
            ({"onset_ms": True, "voice_end_ms": 2}, "expected onset_ms to be a number of milliseconds"),
            ({"voice_end_ms": 2}, "expected onset_ms and voice_end_ms, got only voice_end_ms"),
            ({"onset_ms": 5, "voice_end_ms": 2}, "expected 0 <= onset_ms"),
            ({"onset_ms": -5, "voice_end_ms": 2}, "expected 0 <= onset_ms"),
            ({"onset_ms": 1, "voice_end_ms": 2, "words_end_ms": 3}, "words_end_ms <= voice_end_ms"),
            ({"onset_ms": 1, "voice_end_ms": float("nan")}, "to be a number of milliseconds"),
            ({"onset_ms": 1, "voice_end_ms": 10**400}, "to be a number of milliseconds"),
            (17, "expected an object with onset_ms and voice_end_ms"),
        ],
    )
    def test_impossible_annotations_are_a_problem(self, tmp_path: Path, marks: object, message: str) -> None:
        case = self.annotate(tmp_path, {"sigh/id_1_target.wav": marks}).cases[0]
        assert case.boundaries is None
        assert case.problem is not None
        assert message in case.problem

    def test_annotations_without_a_recording_are_noted(self, tmp_path: Path) -> None:
        data = self.annotate(tmp_path, {"sigh/other.wav": {"onset_ms": 1, "voice_end_ms": 2}})
        assert any(
            "edges.json: no entry for the annotated recordings sigh/other.wav" in note for note in data.notes
        )

    def test_a_list_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"edges.json: expected an object"):
            self.annotate(tmp_path, [1])


@pytest.mark.echomind
class TestDemonstrationData:
    def test_the_whole_demonstration(self, echomind_demo: Path) -> None:
        data = load(echomind_demo / "data_synthesis", ALL)
        assert len(data.cases) == 24
        assert all(case.audio_path.is_file() for case in data.cases)
        assert all(case.text and case.reference_text and case.reference_audio_path for case in data.cases)
        assert [case.problem for case in data.cases if case.problem] == []
        assert data.question_counts == {"understanding": 4, "reasoning": 5}
        assert data.notes == ()

    def test_backgrounds_have_the_neutral_take(self, echomind_demo: Path) -> None:
        clean = {
            case.case_id: case.clean_audio_path for case in load(echomind_demo).cases if case.clean_audio_path
        }
        assert list(clean) == ["id_2471/target", "id_2471/alternative"]
        assert {path.name for path in clean.values() if path is not None} == {
            "id_2471_sound of wind blowing_no_specific_topics_neutral.wav"
        }

    def test_the_rule_skips_the_elderly_neutral_one(self, echomind_demo: Path) -> None:
        ids = {case.case_id for case in load(echomind_demo, ALL).cases}
        kept = {case.case_id for case in load(echomind_demo).cases}
        assert ids - kept == {"id_355/neutral"}
