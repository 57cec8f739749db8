"""Whole runs over real sockets against the reference endpoint, in its own process and without models."""

import asyncio
import contextlib
import json
import math
import os
import re
import signal
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
import soundfile
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from live_eval.audio import Audio, resample
from live_eval.errors import FailureKind, StoreError
from live_eval.recording import FailedAttempt, RunReader, RunWriter, TurnRecord
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import Plan, make_plan
from live_eval.run.retries import Backoff
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, RunOutcome, run_plan
from tests.support.marked_cases import marked_turn, write_manifest
from tests.support.tiny_endpoint import answer

pytestmark = pytest.mark.usefixtures("own_cache")

RATE = 24_000
BROKEN = {
    "empty": FailureKind.AUDIO_EMPTY,
    "nan": FailureKind.AUDIO_NOT_FINITE,
    "noise": FailureKind.AUDIO_UNREADABLE,
    "absent": FailureKind.AUDIO_MISSING,
}
KEEPS_WHAT_CAME = {"close", "malformed", "incomplete_response", "stall", "endless"}


class Silent(Observer):
    """An observer that stores the reports of a run."""

    def __init__(self) -> None:
        self.turns: list[TurnRecord] = []
        self.waits: list[str] = []
        self.notes: list[str] = []

    def running(self, total: int, already: int) -> None:
        self.already = already

    def turn(self, record: TurnRecord) -> None:
        self.turns.append(record)

    def waiting(self, seconds: float, why: str) -> None:
        self.waits.append(why)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Impatient(Silent):
    """An observer that sends SIGINT after the first turn."""

    def turn(self, record: TurnRecord) -> None:
        super().turn(record)
        if len(self.turns) == 1:
            os.kill(os.getpid(), signal.SIGINT)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("endpoint")
    async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
        yield process.base_url


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Four cases of marked speech, and one recording for each reason to reject it."""
    rows = [
        {"id": f"good-{number}", **marked_turn(tmp_path, f"good {number}", 300 + 40 * number)}
        for number in range(4)
    ]
    soundfile.write(tmp_path / "empty.wav", np.empty(0, np.int16), RATE)
    soundfile.write(tmp_path / "nan.wav", np.full(2400, np.nan, np.float32), RATE, subtype="FLOAT")
    (tmp_path / "noise.wav").write_bytes(b"this is no sound")
    rows += [
        {"id": name, "audio": f"{name}.wav", "text": "x"} for name in ("empty", "nan", "noise", "absent")
    ]
    return write_manifest(tmp_path, rows)


@pytest.fixture
def unusable(manifest: Path) -> Path:
    """One valid case, and several with missing data."""
    rows = [
        {"id": "unnamed", "text": "x"},
        {"id": "outside", "audio": "../x.wav"},
        {"id": "edges", "audio": "good 0.wav", "onset_ms": 5, "voice_end_ms": 2},
        {"id": "good", "audio": "good 0.wav"},
        {"id": "good", "audio": "good 1.wav"},
        {"id": "beyond", "audio": "good 0.wav", "onset_ms": 0, "voice_end_ms": 99_999_999},
        {"id": "long", "audio": "long.wav"},
        {"id": "name", "audio": "x" * 300 + ".wav", "clean_audio": "y" * 300 + ".wav"},
    ]
    soundfile.write(manifest.with_name("long.wav"), np.zeros(8_000 * 601, np.int16), 8_000)
    manifest.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return manifest


def values(base_url: str, manifest: Path, **turns: Any) -> dict[str, Any]:
    settings = {"retries": 0, "word_times": "off", "reply_timeout": 2, "stall_timeout": 1, "max_reply": 5}
    return {
        "endpoint": {"name": "reference", "base_url": base_url},
        "data": {"path": str(manifest)},
        "turns": settings | turns,
    }


async def run(settings: dict[str, Any], out: Path, observer: Silent | None = None) -> RunOutcome:
    def begin() -> tuple[Plan, RunWriter]:
        plan = make_plan(validate(settings))
        return plan, RunWriter.create(out, plan.manifest())

    return await finished(*await asyncio.to_thread(begin), out, observer or Silent())


async def finished(plan: Plan, writer: RunWriter, out: Path, observer: Silent) -> RunOutcome:
    outcome = await run_plan(plan, writer, out, observer, backoff=Backoff(0, first_s=0.2))
    await asyncio.to_thread(writer.end, finished=not outcome.interrupted)
    await asyncio.to_thread(writer.close)
    return outcome


def failures(out: Path) -> list[FailedAttempt]:
    with RunReader.open(out) as reader:
        return list(reader.failures())


def read(out: Path) -> dict[str, TurnRecord]:
    with RunReader.open(out) as reader:
        return {turn.turn_id: turn for turn in reader.turns()}


def sides(out: Path, data: Path, number: int) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return both sides of a stored turn, and the recording that should have been streamed."""
    with RunReader.open(out) as reader:
        both = reader.both_sides(f"good-{number}")
    assert both is not None
    return both[0], soundfile.read(data / f"good {number}.wav", dtype="int16")[0]


