"""Turns are timed, reported, stored and scored."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from live_eval.errors import FailureKind, StoreError
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.spoken_turns import LiveTurn
from live_eval.live.turn_keeper import TurnKeeper
from live_eval.live.turn_store import TurnStore
from live_eval.live.updates import QuickScores, State, StateChanged, TurnFinished, TurnKept, Update
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.recording.record import LoggedMessage, TurnCapture
from live_eval.testing import FakeClock
from live_eval.timing import TurnTrace
from live_eval.types import Failure

MS = 1_000_000


def turn(number: int = 1, failure: Failure | None = None) -> LiveTurn:
    return LiveTurn(
        capture=TurnCapture(
            trace=TurnTrace(dial_ns=0, ready_ns=1, t0_ns=10 * MS, onset_ns=10 * MS, voice_end_ns=900 * MS),
            wall_ns=0,
            failure=failure,
        ),
        number=number,
        session=1,
        index=number - 1,
        user=np.zeros(16_000, np.int16),
        rate_hz=16_000,
    )


def no_messages() -> Sequence[LoggedMessage]:
    return ()


def stored_turns(folder: Path) -> list[TurnRecord]:
    with RunReader.open(folder) as run:
        return list(run.turns())


class Scorer:
    """Scores nothing until it is abandoned."""

    def __init__(self) -> None:
        self.abandoned = False

    async def score(self, turn_id: str) -> QuickScores:
        await asyncio.Event().wait()
        raise AssertionError

    def abandon(self) -> None:
        self.abandoned = True


class BrokenStore(TurnStore):
    def keep(self, turn: LiveTurn, record: TurnRecord) -> bool:
        raise OSError("the disk is on fire")


class Kept:
    """A keeper, and what it reported."""

    def __init__(self, writer: RunWriter, thread: Executor) -> None:
        self.updates: list[Update] = []
        self.scorer = Scorer()
        self.broken = 0
        self.on_scoring: Callable[[], None] | None = None
        self._writer = writer
        self._thread = thread

    def of(self, kind: type[Update]) -> list[Update]:
        return [update for update in self.updates if isinstance(update, kind)]

    def _tell(self, update: Update) -> None:
        self.updates.append(update)
        if update == StateChanged(State.SCORING) and self.on_scoring is not None:
            asyncio.get_running_loop().call_soon(self.on_scoring)

    def _break(self) -> None:
        self.broken += 1

    async def use(
        self,
        work: Callable[[TurnKeeper], Awaitable[None]],
        store: type[TurnStore] = TurnStore,
        *,
        scores: bool = False,
    ) -> TurnKeeper:
        async with asyncio.TaskGroup() as tasks:
            keeper = TurnKeeper(
                store(self._writer),
                self._thread,
                tasks,
                tell=self._tell,
                broken=self._break,
                clock=FakeClock(),
                scorer=cast("QuickScorer", self.scorer) if scores else None,
            )
            await work(keeper)
        return keeper


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with RunWriter.create(tmp_path / "run", {}) as writer, ThreadPoolExecutor(1) as thread:
        yield Kept(writer, thread)


async def test_a_turn_is_reported_and_stored_again_only_if_it_has_changed(kept: Kept, tmp_path: Path) -> None:
    failure = Failure(FailureKind.NO_RESPONSE, "no reply")

    async def work(keeper: TurnKeeper) -> None:
        for each in (turn(), turn(), turn(failure=failure)):
            keeper.keep(each, no_messages, 0)
            await keeper.finish()

    await kept.use(work)
    finished = [update for update in kept.updates if isinstance(update, TurnFinished)]
    assert [(update.number, update.record.failure) for update in finished] == [(1, None), (1, failure)]
    assert len(kept.of(TurnKept)) == 2
    [stored] = await asyncio.to_thread(stored_turns, tmp_path / "run")
    assert (stored.failure, stored.case.dialogue_id) == (failure, "session-1")


async def test_a_turn_that_cannot_be_stored_ends_the_conversation_with_the_reason(kept: Kept) -> None:
    async def work(keeper: TurnKeeper) -> None:
        keeper.keep(turn(1), no_messages, 0)
        keeper.keep(turn(2), no_messages, 0)
        await keeper.finish()

    keeper = await kept.use(work, BrokenStore)
    assert kept.broken == 2
    assert isinstance(keeper.error, StoreError)
    assert str(keeper.error) == "turn 1 cannot be stored: OSError: the disk is on fire"
    assert not kept.of(TurnKept)


async def test_scores_are_awaited_unless_they_are_abandoned(kept: Kept) -> None:
    async def work(keeper: TurnKeeper) -> None:
        keeper.keep(turn(), no_messages, 0)
        keeper.abandon_scores()
        assert not kept.scorer.abandoned, "nothing waits for scores yet"
        kept.on_scoring = keeper.abandon_scores
        await keeper.finish()

    await kept.use(work, scores=True)
    assert kept.scorer.abandoned
    assert not kept.of(QuickScores)
