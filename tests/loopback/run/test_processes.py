"""Runs with their sessions in separate processes, against the reference endpoint."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.errors import FailureKind, LiveEvalError, TurnError
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.redaction import SECRETS
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.endpoint_health import EndpointHealth
from live_eval.run.plan import Plan, make_plan
from live_eval.run.processes import session_processes
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, RunOutcome, run_plan
from live_eval.run.session_process import ProcessSettings
from live_eval.run.session_workers import SpreadSessions
from tests.support.marked_cases import marked_cases

CASES = 4

pytestmark = [
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]


@dataclass
class Watch(Observer):
    """An observer that does something once the first turn is stored."""

    at_first: Callable[[], object] = lambda: None
    turns: list[TurnRecord] = field(default_factory=list)

    def turn(self, record: TurnRecord) -> None:
        self.turns.append(record)
        if len(self.turns) == 1:
            threading.Thread(target=self.at_first).start()  # it reads files, and this is the event loop


def holders(parent: int | None = None) -> Iterator[Path]:
    """The session processes of a process, by default this one, as their folders in /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            ours = int(parents) == (parent or os.getpid())
            if ours and b"session_process" in (folder / "cmdline").read_bytes():
                yield folder


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path_factory.mktemp("endpoint")) as process:
        yield f"{process.base_url}?delay_ms=50&reply_ms=200"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return marked_cases(tmp_path, (300 + 40 * number for number in range(CASES)))


async def run(
    base_url: str,
    manifest: Path,
    out: Path,
    watch: Watch | None = None,
    *,
    planned: Callable[[], object] = lambda: None,
    key_variable: str | None = None,
    record_wire: bool = False,
    **turns: Any,
) -> RunOutcome:
    """Run the manifest; `planned` is called before the first session."""
    settings = {
        "endpoint": {"name": "reference", "base_url": base_url, "key_variable": key_variable},
        "data": {"path": str(manifest)},
        "output": {"record_wire": record_wire},
        "turns": {"retries": 0, "word_times": "off", "reply_timeout": 2, **turns},
    }

    def begin() -> tuple[Plan, RunWriter]:
        plan = make_plan(validate(settings))
        return plan, RunWriter.create(out, plan.manifest())

    plan, writer = await asyncio.to_thread(begin)
    planned()
    outcome = await run_plan(plan, writer, out, watch or Watch())
    await asyncio.to_thread(writer.end, finished=not outcome.interrupted)
    return outcome


