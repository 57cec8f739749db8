"""A run whose endpoint was unreachable is completed with `--retry-failed`."""

import json
from pathlib import Path

import pytest

from live_eval.recording import RunReader
from tests.e2e.helpers import LIVE_EVAL, live_eval, served, shown

pytestmark = pytest.mark.slow

USUAL = ("--limit", "2", "--word-times", "off", "--judges", "bleu", "--no-report", "--retries", "0")


def test_failed_turns_are_run_and_scored_again_with_the_settings_of_the_run(tmp_path: Path) -> None:
    out, logs = tmp_path / "run", tmp_path / "logs"
    logs.mkdir()
    endpoint = [*LIVE_EVAL, "endpoint", "--calibrate"]
    ready = r'"base_url": "(ws://127.0.0.1:\d+/v1)"'
    with served([*endpoint, "--port", "0"], ready, logs) as base_url:
        pass
    live_eval(
        "run", "reference", "--base-url", base_url, *USUAL, "--turn-mode", "manual", "--out", out, status=3
    )
    assert shown(out)["failures"] == {"connection_refused": 2}
    port = base_url.rpartition(":")[2].partition("/")[0]
    with served([*endpoint, "--port", port], ready, logs):
        live_eval("run", "--retry-failed", "--out", out, "--trust-host", f"127.0.0.1:{port}")
    summary = shown(out)
    assert summary["turns"].items() >= {"total": 2, "captured": 2, "failed": 0}.items()
    with RunReader.open(out) as run:
        assert all(len(run.replaced(turn.turn_id)) == 1 for turn in run.turns())
        assert run.ended
    live_eval(
        "run", "reference", "--base-url", base_url, *USUAL, "--turn-mode", "manual", "--out", out, "--resume"
    )
    (listed,) = json.loads(live_eval("runs", "list", out, "--json"))["folders"]
    assert (listed["state"], listed["failed"]) == ("finished", 0)
