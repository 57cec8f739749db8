"""Stored calibrations, and the choice of a run's calibration."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from live_eval.errors import DataError
from live_eval.recording.calibrations import FILE_VARIABLE, KeptCalibration, keep, nearest


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "here" / "calibrations.json"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


def made(
    sessions: int, p99: float = 1.0, transport: str = "websocket", processes: int = 0
) -> KeptCalibration:
    return KeptCalibration(
        date="2026-11-22T15:00:00Z",
        transport=transport,
        sessions=sessions,
        noise=False,
        stamps="kernel",
        errors_p99_ms={"first_byte": p99},
        floor_p99_ms=0.2,
        processes=processes,
    )


def test_the_nearest_load_is_found_the_heavier_first() -> None:
    for sessions in (1, 50):
        keep(made(sessions))
    keep(made(20, transport="webrtc"))
    found = [nearest("websocket", sessions) for sessions in (1, 2, 50, 100)]
    assert [each.sessions for each in found if each is not None] == [1, 50, 50, 50]
    assert nearest("websocket", 101) is None  # less than half of the load was calibrated
    assert nearest("webrtc", 1) == made(20, transport="webrtc")
    assert nearest("http", 1) is None


def test_sessions_in_other_processes_have_separate_calibrations() -> None:
    for processes in (0, 2):
        keep(made(4, p99=1.0 + processes, processes=processes))
    two = nearest("websocket", 4, processes=2)
    assert two == made(4, 3.0, processes=2)
    assert "with 4 concurrent sessions (processes: 2): first_byte within 3.0 ms" in two.in_words()
    assert nearest("websocket", 4) == made(4)
    assert nearest("websocket", 4, processes=1) is None


def test_the_last_one_of_a_load_is_kept() -> None:
    keep(made(4, 3.0))
    keep(made(4, 2.0))
    found = nearest("websocket", 4)
    assert found is not None
    assert found.errors_p99_ms == {"first_byte": 2.0}
    assert found.in_words() == (
        "timing error of live-eval (p99), calibrated on this machine on 2026-11-22 with 4 concurrent "
        "sessions: first_byte within 2.0 ms; a bare timer loop was 0.2 ms late"
    )


def test_a_file_that_cannot_be_read_counts_as_none_and_is_replaced(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"half')
    assert nearest("websocket", 1) is None
    keep(made(1))
    assert nearest("websocket", 1) == made(1)


def test_two_that_are_kept_at_once_are_both_kept() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda sessions: keep(made(sessions)), range(1, 17)))
    assert [nearest("websocket", sessions) for sessions in range(1, 17)] == [*map(made, range(1, 17))]


def test_a_place_that_cannot_be_written_is_named(file: Path) -> None:
    file.parent.write_text("a file, and no folder")
    with pytest.raises(DataError, match="cannot write"):
        keep(made(1))
