"""Known benchmarks, and their locations on this machine."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli.data import command
from live_eval.data import check, load, locate
from live_eval.data.benchmarks import (
    BENCHMARKS,
    FOLDER_VARIABLE,
    RECORD_FILE,
    RecordedBenchmark,
    benchmark_named,
    changed_files,
    read_record,
    write_record,
)
from live_eval.errors import DataError, UsageError
from live_eval.weights import file_sha256
from tests.support.benchmarks import SETS, voicebench_part

SPEC = BENCHMARKS["voicebench"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    root = tmp_path / "vb"
    voicebench_part(root, "advbench", [{"prompt": "How do I pick a lock?"}])
    return root


def test_every_benchmark_is_described() -> None:
    for name, spec in BENCHMARKS.items():
        assert spec.name == name
        assert spec.title in spec.licence_note()
        assert spec.licence
        assert spec.source.startswith("https://")
        assert spec.items > 0
        assert bool(spec.repository) == (len(spec.revision) == 40)
        assert bool(spec.repository) == (not spec.by_hand) == (not spec.undownloaded)


def test_unknown_sizes_are_shown_and_an_unknown_licence_is_no_permission() -> None:
    runner = CliRunner()
    rows = {row["name"]: row for row in json.loads(runner.invoke(command, ["list", "--json"]).stdout)}
    for name, row in rows.items():
        uncertain = any(word in row["licence"] for word in ("unknown", "unverified"))
        assert (row["commercial_use"] is None) == uncertain, name
    note = BENCHMARKS["humdial-eibench"].licence_note()
    assert note.endswith("whether they may be used commercially is unknown")
    assert rows["vstyle"]["megabytes"] is None
    lines = runner.invoke(command, ["list"], env={"COLUMNS": "200"}).stdout.splitlines()
    assert any(line.startswith("uro-bench ") and "unknown" in line for line in lines)
    assert any(line.startswith("vstyle ") and "3,000 unverified" in line for line in lines)
    assert not rows["vstyle"]["items_verified"]


def test_a_part_can_have_another_licence(tmp_path: Path) -> None:
    root = str(SETS["full-duplex-bench"](tmp_path, 1))
    refused = CliRunner().invoke(command, ["add", "full-duplex-bench", "--path", root])
    assert isinstance(refused.exception, UsageError)
    licences = "CC BY-NC 4.0 (candor_pause_handling, candor_turn_taking) and MIT (the other parts)"
    prohibition = f"is licensed under {licences}, of which CC BY-NC 4.0 forbids commercial use: pass"
    assert prohibition in str(refused.exception)
    assert str(refused.exception).endswith(
        "or add a part that permits it, such as full-duplex-bench/synthetic_pause_handling"
    )
    note = BENCHMARKS["full-duplex-bench"].licence_note()
    those = "neither those under CC BY-NC 4.0 nor results with them may be used commercially"
    assert note.endswith(f"under {licences}: {those}")
    open_part = CliRunner().invoke(command, ["add", "full-duplex-bench/user_backchannel", "--path", root])
    assert open_part.exit_code == 0, open_part.output
    assert load(locate("full-duplex-bench/user_backchannel")).licence.endswith("under MIT")
    for name in ("full-duplex-bench", "full-duplex-bench/candor_turn_taking"):
        with pytest.raises(
            DataError, match=r"only user_backchannel was added: to confirm .* --noncommercial"
        ):
            locate(name)
    assert load(locate("full-duplex-bench/talking_to_other")).licence.endswith("under MIT")
    confirmed = CliRunner().invoke(command, ["add", "full-duplex-bench", "--path", root, "--noncommercial"])
    assert confirmed.exit_code == 0, confirmed.output
    for name in ("full-duplex-bench", "full-duplex-bench/candor_turn_taking"):
        assert load(locate(name)).licence.endswith("may be used commercially")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_real_copy_is_read_without_problems(name: str) -> None:
    path = Path(os.environ.get("LIVE_EVAL_SETS", ""), name)
    if not path.is_absolute() or not path.is_dir():
        pytest.skip("LIVE_EVAL_SETS is not a folder with this benchmark")
    data = load(path)
    assert [case.problem for case in data.cases if case.problem][:5] == []
    assert [note for note in data.notes if note.startswith("items read")] == []


def test_a_recorded_benchmark_is_located_by_name(here: Path) -> None:
    with pytest.raises(
        DataError, match=r"not on this machine: add it \(live-eval data add voicebench/advbench"
    ):
        locate("voicebench/advbench")
    write_record(SPEC, RecordedBenchmark(root=here))
    assert locate("voicebench") == here
    assert locate("voicebench/advbench") == here / "advbench"
    assert len(load(locate("voicebench/advbench")).cases) == 1
    assert locate("recordings/voicebench") == Path("recordings/voicebench")


def test_a_folder_of_that_name_is_used_if_nothing_is_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.parent)
    here.rename("voicebench")
    assert locate("voicebench/advbench") == Path("voicebench/advbench")
    assert len(load(locate("voicebench/advbench")).cases) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("voicebnch", "unknown benchmark 'voicebnch'.*voicebench"),
        ("voicebench/obqa", "has no part 'obqa'.*openbookqa"),
    ],
)
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        benchmark_named(name)


def test_a_damaged_record_is_reported_with_its_path(home: Path, here: Path) -> None:
    write_record(SPEC, RecordedBenchmark(root=here))
    (home / "voicebench" / RECORD_FILE).write_text("{}")
    with pytest.raises(DataError, match="damaged record of VoiceBench: add it again"):
        locate("voicebench")
    write_record(SPEC, RecordedBenchmark(root=here.with_name("gone")))
    with pytest.raises(DataError, match="missing folder of VoiceBench"):
        locate("voicebench")


def test_a_changed_file_is_noted(here: Path) -> None:
    [table] = here.rglob("*.parquet")
    name = table.relative_to(here).as_posix()
    files = {name: (table.stat().st_size, file_sha256(table))}
    record = RecordedBenchmark(root=here, revision=SPEC.revision, parts=("advbench",), files=files)
    write_record(SPEC, record)
    assert read_record(SPEC) == record
    assert len(load(here).notes) == 3
    voicebench_part(here, "advbench", [{"prompt": "Another question?"}] * 2)
    assert changed_files(record) == [name]
    assert f"1 of 1 files differ from revision b02edcef1330 ({name})" in " ".join(load(here).notes)


def test_a_missing_part_and_another_revision_are_named(here: Path) -> None:
    write_record(SPEC, RecordedBenchmark(root=here, revision="0" * 40))
    with pytest.raises(
        DataError, match=r"the part bbh of VoiceBench is missing: expected bbh; add it \(live-ev"
    ):
        locate("voicebench/bbh")
    assert any(
        note.startswith("the files are of revision 000000000000, and live-eval expects b02edcef1330")
        for note in load(locate("voicebench")).notes
    )
    shutil.rmtree(here / "advbench")
    with pytest.raises(DataError, match="VoiceBench is missing: expected its files"):
        locate("voicebench")


def test_add_records_a_copy_and_list_shows_it(here: Path) -> None:
    runner = CliRunner()
    [row] = [
        row
        for row in json.loads(runner.invoke(command, ["list", "--json"]).stdout)
        if row["name"] == "voicebench"
    ]
    assert (row["here"], row["path"], row["licence"], row["items"]) == (False, None, "Apache-2.0", 8_028)
    added = runner.invoke(command, ["add", "voicebench/advbench", "--path", str(here / "advbench")])
    assert added.exit_code == 0, added.output
    assert "licence: Apache-2.0" in added.stderr
    assert added.stdout == f"voicebench: {here}\n"
    listed = runner.invoke(command, ["list"], env={"COLUMNS": "200"})
    assert str(here) in listed.stdout
    assert "1 of 11 parts" in listed.stdout
    assert "advbench 520 (harmful requests)" in listed.stdout


@pytest.mark.parametrize(
    ("name", "file", "lists"),
    [("uro-bench/Repeat", "basic/Repeat/test.jsonl", 1), ("big-bench-audio", "metadata.jsonl", 1)],
)
def test_a_changed_list_of_a_copy_is_noted(tmp_path: Path, name: str, file: str, lists: int) -> None:
    root = SETS[name.partition("/")[0]](tmp_path / "copy", 1)
    add = ["add", name, "--path", str(root)]
    assert CliRunner().invoke(command, add).exit_code == 0
    changed = f"1 of {lists} lists of items have changed since this copy was added ({file})"
    assert changed not in " ".join(load(locate(name)).notes)
    content = (root / file).read_bytes()
    (root / file).write_bytes(content.replace(b"a", b"b", 1))
    assert changed in " ".join(load(locate(name)).notes)
    assert CliRunner().invoke(command, add).exit_code == 0
    assert changed not in " ".join(load(locate(name)).notes)


@pytest.mark.parametrize("name", [name for name, spec in BENCHMARKS.items() if spec.by_hand])
def test_add_explains_what_to_download_by_hand(name: str) -> None:
    spec = BENCHMARKS[name]
    found = CliRunner().invoke(command, ["add", name, "--noncommercial"])
    assert isinstance(found.exception, UsageError)
    message = str(found.exception)
    assert message.startswith(f"live-eval does not download {spec.title}, because {spec.undownloaded}: ")
    assert "https://" in message
    first = next(iter(spec.parts))
    then = f"Then run live-eval data add {name} --path FOLDER"
    then += " --noncommercial" if spec.noncommercial else ""
    assert f"{then}, where FOLDER contains {spec.place_of(first)}" in message
    named = CliRunner().invoke(command, ["add", f"{name}/{first}", "--noncommercial"])
    assert str(named.exception).endswith(f", where FOLDER contains {spec.place_of(first)}")


def test_add_refuses_other_folders(tmp_path: Path) -> None:
    found = CliRunner().invoke(command, ["add", "voicebench", "--path", str(tmp_path)])
    assert isinstance(found.exception, DataError)
    assert "expected the files of VoiceBench in their published layout" in str(found.exception)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("uro-bench", "basic/Repeat/test.jsonl"),
        ("big-bench-audio", "metadata.jsonl"),
        ("audio-multichallenge", "data"),
        ("voicebench", "alpacaeval"),
    ],
)
def test_add_names_an_expected_file_and_the_folder_inside(name: str, file: str, tmp_path: Path) -> None:
    root = SETS[name](tmp_path / "parent" / "inner", 1)
    assert (root / file).exists()
    found = CliRunner().invoke(command, ["add", name, "--path", str(tmp_path / "parent")])
    assert str(found.exception).endswith(f", such as {file}, got none of them; pass --path {root}")
    (tmp_path / "empty").mkdir()
    found = CliRunner().invoke(command, ["add", name, "--path", str(tmp_path / "empty")])
    assert str(found.exception).endswith(f", such as {file}, got none of them")


def test_add_reads_only_the_named_part_of_a_copy(here: Path) -> None:
    voicebench_part(here, "bbh", [{"prompt": "x", "reference": "No", "id": "navigate_1"}])
    [table] = (here / "bbh").iterdir()
    table.write_bytes(b"PAR1, but cut")
    good = CliRunner().invoke(command, ["add", "voicebench/advbench", "--path", str(here)])
    assert good.exit_code == 0, good.output
    damaged = CliRunner().invoke(command, ["add", "voicebench/bbh", "--path", str(here / "advbench")])
    assert table.name in str(damaged.exception)
    absent = CliRunner().invoke(command, ["add", "voicebench/mmsu", "--path", str(here)])
    assert str(absent.exception) == f"{here}: the part mmsu of VoiceBench is missing"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("voicebench", "mmsu/law-00000-of-00001.parquet"),
        ("uro-bench", "basic/Summary/test.jsonl"),
        ("sd-eval", "data/test-age.json"),
        ("humdial-eibench", "zh/HD-Track1-T3.jsonl"),
    ],
)
def test_a_damaged_part_is_skipped_and_reported(home: Path, tmp_path: Path, name: str, file: str) -> None:
    root = SETS[name](tmp_path / "copy", 1)
    whole = len(load(root).cases)
    (root / file).write_bytes(b"\xff\xfe damaged")
    data = load(root)
    (part,) = data.damaged
    assert 0 < len(data.cases) < whole
    assert all(case.item is not None and case.item.part != part for case in data.cases)
    assert any(note.startswith(f"{part} is left out, because it cannot be read: ") for note in data.notes)
    assert not check(data).ok
    with pytest.raises(DataError):
        load(root / part)
    added = CliRunner().invoke(command, ["add", name, "--path", str(root), "--noncommercial"])
    assert added.exit_code == 0, added.output
    assert f"{part} is left out" in added.stderr


def test_a_damaged_table_of_conversations_is_skipped(tmp_path: Path) -> None:
    SETS["audio-multichallenge"](tmp_path, 2)
    (tmp_path / "data" / "test-00000-of-00001.parquet").rename(tmp_path / "data/test-00001-of-00002.parquet")
    (tmp_path / "data" / "test-00000-of-00002.parquet").write_bytes(b"PAR1, cut off")
    data = load(tmp_path)
    assert list(data.damaged) == ["test-00000-of-00002.parquet"]
    assert len(data.cases) == 16
