"""Run sessions on cluster nodes: calibrate the nodes, start workers, and send them orders.

As with ``--processes``, the plan, rate limits, patience, retries, decoding, timing and storage remain in the
driver. Limits therefore apply to the whole run, each turn is committed once, and the sessions of a lost
worker are retried (`live_eval.run.session_workers`). Session orders contain the frames of recordings, so
nodes do not need the data set.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from live_eval.calibrate import CalibrationPlan
from live_eval.cluster.nodes import Node, NodeReport, Software, calibration_refusal, software
from live_eval.cluster.ray_connection import Cluster, error_text
from live_eval.cluster.sealing import KeyPair, Seal
from live_eval.cluster.session_actor import Measured, SessionActor, calibrate_node
from live_eval.cluster.worker_spread import Load, WorkerSpread
from live_eval.dialect import TransportKind
from live_eval.errors import FailureKind, LiveEvalError, TurnError, UsageError
from live_eval.recording.calibrations import FEWEST_TURNS, KeptCalibration
from live_eval.redaction import SECRETS
from live_eval.reference.emulation import calibration_client
from live_eval.registry import ClientSpec
from live_eval.run.plan import Plan
from live_eval.run.session_process import ProcessSettings, Ready, SessionAnswer
from live_eval.run.session_workers import Place, SessionWorker, SpreadSessions
from live_eval.run.sessions import Cpu, SessionOrder, SessionRunner
from live_eval.types import Failure

__all__ = ["cluster_sessions", "combine"]

_FEWEST_SESSIONS = 10  # minimum number of sessions in a calibration, to keep it short
_NODE_S = 180.0  # timeout of a calibration or a worker start
_CALLS = 1000  # maximum number of concurrent sessions per actor
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@contextlib.asynccontextmanager
async def cluster_sessions(
    cluster: Cluster,
    plan: Plan,
    base_url: str,
    announce: Callable[[str], None],
    earlier: Sequence[Mapping[str, Any]] = (),
) -> AsyncIterator[SessionRunner]:
    """Run sessions on cluster nodes; cancel those in progress at the end of the block.

    Args:
        plan: Plan of the run; `turns.processes` is the number of workers, or 0 or None for the default.
        announce: Called with a line of text about each node.
        earlier: Node entries in the manifest of the run to resume.

    Raises:
        UsageError: The nodes cannot reach the endpoint's address.
        LiveEvalError: All nodes are excluded from timed work, or no worker started.
    """
    if urlsplit(base_url).hostname in _LOOPBACK and not cluster.is_one_machine:
        raise UsageError(
            f"only this machine can reach the endpoint at {urlsplit(base_url).hostname}: pass --base-url "
            "with an address that every node of the cluster can reach"
        )
    turns = plan.config.turns
    spread = WorkerSpread(cluster.nodes, turns.concurrency, turns.processes or 0)
    settings = _settings(plan.spec)
    async with _started(
        spread,
        lambda node, load: _examine(cluster, node, load, plan),
        lambda node: RayWorker(cluster, node, settings),
        announce,
    ) as places:
        yield _ClusterSessions(places, combine(spread.reports, earlier))


@contextlib.asynccontextmanager
async def _started(
    spread: WorkerSpread,
    examine: Callable[[Node, Load], Awaitable[NodeReport]],
    new_worker: Callable[[Node], SessionWorker],
    announce: Callable[[str], None],
) -> AsyncIterator[list[Place]]:
    """Calibrate nodes under their load and start workers on them; end the workers at the end of the block.

    If a node is refused or some of its workers fail to start, the other nodes take over its sessions and are
    recalibrated. The loop terminates because each round has fewer nodes or workers.

    Raises:
        LiveEvalError: All nodes are excluded from timed work, or no worker started.
    """
    while not (places := await _places(spread, examine, new_worker, announce)):
        pass
    try:
        for report in spread.reports:
            if not report.refused:
                announce(report.in_words())
        yield places
    finally:
        await _close(places)


async def _places(
    spread: WorkerSpread,
    examine: Callable[[Node, Load], Awaitable[NodeReport]],
    new_worker: Callable[[Node], SessionWorker],
    announce: Callable[[str], None],
) -> list[Place]:
    """Calibrate nodes until the rest pass, then start workers; return [] if a worker does not start."""
    while due := spread.not_examined:
        reports = await asyncio.gather(*(examine(node, load) for node, load in due.items()))
        for report, load in zip(reports, due.values(), strict=True):
            spread.record(report, load)
            if report.refused:
                announce(report.in_words())
    if not spread.loads:
        raise LiveEvalError(
            "all nodes of the cluster are excluded from timed work; run `live-eval calibrate` on a node "
            "to see its error, or allow a larger one with --timing-bound"
        )
    homes = [node for node, load in spread.loads.items() for _ in range(load.workers)]
    places = [Place(lambda node=node: new_worker(node)) for node in homes]  # type: ignore[misc]
    complete = False
    try:
        problems = await asyncio.gather(*(_problem(place) for place in places))
        complete = not any(problems)
    finally:
        if not complete:
            await _close(places)
    for node in dict.fromkeys(homes):
        here = [problem for home, problem in zip(homes, problems, strict=True) if home == node]
        failed = [problem for problem in here if problem]
        if failed:
            announce(failed[0])
            spread.limit(node, len(here) - len(failed), failed[0])
    return places if complete else []


async def _problem(place: Place) -> str:
    """Start a worker in a slot; return the reason if it fails to start, otherwise an empty string."""
    try:
        await place.worker()
    except LiveEvalError as error:
        return str(error)
    return ""


async def _close(places: Sequence[Place]) -> None:
    await asyncio.gather(*(place.close() for place in places))


def combine(reports: Sequence[NodeReport], earlier: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the manifest's entries about the nodes: every node, and the worst calibration in use.

    `earlier` contains the entries from before the run was resumed. Nodes that are used again replace their
    entries, but the worst calibration considers both.
    """
    used = [report for report in reports if not report.refused]
    again, now = {report.node.name for report in used}, {report.node.name for report in reports}
    before = [node for node in earlier if node["name"] not in (now if node["refused"] else again)]
    calibrated = [report.calibration for report in used if report.calibration is not None] + [
        KeptCalibration.model_validate(node["calibration"])
        for node in earlier
        if node["calibration"] is not None and not node["refused"]
    ]
    worst = max(calibrated, key=lambda each: max(each.errors_p99_ms.values(), default=0.0), default=None)
    return {
        "nodes": [*before, *(report.as_json() for report in reports)],
        "processes": sum(report.workers for report in used),
        "calibration": worst.model_dump() if worst is not None else None,
    }


