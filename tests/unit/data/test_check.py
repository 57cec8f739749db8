import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner, Result

from live_eval.cli.data import command
from live_eval.data import DataKind, DataReport, DataSet, check, cue_of, load
from live_eval.errors import DataError, FailureKind, UsageError
from live_eval.types import Case, SpeechBoundaries, Variant

Add = Callable[..., Path]


@pytest.fixture
def add(tmp_path: Path) -> Add:
    def make(name: str, *, seconds: float = 0.1, rate_hz: int = 24_000, **how: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(0).uniform(-0.1, 0.1, round(seconds * rate_hz))
        soundfile.write(path, noise, rate_hz, **how)
        return path

    return make


def cases_of(*paths: Path, **changes: Any) -> DataSet:
    cases = tuple(
        Case(case_id=path.stem, script_id=path.stem, variant=Variant.TARGET, audio_path=path, **changes)
        for path in paths
    )
    return DataSet(name="made up", root=Path(), kind=DataKind.MANIFEST, cases=cases)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["check", *map(str, arguments)])


class TestReport:
    def test_files_are_read_and_described(self, add: Add) -> None:
        seen: list[tuple[int, int]] = []
        data = cases_of(add("a.wav", rate_hz=8_000, subtype="PCM_U8"), add("b.flac", seconds=0.25))
        report = check(data, on_file=lambda done, total: seen.append((done, total)))
        a, b = report.files
        assert (a.rate_hz, a.channels, a.format, a.subtype) == (8_000, 1, "WAV", "PCM_U8")
        assert (b.duration_ns, b.format, b.kind, b.role) == (250_000_000, "FLAC", None, "recording")
        assert report.ok
        assert seen == [(1, 2), (2, 2)]

    def test_failures_by_kind(self, tmp_path: Path, add: Add) -> None:
        for name, content in (("text.wav", b"hello"), ("short.wav", b"")):
            (tmp_path / name).write_bytes(content)
        paths = [add("good.wav"), tmp_path / "absent.wav", tmp_path / "text.wav", tmp_path / "short.wav"]
        report = check(cases_of(*paths))
        assert report.failures == {"audio_missing": 1, "audio_unreadable": 2}
        assert not report.ok
        assert [file.path.name for file in report.unreadable] == ["absent.wav", "text.wav", "short.wav"]
        assert report.unreadable[0].kind is FailureKind.AUDIO_MISSING

    def test_a_file_of_any_role_that_is_too_long(self, add: Add) -> None:
        data = cases_of(add("a.wav", seconds=2), reference_audio_path=add("b.flac", seconds=2))
        assert check(data).ok
        report = check(data, max_s=1)
        assert [(file.role, file.kind) for file in report.unreadable] == [
            ("recording", FailureKind.AUDIO_TOO_LONG),
            ("reference", FailureKind.AUDIO_TOO_LONG),
        ]

    def test_annotated_speech_beyond_the_recording_is_a_problem(self, add: Add) -> None:
        def of(voice_end_ms: int) -> DataReport:
            boundaries = SpeechBoundaries(
                onset_ns=0, voice_end_ns=voice_end_ms * 1_000_000, method="annotation"
            )
            return check(cases_of(add("a.wav", seconds=0.5), boundaries=boundaries))

        assert of(500).ok
        assert of(509).ok, "rounded"
        (problem,) = of(99_999_999).problems
        assert problem.problem is not None
        assert "within the recording of 500 ms, got 0 to 99999999 ms" in problem.problem

    def test_a_case_with_a_problem_is_not_ok_and_its_recording_not_read(self, tmp_path: Path) -> None:
        report = check(cases_of(tmp_path, problem="no recording named"))
        assert (report.ok, report.files) == (False, ())
        assert [case.problem for case in report.problems] == ["no recording named"]

    def test_a_file_with_two_uses_is_read_once(self, add: Add) -> None:
        path, reply = add("a.wav"), add("reply.wav")
        report = check(cases_of(path, path, reference_audio_path=reply))
        assert [(file.path, file.role) for file in report.files] == [
            (path, "recording"),
            (reply, "reference"),
        ]

    def test_a_reference_that_is_missing_is_not_ok(self, tmp_path: Path, add: Add) -> None:
        report = check(cases_of(add("a.wav"), reference_audio_path=tmp_path / "absent.wav"))
        assert report.failures == {"audio_missing": 1}

    @pytest.mark.parametrize(
        ("seconds", "rate_hz", "aligned"),
        [
            (0.1, 24_000, True),
            (0.1, 44_100, True),
            (0.105, 24_000, True),
            (0.12, 24_000, False),
            (0.05, 48_000, False),
        ],
    )
    def test_mixes_that_cannot_be_aligned_are_noted(
        self, add: Add, seconds: float, rate_hz: int, aligned: bool
    ) -> None:
        clean = add("clean.wav", seconds=seconds, rate_hz=rate_hz)
        mix, of_clean = check(cases_of(add("mix.wav"), clean_audio_path=clean)).files
        assert (mix.notes == ()) is aligned
        assert of_clean.notes == ()
        if not aligned:
            assert "lasts 100 ms, but its clean take clean.wav" in mix.notes[0]

    def test_cues_are_in_the_order_of_the_taxonomy(self) -> None:
        cues = [
            cue_of("hum"),
            None,
            cue_of("rain"),
            cue_of("yawn"),
            cue_of("fast"),
            cue_of("slow"),
            cue_of("fast"),
        ]
        cases = tuple(
            Case(case_id=str(at), script_id="s", variant=Variant.TARGET, audio_path=Path(), cue=cue)
            for at, cue in enumerate([*cues, cue_of("neutral")])
        )
        data = DataSet(name="x", root=Path(), kind=DataKind.MANIFEST, cases=cases)
        tree = DataReport(dataset=data, files=()).cues()
        assert json.dumps(tree) == json.dumps(
            {
                "paralinguistic": {
                    "speed": {"fast pace": 2, "slow pace": 1},
                    "non-verbal expression": {"yawn": 1},
                },
                "environment": {"weather": {"rain": 1}},
                "(unknown)": {"(unknown)": {"hum": 1}},
                "(none)": {"(none)": {"(none)": 1, "neutral": 1}},
            }
        )

    @pytest.mark.slow
    def test_the_whole_benchmark_is_compared_with_its_published_counts(self, tmp_path: Path) -> None:
        folder = tmp_path / "data_synthesis"
        (folder / "MCQ").mkdir(parents=True)
        entries = [
            {
                "case_id": f"id_{number}",
                "spoken_info": "elderly" if number < 55 else "whisper",
                "topic": f"topic {number % 17}",
                **{f"{v}_audio_info": {f"{v}_input_audio_file": f"{number}.wav"} for v in Variant},
            }
            for number in range(1_137)
        ]
        (folder / "script_info_synthesis.json").write_text(json.dumps(entries))
        (folder / "MCQ" / "understanding.json").write_text(json.dumps([{"question_id": "q"}] * 4_576))
        published = check(load(tmp_path)).published
        assert {count.what: (count.expected, count.found) for count in published} == {
            "synthesis scripts": (1_137, 1_137),
            "synthesis recordings": (3_356, 3_356),
            "topics": (17, 17),
            "understanding questions": (4_576, 4_576),
            "reasoning questions": (4_747, 0),
        }


