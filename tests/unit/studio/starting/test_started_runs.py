"""Runs started from a page, with a fake process."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from live_eval.studio.library import ListedFolder
from live_eval.studio.starting.started_runs import StartedRun


class FakeProcess:
    """A process that a signal ends, like Python during startup."""

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader()
        self.returncode: int | None = None
        self.received: list[int] = []

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        self.received.append(number)
        self.returncode = -number
        self.stdout.feed_eof()

    async def wait(self) -> int | None:
        return self.returncode


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_stop_before_the_process_exists_is_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resumed: bool
) -> None:
    created: list[FakeProcess] = []
    may_exist = asyncio.Event()

    async def create(*_command: str, **_options: Any) -> FakeProcess:
        await may_exist.wait()
        created.append(FakeProcess())
        return created[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    run = StartedRun(ListedFolder("0" * 16, "run", tmp_path, "run"), ())
    if resumed:
        ended = run.process = FakeProcess()  # type: ignore[assignment]
        ended.returncode = 0
    run.begin()
    run.stop()
    run.stop()  # pressed twice, it still stores the turns in progress
    assert run.running
    assert run.stopping
    may_exist.set()
    assert run.task is not None
    async with asyncio.timeout(5):
        await run.task
    assert [process.received for process in created] == [[signal.SIGINT]]
    assert run.status == 130
