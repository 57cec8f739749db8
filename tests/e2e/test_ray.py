"""A run on a Ray cluster: the same turns and scores as on one machine, whatever becomes of a worker."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_eval.recording import RunReader, ScoreStore
from tests.e2e.helpers import LIVE_EVAL, live_eval, served

TOKEN = "canary-7f3a91c05d2e4b68"
PLAY = ("--data", "sample", "--limit", "8", "--concurrency", "4", "--word-times", "off", "--no-report")
RAY = ("--ray", "--processes", "2", "--timing-bound", "1000")  # timing is no matter of tests

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
if importlib.util.find_spec("ray") is None:
    pytest.skip("needs the extra ray: pip install 'live-eval[ray]'", allow_module_level=True)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The reference endpoint, which asks for a token; the value is its base URL."""
    monkeypatch.setenv("LIVE_EVAL_ENDPOINT_TOKEN", TOKEN)
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--until-stdin-ends", "--data", "sample"]
    with served(command, r'"port": (\d+)', tmp_path) as port:
        yield f"ws://127.0.0.1:{port}/v1"


def texts(run: Path) -> dict[str, str | None]:
    with RunReader.open(run) as reader:
        return {turn.turn_id: turn.reply_text for turn in reader.turns()}


def scores(run: Path) -> dict[tuple[str, str, str], object]:
    with ScoreStore.open(run) as store:
        return {(row.judge, row.version, row.turn_id): (row.status, row.values) for row in store.read()}


def holders() -> list[int]:
    """Return the processes of Ray's workers that hold sessions."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().startswith(b"ray::SessionActor"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_turns_and_scores_are_those_of_one_machine_and_a_lost_worker_costs_none(
    endpoint: str, tmp_path: Path
) -> None:
    judges = ("--judges", "bleu,prosody")
    usual: tuple[str, ...] = ("run", "--endpoint", "reference", "--base-url", endpoint)
    usual += ("--key-variable", "LIVE_EVAL_ENDPOINT_TOKEN", *PLAY)
    one, many = tmp_path / "one", tmp_path / "many"
    live_eval(*usual, *judges, "--out", str(one))

    command = [*LIVE_EVAL, *usual, *judges, *RAY, "--out", str(many)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        killed = None
        deadline = time.monotonic() + 300
        while process.poll() is None and killed is None and time.monotonic() < deadline:
            time.sleep(0.2)
            if (many / "run.sqlite").exists() and texts(many) and holders():
                os.kill(killed := holders()[0], signal.SIGKILL)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert killed is not None

    assert texts(many) == texts(one)
    assert len(texts(one)) == 8
    with RunReader.open(many) as run:
        failures = {row.failure.kind.value for row in run.failures()}
        assert failures == {"process_died"}, "the lost sessions were tried again"
        assert {turn.trace.node for turn in run.turns()} == {run.manifest["machine"]["nodes"][0]["name"]}
        assert run.manifest["machine"]["nodes"][0]["calibration"]["turns"] == 50
    assert scores(many) == scores(one)

    for folder in (many, *Path("/tmp/ray").glob("session_*")):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert TOKEN.encode() not in path.read_bytes(), path
