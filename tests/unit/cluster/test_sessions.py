"""Nodes are calibrated with the load that they will carry, even if other nodes drop out."""

from __future__ import annotations

from collections import Counter

import pytest

from live_eval.cluster.nodes import Node, NodeReport
from live_eval.cluster.sessions import _started, combine
from live_eval.cluster.worker_spread import Load, WorkerSpread
from live_eval.errors import LiveEvalError
from live_eval.run.session_process import Ready, SessionAnswer
from live_eval.run.sessions import Cpu, SessionOrder
from live_eval.session.event_loop import Priority

A, B, C = (Node(f"1{name}", name, cpus, 0, "10.0.0.1") for name, cpus in (("a", 4), ("b", 2), ("c", 2)))


class Nodes:
    """Nodes with a capacity of accurately timed sessions, and a number of free cores."""

    def __init__(self, most_sessions: dict[Node, int], processors: dict[Node, int]) -> None:
        self._most = most_sessions
        self.processors = Counter(processors)
        self.examined: list[tuple[str, Load]] = []

    async def examine(self, node: Node, load: Load) -> NodeReport:
        self.examined.append((node.name, load))
        refused = "" if load.sessions <= self._most[node] else f"late with {load.sessions} sessions"
        return NodeReport(node=node, workers=load.workers, refused=refused)

    def worker(self, node: Node) -> Worker:
        return Worker(self, node)


class Worker:
    """A worker that occupies a core of a node; it does not start without a free core."""

    process_id = 1
    ended = False
    spent = Cpu(0.0, 0.0)

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes = nodes
        self._node = node
        self._started = False

    async def start(self) -> Ready:
        if not self._nodes.processors[self._node]:
            raise LiveEvalError(f"no worker started on node {self._node.name}")
        self._nodes.processors[self._node] -= 1
        self._started = True
        return Ready(Priority.NORMAL, self.spent)

    async def answer(self, order: SessionOrder, on_ready: object = None) -> SessionAnswer:
        raise NotImplementedError

    async def close(self) -> None:
        self._nodes.processors[self._node] += self._started
        self._started = False


async def test_a_refusal_and_a_missing_worker_let_the_others_be_calibrated_again() -> None:
    nodes = Nodes({A: 99, B: 99, C: 20}, {A: 2, B: 2, C: 2})
    lines: list[str] = []
    spread = WorkerSpread((A, B, C), sessions=90, wanted=4)
    async with _started(spread, nodes.examine, nodes.worker, lines.append) as places:
        assert len(places) == 4
        assert all(place.running is not None for place in places)
        assert not any(place.is_down for place in places)
    assert nodes.examined == [
        ("a", Load(2, 46)),
        ("b", Load(1, 23)),
        ("c", Load(1, 23)),
        ("a", Load(3, 69)),  # c is refused
        ("b", Load(2, 46)),  # only two workers start on a
    ]
    assert lines == [
        "node c is excluded from timed work: late with 23 sessions",
        "no worker started on node a",
        "node a: 2 workers",
        "node b: 2 workers",
    ]
    assert combine(spread.reports)["processes"] == 4
    assert nodes.processors == {A: 2, B: 2, C: 2}, "all workers have ended"


@pytest.mark.parametrize(("sessions", "processors"), [(5, 2), (99, 0)])
async def test_a_run_does_not_begin_without_a_node(sessions: int, processors: int) -> None:
    nodes = Nodes({A: sessions, B: sessions}, {A: processors, B: processors})
    spread = WorkerSpread((A, B), sessions=20, wanted=2)
    with pytest.raises(LiveEvalError, match="all nodes of the cluster are excluded"):
        async with _started(spread, nodes.examine, nodes.worker, lambda _: None):
            pass