def read(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The machine in the manifest, and the time-independent fields of each turn."""
    with RunReader.open(out) as reader:
        turns = {
            turn.turn_id: (
                turn.failure,
                turn.attempt,
                turn.reply_text,
                len(turn.trace.frame_sent_ns) > 10,
                turn.trace.boundaries,
                [(marks.status, marks.rate_hz, marks.chunk_samples.tolist()) for marks in turn.responses],
                turn.trace.stamps,
                [(line.direction, line.body.get("type")) for line in reader.log(turn.turn_id)],
                turn.timing.first_byte.ns is not None,
                len(turn.trace.probe_at_ns) > 0,
            )
            for turn in reader.turns()
        }
        return dict(reader.manifest["machine"]), turns


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_turns_are_equal_and_the_key_is_sent_only_through_the_pipe(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "k3y-0f-a-session-4711"
    seen: list[bytes] = []

    def look() -> None:
        for folder in holders():
            seen.extend((folder / name).read_bytes() for name in ("cmdline", "environ"))

    runs = {}
    for processes in (0, 2):
        monkeypatch.setenv("SOME_KEY", key)
        out = tmp_path / f"run-{processes}"
        outcome = await run(
            endpoint,
            manifest,
            out,
            Watch(look),
            planned=lambda: monkeypatch.delenv("SOME_KEY"),
            key_variable="SOME_KEY",
            record_wire=True,
            concurrency=2,
            processes=processes,
        )
        assert outcome == RunOutcome(CASES, 0, interrupted=False)
        machine, runs[processes] = await asyncio.to_thread(read, out)
        assert machine["processes"] == processes
        assert machine["priority"] in ("real-time", "raised", "normal")
    assert runs[0] == runs[2]
    assert len(seen) == 4, "two processes, each with its command line and its environment"
    for data in (*seen, *files(tmp_path).values()):
        assert key.encode() not in data
    wires = [set(files(tmp_path / f"run-{processes}" / "wire")) for processes in (0, 2)]
    assert wires[0] == wires[1]
    assert len(wires[0]) == CASES
    assert not [*holders()]


async def test_sessions_of_a_killed_process_are_retried(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    def kill() -> None:
        for folder in holders():
            os.kill(int(folder.name), signal.SIGKILL)

    out = tmp_path / "run"
    outcome = await run(endpoint, manifest, out, Watch(kill), concurrency=2, processes=1, retries=2)
    assert outcome == RunOutcome(CASES, 0, interrupted=False)

    def failures() -> list[tuple[FailureKind, str]]:
        with RunReader.open(out) as reader:
            return [(each.failure.kind, each.failure.message) for each in reader.failures()]

    for kind, message in (found := await asyncio.to_thread(failures)):
        assert kind is FailureKind.PROCESS_DIED
        assert message == "the session process ended during the session, with signal 9"
    assert 1 <= len(found) <= 2
    assert not [*holders()]


@pytest.mark.slow
async def test_a_stopped_process_is_replaced_and_its_turns_are_retried(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.run.processes._MISSED_BEATS", 3)

    def stop() -> None:
        os.kill(int(next(holders()).name), signal.SIGSTOP)

    out = tmp_path / "run"
    async with asyncio.timeout(60):
        outcome = await run(endpoint, manifest, out, Watch(stop), concurrency=2, processes=2, retries=2)
    assert outcome == RunOutcome(CASES, 0, interrupted=False)

    def failures() -> list[str]:
        with RunReader.open(out) as reader:
            return [each.failure.message for each in reader.failures()]

    found = await asyncio.to_thread(failures)
    assert found
    assert all(each.endswith("signal 9, because it had not responded for 3 s") for each in found)
    assert not [*holders()]


async def test_an_interrupt_cancels_turns_in_progress_and_ends_the_processes(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    outcome = await run(endpoint, manifest, tmp_path / "run", Watch(interrupt), concurrency=1, processes=2)
    assert outcome == RunOutcome(1, 0, interrupted=True, missing=CASES - 1)
    assert not [*holders()]


async def test_a_rate_limit_applies_to_all_processes(manifest: Path, tmp_path: Path) -> None:
    came_s: list[float] = []

    def refuse(connection: ServerConnection, request: Request) -> Response:
        came_s.append(time.monotonic())
        response = connection.respond(HTTPStatus.TOO_MANY_REQUESTS, "slow down")
        response.headers["Retry-After"] = "1"
        return response

    async with serve(lambda _: asyncio.sleep(0), "127.0.0.1", 0, process_request=refuse) as server:
        address = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"
        outcome = await run(address, manifest, tmp_path / "run", concurrency=2, processes=2)
    assert outcome == RunOutcome(0, CASES, interrupted=False)
    # The other process would otherwise dial half a second later.
    assert came_s[1] - came_s[0] >= 1, "none dials before the limit has passed"


PARENT = """
import asyncio, os
from live_eval.clock import SystemClock
from live_eval.registry import client
from live_eval.run.processes import session_runner

async def main():
    async with session_runner(client("reference"), SystemClock(), processes=1) as sessions:
        print(*sessions.process_ids, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_process_does_not_outlive_its_parent() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = Path("/proc") / (await parent.stdout.readline()).decode().strip()
    assert child in [*holders(parent.pid)]
    parent.kill()
    await parent.wait()
    for _ in range(200):
        if (
            not (child / "cmdline").exists() or not (child / "cmdline").read_bytes()
        ):  # it has ended or is a zombie
            return
        await asyncio.sleep(0.02)
    pytest.fail("it still runs")


async def test_a_process_that_cannot_start_reports_the_reason() -> None:
    settings = ProcessSettings(implementations=("no_such_plugin:Dialect",), secrets=SECRETS.copy())
    with pytest.raises(ExceptionGroup) as group:
        async with session_processes(1, settings):
            pass
    (error,) = group.value.exceptions
    assert isinstance(error, LiveEvalError)
    assert str(error).startswith("the session process ended before it was ready, with status 1: ")
    assert "no_such_plugin" in str(error)


@pytest.mark.parametrize("processes", [0, 1])
async def test_a_session_reports_when_it_is_ready(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    opened: list[int] = []
    monkeypatch.setattr(EndpointHealth, "opened", lambda _, at_ns: opened.append(at_ns))
    outcome = await run(endpoint, manifest, tmp_path / "run", processes=processes)
    assert (outcome.captured, len(opened)) == (CASES, CASES)


async def test_a_failed_process_gets_no_sessions_while_others_are_up() -> None:
    held: list[str] = []

    class Place:
        def __init__(self, name: str, *, is_down: bool, sessions: int) -> None:
            self.name, self.is_down, self.sessions = name, is_down, sessions

        async def run(self, order: Any, on_ready: object) -> Any:
            held.append(self.name)

    places = [Place("down", is_down=True, sessions=0), Place("up", is_down=False, sessions=3)]
    sessions = SpreadSessions(cast(Any, places))
    for _ in range(3):
        await sessions.run(cast(Any, None))
    assert held == ["up"] * 3


async def test_a_job_is_passed_on_to_a_live_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ProcessSettings(implementations=(), secrets=SECRETS.copy())
    order = cast(Any, "no order at all")  # the process's answer shows that the job arrived
    async with session_processes(2, settings) as sessions:
        monkeypatch.setattr("sys.executable", "/no/such/python")
        for kind in (FailureKind.INTERNAL, FailureKind.PROCESS_DIED):
            os.kill(sessions.process_ids[0], signal.SIGKILL)
            await asyncio.sleep(0.05)
            for _ in range(3):
                with pytest.raises(TurnError) as raised:
                    await sessions.run(order)
                assert raised.value.kind is kind


async def test_a_module_in_the_current_folder_is_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await asyncio.to_thread((tmp_path / "random.py").write_text, "raise SystemExit('the wrong random')")
    monkeypatch.chdir(tmp_path)
    settings = ProcessSettings(implementations=(), secrets=SECRETS.copy())
    async with (
        session_processes(1, settings) as sessions,
        ReferenceProcess(calibrate=True, log_folder=tmp_path / "log") as endpoint,
    ):
        assert sessions.process_ids
        assert endpoint.process_id


@pytest.mark.slow
async def test_calibration_also_runs_sessions_in_processes() -> None:
    plan = CalibrationPlan(
        sessions=2,
        turns=2,
        processes=1,
        speech_ms=(200, 300),
        delay_ms=(50, 100),
        reply_ms=100,
        floor_wakes=10,
    )
    figures = (await calibrate(plan)).as_json()
    assert (figures["n"], figures["failed"], figures["processes"]) == (2, 0, 1)
    assert figures["errors_ms"].keys() == {"first_byte", "voice_to_voice"}
    assert 0 < figures["loop_cpu_ms_per_session_s"] < figures["cpu_ms_per_session_s"]
