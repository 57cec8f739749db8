"""Time, report, store and score the turns of a live conversation as they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from live_eval.audio import Audio, int16_to_float, write_flac
from live_eval.clock import Clock
from live_eval.errors import LiveEvalError, StoreError
from live_eval.files import private_folder
from live_eval.live.captures import LiveCapture
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.updates import (
    LatencyMeasured,
    QuickScores,
    RecordStored,
    State,
    StateChanged,
    Update,
)
from live_eval.recording import RunWriter, utterance_id, utterance_name
from live_eval.recording.record import TurnRecord, finish
from live_eval.recording.schema import USER_FOLDER
from live_eval.session.capture import LoggedMessage
from live_eval.session.event_loop import describe
from live_eval.types import Case, Variant

__all__ = ["LiveRecorder"]


class LiveRecorder:
    """Record a conversation's turns, each in a separate task.

    Args:
        thread: The only thread that writes to the run.
        broken: Called if a turn cannot be stored, after `error` has been set.
        instructions: System prompt of a session with a person.
        device_spread_ns: Measured variation of the device delay.
    """

    def __init__(
        self,
        writer: RunWriter,
        thread: Executor,
        tasks: asyncio.TaskGroup,
        *,
        tell: Callable[[Update], None],
        broken: Callable[[], None],
        clock: Clock,
        scorer: QuickScorer | None = None,
        instructions: str = "",
        device_spread_ns: int = 0,
    ) -> None:
        self.error: LiveEvalError | None = None
        """The error of the first turn that could not be stored."""
        self._writer = writer
        self._thread = thread
        self._group = tasks
        self._tell = tell
        self._broken = broken
        self._clock = clock
        self._scorer = scorer
        self._instructions = instructions
        self._spread_ns = device_spread_ns
        self._writes: set[asyncio.Task[None]] = set()
        self._scores: set[asyncio.Task[None]] = set()
        self._awaits_scores = self._abandoned = False
        self._submitted: set[int] = set()  # numbers of turns passed to the writer thread
        self._last_ended = 0  # number of the last turn whose reply has ended
        self._shown: dict[int, tuple[object, ...]] = {}  # last displayed values by turn number
        self._stored: dict[int, tuple[object, ...]] = {}

    def record(self, turn: LiveCapture, log: Callable[[], Sequence[LoggedMessage]], ended_ns: int) -> None:
        """Time a turn, report changed values, store the turn and submit it for scoring.

        Args:
            log: Function that returns the turn's messages; called in the writer thread.
            ended_ns: Time at which the reply, as heard, or the turn ended.
        """
        if turn.capture.failure is None:
            self._last_ended = max(self._last_ended, turn.number)
        self._start(self._writes, self._record(turn, log, ended_ns))

    def record_unreached(self, number: int, record: TurnRecord) -> None:
        """Report and store the record of a turn that the session did not reach."""
        self._show(number, record, self._clock.now_ns())
        self._start(self._writes, self._store_unreached(record))

    async def finish(self) -> None:
        """Wait until every turn is stored and scored; `abandon_scores` ends the wait for scores."""
        self._awaits_scores = True
        told = False
        while pending := self._writes | self._scores:  # a changed turn is stored between two scores
            if self._scores and not told:
                self._tell(StateChanged(State.SCORING))
                told = True
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)

    def abandon_scores(self) -> None:
        """Stop waiting for scores; no-op unless `finish` is waiting for them."""
        if self._awaits_scores:
            self._abandoned = True
            for task in self._scores:
                task.cancel()

    # -- On the event loop -------------------------------------------------------------------------------

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _record(
        self, turn: LiveCapture, log: Callable[[], Sequence[LoggedMessage]], ended_ns: int
    ) -> None:
        run = asyncio.get_running_loop().run_in_executor
        with self._ending_if_broken(f"turn {turn.number}"):
            record = await run(self._thread, lambda: self._finished(turn, log()))
            self._show(turn.number, record, ended_ns)
            async with self._unscored(turn.number):
                written = await run(self._thread, self._write, turn, record)
                if written and self._scorer is not None:
                    self._scorer.replaced(self._writer.path, record.turn_id)
            if written:
                self._tell(RecordStored(record))
                if self._scorer is not None and record.failure is None and not self._abandoned:
                    self._start(self._scores, self._score(self._scorer, turn.number, record.turn_id))

    @contextlib.asynccontextmanager
    async def _unscored(self, number: int) -> AsyncIterator[None]:
        """Store no scores while a stored turn is replaced, which deletes its earlier scores."""
        replaces, scorer = number in self._submitted, self._scorer
        self._submitted.add(number)
        async with (
            scorer.paused(self._writer.path) if scorer is not None and replaces else contextlib.nullcontext()
        ):
            yield

    async def _store_unreached(self, record: TurnRecord) -> None:
        with self._ending_if_broken(record.turn_id):
            await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.commit, record)
            self._tell(RecordStored(record))

    async def _score(self, scorer: QuickScorer, number: int, turn_id: str) -> None:
        def tell(scores: QuickScores) -> None:
            self._tell(replace(scores, late=self._last_ended > number, number=number))

        await scorer.score(self._writer.path, turn_id, number, tell)

    def _show(self, number: int, record: TurnRecord, ended_ns: int) -> None:
        """Report the values of a turn if they have changed."""
        measured = LatencyMeasured(number, record, self._clock.now_ns() - ended_ns)
        if self._shown.get(number) != measured.values:
            self._shown[number] = measured.values
            self._tell(measured)

    @contextlib.contextmanager
    def _ending_if_broken(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not isinstance(error, LiveEvalError):
                cause = error
                error = StoreError(f"cannot store {what}: {describe(cause)}")
                error.__cause__ = cause
            self.error = self.error or error
            self._broken()

    # -- In the writer thread ----------------------------------------------------------------------------

    def _finished(self, turn: LiveCapture, log: Sequence[LoggedMessage]) -> TurnRecord:
        """Return the timed and aligned record of a turn, with its messages."""
        user = Audio(int16_to_float(turn.user), turn.rate_hz)
        capture = replace(turn.capture, log=log)
        if turn.job is not None:
            return finish(capture, turn.job.case, user, repeat=turn.job.repeat, attempt=1)
        uncertain = capture.trace.boundaries_uncertain or turn.echoes
        trace = replace(capture.trace, device_spread_ns=self._spread_ns, boundaries_uncertain=uncertain)
        return finish(replace(capture, trace=trace), self._case(turn), user, repeat=0, attempt=1)

    def _case(self, turn: LiveCapture) -> Case:
        """Return the case for a person's utterance."""
        case_id = utterance_id(turn.number)
        return Case(
            case_id=case_id,
            script_id=case_id,
            variant=Variant.TARGET,
            audio_path=self._writer.path / USER_FOLDER / utterance_name(case_id),
            boundaries=turn.capture.trace.boundaries,
            source="live",
            instructions=self._instructions,
            dialogue_id=f"session-{turn.session}",
            turn_index=turn.index,
        )

    def _write(self, turn: LiveCapture, record: TurnRecord) -> bool:
        """Write a turn if it is new or late events have changed it; return whether it was written."""
        state = _state(record)
        if self._stored.get(turn.number) == state:
            return False
        if turn.job is None:
            _write_user(record.case.audio_path, turn)
        self._writer.commit(record)
        self._writer.release_scores()
        self._stored[turn.number] = state
        return True


def _write_user(path: Path, turn: LiveCapture) -> None:
    try:
        private_folder(path.parent)
        write_flac(path, turn.utterance, turn.rate_hz)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error


def _state(record: TurnRecord) -> tuple[object, ...]:
    """Return the fields that may differ between two records of one turn."""
    responses = tuple(
        (each.status, each.text, each.interrupted_ns, int(each.chunk_samples.sum()))
        for each in record.responses
    )
    return record.failure, record.heard_text, record.trace.barge_in_ns, responses