class _ClusterSessions(SpreadSessions):
    """A `SpreadSessions` over a cluster's workers, which adds the cluster's nodes to the manifest."""

    def __init__(self, places: Sequence[Place], nodes: Mapping[str, Any]) -> None:
        super().__init__(places)
        self._nodes = nodes

    @property
    def facts(self) -> Mapping[str, Any]:
        """See `SessionRunner`."""
        return {**super().facts, **self._nodes}


def _settings(spec: ClientSpec) -> ProcessSettings:
    return ProcessSettings(
        implementations=(spec.dialect, spec.transport),
        secrets=SECRETS.copy(),
    )


async def _examine(cluster: Cluster, node: Node, load: Load, plan: Plan) -> NodeReport:
    """Calibrate a node under its load; report whether it may be used."""
    report = NodeReport(node=node, workers=load.workers)
    try:
        async with asyncio.timeout(_NODE_S):
            theirs: Software = await cluster.call(software, node=node)
            if differs := (await asyncio.to_thread(software)).differs(theirs):
                return replace(report, refused=differs)
            if plan.spec.transport_kind is TransportKind.HTTP:
                return report  # its latencies are not comparable
            sessions = max(_FEWEST_SESSIONS, load.sessions)
            calibration = CalibrationPlan(
                endpoint=await asyncio.to_thread(calibration_client, plan.spec.transport_kind),
                sessions=sessions,
                turns=max(FEWEST_TURNS, sessions),
                speech_ms=(300, 500),
                delay_ms=(50, 200),
                lead_silence_ms=(0, 100),
                reply_ms=200,
                processes=load.workers,
            )
            found: Measured = await cluster.call(calibrate_node, calibration, node=node)
    except TimeoutError:
        return replace(report, refused=f"its calibration took more than {_NODE_S:.0f} s: is it busy?")
    except Exception as error:  # raised by Ray or by the node
        return replace(report, refused=_node_error(error))
    kept = found.calibration.model_copy(update={"node": node.name})
    refused = calibration_refusal(kept, found.failed, plan.config.cluster.timing_bound)
    return replace(report, calibration=kept, refused=refused)


