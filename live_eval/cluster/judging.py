"""Judges on the nodes of a cluster: a processor for each worker, and a GPU where the judge can use one.

The driver reads the run, asks models (their budget and answers are one), and is the one writer of the scores.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from live_eval.cluster.connection import Cluster, error_text
from live_eval.cluster.judge_actor import JudgeActor
from live_eval.cluster.judge_queue import JudgeQueue, QueuedBatch
from live_eval.cluster.nodes import Node, Software, round_robin, software
from live_eval.cluster.sealing import KeyPair, Seal
from live_eval.errors import LiveEvalError, UsageError
from live_eval.judging import Failed, JudgedTurn, JudgeKind, JudgeSpec
from live_eval.redaction import SECRETS
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.judge_runner import JudgeOptions, scoring_version

__all__ = ["ClusterJudges", "cluster_judges"]

_START_S = 180.0
_STOP_S = 5.0
_LOOK_S = 1.0  # so often a thread looks whether all is over


@contextlib.contextmanager
def cluster_judges(
    cluster: Cluster, options: JudgeOptions, announce: Callable[[str], None]
) -> Iterator[ClusterJudges]:
    """Run local judges on the nodes of a cluster; end their workers with the block.

    Args:
        cluster: The cluster.
        options: The user's options of judges; with ``device="cuda"`` judges that use torch get workers with a
            GPU each.
        announce: Called with a line about each node that can judge no more; by several threads.

    Raises:
        UsageError: The judges are to use GPUs, and the cluster has none.
        LiveEvalError: No worker starts.
    """
    plain = round_robin({node: node.cpus for node in cluster.nodes})
    graphics = round_robin({node: node.gpus for node in cluster.nodes})
    if options.device == "cuda" and not graphics:
        raise UsageError("--device cuda: no node of the Ray cluster has a GPU")
    with contextlib.ExitStack() as stack:
        groups = {
            False: stack.enter_context(
                contextlib.closing(_WorkerGroup(cluster, plain, 0, options, announce))
            ),
            True: stack.enter_context(
                contextlib.closing(_WorkerGroup(cluster, graphics, 1, options, announce))
            ),
        }
        yield ClusterJudges(groups, options)


class ClusterJudges:
    """A `JudgePool` of workers on the nodes of a cluster; see `cluster_judges`."""

    def __init__(self, groups: dict[bool, _WorkerGroup], options: JudgeOptions) -> None:
        self._groups = groups
        self._options = options
        self.ahead = 2 * sum(group.capacity for group in groups.values())

    def takes(self, spec: JudgeSpec) -> bool:
        """As `JudgePool.takes`: judges that ask no model."""
        return spec.kind is JudgeKind.LOCAL

    def missing(self, spec: JudgeSpec) -> str | None:
        """As `JudgePool.missing`, by one of the nodes."""
        return self._group(spec).missing(spec)

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        """As `JudgePool.submit`."""
        version = scoring_version(spec, self._options)
        return self._group(spec).submit(_Batch(spec.name, version, turns, Future()))

    def _group(self, spec: JudgeSpec) -> _WorkerGroup:
        return self._groups[spec.on_device and self._options.device == "cuda"]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    judge: str
    version: str
    turns: Sequence[JudgedTurn]
    answer: Future[JudgedBatch]


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    actor: Any
    seal: Seal


class _WorkerGroup:
    """Workers of one kind, each with a thread here, started as batches wait for them."""

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[Node],
        gpus: int,
        options: JudgeOptions,
        announce: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._free = list(places)
        self._gpus = gpus
        self._options = options
        self._announce = announce
        self._software = software()
        self._queue = JudgeQueue()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._at_work = 0  # threads that have not given up
        self._spare: _Worker | None = None  # started to ask it something, not at work yet
        self._closed = False
        self.capacity = len(places)

    def missing(self, spec: JudgeSpec) -> str | None:
        """Return what the judge needs and the first node on which a worker starts does not have.

        Raises:
            LiveEvalError: No worker starts on any.
        """
        from ray import get

        while True:
            node = self._free[0]
            try:
                worker = self._spare = self._spare or self._start(node)
                asked = worker.actor.missing.remote(worker.seal.close(spec.name))
                found: str | None = worker.seal.open(get(asked, timeout=_START_S))
            except Exception as error:  # whatever Ray raises, or the node
                if self._spare is not None:
                    self._cluster.end(self._spare.actor)
                    self._spare = None
                why = _in_words(node, error)
                self._exclude(node)
                if not self._free:
                    raise LiveEvalError(why) from error
                self._announce(why)
            else:
                return found

    def submit(self, batch: _Batch) -> Future[JudgedBatch]:
        """Let a batch wait for a worker; start another while there are fewer than batches."""
        with self._changed:
            self._queue.add(QueuedBatch(batch.judge, batch))
            if self._free and self._queue.under_way > self._at_work:
                self._add_worker()
            self._changed.notify()
        return batch.answer

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_STOP_S)
        if self._spare is not None:
            self._cluster.end(self._spare.actor)

    def _add_worker(self) -> None:
        """Let a worker begin in the next free place."""
        self._at_work += 1
        thread = threading.Thread(target=self._work, args=(self._free.pop(0),), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, node: Node) -> None:
        """Let a worker on a node judge batches, and another in its place if it is lost."""
        worker, self._spare = self._spare, None
        me = object()
        while (task := self._next(me)) is not None:
            batch: _Batch = task.payload
            if worker is None:
                try:
                    worker = self._start(node)
                except Exception as error:  # whatever Ray raises, or the node
                    self._give_up(me, node, _in_words(node, error))
                    return
            try:
                answer = self._judged(worker, batch)
            except Exception as error:
                self._cluster.end(worker.actor)
                worker = None
                self._lost(me, error_text(error))
                continue
            with self._changed:
                self._queue.finished(me)
            if answer.problem is not None:
                answer = replace(answer, problem=f"node {node.name}: {answer.problem}")
            batch.answer.set_result(answer)
        if worker is not None:
            self._cluster.end(worker.actor)

    def _next(self, worker: object) -> QueuedBatch | None:
        """Wait for a batch; None once all is over."""
        with self._changed:
            while not self._closed:
                task = self._queue.next_for(worker)
                if task is not None:
                    return task
                self._changed.wait()
        return None

    def _judged(self, worker: _Worker, batch: _Batch) -> JudgedBatch:
        sealed = worker.seal.close((batch.judge, batch.version, batch.turns))
        answer: JudgedBatch = worker.seal.open(self._result(worker.actor.judge.remote(sealed)))
        return answer

    def _result(self, reference: Any, most_s: float = math.inf) -> Any:
        """Wait for what a worker returns; end with TimeoutError after a time, or once all is over."""
        from ray import get

        while True:
            try:
                return get(reference, timeout=min(most_s, _LOOK_S))
            except TimeoutError:
                most_s -= _LOOK_S
                if self._closed or most_s <= 0:
                    raise

    def _lost(self, worker: object, why: str) -> None:
        """Let another worker have the batch of one that was lost; a batch that loses several fails."""
        with self._changed:
            given_up = self._queue.lost(worker)
            self._changed.notify()
        if given_up is not None:
            batch: _Batch = given_up.payload
            failed = Failed(f"{given_up.losses} workers were lost while they judged it: {why}")
            batch.answer.set_result(JudgedBatch([failed] * len(batch.turns), None, 0.0))

    def _exclude(self, node: Node) -> None:
        """Start no further workers on a node."""
        self._free = [place for place in self._free if place != node]

    def _give_up(self, worker: object, node: Node, why: str) -> None:
        """Leave the batch to workers on other nodes; if there are none, say why nothing is judged."""
        self._announce(why)
        with self._changed:
            self._queue.returned(worker)
            self._at_work -= 1
            self._exclude(node)
            abandoned = [] if self._at_work or self._free else self._queue.abandoned()
            if self._free and not self._at_work:  # the next node may do
                self._add_worker()
            self._changed.notify()
        for task in abandoned:
            task.payload.answer.set_result(JudgedBatch((), why, 0.0))

    def _start(self, node: Node) -> _Worker:
        # One with a GPU takes no processor, or judges without one might leave none to start it.
        cpus = 0 if self._gpus else 1
        actor = self._cluster.actor(JudgeActor, node=node, cpus=cpus, gpus=self._gpus)
        try:
            theirs: Software
            theirs, public = self._result(actor.introduce.remote(), _START_S)
            if differs := self._software.differs(theirs):
                raise LiveEvalError(differs)
            keys = KeyPair()
            worker = _Worker(actor, keys.seal_with(public))
            sealed = worker.seal.close((self._options, SECRETS.copy()))
            self._result(actor.open.remote(keys.public, sealed), _START_S)
        except BaseException:
            self._cluster.end(actor)
            raise
        return worker


def _in_words(node: Node, error: Exception) -> str:
    return f"no worker for judges starts on node {node.name}: {error_text(error)}"
