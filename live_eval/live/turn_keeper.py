"""The turns of a live conversation are timed, reported, stored and scored as they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

from live_eval.analysis.latency.waterfall import waterfall_of
from live_eval.clock import Clock
from live_eval.errors import LiveEvalError, StoreError
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.spoken_turns import LiveTurn
from live_eval.live.turn_store import TurnStore
from live_eval.live.updates import State, StateChanged, TurnFigures, TurnFinished, TurnKept, Update
from live_eval.recording.record import LoggedMessage, TurnRecord
from live_eval.session.event_loop import describe

__all__ = ["TurnKeeper"]


class TurnKeeper:
    """Keeps the turns of a conversation, each in a task of its own.

    Args:
        store: Makes records and writes them.
        thread: The run's only writer thread.
        tasks: Runs the tasks.
        tell: Takes updates.
        broken: Called when a turn cannot be stored; `error` is the reason.
        clock: The conversation's clock.
        scorer: Scores the turns that were stored; None for no scores.
    """

    def __init__(
        self,
        store: TurnStore,
        thread: Executor,
        tasks: asyncio.TaskGroup,
        *,
        tell: Callable[[Update], None],
        broken: Callable[[], None],
        clock: Clock,
        scorer: QuickScorer | None = None,
    ) -> None:
        self.error: LiveEvalError | None = None
        """Why the first turn that could not be stored was not."""
        self._store = store
        self._thread = thread
        self._group = tasks
        self._tell = tell
        self._broken = broken
        self._clock = clock
        self._scorer = scorer
        self._writes: set[asyncio.Task[None]] = set()
        self._scores: set[asyncio.Task[None]] = set()
        self._awaits_scores = False
        self._shown: dict[int, TurnFigures] = {}  # by number of the turn

    def keep(self, turn: LiveTurn, log: Callable[[], Sequence[LoggedMessage]], ended_ns: int) -> None:
        """Time a turn so far, report its figures if they have changed, store it and have it scored.

        Args:
            turn: The turn.
            log: Returns its messages; called in the writer thread.
            ended_ns: When its reply, as heard, or the turn ended.
        """
        self._start(self._writes, self._keep(turn, log, ended_ns))

    def keep_unplayed(self, number: int, record: TurnRecord) -> None:
        """Report and store the record of a recording that was never played."""
        self._show(number, record, self._clock.now_ns())
        self._start(self._writes, self._keep_unplayed(record))

    async def finish(self) -> None:
        """Wait until every turn is stored, and scored unless `abandon_scores` is called meanwhile."""
        while self._writes:
            await asyncio.wait(self._writes)
        if self._scores:
            self._awaits_scores = True
            self._tell(StateChanged(State.SCORING))
            await asyncio.wait(self._scores)

    def abandon_scores(self) -> None:
        """Stop waiting for scores; do nothing before `finish` waits for them."""
        if self._awaits_scores and self._scorer is not None:
            self._scorer.abandon()
            for task in self._scores:
                task.cancel()

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _keep(self, turn: LiveTurn, log: Callable[[], Sequence[LoggedMessage]], ended_ns: int) -> None:
        run = asyncio.get_running_loop().run_in_executor
        with self._ending_if_broken(f"turn {turn.number}"):
            record = await run(self._thread, lambda: self._store.record(turn, log()))
            self._show(turn.number, record, ended_ns)
            if await run(self._thread, self._store.keep, turn, record):
                self._tell(TurnKept(record))
                if self._scorer is not None and record.failure is None:
                    self._start(self._scores, self._score(self._scorer, record.turn_id))

    async def _keep_unplayed(self, record: TurnRecord) -> None:
        with self._ending_if_broken(record.turn_id):
            run = asyncio.get_running_loop().run_in_executor
            await run(self._thread, self._store.keep_unplayed, record)
            self._tell(TurnKept(record))

    async def _score(self, scorer: QuickScorer, turn_id: str) -> None:
        self._tell(await scorer.score(turn_id))

    def _show(self, number: int, record: TurnRecord, ended_ns: int) -> None:
        """Report the figures of a turn, unless they equal the last ones."""
        after_ns = self._clock.now_ns() - ended_ns
        finished = TurnFinished(number, record, waterfall_of(record) or {}, after_ns)
        if self._shown.get(number) != finished.figures:
            self._shown[number] = finished.figures
            self._tell(finished)

    @contextlib.contextmanager
    def _ending_if_broken(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not isinstance(error, LiveEvalError):
                cause = error
                error = StoreError(f"{what} cannot be stored: {describe(cause)}")
                error.__cause__ = cause
            self.error = self.error or error
            self._broken()