def _node_error(error: Exception) -> str:
    if "No module named 'live_eval" in f"{error}":
        return "live-eval is not installed there"
    return error_text(error)


class RayWorker:
    """A `SessionWorker` that runs in an actor on a node."""

    def __init__(self, cluster: Cluster, node: Node, settings: ProcessSettings) -> None:
        self._cluster = cluster
        self._node = node
        self._settings = settings
        self._actor: Any = None
        self._seal: Seal
        self._at_start = self.spent = Cpu(0.0, 0.0)
        self.ended = False
        self.process_id = 0

    async def start(self) -> Ready:
        """See `SessionWorker`."""
        try:
            async with asyncio.timeout(_NODE_S):
                self._actor = self._cluster.actor(SessionActor, node=self._node, max_concurrency=_CALLS)
                theirs, self.process_id, public = await self._actor.introduce.remote()
                if differs := (await asyncio.to_thread(software)).differs(theirs):
                    raise LiveEvalError(f"cannot start a worker on node {self._node.name}: {differs}")
                keys = KeyPair()
                self._seal = keys.seal_with(public)
                answer = await self._actor.open.remote(keys.public, self._seal.close(self._settings))
        except TimeoutError:
            raise LiveEvalError(
                f"no worker started on node {self._node.name} within {_NODE_S:.0f} s: is a CPU free?"
            ) from None
        except LiveEvalError:
            raise
        except Exception as error:
            raise LiveEvalError(
                f"cannot start a worker on node {self._node.name}: {_node_error(error)}"
            ) from error
        ready: Ready | Failure = self._seal.open(answer)
        if isinstance(ready, Failure):
            raise LiveEvalError(f"cannot start a worker on node {self._node.name}: {ready.message}")
        self._at_start = ready.cpu
        return ready

    async def answer(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionAnswer:
        """See `SessionWorker`."""
        assert order.due_ns is None, "the clocks of two machines differ"
        from ray.exceptions import RayError, RayTaskError

        sealed = await asyncio.to_thread(self._seal.close, order)
        try:
            reply = await self._actor.run.remote(sealed)
        except RayTaskError:  # a bug in the worker, which is still running
            raise
        except RayError as error:  # the worker or its node died
            self.ended = True
            raise TurnError(
                FailureKind.PROCESS_DIED,
                f"the worker on node {self._node.name} died during the session: {error_text(error)}",
            ) from None
        answer: SessionAnswer = await asyncio.to_thread(self._seal.open, reply)
        self.spent = Cpu(*(now - then for now, then in zip(answer.cpu, self._at_start, strict=True)))
        return replace(answer, outcome=_with_node(answer.outcome, self._node.name))

    async def close(self) -> None:
        """See `SessionWorker`."""
        if self._actor is not None:
            await asyncio.to_thread(self._cluster.end, self._actor)


def _with_node(outcome: Any, name: str) -> Any:
    """Add the node's name to the turns of a session."""
    if isinstance(outcome, Failure):
        return outcome
    captures = [replace(capture, trace=replace(capture.trace, node=name)) for capture in outcome.captures]
    return replace(outcome, captures=captures)
