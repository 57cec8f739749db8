"""Run judges on cluster nodes. Each worker has a CPU, or a GPU if its judges can use one.

The driver reads the run, calls models (with one budget and one response cache), and writes the scores.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from live_eval.cluster.judge_actor import JudgeActor
from live_eval.cluster.nodes import Node, Software, round_robin, software
from live_eval.cluster.ray_connection import Cluster, error_text
from live_eval.cluster.sealing import KeyPair
from live_eval.errors import LiveEvalError, UsageError
from live_eval.redaction import SECRETS
from live_eval.scoring.judge_pool import JudgedBatch, JudgePool
from live_eval.scoring.judge_queue import JudgeBatch
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.judge_workers import WorkerGroup, WorkerPlace, WorkerPool

__all__ = ["cluster_judges"]

_START_S = 180.0
_POLL_S = 1.0  # interval at which a thread checks whether to stop


@contextlib.contextmanager
def cluster_judges(
    cluster: Cluster, options: JudgeOptions, announce: Callable[[str], None]
) -> Iterator[JudgePool]:
    """Run local judges on cluster nodes; end their workers at the end of the block.

    With ``device="cuda"``, judges that use torch run in workers with one GPU each. `announce` is called, from
    several threads, with a line about each node that can no longer judge.

    Raises:
        UsageError: The judges use GPUs, but the cluster has none.
        LiveEvalError: No worker could be started.
    """
    plain = round_robin({node: node.cpus for node in cluster.nodes})
    graphics = round_robin({node: node.gpus for node in cluster.nodes})
    if options.device == "cuda" and not graphics:
        raise UsageError("--device cuda: no node of the Ray cluster has a GPU")

    def group(nodes: Sequence[Node], gpus: int) -> WorkerGroup[_ActorWorker]:
        places = [
            WorkerPlace(f"node {node.name}", partial(_ActorWorker, cluster, options, gpus, node))
            for node in nodes
        ]
        return WorkerGroup(places, announce, error_text)

    with contextlib.ExitStack() as stack:
        on_cores, on_gpus = (
            stack.enter_context(contextlib.closing(group(nodes, gpus)))
            for nodes, gpus in ((plain, 0), (graphics, 1))
        )
        yield WorkerPool(
            on_cores,
            on_gpus,
            options,
            lambda group, spec: group.ask(lambda worker: worker.missing(spec.name)),
        )


class _ActorWorker:
    """A `JudgeWorker` that runs in an actor on a node."""

    def __init__(
        self, cluster: Cluster, options: JudgeOptions, gpus: int, node: Node, stopping: threading.Event
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._stopping = stopping
        # A worker with a GPU reserves no CPU, because workers without a GPU may occupy all CPUs.
        self._actor = cluster.actor(JudgeActor, node=node, cpus=0 if gpus else 1, gpus=gpus)
        try:
            theirs: Software
            theirs, public = self._result(self._actor.introduce.remote(), _START_S)
            if differs := software().differs(theirs):
                raise LiveEvalError(differs)
            keys = KeyPair()
            self._seal = keys.seal_with(public)
            sealed = self._seal.close((options, SECRETS.copy()))
            self._result(self._actor.open.remote(keys.public, sealed), _START_S)
        except BaseException:
            cluster.end(self._actor)
            raise

    def missing(self, judge: str) -> str | None:
        """Return the requirement of a judge that is missing on the node, or None."""
        asked = self._actor.missing.remote(self._seal.close(judge))
        found: str | None = self._seal.open(self._result(asked, _START_S))
        return found

    def judge(self, batch: JudgeBatch) -> JudgedBatch:
        """See `JudgeWorker`."""
        sealed = self._seal.close((batch.spec.name, batch.version, batch.turns))
        answer: JudgedBatch = self._seal.open(self._result(self._actor.judge.remote(sealed)))
        if answer.problem is not None:
            answer = replace(answer, problem=f"node {self._node.name}: {answer.problem}")
        return answer

    def end(self) -> None:
        """See `JudgeWorker`."""
        self._cluster.end(self._actor)

    def _result(self, reference: Any, timeout_s: float = math.inf) -> Any:
        """Wait for a result of the actor; raise TimeoutError after `timeout_s` or when all workers stop."""
        from ray import get

        while True:
            try:
                return get(reference, timeout=min(timeout_s, _POLL_S))
            except TimeoutError:
                timeout_s -= _POLL_S
                if self._stopping.is_set() or timeout_s <= 0:
                    raise
