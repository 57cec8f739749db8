"""A run on a Ray cluster has the turns and scores of a local run, even if a worker or a node is lost."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from live_eval.errors import SchemaVersionError
from live_eval.recording import RunReader, ScoreStore
from tests.e2e.helpers import LIVE_EVAL, live_eval, served

TOKEN = "canary-7f3a91c05d2e4b68"
PLAY = ("--data", "sample", "--limit", "8", "--concurrency", "4", "--word-times", "off", "--no-report")
TO = ("--endpoint", "reference", "--key-variable", "LIVE_EVAL_ENDPOINT_TOKEN", "--base-url")
SPREAD = ("--processes", "2", "--timing-bound", "1000")  # tests do not check timing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
if importlib.util.find_spec("ray") is None:
    pytest.skip("needs the extra ray: pip install -e '.[ray]'", allow_module_level=True)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The reference endpoint with a token; the value is its base URL."""
    monkeypatch.setenv("LIVE_EVAL_ENDPOINT_TOKEN", TOKEN)
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--until-stdin-ends", "--data", "sample"]
    with served(command, r'"port": (\d+)', tmp_path) as port:
        yield f"ws://127.0.0.1:{port}/v1"


def texts(run: Path) -> dict[str, str | None]:
    with RunReader.open(run) as reader:
        return {turn.turn_id: turn.reply_text for turn in reader.turns()}


def turns_in(run: Path) -> int:
    """Return the number of turns stored so far; the run may not exist yet, or have no tables yet."""
    try:
        return len(texts(run)) if (run / "run.sqlite").exists() else 0
    except SchemaVersionError:
        return 0


def ended(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


def scores(run: Path) -> dict[tuple[str, str, str], object]:
    with ScoreStore.open(run) as store:
        return {(row.judge, row.version, row.turn_id): (row.status, row.values) for row in store.read()}


def holders() -> list[int]:
    """Return the Ray worker processes that run sessions."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().startswith(b"ray::SessionActor"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@contextmanager
def node(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a node of a cluster for the duration of a ``with`` block; yield its process and its output."""
    ray = str(Path(sys.executable).with_name("ray"))
    log = folder / f"node-{len(list(folder.iterdir()))}.log"
    command = [ray, "start", *flags, "--num-cpus=2", "--block"]
    with log.open("wb") as output, ExitStack() as stack:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        within(240, lambda: "Ray runtime started" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process, log.read_text()


def within(seconds: float, happens: Callable[[], object]) -> bool:
    """Wait until a condition holds; return whether it held within the time limit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.2)
    return False


def test_turns_and_scores_equal_a_local_run_even_if_a_worker_is_lost(endpoint: str, tmp_path: Path) -> None:
    judges = ("--judges", "bleu,prosody")
    usual = ("run", *TO, endpoint, *PLAY)
    one, many = tmp_path / "one", tmp_path / "many"
    live_eval(*usual, *judges, "--out", str(one))

    command = [*LIVE_EVAL, *usual, *judges, "--ray", *SPREAD, "--out", str(many)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert within(400, lambda: ended(process) or (turns_in(many) and holders()))
        assert not ended(process), process.communicate()[1]
        os.kill(holders()[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors

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


def test_a_lost_node_costs_no_turn(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN * 2)
    out = tmp_path / "run"

    def nodes() -> set[str | None]:
        with RunReader.open(out) as run:
            return {turn.trace.node for turn in run.turns()}

    with node(tmp_path, "--head", "--port=0", "--include-dashboard=false") as (_, said):
        found = re.search(r"--address='([^']+)'", said)
        assert found is not None, said
        with node(tmp_path, f"--address={found[1]}") as (other, _):
            command = [*LIVE_EVAL, "run", *TO, endpoint, *PLAY, "--limit", "12", "--judges", "bleu"]
            command += ["--ray", found[1], *SPREAD, "--out", str(out)]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                assert within(400, lambda: ended(process) or (turns_in(out) and len(nodes()) == 2))
                assert not ended(process), process.communicate()[1]
                os.killpg(other.pid, signal.SIGKILL)
                _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    assert len(texts(out)) == 12
    assert all(texts(out).values())
    with RunReader.open(out) as run:
        assert {row.failure.kind.value for row in run.failures()} == {"process_died"}
        assert {each["name"] for each in run.manifest["machine"]["nodes"]} == nodes()
    assert len(scores(out)) == 12
