"""Conversations with several endpoints, without connections."""

import asyncio
import gc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from live_eval.live.ballot import Ballot
from live_eval.live.conversation import LiveConversation
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.standings import Standing
from live_eval.live.updates import Levels, SpeechDetected, State, StateChanged, Update, UpdateQueue
from live_eval.testing.fake_clock import FakeClock
from tests.support.live_user import Loudspeaker


class Scripted(SimpleNamespace):
    """A conversation that ends when it is stopped."""

    reply = None
    audible = True
    collect: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.queue = UpdateQueue()
        self.stopped = asyncio.Event()

    def updates(self) -> AsyncIterator[Update]:
        return self.queue.read()

    def stop(self) -> None:
        self.stopped.set()

    async def run(self) -> None:
        await self.stopped.wait()
        self.queue.put(StateChanged(State.ENDED))


async def passes(clock: FakeClock) -> None:
    """Let a tenth of a second pass."""
    await clock.sleep_until(clock.now_ns() + 100_000_000)


async def test_garbage_is_collected_while_no_reply_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    clock = FakeClock()
    scripted = [Scripted(), Scripted()]
    standings = [Standing("a"), Standing("b")]
    joins = [lambda sink, numbers, each=each: cast("LiveConversation", each) for each in scripted]
    shared = SharedConversation(joins, Loudspeaker(), Ballot(["a", "b"]), standings, clock=clock)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(clock.now_ns()))
    running = asyncio.create_task(shared.run())
    try:
        await passes(clock)
        scripted[1].queue.put(SpeechDetected(speaking=False))
        await passes(clock)
        scripted[0].collect()
        await passes(clock)
        assert not collected
        scripted[1].queue.put(Levels(-90.0, -20.0, replying=True))
        await passes(clock)
        assert not collected
        scripted[1].queue.put(Levels(-90.0, -90.0))
        await passes(clock)
        assert len(collected) == 1
        assert [each.audible for each in scripted] == [True, False]
        shared.hear(1)
        assert [each.audible for each in scripted] == [False, True]
    finally:
        shared.stop()
        await running
