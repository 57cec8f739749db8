"""Our `livekit` client against third-party agents in a room, compared with their logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseStatus
from tests.e2e.conftest import Runs, Serving, python_of
from tests.e2e.helpers import PHONE_CASE, STRANGERS
from tests.support.livekit_server import KEYS, agent_token, livekit_server

pytest.importorskip("livekit.protocol")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSIONS = 3
HEARD_WITHIN_MS = 150  # the worker's track queues frames of 50 ms, and Opus has a frame of 20 ms
LEAD_MS = 150  # pipecat's bot repeats 200 ms before the loud part
RUN = ("--endpoint", "livekit", "--case", PHONE_CASE, "--greeting", "ignore")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the key that signs the tokens of clients and workers."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def worker(serving: Serving, run_turns: Runs, tmp_path: Path, keys: None) -> Worker:
    """Run a worker, and turns with its agents; see `Worker.talk`."""
    return Worker(serving, run_turns, tmp_path / "answers.jsonl")


class Worker:
    """Starts a worker of livekit-agents, runs turns with its agents, and reads its log."""

    def __init__(self, serving: Serving, run_turns: Runs, log: Path) -> None:
        self._serving, self._run_turns, self._log = serving, run_turns, log

    async def talk(self, times: int, behaviour: str = "tone") -> list[TurnRecord]:
        """Return the turns of simultaneous sessions, each with its own agent."""
        async with livekit_server() as url:
            return await asyncio.to_thread(self._talk, url, times, behaviour)

    def _talk(self, url: str, times: int, behaviour: str) -> list[TurnRecord]:
        command: list[str | Path] = [python_of("livekit"), STRANGERS / "livekit_worker.py", "start"]
        environment = {"LIVEKIT_URL": url, "ANSWERS": str(self._log), "BOT": behaviour}
        with self._serving(command, "(registered worker)", environment):
            return self._run_turns(*RUN, "--extra", "agent_name=tone", "--base-url", url, times=times)

    def answered_ns(self, room: str | None) -> list[int]:
        """Return the times at which the first audio of each answer in a room was passed to the track."""
        lines = map(json.loads, self._log.read_text("utf-8").splitlines())
        return [line["at_ns"] for line in lines if line["call"] == room]


async def test_its_agents_answer(worker: Worker) -> None:
    """The agent hears us, its transcript is the reply, and its audio arrives after it left the session."""
    turns = await worker.talk(SESSIONS)
    delays_ms = []
    for turn in turns:
        assert turn.failure is None, turn.failure
        assert turn.warnings == ()
        (response,) = turn.responses
        assert response.status is ResponseStatus.COMPLETED
        assert response.heard_ns is not None
        assert turn.reply_text == "It is ten."
        assert turn.media is not None
        assert turn.media.lost == 0
        (sent_ns,) = worker.answered_ns(turn.session_id)
        delays_ms.append((response.heard_ns[0][0] - sent_ns) / 1e6)
    assert min(delays_ms) >= 0
    assert min(delays_ms) < HEARD_WITHIN_MS  # a loaded machine delays some of them
    assert len({turn.session_id for turn in turns}) == SESSIONS


async def test_an_agent_that_leaves(worker: Worker) -> None:
    (turn,) = await worker.talk(1, "hangup")
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.CLOSED, turn.failure
    assert "left the room" in turn.failure.message


async def test_a_bot_with_pipecats_transport(
    serving: Serving, run_turns: Runs, tmp_path: Path, keys: None
) -> None:
    """A participant that is not an AGENT and reports no state answers; it joins with its own token."""
    events = tmp_path / "events.jsonl"
    urls: list[str] = []

    async def dispatch(room: str) -> None:
        body = {"url": urls[0], "token": agent_token(room), "room": room}
        async with aiohttp.ClientSession() as session, session.post(urls[1], json=body):
            pass

    def talk() -> list[TurnRecord]:
        command = [python_of("voice"), STRANGERS / "pipecat_repeating_bot.py", "0"]
        with serving(command, r"Uvicorn running on (http://\S+)", {"EVENTS": str(events)}) as bot:
            urls.append(f"{bot}/livekit")
            return run_turns(*RUN, "--base-url", urls[0])

    async with livekit_server(dispatch) as url:
        urls.append(url)
        (turn,) = await asyncio.to_thread(talk)
    assert turn.failure is None, turn.failure
    (response,) = turn.responses
    assert response.status is ResponseStatus.COMPLETED
    assert response.heard_ns is not None
    lines = map(json.loads, events.read_text("utf-8").splitlines())
    (answered_ns,) = (line["at_ns"] for line in lines if line["event"] == "answer")
    assert LEAD_MS < (response.heard_ns[0][0] - answered_ns) / 1e6 < LEAD_MS + HEARD_WITHIN_MS
