"""How the workers of a run spread over nodes while some of them are refused.

Pure: it calibrates nothing and starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from live_eval.cluster.nodes import Node, NodeReport, worker_shares, workers_for

__all__ = ["Load", "WorkerSpread"]


@dataclass(frozen=True, slots=True)
class Load:
    """What a node holds at a time.

    Args:
        workers: Its workers.
        sessions: The sessions of all of them.
    """

    workers: int
    sessions: int

    def covers(self, other: Load) -> bool:
        """Return whether a calibration with this load is one for another load too."""
        return self.workers >= other.workers and self.sessions >= other.sessions


class WorkerSpread:
    """The nodes of a run: what each of them holds, and what is known of it.

    Args:
        nodes: The machines of the cluster.
        sessions: Sessions of the run at a time.
        wanted: Workers, or 0 for as many as the sessions take.
    """

    def __init__(self, nodes: Sequence[Node], sessions: int, wanted: int) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._usable = dict(self._nodes)  # not refused; with the processors on which workers start
        self._sessions = sessions
        self._wanted = wanted
        self._reports: dict[str, NodeReport] = {}
        self._examined: dict[str, Load] = {}

    @property
    def loads(self) -> dict[Node, Load]:
        """What each node that takes part holds; empty if none is left."""
        nodes = list(self._usable.values())
        if not nodes:
            return {}
        workers = workers_for(self._sessions, self._wanted, nodes)
        most = -(-self._sessions // workers)  # of a worker: a session goes to the one with the fewest
        return {
            self._nodes[name]: Load(given, min(self._sessions, given * most))
            for name, given in worker_shares(workers, nodes).items()
            if given
        }

    @property
    def not_examined(self) -> dict[Node, Load]:
        """The nodes that take part and have not been examined with their load or a larger one."""
        return {
            node: load
            for node, load in self.loads.items()
            if node.name not in self._examined or not self._examined[node.name].covers(load)
        }

    @property
    def reports(self) -> list[NodeReport]:
        """The nodes that were examined and take part, with their workers, and those that were refused."""
        workers = {node.name: load.workers for node, load in self.loads.items()}
        return [
            replace(report, workers=workers.get(name, 0))
            for name, report in self._reports.items()
            if report.refused or name in workers
        ]

    def record(self, report: NodeReport, load: Load) -> None:
        """Keep what the examination of a node with a load has shown."""
        name = report.node.name
        self._reports[name], self._examined[name] = report, load
        if report.refused:
            self._usable.pop(name, None)

    def limit(self, node: Node, workers: int, why: str) -> None:
        """Give a node no more workers than have started there; refuse it if there are none.

        Args:
            node: A node that takes part.
            workers: How many have started.
            why: Why the others have not.
        """
        if workers:
            self._usable[node.name] = replace(node, cpus=workers)
        else:
            self._usable.pop(node.name)
            self._reports[node.name] = replace(self._reports[node.name], refused=why)
