"""The output and the stored result of `live-eval calibrate`."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval.calibrate import Calibration, CalibrationPlan
from live_eval.cli.calibrate import command
from live_eval.recording.calibrations import FILE_VARIABLE, nearest
from live_eval.session.event_loop import Priority
from live_eval.types import StampKind
from tests.unit.cli.test_json_output import validated


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return sixty turns, each measured 1 ms too late."""

    async def calibrate(plan: CalibrationPlan) -> Calibration:
        late_ns = np.full(60, 1_000_000, np.int64)
        return Calibration(
            plan=plan,
            errors_ns={"first_byte": late_ns},
            lag_ns=late_ns,
            arrival_ns=late_ns,
            send_ns=late_ns,
            floor_ns=late_ns,
            stamped_turns={StampKind.KERNEL: 59, StampKind.USER: 1},
            priority=Priority.NORMAL,
            failed=(),
            session_s=60.0,
            cpu_s=0.6,
            loop_cpu_s=0.3,
        )

    monkeypatch.setattr("live_eval.calibrate.calibrate", calibrate)


def test_a_calibration_is_printed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "calibrations.json"))
    result = CliRunner().invoke(command, ["--turns", "60"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "by the kernel in 59 of 60 turns, otherwise by this process; normal priority" in result.stdout
    kept = nearest("websocket", 1, processes=0)
    assert kept is not None
    assert kept.errors_p99_ms == {"first_byte": 1.0}


def test_the_json_output_follows_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "calibrations.json"))
    for _ in range(2):  # the second time on a machine that has been calibrated
        printed = validated("calibrate", ["--turns", "60", "--json"])
        assert printed["errors_ms"]["first_byte"] == {"bias": 1.0, "p50": 1.0, "p99": 1.0}


def test_a_calibration_that_cannot_be_stored_is_still_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "no folder" / "calibrations.json"
    file.parent.write_text("a file")
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    result = CliRunner().invoke(command, ["--turns", "60"])
    assert result.exit_code == 0
    assert "error of first_byte" in result.stdout
    assert f"note: the calibration is not stored: cannot write {file}:" in result.stderr
