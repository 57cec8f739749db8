"""What opens files in folders from somebody else refuses links, pipes and devices."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import write_flac
from live_eval.files import atomic_write, open_regular, private_file, read_regular

PACKAGE = Path(__file__).parents[3] / "live_eval"
ROOMS = ("analysis", "campaigns", "cassettes", "export", "pytest_plugin", "recording", "report", "studio")
OPENERS = {
    "open",  # of a path, or the built-in
    "fdopen",
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "SoundFile",
    "connect",  # of sqlite3
}
CHECKED = {
    "analysis/arena/results.py": "the temporary file of atomic_write, at a path of the user",
    "campaigns/duplex/stimuli.py": "a manifest, in a folder that `check_new` found new",
    "campaigns/latency/inputs.py": "a manifest, in a folder that `check_new` found new",
    "campaigns/latency/summary.py": "a file of this package",
    "campaigns/latency/words.py": "the temporary file of atomic_write",
    "cassettes/format.py": "the temporary file of atomic_write",
    "export/hugging_face.py": "a file of `is_own_file`, and one in a new folder",
    "pytest_plugin/endpoint_tester.py": "a manifest in a temporary folder",
    "recording/_files.py": "a file of `own_file`",
    "recording/_lock.py": "a lock of `_check_kind`, without following links",
    "recording/campaign_documents.py": "the temporary file of atomic_write",
    "recording/machine_records.py": "a file of the user's own data folder",
    "recording/schema.py": "databases whose files `own_file` has checked, and private copies",
    "recording/writer.py": "a file just written, in a folder of `own_folder`",
    "report/build.py": "the temporary file of atomic_write",
    "report/pages/__init__.py": "files of this package, and the temporary file of atomic_write",
    "studio/listening/votes.py": "checked below: votes are kept in the user's own folder",
    "studio/pages.py": "a page just written to a temporary folder",
}
"""Modules of these rooms that open files by themselves, and why they may."""


def opened_in(path: Path) -> Iterator[int]:
    """Yield the lines of a module that open a file by themselves."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if (
                name in OPENERS and not owner[0].isupper()
            ):
                yield node.lineno
            case ast.Attribute(attr=name) if name in OPENERS - {"open", "connect"}:
                yield node.lineno


def test_no_other_module_opens_files_of_a_run_by_itself() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        if any(opened_in(path))
    }
    assert found == set(CHECKED)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A file of the user outside the folder."""
    path = tmp_path / "diary"
    path.write_text("dear diary")
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("kind", "message"),
    [("pipe", "a pipe"), ("folder", "a folder"), ("link", "a link"), ("device", "a device")],
)
def test_only_regular_files_are_opened(tmp_path: Path, diary: Path, kind: str, message: str) -> None:
    path = tmp_path / "file"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(diary)
        case "device":
            path = Path("/dev/zero")
    with pytest.raises(OSError, match=f"expected a file, found {message}"):
        open_regular(path, links=False)
    if kind == "link":
        with open_regular(path) as file:
            assert file.read() == b"dear diary"


def test_no_more_is_read_than_was_allowed(diary: Path) -> None:
    assert read_regular(diary, 10) == b"dear diary"
    with pytest.raises(OSError, match="at most 9 bytes"):
        read_regular(diary, 9)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["link", "pipe", "broken link"])
@pytest.mark.parametrize("name", ["file", "file.part"])
def test_what_is_in_the_way_of_a_write_is_replaced(tmp_path: Path, diary: Path, kind: str, name: str) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    match kind:
        case "link":
            (folder / name).symlink_to(diary)
        case "pipe":
            os.mkfifo(folder / name)
        case "broken link":
            (folder / name).symlink_to(tmp_path / "new")
    with atomic_write(folder / "file", links=False) as part:
        part.write_text("words")
    assert (folder / "file").read_text() == "words"
    assert not (folder / "file").is_symlink()
    assert diary.read_text() == "dear diary"
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.is_dir()) == ["diary", "file"]


@pytest.mark.parametrize("name", ["reply.flac", "reply.flac.part"])
def test_a_recording_is_not_written_through_a_link(tmp_path: Path, diary: Path, name: str) -> None:
    before = diary.read_bytes()
    (tmp_path / name).symlink_to(diary)
    write_flac(tmp_path / "reply.flac", np.zeros(160, np.int16), 16_000)
    assert diary.read_bytes() == before
    assert not (tmp_path / "reply.flac").is_symlink()


def test_a_private_file_is_not_opened_through_a_link(tmp_path: Path, diary: Path) -> None:
    (tmp_path / "log").symlink_to(diary)
    with pytest.raises(OSError, match="log"):
        private_file(tmp_path / "log")
