"""Whether a run is being written, according to its lock file."""

import multiprocessing
import os
from pathlib import Path

import pytest

from live_eval.recording import RunWriter, is_being_written


def test_a_run_is_being_written_until_its_writer_closes(tmp_path: Path) -> None:
    assert not is_being_written(tmp_path)
    with RunWriter.create(tmp_path / "run", {}):
        assert is_being_written(tmp_path / "run")
    assert not is_being_written(tmp_path / "run")


def _die(folder: Path) -> None:
    RunWriter.create(folder, {})
    os._exit(0)


@pytest.mark.skipif(os.name != "posix", reason="looks up the process named in a lock")
def test_a_run_whose_writer_was_killed_is_not_being_written(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_die, args=(tmp_path / "run",))
    process.start()
    process.join()
    assert (tmp_path / "run" / ".run.lock").exists()
    assert not is_being_written(tmp_path / "run")