@pytest.mark.asyncio(loop_scope="module")
async def test_bad_recordings_fail_only_their_own_turns(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    outcome = await run(values(endpoint + "?delay_ms=50&reply_ms=200", manifest), out)
    assert outcome == RunOutcome(captured=4, failed=4, interrupted=False)
    turns = await asyncio.to_thread(read, out)
    kinds = {name: turn.failure.kind for name, turn in turns.items() if turn.failure is not None}
    assert kinds == BROKEN
    for number in range(4):
        timing = turns[f"good-{number}"].timing
        assert timing.first_byte.ns is not None
        assert 45e6 < timing.first_byte.ns < 1e9
        both, spoken = await asyncio.to_thread(sides, out, manifest.parent, number)
        assert (both[: len(spoken), 0] == spoken).all(), "the user's side is sample-true"


FAULTS = {
    "silent": FailureKind.NO_RESPONSE,
    "close": FailureKind.CLOSED,
    "malformed": FailureKind.MALFORMED_MESSAGE,
    "failed_response": FailureKind.RESPONSE_FAILED,
    "incomplete_response": FailureKind.RESPONSE_INCOMPLETE,
    "endless": FailureKind.ENDLESS,
    "stall": FailureKind.STALLED,
    "empty_reply": FailureKind.EMPTY_REPLY,
    "status:401": FailureKind.AUTHENTICATION,
    "rate_limit:1s": FailureKind.RATE_LIMITED,
    "unknown_event": None,
    "error_event": None,
    "audio_after_done": None,
}
WARNINGS = {
    "unknown_event": FailureKind.UNKNOWN_EVENT,
    "error_event": FailureKind.NOT_FATAL_ERROR,
    "audio_after_done": FailureKind.AUDIO_AFTER_DONE,
}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unusable_case_differs_from_a_missing_recording(
    endpoint: str, unusable: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    outcome = await run(values(endpoint + "?delay_ms=50&reply_ms=200", unusable), out)
    assert outcome == RunOutcome(captured=1, failed=7, interrupted=False)
    turns = await asyncio.to_thread(read, out)
    failed = {name: turn.failure for name, turn in turns.items() if turn.failure is not None}
    assert {name: failure.kind for name, failure in failed.items()} == {
        "unnamed": FailureKind.AUDIO_MISSING,
        "outside": FailureKind.AUDIO_MISSING,
        "edges": FailureKind.CASE_UNUSABLE,
        "good#2": FailureKind.CASE_UNUSABLE,
        "beyond": FailureKind.CASE_UNUSABLE,
        "long": FailureKind.AUDIO_TOO_LONG,
        "name": FailureKind.AUDIO_UNREADABLE,
    }
    assert "line 5: the ID good was used" in failed["good#2"].message


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_of_an_endpoint_has_its_failure_kind(
    endpoint: str, manifest: Path, tmp_path: Path, fault: str
) -> None:
    settings = values(f"{endpoint}?fault={fault}&reply_ms=600&delay_ms=20", manifest, max_reply=2)
    settings["data"]["cases"] = ["good-0", "good-1"]
    out = tmp_path / "run"
    await run(settings, out)
    turns = list((await asyncio.to_thread(read, out)).values())
    assert len(turns) == 2
    for turn in turns:
        expected = FAULTS[fault]
        assert (turn.failure.kind if turn.failure else None) == expected, turn.failure
        if fault in WARNINGS:
            assert WARNINGS[fault] in [warning.kind for warning in turn.warnings]
        if fault in (
            "close",
            "malformed",
            "incomplete_response",
            "stall",
            "endless",
        ):
            assert turn.has_reply, "what came before the failure is kept"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_connection_and_missing_tls(manifest: Path, tmp_path: Path, endpoint: str) -> None:
    for number, (url, kind) in enumerate(
        {
            "ws://127.0.0.1:9/v1": FailureKind.CONNECTION_REFUSED,
            endpoint.replace("ws://", "wss://"): FailureKind.TLS,
        }.items()
    ):
        settings = values(url, manifest)
        settings["data"]["cases"] = ["good-0"]
        out = tmp_path / f"run-{number}"
        assert (await run(settings, out)).failed == 1
        (turn,) = (await asyncio.to_thread(read, out)).values()
        assert turn.failure is not None
        assert turn.failure.kind is kind


@pytest.mark.asyncio(loop_scope="module")
async def test_a_transient_failure_is_retried_and_both_attempts_are_recorded(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = values(f"{endpoint}?fault=rate_limit:1s", manifest, retries=1)
    settings["data"]["cases"] = ["good-0"]
    observer = Silent()
    out = tmp_path / "run"
    await run(settings, out, observer)
    (turn,) = (await asyncio.to_thread(read, out)).values()
    assert turn.attempt == 2
    assert len(await asyncio.to_thread(failures, out)) == 2


@contextlib.asynccontextmanager
async def refusing(headers: dict[str, str]) -> AsyncIterator[tuple[str, list[int]]]:
    """An endpoint that answers 429 and counts its requests."""
    came: list[int] = []

    def refuse(connection: ServerConnection, request: Request) -> Response:
        came.append(1)
        response = connection.respond(HTTPStatus.TOO_MANY_REQUESTS, "slow down")
        response.headers.update(headers)
        return response

    async with serve(lambda _: asyncio.sleep(0), "127.0.0.1", 0, process_request=refuse) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1", came


@pytest.mark.parametrize("wait", ["999999", "9" * 400, "Fri, 31 Dec 2100 23:59:59 GMT"])
async def test_a_wait_beyond_the_patience_fails_the_turn_at_once(
    wait: str, manifest: Path, tmp_path: Path
) -> None:
    async with refusing({"Retry-After": wait}) as (address, came):
        settings = values(address, manifest, retries=2, patience=5, concurrency=1)
        settings["data"]["cases"] = ["good-0", "good-1"]
        observer = Silent()
        assert (await run(settings, tmp_path / "run", observer)).failed == 2
    assert len(came) == 2
    assert not observer.waits
    for turn in observer.turns:
        assert turn.failure is not None
        assert turn.failure.kind is FailureKind.RATE_LIMITED
        assert re.search(
            r"; the endpoint requests a wait of (\d+|inf) s, but --patience is 5 s$", turn.failure.message
        )


async def test_repeated_retry_after_is_obeyed_within_the_patience(manifest: Path, tmp_path: Path) -> None:
    async with refusing({"Retry-After": "1"}) as (address, came):
        settings = values(address, manifest, retries=1000, patience=1.5)
        settings["data"]["cases"] = ["good-0"]
        assert (await run(settings, tmp_path / "run")).failed == 1
    assert len(came) == 2


class OneSlot:
    """An endpoint with one session at a time, whose slot stays busy for a while after each session."""

    def __init__(self, release_s: float) -> None:
        self._release_s = release_s
        self._free_at_s = 0.0
        self.taken = 0
        self.refused = 0

    def close(self) -> None:
        """Keep the slot busy from now on."""
        self._free_at_s = math.inf

    async def hold(self, socket: ServerConnection) -> None:
        clock = asyncio.get_running_loop()
        if self._free_at_s > clock.time():
            self.refused += 1
            error = {"type": "session_limit_reached", "message": "All 1 session slots are in use."}
            await socket.send(json.dumps({"type": "error", "error": error}))
            return
        self._free_at_s, self.taken = math.inf, self.taken + 1
        try:
            await answer(socket)
        finally:
            self._free_at_s = clock.time() + self._release_s


@pytest.mark.parametrize(("patience", "captured"), [(600, 2), (0, 1)])
async def test_a_run_waits_for_a_free_session(
    patience: int, captured: int, manifest: Path, tmp_path: Path
) -> None:
    slot = OneSlot(release_s=0.3)
    async with serve(slot.hold, "127.0.0.1", 0) as server:
        address = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"
        settings = values(address, manifest, mode="manual", concurrency=1, patience=patience)
        settings["data"]["cases"] = ["good-0", "good-1"]
        observer = Silent()
        outcome = await run(settings, tmp_path / "run", observer)
    assert (outcome.captured, slot.taken) == (captured, captured)
    assert slot.refused
    if captured == 2:
        assert observer.notes == ["reference has no free session yet; trying again for up to 10 min"]
        assert [turn.attempt for turn in observer.turns] == [1, 1]
    else:
        failure = observer.turns[-1].failure
        assert failure is not None
        assert failure.kind is FailureKind.BUSY
        assert failure.message.endswith("the turn's waiting time is used up; --patience is 0 s")


@pytest.mark.asyncio(loop_scope="module")
async def test_only_one_turn_waits_for_a_busy_service(manifest: Path, tmp_path: Path) -> None:
    slot = OneSlot(release_s=0)
    slot.close()
    async with serve(slot.hold, "127.0.0.1", 0) as server:
        address = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"
        settings = values(address, manifest, mode="manual", concurrency=1, patience=1, repeat=3)
        settings["data"]["cases"] = ["good-0"]
        observer = Silent()
        assert (await run(settings, tmp_path / "run", observer)).failed == 3
    first, *later = [str(turn.failure.message) for turn in observer.turns if turn.failure is not None]
    assert first.endswith("--patience is 1 s")
    assert all(
        message.endswith("another turn has already waited too long for a free session") for message in later
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_bug_in_one_case_fails_only_that_case(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(audio: Audio, rate_hz: int) -> Audio:
        if len(audio.samples) == len(calibration_speech(340, RATE).audio.samples):
            raise RuntimeError("a defect")
        return resample(audio, rate_hz)

    monkeypatch.setattr("live_eval.run.recordings.resample", breaks)
    settings = values(f"{endpoint}?delay_ms=20&reply_ms=100", manifest)
    settings["data"]["cases"] = [f"good-{number}" for number in range(4)]
    out = tmp_path / "run"
    assert await run(settings, out) == RunOutcome(captured=3, failed=1, interrupted=False)
    failure = (await asyncio.to_thread(read, out))["good-1"].failure
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.INTERNAL, "RuntimeError: a defect")


async def test_secrets_in_a_base_url_are_not_stored(manifest: Path, tmp_path: Path) -> None:
    settings = values("ws://me:hunter2@127.0.0.1:9/v1?api-key=topsecret&model=m", manifest)
    settings["data"]["cases"] = ["good-0"]
    out = tmp_path / "run"
    assert (await run(settings, out)).failed == 1
    for path in out.rglob("*"):
        assert path.is_dir() or not {b"hunter2", b"topsecret"} & set(re.findall(rb"\w+", path.read_bytes()))


@pytest.mark.asyncio(loop_scope="module")
async def test_an_interrupted_run_continues_where_it_stopped(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = values(f"{endpoint}?delay_ms=400&reply_ms=200", manifest, concurrency=1)
    settings["data"]["cases"] = [f"good-{number}" for number in range(4)]
    out = tmp_path / "run"
    first = await run(settings, out, Impatient())
    assert first.interrupted
    assert 1 <= first.captured < 4
    with pytest.raises(StoreError):
        await asyncio.to_thread(RunWriter.create, out, {})
    plan = await asyncio.to_thread(make_plan, validate(settings))
    observer = Silent()
    writer = await asyncio.to_thread(RunWriter.resume, out)
    outcome = await finished(plan, writer, out, observer)
    assert outcome == RunOutcome(captured=4, failed=0, interrupted=False)
    assert observer.already == first.captured
    assert len(observer.turns) == 4 - first.captured
