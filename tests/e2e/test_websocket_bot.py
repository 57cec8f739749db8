"""Our `pipecat-websocket` client against a pipecat bot with protobuf frames, compared with its log."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from live_eval.recording import RunReader, TurnRecord
from live_eval.timing import ResponseStatus
from tests.e2e.conftest import Runs, Serving, python_of
from tests.e2e.helpers import PHONE_CASE, STRANGERS

pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

SESSIONS = 3
SENT_WITHIN_MS = 100  # the bot is busy while it decodes several callers
BOT = STRANGERS / "pipecat_tone_bot.py"
RUN = ("--endpoint", "pipecat-websocket", "--case", PHONE_CASE, "--reply-timeout", "5")


def check_answers(turns: list[TurnRecord], log: Path) -> None:
    """Check that each turn has one reply of a second, and that it arrived when the bot sent it."""
    lines = map(json.loads, log.read_text("utf-8").splitlines())
    sent_ns = sorted(line["at_ns"] for line in lines if line["event"] == "audio")
    arrived_ns = []
    for turn in turns:
        assert turn.failure is None, turn.failure
        assert turn.warnings == ()
        (response,) = turn.responses
        assert response.status is ResponseStatus.COMPLETED
        assert response.heard_ns
        arrived_ns.append(response.heard_ns[0][0])
        length_ms = (response.heard_ns[-1][1] - response.heard_ns[0][0]) / 1e6
        assert length_ms == pytest.approx(1_000, abs=SENT_WITHIN_MS)
    assert len(sent_ns) == len(turns)
    for sent, arrived in zip(sent_ns, sorted(arrived_ns), strict=True):
        assert 0 <= (arrived - sent) / 1e6 < SENT_WITHIN_MS


def test_the_development_runner_serves_several_clients(
    serving: Serving, run_turns: Runs, tmp_path: Path
) -> None:
    log = tmp_path / "answers.jsonl"
    command = [python_of("voice"), BOT, "-t", "websocket", "--host", "127.0.0.1", "--port", "0"]
    with serving(command, r"Uvicorn running on http://(\S+)", {"ANSWERS": str(log)}) as address:
        turns = run_turns(*RUN, "--base-url", f"ws://{address}/ws-client", times=SESSIONS)
    check_answers(turns, log)


def test_a_single_client_server_gets_one_session_at_a_time(serving: Serving, tmp_path: Path) -> None:
    """pipecat closes a second connection with 1013; by default, there is none."""
    log, run = tmp_path / "answers.jsonl", tmp_path / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python_of("voice"), BOT, "single-client", str(port)]
    ready = r"Starting websocket server on (127.0.0.1:\d+)"
    flags = ["--limit", "1", "--repeat", "2", "--word-times", "off", "--judges", "none", "--no-report"]
    with serving(command, ready, {"ANSWERS": str(log)}) as address:
        live_eval = [sys.executable, "-m", "live_eval", "run", *RUN, "--base-url", f"ws://{address}"]
        done = subprocess.run(
            [*live_eval, *flags, "--out", str(run)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert (
        "pipecat-websocket supports 1 concurrent session: --concurrency is reduced from 4 to 1" in done.stderr
    )
    with RunReader.open(run) as kept:
        turns = list(kept.turns())
    check_answers(turns, log)
    assert [turn.attempt for turn in turns] == [1, 1]
