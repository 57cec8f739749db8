"""Timing, reporting, storing and scoring turns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from live_eval.errors import FailureKind, StoreError
from live_eval.live.captures import LiveCapture, OverheardReply
from live_eval.live.echo_detection import RATE_HZ
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.recorder import LiveRecorder
from live_eval.live.updates import LatencyMeasured, QuickScores, RecordStored, State, StateChanged, Update
from live_eval.recording import RunReader, RunWriter, ScoreStore, TurnRecord
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.testing import FakeClock
from live_eval.timing import TurnTrace
from live_eval.types import Failure

MS = 1_000_000


def turn(number: int = 1, failure: Failure | None = None, barge_in_ns: int | None = None) -> LiveCapture:
    return LiveCapture(
        capture=TurnCapture(
            trace=TurnTrace(
                dial_ns=0,
                ready_ns=1,
                t0_ns=10 * MS,
                onset_ns=10 * MS,
                voice_end_ns=900 * MS,
                barge_in_ns=barge_in_ns,
            ),
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
    """Never scores a turn."""

    async def score(self, run: Path, turn_id: str, number: int, tell: Callable[[QuickScores], None]) -> None:
        await asyncio.Event().wait()
        raise AssertionError

    def replaced(self, run: Path, turn_id: str) -> None:
        pass


class BusyScorer(Scorer):
    """Locks the run's scores while it scores a turn, as the scoring process does."""

    def __init__(self) -> None:
        self.scored: list[str] = []
        self.discarded: list[str] = []
        self.begun = asyncio.Event()
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def paused(self, run: Path) -> AsyncIterator[None]:
        async with self._turn:
            yield

    def replaced(self, run: Path, turn_id: str) -> None:
        self.discarded.append(turn_id)

    async def score(self, run: Path, turn_id: str, number: int, tell: Callable[[QuickScores], None]) -> None:
        async with self._turn:
            store = await asyncio.to_thread(ScoreStore.open, run)
            self.begun.set()
            await asyncio.sleep(0.1)
            await asyncio.to_thread(store.close)
            self.scored.append(turn_id)


class Recorded:
    """A recorder, and its updates."""

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
        work: Callable[[LiveRecorder], Awaitable[None]],
        *,
        scores: bool = False,
    ) -> LiveRecorder:
        async with asyncio.TaskGroup() as tasks:
            recorder = LiveRecorder(
                self._writer,
                self._thread,
                tasks,
                tell=self._tell,
                broken=self._break,
                clock=FakeClock(),
                scorer=cast("QuickScorer", self.scorer) if scores else None,
            )
            await work(recorder)
        return recorder


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    with RunWriter.create(tmp_path / "run", {}) as writer, ThreadPoolExecutor(1) as thread:
        yield Recorded(writer, thread)


async def test_an_unchanged_turn_is_neither_reported_nor_stored_again(
    recorded: Recorded, tmp_path: Path
) -> None:
    failure = Failure(FailureKind.NO_RESPONSE, "no reply")

    async def work(recorder: LiveRecorder) -> None:
        for each in (turn(), turn(), turn(failure=failure)):
            recorder.record(each, no_messages, 0)
            await recorder.finish()

    await recorded.use(work)
    finished = [update for update in recorded.updates if isinstance(update, LatencyMeasured)]
    assert [(update.number, update.record.failure) for update in finished] == [(1, None), (1, failure)]
    assert len(recorded.of(RecordStored)) == 2
    [stored] = await asyncio.to_thread(stored_turns, tmp_path / "run")
    assert (stored.failure, stored.case.dialogue_id) == (failure, "session-1")


async def test_the_latency_of_an_echo_is_uncertain(recorded: Recorded) -> None:
    reply = np.random.default_rng(1).normal(0, 3_000, 2 * RATE_HZ).astype(np.float32)
    echo = (reply[RATE_HZ - 800 : -800] / 8).astype(np.int16)
    overlap = OverheardReply((0, 1_000 * MS), reply)

    async def work(recorder: LiveRecorder) -> None:
        recorder.record(replace(turn(), user=echo, rate_hz=RATE_HZ, overlap=overlap), no_messages, 0)
        recorder.record(replace(turn(2), user=echo, rate_hz=RATE_HZ), no_messages, 0)
        await recorder.finish()

    await recorded.use(work)
    shown = [update for update in recorded.updates if isinstance(update, LatencyMeasured)]
    assert [update.record.timing.uncertain for update in shown] == [True, False]


async def test_a_turn_that_cannot_be_stored_ends_the_conversation(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(recorder: LiveRecorder) -> None:
        recorder.record(turn(1), no_messages, 0)
        recorder.record(turn(2), no_messages, 0)
        await recorder.finish()

    def crash(*_: object) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(RunWriter, "commit", crash)
    recorder = await recorded.use(work)
    assert recorded.broken == 2
    assert isinstance(recorder.error, StoreError)
    assert str(recorder.error) == "cannot store turn 1: OSError: the disk is on fire"
    assert not recorded.of(RecordStored)


async def test_a_turn_that_changes_while_it_is_scored_is_stored_and_scored_again(
    recorded: Recorded, tmp_path: Path
) -> None:
    scorer = recorded.scorer = BusyScorer()

    async def work(recorder: LiveRecorder) -> None:
        recorder.record(turn(), no_messages, 0)
        await scorer.begun.wait()
        recorder.record(turn(barge_in_ns=800 * MS), no_messages, 0)
        recorder.record(turn(barge_in_ns=800 * MS), no_messages, 0)  # unchanged: scores remain valid
        await recorder.finish()

    recorder = await recorded.use(work, scores=True)
    assert recorder.error is None
    assert scorer.discarded == ["turn-0001", "turn-0001"]
    assert recorded.broken == 0
    assert scorer.scored == ["turn-0001", "turn-0001"]
    [stored] = await asyncio.to_thread(stored_turns, tmp_path / "run")
    assert stored.trace.barge_in_ns == 800 * MS


async def test_scores_are_awaited_unless_abandoned(recorded: Recorded) -> None:
    async def work(recorder: LiveRecorder) -> None:
        recorder.record(turn(), no_messages, 0)
        recorder.abandon_scores()
        recorded.on_scoring = recorder.abandon_scores
        await recorder.finish()

    await recorded.use(work, scores=True)
    assert recorded.of(StateChanged), "scores were awaited at first"
    assert not recorded.of(QuickScores)
