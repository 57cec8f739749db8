import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from live_eval.data import NEUTRAL, DataKind, DataOptions, DataSet, load
from live_eval.errors import DataError, UsageError
from live_eval.types import Case, Variant


def jsonl(root: Path, *rows: Any, options: DataOptions | None = None) -> DataSet:
    path = root / "mine.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return load(path, options)


def table(root: Path, text: str, name: str = "mine.csv", options: DataOptions | None = None) -> DataSet:
    path = root / name
    path.write_bytes(text.encode("utf-8"))
    return load(path, options)


ROW = {"audio": "clips/a.wav", "text": "Hello there.", "cue": "sigh sound", "topic": "work"}


class TestRows:
    def test_a_row_becomes_a_case(self, tmp_path: Path) -> None:
        data = jsonl(
            tmp_path,
            ROW
            | {
                "id": "x1",
                "script_id": "s1",
                "variant": "Alternative",
                "reference_text": "Oh dear.",
                "reference_audio": "clips/a_reply.wav",
                "clean_audio": "clips/a_clean.wav",
                "language": "en-GB",
                "onset_ms": 100,
                "voice_end_ms": 900,
                "words_end_ms": 850,
                "speaker": "not ours",
            },
        )
        assert (data.kind, data.name) == (DataKind.MANIFEST, "mine")
        (case,) = data.cases
        assert (case.case_id, case.script_id, case.variant) == ("x1", "s1", Variant.ALTERNATIVE)
        assert case.audio_path == tmp_path / "clips" / "a.wav"
        assert (case.text, case.topic, case.reference_text) == ("Hello there.", "work", "Oh dear.")
        assert case.reference_audio_path == tmp_path / "clips" / "a_reply.wav"
        assert case.clean_audio_path == tmp_path / "clips" / "a_clean.wav"
        assert (case.language, case.source, case.problem) == ("en-GB", "manifest", None)
        assert case.cue is not None
        assert case.cue.attribute == "sigh"
        assert case.boundaries is not None
        assert (case.boundaries.onset_ns, case.boundaries.voice_end_ns) == (100_000_000, 900_000_000)

    def test_only_the_recording_is_required(self, tmp_path: Path) -> None:
        (case,) = jsonl(tmp_path, {"audio": "clips/a.wav"}).cases
        assert case == Case(
            case_id="clips/a",
            script_id="clips/a",
            variant=Variant.TARGET,
            audio_path=tmp_path / "clips" / "a.wav",
        )

    def test_a_recording_named_twice_gives_two_cases(self, tmp_path: Path) -> None:
        cases = jsonl(tmp_path, ROW, ROW).cases
        assert [case.case_id for case in cases] == ["clips/a", "clips/a#2"]
        assert [case.problem for case in cases] == [None, None]

    def test_variants_share_the_cue_of_their_script(self, tmp_path: Path) -> None:
        rows = [
            {"audio": f"{variant}.wav", "script_id": "s1", "variant": variant, "cue": cue}
            for variant, cue in (("neutral", None), ("target", "whisper"), ("alternative", "shout"))
        ]
        neutral, target, alternative = jsonl(tmp_path, *rows).cases
        assert [case.case_id for case in (neutral, target)] == ["s1/neutral", "s1/target"]
        assert neutral.cue == NEUTRAL
        assert {case.script_cue for case in (neutral, target, alternative)} == {target.cue}
        assert alternative.cue is not None
        assert alternative.cue.attribute == "shout"

    def test_spellings_and_mapping(self, tmp_path: Path) -> None:
        row = {"Audio_FilePath": "a.wav", "transcript": "wrong", "meta": {"words": "right"}}
        (case,) = jsonl(tmp_path, row, options=DataOptions(fields={"text": "meta.words"})).cases
        assert (case.audio_path.name, case.text) == ("a.wav", "right")

    def test_another_audio_root(self, tmp_path: Path) -> None:
        sounds = tmp_path / "sounds"
        options = DataOptions(audio_root=sounds)
        inner, absolute = jsonl(
            tmp_path, {"audio": "a.wav"}, {"audio": str(sounds / "b.wav")}, options=options
        ).cases
        assert (inner.audio_path, inner.case_id, inner.problem) == (sounds / "a.wav", "a", None)
        assert (absolute.audio_path, absolute.case_id, absolute.problem) == (sounds / "b.wav", "b", None)