class TestCommand:
    def test_all_is_well(self, tmp_path: Path, add: Add) -> None:
        add("a b.wav")
        add("風.flac", rate_hz=16_000)
        result = run(tmp_path)
        assert result.exit_code == 0
        assert "2 scripts, 2 cases" in result.stdout
        assert "16000 Hz" in result.stdout
        assert "all 2 files can be read" in result.stdout

    def test_something_cannot_be_read(self, tmp_path: Path, add: Add) -> None:
        add("a.wav")
        (tmp_path / "[bold]b.wav").write_bytes(b"hello")
        result = run(tmp_path)
        assert result.exit_code == 3
        assert "1 of 2 files cannot be used (audio_unreadable 1)" in result.stdout
        assert "[bold]b.wav: libsndfile cannot read this file" in result.stdout

    def test_problems_notes_and_oddities_are_shown(self, tmp_path: Path, add: Add) -> None:
        add("a.wav")
        (tmp_path / "mine.jsonl").write_text('{"audio": "a.wav"}\n{"audio": "../x.wav"}\n')
        result = run(tmp_path / "mine.jsonl")
        assert result.exit_code == 3
        assert "x: mine.jsonl, line 2" not in result.stdout
        assert "mine.jsonl, line 2: the path '../x.wav' given as audio is outside" in result.stdout
        assert "1 of 2 cases have a problem" in result.stdout

    def test_json(self, tmp_path: Path, add: Add) -> None:
        add("a.wav")
        (tmp_path / "b.wav").write_bytes(b"")
        result = run(tmp_path, "--json")
        assert result.exit_code == 3
        found = json.loads(result.stdout)
        assert (found["ok"], found["kind"], found["cases"]) == (False, "folder", 2)
        assert found["failures"] == {"audio_unreadable": 1}
        good, bad = found["files"]
        assert (good["rate_hz"], good["duration_ms"], good["kind"]) == (24_000, 100.0, None)
        assert (bad["rate_hz"], bad["kind"]) == (None, "audio_unreadable")

    def test_mapping_and_audio_root(self, tmp_path: Path, add: Add) -> None:
        add("sounds/a.wav")
        manifest = tmp_path / "lists" / "mine.csv"
        manifest.parent.mkdir()
        manifest.write_text("clip,words\na.wav,Hello.\n")
        arguments = (
            manifest,
            "--map",
            "audio=clip",
            "--map",
            "text = words",
            "--audio-root",
            tmp_path / "sounds",
        )
        assert run(*arguments).exit_code == 0

    def test_a_path_without_data(self, tmp_path: Path) -> None:
        assert isinstance(run(tmp_path / "absent").exception, DataError)

    @pytest.mark.parametrize("pair", ["text", "=a", "text="])
    def test_a_malformed_mapping(self, tmp_path: Path, pair: str) -> None:
        result = run(tmp_path, "--map", pair)
        assert isinstance(result.exception, UsageError)
        assert "--map: expected FIELD=NAME" in str(result.exception)

    @pytest.mark.echomind
    @pytest.mark.parametrize("below", ["", "data_synthesis"])
    def test_the_demonstration_data(self, echomind_demo: Path, below: str) -> None:
        result = run(echomind_demo / below, "--neutral-rule", "off", "--json")
        assert result.exit_code == 0
        found = json.loads(result.stdout)
        assert (found["scripts"], found["cases"], len(found["files"])) == (8, 24, 56)
        assert (found["questions"], found["questions_apart"]) == ({"understanding": 4, "reasoning": 5}, 8)
        assert found["cues"]["speaker"] == {"age": {"child": 1, "elderly": 1}}
        assert "(unknown)" not in found["cues"]
        assert found["published"] == []


