"""Distribute the workers of a run over the nodes that are not refused. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from live_eval.cluster.nodes import Node, NodeReport, worker_shares, workers_for

__all__ = ["Load", "WorkerSpread"]


@dataclass(frozen=True, slots=True)
class Load:
    """A node's load: its number of workers and their total number of concurrent sessions."""

    workers: int
    sessions: int

    def covers(self, other: Load) -> bool:
        """Return whether a calibration with this load is also valid for another load."""
        return self.workers >= other.workers and self.sessions >= other.sessions


class WorkerSpread:
    """The nodes of a run, their loads and their reports.

    Args:
        sessions: Number of concurrent sessions of the run.
        wanted: Number of workers; 0 for as many as the sessions need.
    """

    def __init__(self, nodes: Sequence[Node], sessions: int, wanted: int) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._usable = dict(self._nodes)  # `limit` reduces their CPUs
        self._sessions = sessions
        self._wanted = wanted
        self._reports: dict[str, NodeReport] = {}
        self._examined: dict[str, Load] = {}

    @property
    def loads(self) -> dict[Node, Load]:
        """The load of each participating node; empty if no node remains."""
        nodes = list(self._usable.values())
        if not nodes:
            return {}
        workers = workers_for(self._sessions, self._wanted, nodes)
        # Sessions are assigned to the least loaded worker, so this is the maximum number per worker.
        per_worker = -(-self._sessions // workers)
        return {
            self._nodes[name]: Load(given, min(self._sessions, given * per_worker))
            for name, given in worker_shares(workers, nodes).items()
            if given
        }

    @property
    def not_examined(self) -> dict[Node, Load]:
        """The participating nodes that have not yet been examined under at least their present load."""
        return {
            node: load
            for node, load in self.loads.items()
            if node.name not in self._examined or not self._examined[node.name].covers(load)
        }

    @property
    def reports(self) -> list[NodeReport]:
        """The examined participating nodes with their workers, and the refused nodes."""
        workers = {node.name: load.workers for node, load in self.loads.items()}
        return [
            replace(report, workers=workers.get(name, 0))
            for name, report in self._reports.items()
            if report.refused or name in workers
        ]

    def record(self, report: NodeReport, load: Load) -> None:
        """Record the report on a node that was tested under a load."""
        name = report.node.name
        self._reports[name], self._examined[name] = report, load
        if report.refused:
            self._usable.pop(name, None)

    def limit(self, node: Node, workers: int, why: str) -> None:
        """Limit a node to the workers that started; if none did, refuse the node with the reason `why`."""
        if workers:
            self._usable[node.name] = replace(node, cpus=workers)
        else:
            self._usable.pop(node.name)
            self._reports[node.name] = replace(self._reports[node.name], refused=why)