class TestBadRows:
    """Such cases remain in the data, with a problem."""

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"audio": "../a.wav"}, "line 2: the path '../a.wav' given as audio is outside"),
            ({"audio": "/etc/passwd"}, "is outside"),
            ({"text": "no recording"}, "expected a recording under one of the fields audio, "),
            ({"audio": "  "}, "found audio"),
            ({"audio": ["a.wav"]}, "expected audio to be text, got a list of 1"),
            (
                {"audio": "a.wav", "variant": "loud"},
                "expected variant to be one of target, neutral, alternative",
            ),
            ({"audio": "a.wav", "voice_end_ms": "late"}, "to be a number of milliseconds"),
            ({"audio": "a.wav", "clean_audio": "/x.wav"}, "as clean_audio is outside"),
            ("{oops}", "mine.jsonl, line 2, column 2: invalid JSON"),
            ("[1]", "expected an object, got [1]"),
            ("[" * 100_000, "nested too deeply"),
            ('{"audio": ' + "1" * 5_000 + "}", "mine.jsonl, line 2: invalid JSON: Exceeds the limit"),
        ],
    )
    def test_the_others_are_read(self, tmp_path: Path, row: Any, message: str) -> None:
        good, bad, also_good = jsonl(tmp_path, ROW, row, {"audio": "b.wav"}).cases
        assert (good.problem, also_good.problem) == (None, None)
        assert bad.problem is not None
        assert message in bad.problem

    def test_duplicate_ids(self, tmp_path: Path) -> None:
        cases = jsonl(tmp_path, ROW | {"id": "x"}, ROW | {"id": "x"}).cases
        assert [case.case_id for case in cases] == ["x", "x#2"]
        assert cases[0].problem is None
        assert "the ID x was used by an earlier row" in (cases[1].problem or "")

    def test_a_line_separator_within_a_string_does_not_end_the_line(self, tmp_path: Path) -> None:
        row = json.dumps(ROW | {"text": "one\u2028two\x85three"}, ensure_ascii=False)
        (case,) = jsonl(tmp_path, row).cases
        assert case.text == "one\u2028two\x85three"


