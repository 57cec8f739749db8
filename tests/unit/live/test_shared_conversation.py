"""Conversations with several endpoints, without connections."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from live_eval.errors import FailureKind, UsageError
from live_eval.live.ballot import Ballot
from live_eval.live.conversation import LiveConversation
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.standings import Standing
from live_eval.live.updates import (
    FromEndpoint,
    HeardChanged,
    Levels,
    SpeechDetected,
    StandingChanged,
    State,
    StateChanged,
    Update,
    UpdateQueue,
)
from live_eval.testing.fake_clock import FakeClock
from live_eval.types import Failure
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


def shared(clock: FakeClock, standings: list[Standing]) -> tuple[SharedConversation, list[Scripted]]:
    """Return a shared conversation with two scripted conversations, `a` and `b`."""
    scripted = [Scripted(), Scripted()]
    joins = [lambda sink, numbers, each=each: cast("LiveConversation", each) for each in scripted]
    return SharedConversation(joins, Loudspeaker(), Ballot(["a", "b"]), standings, clock=clock), scripted


async def passes(clock: FakeClock) -> None:
    """Let a tenth of a second pass."""
    await clock.sleep_until(clock.now_ns() + 100_000_000)


async def test_garbage_is_collected_while_no_reply_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    clock = FakeClock()
    conversation, scripted = shared(clock, [Standing("a"), Standing("b")])
    monkeypatch.setattr(gc, "collect", lambda: collected.append(clock.now_ns()))
    running = asyncio.create_task(conversation.run())
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
        conversation.hear(1)
        assert [each.audible for each in scripted] == [False, True]
        conversation.hear(None)
        assert [each.audible for each in scripted] == [True, False]
        assert scripted[0].output is scripted[1].output, "both show what the room hears"
    finally:
        conversation.stop()
        await running


async def test_levels_are_the_audible_endpoints_and_states_are_of_each_and_of_all() -> None:
    clock, gone = FakeClock(), Failure(FailureKind.CLOSED, "gone")
    conversation, (first, second) = shared(clock, [Standing("a"), Standing("b")])
    seen: list[Update] = []

    async def follow() -> None:
        async for update in conversation.updates():
            seen.append(update)

    following, running = asyncio.create_task(follow()), asyncio.create_task(conversation.run())
    for place, level in ((0, -10.0), (1, -20.0)):
        (first, second)[place].queue.put(StateChanged(State.TALKING))
        (first, second)[place].queue.put(Levels(level, -90.0))
    await passes(clock)
    conversation.hear(1)
    second.queue.put(Levels(-30.0, -90.0))
    second.queue.put(SpeechDetected(speaking=False))
    second.queue.put(StateChanged(State.DISCONNECTED, gone))
    await passes(clock)
    first.queue.put(StateChanged(State.DISCONNECTED, gone))
    first.queue.put(StateChanged(State.TALKING))
    await passes(clock)
    conversation.stop()
    await asyncio.gather(running, following)
    assert [update.user for update in seen if isinstance(update, Levels)] == [-10.0, -30.0]
    assert [update.place for update in seen if isinstance(update, HeardChanged)] == [1, 0]
    states = [update for update in seen if isinstance(update, StateChanged)]
    assert states == [
        StateChanged(State.TALKING),
        StateChanged(State.DISCONNECTED, gone),
        StateChanged(State.TALKING),
        StateChanged(State.ENDED),
    ]
    standings = [(update.place, update.state) for update in seen if isinstance(update, StandingChanged)]
    assert standings[:4] == [(0, "listening"), (1, "listening"), (1, "thinking"), (1, "disconnected")]
    assert not any(isinstance(update, FromEndpoint) and isinstance(update.update, Levels) for update in seen)


async def test_votes_are_written_as_they_are_cast(tmp_path: Path) -> None:
    clock, written = FakeClock(), asyncio.Event()
    loop = asyncio.get_running_loop()
    files: list[Path] = []

    class Counted(Ballot):
        def __len__(self) -> int:
            return 1

        def write(self, path: Path) -> None:
            files.append(path)
            loop.call_soon_threadsafe(written.set)
            raise UsageError("the disk is full")

    one = Scripted()
    joins = [lambda sink, numbers: cast("LiveConversation", one)]
    ballot, votes = Counted(["a"]), tmp_path / "votes.csv"
    conversation = SharedConversation(joins, Loudspeaker(), ballot, [Standing("a")], votes=votes, clock=clock)
    running = asyncio.create_task(conversation.run())
    await passes(clock)
    assert not files
    conversation.vote(None)
    await passes(clock)
    await written.wait()
    conversation.stop()
    await running
    assert files == [votes]
