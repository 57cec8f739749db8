"""Where files that a user names are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from live_eval.textfile import written_whole


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("as it was")
    with pytest.raises(UnicodeEncodeError), written_whole(path) as place:
        place.write_text("half \ud800", "utf-8")
    assert path.read_text() == "as it was"
    with written_whole(path) as place:
        place.write_text("whole")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_and_a_pipe_are_written_to_and_stay_what_they_are(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("page")
    os.mkfifo(pipe)
    for there in (False, True):
        assert (tmp_path / "page").exists() is there
        with written_whole(link) as place:
            place.write_text("whole")
        assert link.is_symlink()
    assert (tmp_path / "page").read_text() == "whole"
    with written_whole(pipe) as place:
        assert place == pipe
    assert pipe.is_fifo()