class TestTables:
    @pytest.mark.parametrize(
        ("name", "mark", "delimiter", "end"),
        [
            ("a.csv", "", ",", "\n"),
            ("a.csv", "\ufeff", ",", "\r\n"),
            ("a.csv", "\ufeff", ";", "\r\n"),
            ("a.CSV", "", "\t", "\n"),
            ("a.tsv", "", "\t", "\n"),
        ],
    )
    def test_dialects(self, tmp_path: Path, name: str, mark: str, delimiter: str, end: str) -> None:
        header = delimiter.join([" Audio ", "text", "cue", "topic"])
        row = delimiter.join(["größe 風/a b.wav", f'"one{delimiter} ""two"""', "rain", ""])
        (case,) = table(tmp_path, f"{mark}{header}{end}{row}{end}", name).cases
        assert case.audio_path == tmp_path / "größe 風" / "a b.wav"
        assert case.case_id == "größe 風/a b"
        assert case.text == f'one{delimiter} "two"'
        assert case.topic is None
        assert case.cue is not None
        assert case.cue.attribute == "rain"

    def test_cells_with_line_ends(self, tmp_path: Path) -> None:
        first, second = table(tmp_path, 'audio,text\na.wav,"one\ntwo"\nb.wav,x\n').cases
        assert (first.text, second.text) == ("one\ntwo", "x")

    def test_rows_with_too_few_and_too_many_cells(self, tmp_path: Path) -> None:
        short, long, good = table(tmp_path, "audio,text\na.wav\nb.wav,x,y\nc.wav,z\n").cases
        assert (short.text, short.problem) == (None, None)
        assert long.problem == "mine.csv, line 3: more cells than columns (2)"
        assert good.problem is None

    def test_boundaries_as_digits(self, tmp_path: Path) -> None:
        (case,) = table(tmp_path, "audio,onset_ms,voice_end_ms,words_end_ms\na.wav,10,20.5,\n").cases
        assert case.boundaries is not None
        assert (case.boundaries.voice_end_ns, case.boundaries.words_end_ns) == (20_500_000, None)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "expected a row for each recording, found none"),
            ("audio,text\n", "expected a row for each recording"),
            ("\n\n", "expected a row for each recording"),
            (
                "sound,text\na.wav,b\n",
                "no row has a recording; expected one of the fields audio, .*sound, text",
            ),
            ("audio,audio\na,b\n", "duplicate column 'audio'"),
            ('audio,text\na.wav,b\n"c.wav,d\n', "line 3: invalid CSV: unexpected end of data"),
            ('audio,text\na.wav,b\n"c"d,e\n', "line 3: invalid CSV: ',' expected after"),
        ],
    )
    def test_malformed_tables(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(DataError, match=message):
            table(tmp_path, text)

    def test_other_encodings(self, tmp_path: Path) -> None:
        (tmp_path / "mine.csv").write_bytes("audio,text\na.wav,é\n".encode("latin-1"))
        with pytest.raises(DataError, match=r"expected UTF-8, got an invalid byte at offset 17"):
            load(tmp_path / "mine.csv")

    @given(st.text(max_size=60))
    def test_only_documented_errors_are_raised(
        self, tmp_path_factory: pytest.TempPathFactory, text: str
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "fuzz.csv"
        path.write_text("audio,text\na.wav," + text, "utf-8", newline="", errors="replace")
        try:
            cases = load(path).cases
        except DataError:
            return
        assert cases
        assert len({case.case_id for case in cases}) == len(cases)


@pytest.mark.parametrize("lines", [("",), ("{oops}", "[1]")])
def test_a_manifest_without_a_readable_row(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"found none|no row is readable; first problem: line 1"):
        jsonl(tmp_path, *lines)


def test_a_mapping_that_matches_no_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no row has the field 'wav' mapped to audio; found audio, text"):
        jsonl(tmp_path, ROW, options=DataOptions(fields={"audio": "wav"}))


class TestFolder:
    @pytest.fixture
    def add(self, tmp_path: Path) -> Callable[[str], Path]:
        def make(name: str) -> Path:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.zeros(240), 24_000, format="WAV")
            return path

        return make

    def test_every_recording_below_the_folder_by_name(
        self, tmp_path: Path, add: Callable[[str], Path]
    ) -> None:
        for name in ("b.wav", "a/z y.WAV", "a/風.flac", ".hidden/c.wav", "._b.wav", "d.m4a"):
            add(name)
        (tmp_path / "b.txt").write_text(" What b says.\n")
        (tmp_path / "README.md").write_text("not sound")
        data = load(tmp_path)
        assert data.kind is DataKind.FOLDER
        assert [case.case_id for case in data.cases] == ["a/z y", "a/風", "b", "d"]
        assert [case.text for case in data.cases] == [None, None, "What b says.", None]
        assert {case.source for case in data.cases} == {"folder"}
        assert data.cases[0].audio_path == tmp_path / "a" / "z y.WAV"

    def test_two_recordings_with_one_name(self, tmp_path: Path, add: Callable[[str], Path]) -> None:
        add("a.wav")
        add("a.flac")
        assert [case.case_id for case in load(tmp_path).cases] == ["a", "a#2"]

    def test_a_transcript_that_is_not_text(self, tmp_path: Path, add: Callable[[str], Path]) -> None:
        add("a.wav")
        (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
        (case,) = load(tmp_path).cases
        assert "a.txt: expected UTF-8, got an invalid byte at offset 0" in (case.problem or "")

    def test_a_folder_takes_no_mapping(self, tmp_path: Path, add: Callable[[str], Path]) -> None:
        add("a.wav")
        with pytest.raises(UsageError, match="a folder of recordings has no fields"):
            load(tmp_path, DataOptions(fields={"text": "x"}))


class TestNoDataSet:
    def test_a_path_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"absent: not found; expected EchoMind's root "):
            load(tmp_path / "absent")

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="found nothing"):
            load(tmp_path)

    def test_a_folder_of_other_things(self, tmp_path: Path) -> None:
        for number in range(12):
            (tmp_path / f"{number:02}.pdf").touch()
        with pytest.raises(DataError, match=r"found 00\.pdf, .*, 09\.pdf, … and 2 more"):
            load(tmp_path)

    @pytest.mark.parametrize("name", ["x.json", "x.parquet", "x.wav"])
    def test_a_file_of_another_kind(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("[]")
        with pytest.raises(DataError, match="got another file type"):
            load(tmp_path / name)


def test_unused_columns_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("audio,txet,Topic\na.wav,hi,work\nb.wav,ho,home\n", "utf-8")
    notes = load(path).notes
    assert [note for note in notes if note.startswith("unused fields: txet ")]
    assert "2 of 2 cases have no text" in notes


def test_a_transcript_name_may_be_impossible(tmp_path: Path) -> None:
    (tmp_path / ("x" * 252 + ".au")).touch()
    (case,) = load(tmp_path).cases
    assert (case.text, case.problem) == (None, None)


def test_an_impossible_data_path_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not found"):
        load(tmp_path / ("x" * 300))