class TestQuestions:
    """Questions are counted by the paper's types, and problems are reported with their location."""

    GOOD: ClassVar[dict[str, Any]] = {
        "question_id": "q1",
        "case_id": "id_1",
        "question_type": "Fine Grained Gender Classification",
        "audio_name": "id_1_target.wav",
        "question": "Who speaks?",
        "options_text": "A. A woman\nB. A man",
        "answer": "A",
    }

    def data(self, tmp_path: Path, add: Add, *changes: dict[str, Any]) -> Path:
        add("data_synthesis/audio/id_1_target.wav")
        script = {"case_id": "id_1", "target_audio_info": {"target_input_audio_file": "id_1_target.wav"}}
        (tmp_path / "data_synthesis/script_info_synthesis.json").write_text(json.dumps([script]))
        folder = tmp_path / "data_synthesis" / "MCQ"
        folder.mkdir()
        entries = [
            {**self.GOOD, "question_id": f"q{number}", **change} for number, change in enumerate(changes)
        ]
        (folder / "understanding.json").write_text(json.dumps(entries))
        return tmp_path

    def test_questions_are_counted_by_type(self, tmp_path: Path, add: Add) -> None:
        path = self.data(tmp_path, add, {}, {}, {"question_type": "Smell"}, {"answer": None})
        report = check(load(path))
        assert report.ok
        kinds = report.question_types()
        assert list(kinds) == ["understanding", "reasoning"]
        assert (kinds["understanding"]["gender"], kinds["understanding"]["Smell"]) == (3, 1)
        assert kinds["understanding"]["age group"] == 0
        assert len(kinds["reasoning"]) == 10
        assert [case.case_id for case in report.keyless] == ["understanding/q3"]
        told = run(path).output
        assert "gender 3" in told
        assert "1 × no answer key: the question is asked but not scored: understanding/q3" in told

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"options_text": None}, "expected options"),
            ({"options_text": "A. One alone"}, "at least two options"),
            ({"answer": "E"}, "expected the answer to be one of A, B, got 'E'"),
            ({"question": None}, "expected a question"),
            ({"audio_name": None}, "expected a recording"),
        ],
    )
    def test_problems_of_questions_are_reported_with_their_location(
        self, tmp_path: Path, add: Add, change: dict[str, Any], problem: str
    ) -> None:
        path = self.data(tmp_path, add, {}, change)
        report = check(load(path))
        assert not report.ok
        [told] = report.question_problems
        assert problem in (told.problem or "")
        result = run(path)
        assert result.exit_code == 3
        assert "questions with a problem" in result.output
        assert "understanding.json, entry 2" in result.output
        assert "1 of 2 questions have a problem" in result.output
        listed = json.loads(run(path, "--json").output)
        assert [each["case_id"] for each in listed["problems"]] == ["understanding/q1"]

    def test_a_missing_recording_is_an_unusable_file(self, tmp_path: Path, add: Add) -> None:
        report = check(load(self.data(tmp_path, add, {"audio_name": "absent.wav"})))
        assert report.question_problems == []
        [file] = report.unreadable
        assert (file.case_id, file.kind) == ("understanding/q0", FailureKind.AUDIO_MISSING)
        assert [case.case_id for case in report.apart] == ["understanding/q0"]

    def test_an_unreadable_question_file_is_reported(self, tmp_path: Path, add: Add) -> None:
        path = self.data(tmp_path, add, {})
        (path / "data_synthesis/MCQ/reasoning.json").write_text("[")
        result = run(path)
        assert result.exit_code == 3
        assert "reasoning questions are excluded: " in result.output
        assert "question files that cannot be read: 1" in result.output
        found = json.loads(run(path, "--json").output)
        assert found["ok"] is False
        [told] = found["questions_unread"]["reasoning"]
        assert "reasoning.json, line 1, column 2: invalid JSON" in told

    def test_an_unusable_question_keeps_its_type_in_the_counts(self, tmp_path: Path, add: Add) -> None:
        path = self.data(tmp_path, add, {"options_text": None}, {"answer": "E"}, {"question": None})
        assert check(load(path)).question_types()["understanding"]["gender"] == 3

    def test_data_without_questions_reports_none(self, add: Add) -> None:
        report = check(cases_of(add("a.wav")))
        assert report.question_types() == {}
