from pathlib import Path
from typing import Any

import pytest

from live_eval.audio import read_audio, recording_s
from live_eval.audio.parquet import (
    TableRow,
    in_table,
    read_in_table,
    recording_exists,
    recording_size,
    rows_of,
)
from live_eval.errors import AudioError, DataError, FailureKind
from live_eval.speech.boundaries import BoundaryCache
from live_eval.types import Case, Variant
from tests.support.benchmarks import audio_file, write_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "test-00000-of-00001.parquet"
    rows: list[dict[str, Any]] = [{"prompt": f"row {number}"} for number in range(5)]
    rows[4] |= {"audio": {"bytes": None, "path": "gone.wav"}}
    write_table(path, rows, audio={"audio": audio_file()}, group_rows=2)
    return path


def test_a_recording_is_read_from_its_row(table: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.wav"
    alone.write_bytes(audio_file())
    for row in (0, 1, 3):
        path = TableRow(table, "audio", row).path
        assert in_table(path) == TableRow(table, "audio", row)
        assert read_in_table(TableRow(table, "audio", row)) == audio_file()
        found, expected = read_audio(path), read_audio(alone)
        assert (found.audio.samples == expected.audio.samples).all()
        assert (found.audio.rate_hz, found.format) == (expected.audio.rate_hz, "WAV")
        assert recording_s(path) == recording_s(alone)
        assert recording_exists(path)
        assert recording_size(path) == table.stat().st_size


def test_an_ordinary_path_is_not_in_a_table(tmp_path: Path) -> None:
    for path in (tmp_path / "7", tmp_path / "a.parquet", tmp_path / "a.parquet/audio/x"):
        assert in_table(path) is None
    assert not recording_exists(tmp_path / "7")
    assert recording_size(tmp_path / "7") is None


@pytest.mark.parametrize(
    ("row", "column", "why"),
    [
        (4, "audio", "contains no audio"),
        (5, "audio", "expected a row below 5, got row 5"),
        (0, "sound", "no column sound"),
    ],
)
def test_a_row_without_audio_is_unreadable(table: Path, row: int, column: str, why: str) -> None:
    with pytest.raises(AudioError, match=why) as raised:
        read_audio(TableRow(table, column, row).path)
    assert raised.value.kind is FailureKind.AUDIO_UNREADABLE


def test_a_missing_table_is_a_missing_recording(tmp_path: Path) -> None:
    path = TableRow(tmp_path / "gone.parquet", "audio", 0).path
    with pytest.raises(AudioError, match="no such file") as raised:
        read_audio(path)
    assert raised.value.kind is FailureKind.AUDIO_MISSING
    case = Case(case_id="x", script_id="x", variant=Variant.TARGET, audio_path=path)
    with pytest.raises(AudioError) as raised:
        BoundaryCache(tmp_path / "cache").key(case, "m", "")
    assert raised.value.kind is FailureKind.AUDIO_MISSING


def test_a_truncated_table_is_named(table: Path) -> None:
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="expected a complete Parquet table"):
        rows_of(table)
    with pytest.raises(AudioError, match="expected a complete Parquet table"):
        read_audio(TableRow(table, "audio", 0).path)


def test_rows_are_read_without_audio(table: Path) -> None:
    names, rows = rows_of(table)
    assert names == ["audio", "prompt"]
    assert [dict(row) for row in rows] == [{"prompt": f"row {number}"} for number in range(5)]


def test_a_changed_table_is_read_again(table: Path) -> None:
    place = TableRow(table, "audio", 0)
    read_in_table(place)
    write_table(table, [{"prompt": "new"}], audio={"audio": audio_file(form="FLAC")})
    assert read_in_table(place)[:4] == b"fLaC"


def test_the_boundary_cache_keys_by_content(table: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.wav"
    alone.write_bytes(audio_file())
    cache = BoundaryCache(tmp_path / "cache")
    first, second = (
        Case(case_id="x", script_id="x", variant=Variant.TARGET, audio_path=path)
        for path in (TableRow(table, "audio", 1).path, TableRow(table, "audio", 2).path)
    )
    assert cache.key(first, "m", "") == cache.key(second, "m", "")
