"""A failed export leaves the output unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import UsageError

resource = pytest.importorskip("resource", reason="limits are POSIX")
pytest.importorskip("pyarrow")

MADE = {"jsonl": "a.jsonl", "csv": "a.csv", "parquet": "a.parquet", "hf": "set"}


def export(run: Path, form: str, output: Path) -> None:
    arguments = ["export", str(run), "--to", form, "--out", str(output)]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0


@pytest.fixture
def files_stay_small() -> Iterator[None]:
    """Limit files to 4 kB, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("form", MADE)
@pytest.mark.usefixtures("files_stay_small")
def test_a_full_disk_leaves_no_output(form: str, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        export(run_folder, form, tmp_path / MADE[form])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.usefixtures("files_stay_small")
def test_a_failed_export_keeps_the_previous_output(form: str, run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / MADE[form]).write_text("before")
    with pytest.raises(UsageError, match="cannot write"):
        export(run_folder, form, tmp_path / MADE[form])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_a_failure_leaves_no_partial_data_set(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (tmp_path / "set", empty):
        with monkeypatch.context() as patch:
            patch.setattr("live_eval.export.hugging_face.atomic_text", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                export(run_folder, "hf", folder)
        assert list(tmp_path.iterdir()) == [empty]
        assert not list(empty.iterdir())


def test_a_killed_export_can_be_repeated(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    shutil.copytree(run_folder, folder / ".live-eval-export.part" / "data")
    export(run_folder, "hf", folder)
    assert {path.name for path in folder.iterdir()} == {"README.md", "data"}
    assert [path.name for path in (folder / "data").iterdir()] == ["test-00000.parquet"]


def test_a_data_set_may_go_to_an_empty_working_folder(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export(run_folder, "hf", Path())
    assert {path.name for path in Path().iterdir()} == {"README.md", "data"}
