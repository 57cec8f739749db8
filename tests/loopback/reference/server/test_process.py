"""The reference endpoint in a separate process, and its command."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from websockets.asyncio.client import connect

from live_eval.cli import WRONG_USAGE, cli
from live_eval.cli.endpoint import TOKEN_VARIABLE, command
from live_eval.errors import LiveEvalError, UsageError
from live_eval.reference.server.process import LOG_NAME, ReferenceProcess
from tests.support.waiting import until


async def test_it_starts_serves_and_stops(tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    process = ReferenceProcess(log_folder=tmp_path / "new", calibrate=True, truth=truth)
    with pytest.raises(LiveEvalError, match="has not been started"):
        _ = process.base_url
    async with process, connect(f"{process.base_url}/realtime?model=m") as client:
        assert json.loads(await client.recv())["type"] == "session.created"
    assert await asyncio.to_thread((tmp_path / "new" / LOG_NAME).read_bytes) == b""
    assert await asyncio.to_thread(truth.read_bytes) == b""
    with pytest.raises(ConnectionRefusedError):
        await connect(f"{process.base_url}/realtime?model=m")


async def test_an_endpoint_that_cannot_start_reports_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        LiveEvalError, match=r"(?s)exited with status 2 before it was ready.*--chunk-ms '0': expected 1"
    ):
        async with ReferenceProcess(log_folder=tmp_path, calibrate=True, arguments=["--chunk-ms", "0"]):
            pass


async def test_an_endpoint_that_starts_too_slowly_is_abandoned(tmp_path: Path) -> None:
    with pytest.raises(LiveEvalError, match=r"was not ready within 0\.01 s"):
        async with ReferenceProcess(log_folder=tmp_path, calibrate=True, start_timeout_s=0.01):
            pass


async def test_its_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    (tmp_path / LOG_NAME).symlink_to(diary)
    with pytest.raises(LiveEvalError, match=f"cannot write .*{LOG_NAME}"):
        async with ReferenceProcess(log_folder=tmp_path, calibrate=True):
            pass
    assert diary.read_text() == "dear diary"


async def test_a_token_for_another_endpoint_is_not_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "known to no client of this one")
    async with (
        ReferenceProcess(log_folder=tmp_path, calibrate=True) as process,
        connect(f"{process.base_url}/realtime?model=reference") as socket,
    ):
        assert "session.created" in str(await socket.recv())


async def test_a_killed_endpoint_is_restarted_at_its_address(tmp_path: Path) -> None:
    async with ReferenceProcess(log_folder=tmp_path, calibrate=True) as process:
        keeping = asyncio.create_task(process.keep_running())
        url, killed = process.base_url, process.process_id
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(60):
            async for socket in connect(f"{url}/realtime?model=reference"):  # tries until it listens
                assert "session.created" in str(await socket.recv())
                break
        assert process.base_url == url
        assert process.process_id != killed
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping


def listener(host: str, port: int) -> socket.socket:
    """Listen at an address as soon as its previous listener has ended."""
    while True:
        with contextlib.suppress(OSError):
            return socket.create_server((host, port))
        time.sleep(0.01)


@pytest.mark.slow
async def test_an_endpoint_is_restarted_once_its_port_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ReferenceProcess(log_folder=tmp_path, calibrate=True) as process:
        address = urlsplit(process.base_url)
        os.kill(process.process_id, signal.SIGKILL)
        with await asyncio.to_thread(listener, str(address.hostname), address.port or 0):
            keeping = asyncio.create_task(process.keep_running())
            await asyncio.to_thread(until, lambda: "cannot listen" in caplog.text)
        async with asyncio.timeout(60):
            async for client in connect(f"{process.base_url}/realtime?model=reference"):
                assert "session.created" in str(await client.recv())
                break
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping


async def test_a_dead_endpoint_is_detected(tmp_path: Path) -> None:
    async def hold() -> None:
        async with ReferenceProcess(log_folder=tmp_path, calibrate=True) as process:
            os.kill(process.process_id, signal.SIGKILL)
            await asyncio.sleep(0.2)

    with pytest.raises(LiveEvalError, match="exited unexpectedly with status -9"):
        await hold()


def test_the_endpoint_ends_with_its_parent() -> None:
    arguments = [
        sys.executable,
        "-m",
        "live_eval",
        "endpoint",
        "--calibrate",
        "--port",
        "0",
        "--until-stdin-ends",
    ]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdout:
        assert json.loads(child.stdout.readline())["ready"] is True
        child.stdin.close()
        assert child.wait(timeout=10) == 0


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(command, ["--calibrate", "--port", str(port)])
    assert isinstance(result.exception, LiveEvalError)
    assert str(result.exception) == (
        f"cannot listen on 127.0.0.1 port {port}: the port is in use; --port 0 picks a free port"
    )


LLM = ["--llm-base-url", "http://127.0.0.1:1/v1", "--llm-model", "tiny"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], TOKEN_VARIABLE),
        (["--llm-model", "tiny"], "must be given together"),
        (["--reply-onset-sample", "3"], "requires --reply-audio"),
        (["--data", "a", *LLM], "--data cannot be combined with --llm-base-url"),
        (["--data", "a", "--reply-audio", __file__], "--data cannot be combined with --reply-audio"),
        ([*LLM, "--reply-audio", __file__], "--llm-base-url cannot be combined with --reply-audio"),
        (["--notices-voice", "--calibrate"], "--notices-voice cannot be combined with --reply-audio"),
        (["--delay-ms", "-1"], "expected 0 ms to 600000 ms"),
    ],
)
def test_wrong_usage_is_refused_before_loading_models(arguments: list[str], told: str) -> None:
    result = CliRunner(env={TOKEN_VARIABLE: ""}).invoke(cli, ["endpoint", *arguments])
    assert isinstance(result.exception, UsageError) or result.exit_code == WRONG_USAGE
    assert told in f"{result.exception}{result.output}"
