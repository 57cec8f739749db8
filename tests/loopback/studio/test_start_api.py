"""Runs started from a page: real commands, stopped and resumed."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from live_eval.errors import StoreError
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.reference.server.process import ReferenceProcess
from live_eval.studio import start_api
from tests.support.studio import studio

SETTINGS = {"data": {"limit": 2}, "turns": {"mode": "manual", "concurrency": 1}, "judges": {"names": []}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """An endpoint without models, which answers with a tone."""
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path_factory.mktemp("endpoint")) as process:
        yield process.base_url


async def send(
    browser: aiohttp.ClientSession, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    headers["Origin"] = str(browser._base_url).rstrip("/")
    async with browser.post(path, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def until(browser: aiohttp.ClientSession, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the latest run is in a state."""
    async with asyncio.timeout(60):
        while True:
            async with browser.get("/api/started") as answer:
                run: dict[str, Any] = (await answer.json())[0]
            if holds(run):
                return run
            await asyncio.sleep(0.1)


def has_a_turn(run: dict[str, Any]) -> bool:
    return ((run["run"] or {}).get("turns") or 0) >= 1


def state_of(folder: Path) -> tuple[str, int]:
    with RunReader.open(folder) as run:
        return run.state, len(run)


def has_recorded(folder: Path) -> bool:
    """Return whether a run that another process may be creating contains a turn."""
    with contextlib.suppress(StoreError):
        return state_of(folder)[1] >= 1
    return False


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_is_started_stopped_and_resumed(endpoint: str, tmp_path: Path) -> None:
    addresses = {"reference": endpoint}
    async with studio(tmp_path, parts=[start_api.add_routes], addresses=addresses) as browser:
        status, preview = await send(browser, "/api/start/command", SETTINGS)
        assert status == 200
        assert preview["command"].startswith(
            f"live-eval run reference --base-url={endpoint} --limit=2 --turn-mode=manual --concurrency=1"
            " --judges=none --out="
        )
        status, begun = await send(browser, "/api/start", {**SETTINGS, "began": preview["began"]})
        assert (status, begun["running"], begun["status"]) == (200, True, None)
        status, refused = await send(browser, "/api/start", SETTINGS)
        assert (status, refused["error"]["kind"]) == (409, "busy")
        await until(browser, has_a_turn)
        status, stopping = await send(browser, f"/api/started/{begun['id']}/stop")
        assert (status, stopping["stopping"]) == (200, True)
        stopped = await until(browser, lambda run: not run["running"])
        assert stopped["status"] == 130
        assert 1 <= stopped["run"]["turns"] < stopped["run"]["planned"]
        assert any("Interrupted. To continue" in line for line in stopped["lines"])
        status, resumed = await send(browser, f"/api/started/{begun['id']}/resume")
        assert (status, resumed["running"]) == (200, True)
        assert resumed["command"].endswith(" --resume")
        ended = await until(browser, lambda run: not run["running"])
        assert (ended["status"], ended["run"]["state"]) == (0, "finished")
        assert ended["run"]["turns"] == ended["run"]["planned"]
    recorded = await asyncio.to_thread(state_of, tmp_path / ended["name"])
    assert recorded == ("finished", ended["run"]["planned"])


async def test_a_command_that_cannot_start_gives_a_reason_and_the_studio_continues(tmp_path: Path) -> None:
    async with studio(tmp_path, parts=[start_api.add_routes]) as browser:
        settings = {"endpoint": {"name": "openai"}, "data": {"cues": ["nothing"]}}
        _, preview = await send(browser, "/api/start/command", settings)
        status, begun = await send(browser, "/api/start", {**settings, "began": preview["began"]})
        assert (status, begun["command"]) == (200, preview["command"])
        failed = await until(browser, lambda run: not run["running"])
        assert (failed["status"], failed["run"]) == (2, None)
        assert any(line.startswith("error: ") for line in failed["lines"])
        wrong = {"task": {"name": "dance"}}
        assert (await send(browser, "/api/start", wrong))[0] == 400
        assert (await send(browser, "/api/start", {"began": "yesterday"}))[0] == 400
        status, typing = await send(browser, "/api/start/command", wrong)
        assert (status, typing["error"]["kind"]) == (400, "request")
        assert "dance" in typing["error"]["message"]
        own = {"X-Live-Eval-Page": "1"}  # a browser would print an error status to its console
        assert await send(browser, "/api/start/command", wrong, **own) == (200, typing)
        assert (await send(browser, "/api/started/0000/stop"))[0] == 404
        async with browser.get("/api/start") as answer:
            choices = await answer.json()
        assert choices["data"] == ["sample", "sample-dialogues"]
        assert {"reference", "openai", "openai-chat-audio"} <= {each["name"] for each in choices["endpoints"]}


@pytest.mark.asyncio(loop_scope="module")
async def test_the_run_in_progress_ends_with_the_studio(endpoint: str, tmp_path: Path) -> None:
    addresses = {"reference": endpoint}
    async with studio(tmp_path, parts=[start_api.add_routes], addresses=addresses) as browser:
        _, begun = await send(browser, "/api/start", SETTINGS)
        await until(browser, has_a_turn)
    state, turns = await asyncio.to_thread(state_of, tmp_path / begun["name"])
    assert state == "interrupted"
    assert turns >= 1


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_run_in_progress_ends_with_a_studio_that_is_killed(endpoint: str, tmp_path: Path) -> None:
    """The kernel closes the pipe of a killed studio, and its run stores the turns in progress."""
    folder = tmp_path / "run"
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "live_eval", "run", "reference", f"--base-url={endpoint}", "--limit=4"),
        *("--turn-mode=manual", "--concurrency=1", "--judges=none", f"--out={folder}", "--until-stdin-ends"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert run.stdin is not None
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(has_recorded, folder):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.2)
        run.stdin.close()
        assert run.stdout is not None
        await run.stdout.read()
        assert await run.wait() == 130
    state, turns = await asyncio.to_thread(state_of, folder)
    assert state == "interrupted"
    assert 1 <= turns < 12


@pytest.mark.parametrize(
    "body", [[], "x", {"offer": 1}, {"endpoint": "x"}, {"endpoint": [1]}, {"endpoint": None}]
)
async def test_a_body_that_is_not_a_run_file_is_refused(tmp_path: Path, body: object) -> None:
    async with studio(tmp_path, parts=[start_api.add_routes]) as browser:
        assert (await send(browser, "/api/start", body))[0] == 400


async def assert_busy(folder: Path, reason: str) -> None:
    """Check that a studio of the folder refuses to start a run, for this reason."""
    async with studio(folder, parts=[start_api.add_routes]) as browser:
        status, refused = await send(browser, "/api/start", SETTINGS)
        assert (status, refused["error"]["kind"]) == (409, "busy")
        assert refused["error"]["message"].startswith(reason)


async def test_no_run_is_started_during_a_run_of_another_process(tmp_path: Path) -> None:
    writer = await asyncio.to_thread(RunWriter.create, tmp_path / "other", {})
    try:
        await assert_busy(tmp_path, "other is in progress")
    finally:
        await asyncio.to_thread(writer.close)


async def test_no_run_is_started_while_another_process_scores(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    await asyncio.to_thread(lambda: RunWriter.create(folder, {}).close())
    scores = await asyncio.to_thread(ScoreStore.open, folder)
    try:
        await assert_busy(tmp_path, "other is being scored")
    finally:
        await asyncio.to_thread(scores.close)
