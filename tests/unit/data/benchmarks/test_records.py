"""Recorded locations of benchmarks, and files that were changed later."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli.data import command
from live_eval.data import DataOptions, load, locate
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.data.benchmarks.records import (
    FOLDER_VARIABLE,
    RecordedBenchmark,
    changed_files,
    read_record,
    record_copy,
    write_record,
)
from tests.support.benchmarks import SETS, voicebench_part

SPEC = BENCHMARKS["voicebench"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))


def alter(path: Path) -> None:
    """Change a byte of a recording, without changing the file's size or layout."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "file", "files"),
    [
        ("voicebench", "advbench/test-00000-of-00001.parquet", 11),
        ("audio-multichallenge", "data/test-00000-of-00001.parquet", 1),
    ],
)
def test_a_changed_table_of_a_copy_is_noted_and_fails_the_check(
    tmp_path: Path, name: str, file: str, files: int
) -> None:
    root = SETS[name](tmp_path / "copy", 2)
    add = ["add", name, "--path", str(root)]
    added = CliRunner().invoke(command, add)
    assert added.exit_code == 0, added.output
    recorded = read_record(BENCHMARKS[name])
    assert recorded is not None
    assert len(recorded.files) == files
    assert changed_files(recorded) == []
    alter(root / file)
    assert changed_files(recorded) == [file]
    assert changed_files(recorded, hashed_bytes=0) == []
    for suspect in (file, file.partition("/")[0]):
        assert changed_files(recorded, [suspect], hashed_bytes=0) == [file]
    data = load(locate(name))
    [difference] = data.differences
    assert difference in data.notes
    assert f"1 of {files} lists of items have changed since this copy was added ({file})" in difference
    checked = CliRunner().invoke(command, ["check", name])
    assert checked.exit_code == 3
    assert difference in checked.stdout.splitlines()[-1]
    again = CliRunner().invoke(command, add)
    assert f"  changed since it was last added: {file}\n" in again.stderr
    assert load(locate(name)).differences == ()


def test_the_check_compares_all_hashes_of_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("advbench", "wildvoice"):
        voicebench_part(tmp_path, part, [{"prompt": "What is a comet?"}])
    record_copy(SPEC, "", tmp_path)
    recorded = read_record(SPEC)
    assert recorded is not None
    write_record(SPEC, replace(recorded, revision=SPEC.revision))
    alter(tmp_path / "advbench/test-00000-of-00001.parquet")
    [difference] = load(locate("voicebench")).differences
    assert "(advbench/test-00000-of-00001.parquet)" in difference
    listed = CliRunner().invoke(command, ["list"]).stdout
    assert "advbench/test-00000-of-00001.parquet): live-eval data add voicebench --again restores" in listed
    assert "damaged" in listed

    only_suspects = partial(changed_files, hashed_bytes=0)  # as in large tables
    monkeypatch.setattr("live_eval.data.benchmarks.changed_files", only_suspects)
    assert load(locate("voicebench")).differences == ()
    assert load(locate("voicebench/wildvoice"), DataOptions(verify=True)).differences == ()
    checked = CliRunner().invoke(command, ["check", "voicebench/advbench"])
    assert checked.exit_code == 3
    assert "1 of 2 files differ from revision" in checked.stdout.splitlines()[-1]
    assert checked.stdout.rstrip().endswith("live-eval data add voicebench --again restores them")


def test_the_parts_of_a_copy_are_recorded_together(tmp_path: Path) -> None:
    for part in ("advbench", "wildvoice"):
        voicebench_part(tmp_path, part, [{"prompt": "What is a comet?"}])
    tables = [f"{part}/test-00000-of-00001.parquet" for part in ("advbench", "wildvoice")]
    assert record_copy(SPEC, "advbench", tmp_path) == []
    alter(tmp_path / tables[0])
    assert record_copy(SPEC, "wildvoice/test", tmp_path) == []
    recorded = read_record(SPEC)
    assert recorded is not None
    assert (recorded.parts, sorted(recorded.files)) == (("advbench", "wildvoice"), tables)
    assert changed_files(recorded) == [tables[0]]
    assert record_copy(SPEC, "", tmp_path) == [tables[0]]
    recorded = read_record(SPEC)
    assert recorded is not None
    assert recorded == RecordedBenchmark(root=tmp_path, files=recorded.files)
