"""Outages: an endpoint disappears during a run, and may return."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import soundfile
from aiohttp import web
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from live_eval.recording import RunReader, RunWriter
from live_eval.recording.record import TurnRecord
from live_eval.reference.engine.signals import calibration_speech
from live_eval.run.plan import Plan, make_plan
from live_eval.run.retries import Backoff
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, RunOutcome, run_plan
from live_eval.run.session_queue import DueSession, SessionQueue
from tests.support.chat import chat_endpoint
from tests.support.tiny_endpoint import answer

pytestmark = pytest.mark.usefixtures("own_cache")

RATE = 24_000
TURNS = 12


class Endpoint:
    """An endpoint on one port that can be killed and started again.

    Args:
        proxy: Headers of the 503 that a proxy sends while the endpoint is down; None without a proxy.
    """

    def __init__(self, proxy: dict[str, str] | None = None) -> None:
        self._port = 0
        self._server: Server | None = None
        self._proxy = proxy
        self._away = False
        self.refused = 0

    @property
    def base_url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        self._away = False
        if self._server is not None:
            return
        self._server = await serve(answer, "127.0.0.1", self._port, process_request=self._meet)
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def kill(self) -> None:
        """Reset every connection and stop listening."""
        assert self._server is not None
        for connection in list(self._server.connections):
            connection.transport.abort()
        self._away = True
        if self._proxy is not None:
            return
        self._server.close()
        await self._server.wait_closed()
        self._server = None

    def _meet(self, connection: ServerConnection, request: Request) -> Response | None:
        if not self._away:
            return None
        self.refused += 1
        refusal = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        refusal.headers.update(self._proxy or {})
        return refusal


class Fuse(Observer):
    """Kills the endpoint `wait_s` after some turns are stored; starts it `seconds` later, if ever."""

    def __init__(self, endpoint: Endpoint, after: int, seconds: float | None, *, wait_s: float = 0.0) -> None:
        self._endpoint = endpoint
        self._after = after
        self._seconds = seconds
        self._wait_s = wait_s
        self._turns = 0
        self.task: asyncio.Task[None] | None = None
        self.notes: list[str] = []

    def turn(self, record: TurnRecord) -> None:
        self._turns += 1
        if self._turns == self._after:
            self.task = asyncio.create_task(self._blow())

    def note(self, text: str) -> None:
        self.notes.append(text)

    async def _blow(self) -> None:
        await asyncio.sleep(self._wait_s)
        await self._endpoint.kill()
        if self._seconds is not None:
            await asyncio.sleep(self._seconds)
            await self._endpoint.start()


@contextlib.asynccontextmanager
async def endpoint(proxy: dict[str, str] | None = None) -> AsyncIterator[Endpoint]:
    one = Endpoint(proxy)
    await one.start()
    try:
        yield one
    finally:
        one._proxy = None
        if one._server is not None:
            await one.kill()


def settings(base_url: str, folder: Path, speech_ms: int = 200, **turns: Any) -> dict[str, Any]:
    speech = calibration_speech(speech_ms, RATE)
    soundfile.write(folder / "speech.wav", speech.audio.int16(), RATE)
    (folder / "manifest.jsonl").write_text(json.dumps({"id": "one", "audio": "speech.wav", "text": "ahem"}))
    shared = {"mode": "manual", "word_times": "off", "repeat": TURNS, "concurrency": 4, "reply_timeout": 2}
    return {
        "endpoint": {"name": "reference", "base_url": base_url},
        "data": {"path": str(folder / "manifest.jsonl")},
        "turns": shared | turns,
    }


async def run(
    config: dict[str, Any],
    out: Path,
    observer: Observer,
    *,
    resume: bool = False,
    retry_failed: bool = False,
) -> RunOutcome:
    def begin() -> tuple[Plan, RunWriter]:
        plan = make_plan(validate(config))
        if resume:
            return plan, RunWriter.resume(out, ended=retry_failed)
        return plan, RunWriter.create(out, plan.manifest())

    plan, writer = await asyncio.to_thread(begin)
    backoff = Backoff(0, first_s=0.1)
    outcome = await run_plan(plan, writer, out, observer, retry_failed=retry_failed, backoff=backoff)
    await asyncio.to_thread(writer.end, finished=outcome.complete)
    return outcome


def outages(out: Path) -> list[dict[str, Any]]:
    with RunReader.open(out) as reader:
        return list(reader.manifest.get("outages", ()))


@pytest.mark.parametrize("retries", [pytest.param(0, marks=pytest.mark.slow), 2])
async def test_an_outage_loses_no_turn(retries: int, tmp_path: Path) -> None:
    async with endpoint() as one:
        fuse = Fuse(one, 4, 1.5)
        outcome = await run(settings(one.base_url, tmp_path, retries=retries), tmp_path / "run", fuse)
        assert fuse.task is not None
        await fuse.task
    assert outcome == RunOutcome(TURNS, 0, interrupted=False)
    began, over = fuse.notes
    assert began.startswith("endpoint unreachable since ")
    assert "probing for up to 10 min; Ctrl-C stops" in began
    assert over.endswith("the run continues")
    (outage,) = await asyncio.to_thread(outages, tmp_path / "run")
    assert outage["over"]
    assert 1 <= outage["seconds"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("asks", [{}, {"Retry-After": "1"}])
async def test_a_proxys_503_loses_no_turn(asks: dict[str, str], tmp_path: Path) -> None:
    async with endpoint(asks) as one:
        fuse = Fuse(one, 4, 1.5)
        outcome = await run(settings(one.base_url, tmp_path, retries=0), tmp_path / "run", fuse)
        refused = one.refused
    assert outcome == RunOutcome(TURNS, 0, interrupted=False)
    assert refused >= 3
    assert [note.partition(" again")[0] for note in fuse.notes][1:] == ["endpoint reachable"]


async def test_a_proxys_retry_after_beyond_the_patience_ends_the_run(tmp_path: Path) -> None:
    async with endpoint({"Retry-After": "3600"}) as one:
        fuse = Fuse(one, 4, None)
        out = tmp_path / "run"
        outcome = await run(settings(one.base_url, tmp_path, retries=0), out, fuse)
        assert "it requests a wait of 3600 s; --patience is 10 min" in outcome.unreachable
        assert outcome.failed == 0
        assert outcome.missing == TURNS - outcome.captured > 0
        assert fuse.task is not None
        await fuse.task
        await one.start()
        outcome = await run(settings(one.base_url, tmp_path), out, Observer(), resume=True)
    assert outcome == RunOutcome(TURNS, 0, interrupted=False)


@pytest.mark.slow
async def test_an_unavailable_gateway_loses_no_turn(tmp_path: Path) -> None:
    requests = 0

    @web.middleware
    async def gateway(request: web.Request, handler: Any) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        if 4 < requests <= 9:
            return web.Response(status=502)
        response: web.StreamResponse = await handler(request)
        return response

    async with chat_endpoint(gateway) as address:
        config = settings(f"http://{address}/v1", tmp_path, retries=0, repeat=8)
        config["endpoint"]["name"] = "openai-chat-audio"
        outcome = await run(config, tmp_path / "run", Observer())
    assert outcome == RunOutcome(8, 0, interrupted=False)


@pytest.mark.slow
async def test_every_turn_of_overlapping_sessions_is_recorded(tmp_path: Path) -> None:
    """Sessions that cannot be opened remain undecided while others, dialled before and after, continue."""
    numbers = itertools.count()

    def refused(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(HTTPStatus.NOT_FOUND, "") if next(numbers) % 5 in (1, 3) else None

    async with serve(answer, "127.0.0.1", 0, process_request=refused) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = settings(f"ws://127.0.0.1:{port}/v1", tmp_path, retries=0, concurrency=6, repeat=29)
        outcome = await run(config, tmp_path / "run", Observer())
    assert outcome.captured + outcome.failed == 29
    assert outcome.complete


@pytest.mark.parametrize("status", [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS])
async def test_a_refused_slot_leaves_the_turns_to_the_other_slots(status: HTTPStatus, tmp_path: Path) -> None:
    served = 0

    async def serve_session(connection: ServerConnection) -> None:
        nonlocal served
        try:
            await answer(connection)
        finally:
            served -= 1

    def refused(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal served
        if served == 3:
            return connection.respond(status, "overloaded")
        served += 1
        return None

    async with serve(serve_session, "127.0.0.1", 0, process_request=refused) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = settings(f"ws://127.0.0.1:{port}/v1", tmp_path, 500, retries=0, repeat=18)
        outcome = await run(config, tmp_path / "run", Observer())
    assert outcome.captured + outcome.failed == 18
    assert outcome.failed <= 9


def has_ended(out: Path) -> bool:
    with RunReader.open(out) as reader:
        return reader.ended


class Forgetful(SessionQueue):
    """A queue with a defect: it drops the first session."""

    forgets = True

    def ended(
        self, session: DueSession, records: Sequence[TurnRecord], undecided_since_ns: int | None
    ) -> list[Sequence[TurnRecord]]:
        counted = super().ended(session, records, undecided_since_ns)
        forgotten, Forgetful.forgets = Forgetful.forgets, False
        return counted[1:] if forgotten else counted


async def test_a_run_with_a_missing_turn_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.run.runner.SessionQueue", Forgetful)
    out = tmp_path / "run"
    async with endpoint() as one:
        config = settings(one.base_url, tmp_path, repeat=3)
        outcome = await run(config, out, Observer())
        assert outcome == RunOutcome(2, 0, interrupted=False, missing=1)
        assert not outcome.complete
        assert not await asyncio.to_thread(has_ended, out)
        assert await run(config, out, Observer(), resume=True) == RunOutcome(3, 0, interrupted=False)


@pytest.mark.slow
async def test_the_last_session_is_retried_after_an_outage(tmp_path: Path) -> None:
    async with endpoint() as one:
        config = settings(one.base_url, tmp_path, 900, retries=0, repeat=2, concurrency=1)
        fuse = Fuse(one, 1, 1.0, wait_s=0.4)
        assert await run(config, tmp_path / "run", fuse) == RunOutcome(2, 0, interrupted=False)
    _, (_, stored, failures) = await asyncio.to_thread(attempts, tmp_path / "run")
    assert failures[0] == (1, True)
    assert stored == [failures[-1][0] + 1]


@pytest.mark.slow
async def test_a_last_session_that_the_endpoint_closes_fails_without_another_attempt(tmp_path: Path) -> None:
    async with endpoint() as one:
        config = settings(one.base_url, tmp_path, 900, retries=0, repeat=2, concurrency=1)
        fuse = Fuse(one, 1, 0.0, wait_s=0.4)  # the endpoint is back at once
        assert await run(config, tmp_path / "run", fuse) == RunOutcome(1, 1, interrupted=False)
    _, (_, stored, failures) = await asyncio.to_thread(attempts, tmp_path / "run")
    assert (stored, failures) == ([1], [(1, False)])


async def test_a_run_that_outlasts_its_patience_stops_and_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with endpoint() as one:
        config = settings(one.base_url, tmp_path, patience="1s")
        outcome = await run(config, out, Fuse(one, 4, None))
        assert not outcome.complete
        assert "--patience is 1 s" in outcome.unreachable
        assert (outcome.failed, outcome.captured < TURNS) == (0, True)
        await one.start()
        outcome = await run(config, out, Observer(), resume=True)
    assert outcome == RunOutcome(TURNS, 0, interrupted=False)


def attempts(out: Path) -> list[tuple[str, list[int], list[tuple[int, bool]]]]:
    """Return the stored attempt numbers of each turn, and the failures."""
    with RunReader.open(out) as reader:
        failures = reader.failures()
        return [
            (
                turn.turn_id,
                [*(each.attempt for each in reader.replaced(turn.turn_id)), turn.attempt],
                [(each.attempt, each.retried) for each in failures if each.turn_id == turn.turn_id],
            )
            for turn in reader.turns()
        ]


async def test_failed_turns_are_retried_and_their_attempts_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with endpoint() as one:
        config = settings(one.base_url, tmp_path, repeat=2, retries=1)
        await one.kill()
        assert await run(config, out, Observer()) == RunOutcome(0, 2, interrupted=False)
        await one.start()
        outcome = await run(config, out, Observer(), resume=True, retry_failed=True)
        assert outcome == RunOutcome(2, 0, interrupted=False)
    for _, stored, failures in await asyncio.to_thread(attempts, out):
        assert stored == [2, 3]
        assert failures == [(1, True), (2, True)]
