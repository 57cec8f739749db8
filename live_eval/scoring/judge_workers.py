"""Judge batches in parallel with workers (processes or cluster actors), each with a thread in this process.

The batch of a lost worker is requeued; a batch that loses several workers fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from live_eval.errors import LiveEvalError
from live_eval.judging import Failed, JudgedTurn, JudgeKind, JudgeSpec, Need
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.judge_queue import JudgeBatch, JudgeQueue
from live_eval.scoring.judge_runner import JudgeOptions, scoring_version

__all__ = ["JudgeWorker", "WorkerGroup", "WorkerPlace", "WorkerPool"]

_STOP_S = 5.0


class JudgeWorker(Protocol):
    """A worker that judges one batch at a time."""

    def judge(self, batch: JudgeBatch) -> JudgedBatch:
        """Judge a batch; any exception means that the worker is lost."""
        ...

    def end(self) -> None:
        """End the worker immediately, even while it is judging. Idempotent and thread-safe."""
        ...


W = TypeVar("W", bound=JudgeWorker)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class WorkerPlace(Generic[W]):
    """A slot for one worker.

    Args:
        name: Name of the machine, whose slots all fail together.
        start: Function that starts a worker; any exception counts as a failure. Its argument is an event that
            is set when all workers must end.
    """

    name: str
    start: Callable[[threading.Event], W]


class WorkerGroup(Generic[W]):
    """Workers of one kind, started on demand.

    Args:
        announce: Called with a message if no worker starts on a machine, possibly from several threads.
        describe: Function that formats an error as a message.
    """

    def __init__(
        self,
        places: Sequence[WorkerPlace[W]],
        announce: Callable[[str], None],
        describe: Callable[[BaseException], str] = str,
    ) -> None:
        self._free = list(places)
        self._announce = announce
        self._describe = describe
        self._queue = JudgeQueue()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._workers: list[W] = []
        self._at_work = 0  # number of threads that have not given up
        self._spare: W | None = None  # worker started by `ask` that has no thread yet
        self.capacity = len(places)

    def ask(self, question: Callable[[W], T]) -> T:
        """Return the response of the first worker that can be started.

        Raises:
            LiveEvalError: No worker could be started.
        """
        while True:
            place = self._free[0]
            try:
                worker = self._spare = self._spare or self._start(place)
                return question(worker)
            except Exception as error:  # a cluster may raise any exception
                if self._spare is not None:
                    self._end(self._spare)
                    self._spare = None
                why = self._in_words(place, error)
                self._exclude(place)
                if not self._free:
                    raise LiveEvalError(why) from error
                self._announce(why)

    def submit(self, spec: JudgeSpec, version: str, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """Queue a batch, and start a worker if there are fewer workers than batches."""
        batch = JudgeBatch(spec, version, [_only_used(spec, turn) for turn in turns])
        with self._changed:
            self._queue.add(batch)
            if self._free and self._queue.pending > self._at_work:
                self._add_worker()
            self._changed.notify()
        return batch.answer

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
            workers = list(self._workers)
        for worker in workers:
            worker.end()
        for thread in self._threads:
            thread.join(_STOP_S)

    def _add_worker(self) -> None:
        self._at_work += 1
        thread = threading.Thread(target=self._work, args=(self._free.pop(0),), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, place: WorkerPlace[W]) -> None:
        """Judge batches with a worker, and replace the worker if it is lost."""
        with self._changed:
            worker, self._spare = self._spare, None
        me = object()
        while (batch := self._next(me)) is not None:
            if worker is None:
                try:
                    worker = self._start(place)
                except Exception as error:  # a cluster may raise any exception
                    self._give_up(me, place, self._in_words(place, error))
                    return
            try:
                answer = worker.judge(batch)
            except Exception as error:
                self._end(worker)
                worker = None
                self._lost(me, self._describe(error))
                continue
            with self._changed:
                self._queue.finished(me)
            batch.answer.set_result(answer)
        if worker is not None:
            self._end(worker)

    def _next(self, worker: object) -> JudgeBatch | None:
        """Wait for a batch; return None when all workers must end."""
        with self._changed:
            while not self._stopping.is_set():
                batch = self._queue.next_for(worker)
                if batch is not None:
                    return batch
                self._changed.wait()
        return None

    def _lost(self, worker: object, why: str) -> None:
        """Requeue the batch of a lost worker, or fail it after several losses."""
        with self._changed:
            batch = self._queue.lost(worker)
            self._changed.notify()
        if batch is not None:
            failed = Failed(f"lost {batch.losses} workers while judging it: {why}")
            batch.answer.set_result(JudgedBatch([failed] * len(batch.turns), None, 0.0))

    def _exclude(self, place: WorkerPlace[W]) -> None:
        """Stop starting workers on a machine."""
        self._free = [other for other in self._free if other.name != place.name]

    def _give_up(self, worker: object, place: WorkerPlace[W], why: str) -> None:
        """Requeue the batch for workers on other machines; if there are none, fail all batches."""
        self._announce(why)
        with self._changed:
            self._queue.returned(worker)
            self._at_work -= 1
            self._exclude(place)
            abandoned = [] if self._at_work or self._free else self._queue.abandoned()
            if self._free and not self._at_work:  # try the next machine
                self._add_worker()
            self._changed.notify()
        for batch in abandoned:
            batch.answer.set_result(JudgedBatch((), why, 0.0))

    def _start(self, place: WorkerPlace[W]) -> W:
        worker = place.start(self._stopping)
        with self._changed:
            self._workers.append(worker)
        if self._stopping.is_set():  # `close` may have missed this worker
            worker.end()
        return worker

    def _end(self, worker: W) -> None:
        with self._changed:
            if worker in self._workers:
                self._workers.remove(worker)
        worker.end()

    def _in_words(self, place: WorkerPlace[W], error: BaseException) -> str:
        return f"cannot start a worker for judges on {place.name}: {self._describe(error)}"


class WorkerPool(Generic[W]):
    """A `JudgePool` of CPU workers and workers with one GPU each.

    `missing` returns a judge's requirement that its worker group does not meet, or None.
    """

    def __init__(
        self,
        on_cores: WorkerGroup[W],
        on_gpus: WorkerGroup[W],
        options: JudgeOptions,
        missing: Callable[[WorkerGroup[W], JudgeSpec], str | None],
    ) -> None:
        self._on_cores = on_cores
        self._on_gpus = on_gpus
        self._options = options
        self._missing = missing
        self.ahead = 2 * (on_cores.capacity + on_gpus.capacity)

    def takes(self, spec: JudgeSpec) -> bool:
        """See `JudgePool`; True for judges that do not call a model."""
        return spec.kind is JudgeKind.LOCAL

    def missing(self, spec: JudgeSpec) -> str | None:
        """See `JudgePool`."""
        return self._missing(self._group(spec), spec)

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """See `JudgePool`."""
        return self._group(spec).submit(spec, scoring_version(spec, self._options), turns)

    def _group(self, spec: JudgeSpec) -> WorkerGroup[W]:
        on_gpu = spec.on_device and self._options.device == "cuda" and self._on_gpus.capacity > 0
        return self._on_gpus if on_gpu else self._on_cores


def _only_used(spec: JudgeSpec, turn: JudgedTurn) -> JudgedTurn:
    """Return the turn with only the audio that the judge uses, without resampled copies."""
    used = spec.needs | spec.uses
    return replace(
        turn,
        reply=turn.reply if Need.REPLY_AUDIO in used else None,
        reference=turn.reference if Need.REFERENCE_AUDIO in used else None,
        speaker=turn.speaker if Need.SPEAKER_AUDIO in used else None,
    )
