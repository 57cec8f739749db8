"""Commands that receive one or two stop signals, or whose terminal is closed."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from live_eval.recording import RunReader
from tests.e2e.disturbed import (
    Command,
    Endpoint,
    commanding,
    endpoint,
    recorded,
    run_arguments,
    speech,
    until,
)
from tests.e2e.helpers import LIVE_EVAL, live_eval

pty = pytest.importorskip("pty", reason="needs POSIX terminals")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TURNS = 5
PROMPTLY_S = 40.0


SCALES = ("context_fit", "response_naturalness", "colloquialism_degree", "speech_information_relevance")


class Model(ThreadingHTTPServer):
    """An LLM judge that answers at once, or never while it `thinks`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.thinks = threading.Event()
        self.asked = 0

    @property
    def flags(self) -> tuple[str, ...]:
        url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        return (
            "--judges",
            "bleu,rubric",
            "--llm-base-url",
            url,
            "--llm-model",
            "m",
            "--llm-concurrency",
            "1",
        )


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        model: Any = self.server
        model.asked += 1
        if model.thinks.is_set():
            time.sleep(120)
            return  # the client has disconnected
        scores = {
            f"{name}_{key}": value for name in SCALES for key, value in (("reason", "fits"), ("score", 4))
        }
        choice = {"message": {"content": json.dumps(scores)}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice], "model": "m"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def judging() -> Iterator[Model]:
    with Model() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            model.shutdown()


@contextlib.contextmanager
def being_played(out: Path) -> Iterator[tuple[Endpoint, Command]]:
    """Start a run and wait for its second turn; the block stops it, and it is resumed afterwards."""
    folder = out.parent
    with endpoint(folder) as one:
        command = run_arguments(one.base_url, speech(folder, TURNS), out)
        with commanding(*command) as run:
            until(lambda: recorded(out)[0] >= 2)
            yield one, run
        live_eval(*command, "--resume")
    assert recorded(out) == (TURNS, TURNS)


def test_a_second_ctrl_c_ends_a_run_that_cannot_write(tmp_path: Path) -> None:
    """The first Ctrl-C waits for the turn being written while another program locks the database."""
    out = tmp_path / "run"
    with being_played(out) as (_, run):
        with contextlib.closing(sqlite3.connect(out / "run.sqlite", isolation_level=None)) as db:
            db.execute("PRAGMA busy_timeout = 10000")
            db.execute("BEGIN IMMEDIATE")
            before = recorded(out)[0]
            time.sleep(3)
            run.signal(signal.SIGINT)
            time.sleep(1.5)
            assert run.process.poll() is None
            run.signal(signal.SIGINT)
            status, said = run.end(PROMPTLY_S)
        assert status == 130, said
        assert "--resume" in said
        assert recorded(out)[0] == before


def test_ctrl_c_ends_a_run_whose_endpoint_does_not_close(tmp_path: Path) -> None:
    with being_played(tmp_path / "run") as (one, run):
        one.suspend()
        run.signal(signal.SIGINT)
        status, said = run.end(PROMPTLY_S)
        one.resume()
        assert status == 130, said


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_ends_the_pause_of_an_outage(tmp_path: Path, signals: int) -> None:
    with being_played(tmp_path / "run") as (one, run):
        one.kill()
        time.sleep(5)
        for _ in range(signals):
            with contextlib.suppress(ProcessLookupError):
                run.signal(signal.SIGINT)
            time.sleep(1.2)
        status, said = run.end(PROMPTLY_S)
        assert status == 130, said
        assert "endpoint unreachable since" in said
        one.start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_scoring_resumes(tmp_path: Path, number: signal.Signals) -> None:
    """Interrupt scoring in the run, then in ``live-eval score``, which keeps its first batch."""
    out = tmp_path / "run"
    with endpoint(tmp_path) as one, judging() as model:
        model.thinks.set()
        with commanding(*run_arguments(one.base_url, speech(tmp_path, TURNS), out, *model.flags)) as run:
            until(lambda: model.asked > 0)
            run.signal(number)
            status, said = run.end(PROMPTLY_S)
        assert status == 130, said
        assert f"live-eval score {out}" in said
        assert recorded(out) == (TURNS, TURNS)
        asked = model.asked
        with commanding("score", out, *model.flags) as scoring:
            until(lambda: model.asked > asked)
            scoring.signal(number)
            status, said = scoring.end(PROMPTLY_S)
        assert status == 130, said
        model.thinks.clear()
        live_eval("score", out, *model.flags)
    assert recorded(out) == (TURNS, 2 * TURNS)
    assert not list(out.glob(".*.lock"))


def test_a_closed_terminal_ends_a_run_cleanly(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with endpoint(tmp_path) as one:
        command = run_arguments(one.base_url, speech(tmp_path, TURNS), out)
        terminal, process = on_terminal(*command)
        until(lambda: recorded(out)[0] >= 2)
        os.close(terminal)
        assert process.wait(PROMPTLY_S) == 130
        with RunReader.open(out) as reader:
            assert reader.state == "interrupted"
        live_eval(*command, "--resume")
    assert recorded(out) == (TURNS, TURNS)


def test_a_run_under_nohup_survives_its_terminal(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with endpoint(tmp_path) as one:
        command = run_arguments(one.base_url, speech(tmp_path, TURNS), out)
        with (tmp_path / "output").open("w") as output:
            process = subprocess.Popen(
                ["nohup", *LIVE_EVAL, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        until(lambda: recorded(out)[0] >= 2)
        process.send_signal(signal.SIGHUP)
        assert process.wait(180) == 0
    assert recorded(out) == (TURNS, TURNS)


def on_terminal(*command: str | Path) -> tuple[int, subprocess.Popen[bytes]]:
    """Run a live-eval command with its own terminal; return our end of the terminal and the process."""
    ours, theirs = pty.openpty()
    program = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *LIVE_EVAL, *map(str, command)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,  # opening a terminal then makes it the controlling terminal of this session
    )
    os.close(theirs)
    return ours, process
