"""Atomic writes and CSV rows."""

from __future__ import annotations

import csv
import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.errors import DataError
from live_eval.files import (
    atomic_write,
    csv_line,
    private_file,
    private_folder,
    private_opener,
    read_rows,
    read_text,
    unique_names,
)


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("as it was")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as place:
        place.write_text("half \ud800", "utf-8")
    assert path.read_text() == "as it was"
    with atomic_write(path) as place:
        place.write_text("whole")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_new_files_are_private_and_others_keep_their_mode(tmp_path: Path) -> None:
    old, new, made, opened = (tmp_path / name for name in ("old", "new", "made", "opened"))
    old.write_text("before")
    old.chmod(0o664)
    before = os.umask(0)
    try:
        for path in (old, new):
            with atomic_write(path) as part:
                part.write_text("after")
        private_file(made)
        open(opened, "w", opener=private_opener).close()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (old, new, made, opened)]
    assert modes == [0o664, 0o600, 0o600, 0o600]


def test_symlinks_and_pipes_are_written_through(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("page")
    os.mkfifo(pipe)
    for there in (False, True):
        assert (tmp_path / "page").exists() is there
        with atomic_write(link, links=True) as place:
            place.write_text("whole")
        assert link.is_symlink()
    assert (tmp_path / "page").read_text() == "whole"
    with atomic_write(pipe, links=True) as place:
        assert place == pipe
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_new_folders_are_private_with_their_parents(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for each in (folder, *list(folder.parents)[:2]):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert private_folder(folder) == folder


@pytest.mark.parametrize("links", [True, False])
def test_a_text_file_has_a_maximum_size(tmp_path: Path, links: bool) -> None:
    path = tmp_path / "text"
    path.write_text("abcde")
    assert read_text(path, links=links, most_bytes=5) == "abcde"
    with pytest.raises(DataError, match="larger than the limit of 4 bytes"):
        read_text(path, links=links, most_bytes=4)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs POSIX")
def test_an_endless_file_of_the_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script_info.json").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="larger than the limit of 1000 bytes"):
        read_text(tmp_path / "script_info.json", links=True, most_bytes=1000)


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-", "-1+1", "-1e", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]
)
def test_text_that_a_spreadsheet_would_run_is_escaped(text: str) -> None:
    [row] = csv.reader(io.StringIO(csv_line([text, 1]), newline=""))
    assert row == ["'" + text, "1"]


@pytest.mark.parametrize("value", [-1.5, -1, "-1", "-1.5", "-1.5e-07", "a=b", "", "1\r=2"])
def test_numbers_and_other_text_stay_unchanged(value: object) -> None:
    [row] = csv.reader(io.StringIO(csv_line([value, 1]), newline=""))
    assert row == [str(value), "1"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2))
def test_a_row_stays_one_row_whatever_its_cells_contain(cells: list[str]) -> None:
    [row] = csv.reader(io.StringIO(csv_line(cells), newline=""), strict=True)
    assert [cell.removeprefix("'") for cell in row] == [cell.removeprefix("'") for cell in cells]


def test_an_escaped_name_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(csv_line(["turn_id"]) + csv_line(["=a"]) + csv_line(["'b"]), "utf-8")
    assert [row["turn_id"] for _, row in read_rows(path, ["turn_id"], [])] == ["=a", "'b"]


def test_folders_of_one_name_are_named_apart() -> None:
    paths = [Path("a/x"), Path("a/y"), Path("b/x"), Path("c/b/x")]
    assert unique_names(paths) == ["a/x", "y", "b/x (3)", "b/x (4)"]
