"""Describe cluster nodes: names, software versions, worker shares, and reasons to refuse a node.

Pure, except for reading the software versions of this machine.
"""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from live_eval import __version__
from live_eval.recording.calibrations import KeptCalibration
from live_eval.text.wording import counted

__all__ = [
    "Node",
    "NodeReport",
    "Software",
    "calibration_refusal",
    "living_nodes",
    "round_robin",
    "software",
    "worker_shares",
    "workers_for",
]

SESSIONS_PER_WORKER = 50
"""Number of sessions that a worker can run with an error below 1 ms (docs/explanation/time-accuracy.md)."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine in the cluster.

    Args:
        cpus: Number of CPUs that Ray may assign.
        gpus: Number of GPUs that Ray may assign.
    """

    node_id: str
    name: str
    cpus: int
    gpus: int
    address: str


@dataclass(frozen=True, slots=True)
class Software:
    """Software versions. They must match on the driver and the nodes, which exchange pickled objects.

    Args:
        python: Version of Python without the patch level.
    """

    live_eval: str
    code: str
    python: str

    def differs(self, other: Software) -> str:
        """Describe how another machine's software differs; return an empty string if it is the same."""
        if other.live_eval != self.live_eval:
            return f"expected live-eval {self.live_eval}, got {other.live_eval}"
        if other.python != self.python:
            return f"expected Python {self.python}, got {other.python}"
        if other.code != self.code:
            return f"its live-eval {other.live_eval} code differs from the driver's: install the same code"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A node's role in a run.

    Args:
        calibration: Measured error of the node's latencies; None if not calibrated.
        refused: Reason why the node is excluded from timed work, or an empty string.
    """

    node: Node
    workers: int
    calibration: KeptCalibration | None = None
    refused: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the node's entry in the run's manifest."""
        return {
            "name": self.node.name,
            "cpus": self.node.cpus,
            "workers": 0 if self.refused else self.workers,
            "calibration": self.calibration.model_dump() if self.calibration is not None else None,
            "refused": self.refused,
        }

    def in_words(self) -> str:
        """Return the report as a sentence without a full stop."""
        if self.refused:
            return f"node {self.node.name} is excluded from timed work: {self.refused}"
        words = f"node {self.node.name}: {counted(self.workers, 'worker')}"
        if self.calibration is None:
            return words
        errors = ", ".join(
            f"{name} within {ms:.1f} ms" for name, ms in sorted(self.calibration.errors_p99_ms.items())
        )
        return f"{words}, calibrated: {errors} (p99)"


def living_nodes(found: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return the live nodes with CPUs from the output of ``ray.nodes()``, with unique names."""
    alive = [each for each in found if each["Alive"] and each["Resources"].get("CPU", 0) >= 1]
    hosts = Counter(each["NodeManagerHostname"] for each in alive)
    return tuple(
        Node(
            node_id=each["NodeID"],
            name=(host := each["NodeManagerHostname"])
            + (f"/{each['NodeID'][:6]}" if hosts[host] > 1 else ""),
            cpus=int(each["Resources"]["CPU"]),
            gpus=int(each["Resources"].get("GPU", 0)),
            address=each["NodeManagerAddress"],
        )
        for each in sorted(alive, key=lambda each: (each["NodeManagerHostname"], each["NodeID"]))
    )


def workers_for(sessions: int, wanted: int, nodes: Sequence[Node]) -> int:
    """Return the number of workers, which never exceeds the number of CPUs.

    By default, there are as many workers as the sessions need, and at least one per node.
    """
    enough = max(len(nodes), -(-sessions // SESSIONS_PER_WORKER))
    return min(wanted or enough, sum(node.cpus for node in nodes))


def worker_shares(workers: int, nodes: Sequence[Node]) -> dict[str, int]:
    """Distribute workers over nodes: first one per node, then in proportion to CPUs, at most one per CPU.

    >>> worker_shares(3, [Node("a", "a", 4, 0, ""), Node("b", "b", 2, 0, "")])
    {'a': 2, 'b': 1}
    """
    given = dict.fromkeys((node.name for node in nodes), 0)
    for _ in range(workers):
        free = [node for node in nodes if given[node.name] < node.cpus]
        if not free:
            break
        given[
            min(free, key=lambda node: (given[node.name] > 0, (given[node.name] + 1) / node.cpus)).name
        ] += 1
    return given


def round_robin(places: Mapping[Node, int]) -> list[Node]:
    """Return one entry per worker: the first worker of each node, then the second of each, and so on."""
    rounds = range(max(places.values(), default=0))
    return [node for number in rounds for node, count in places.items() if number < count]


def calibration_refusal(calibration: KeptCalibration, failed: int, bound_ms: float) -> str:
    """Return the reason why a calibrated node must not time sessions; empty if it may time them.

    `failed` is the number of failed calibration turns; `bound_ms` is the maximum p99 of an absolute error.
    """
    if failed:
        return f"{counted(failed, 'failed turn')} in the calibration"
    for name, ms in sorted(calibration.errors_p99_ms.items()):
        if ms > bound_ms:
            return f"expected an error of {name} of at most {bound_ms:g} ms (p99), got {ms:.1f} ms"
    return ""


def software() -> Software:
    """Return the software versions of this machine."""
    digest = hashlib.sha256()
    for path, file in sorted(_sources(resources.files("live_eval"), "")):
        digest.update(f"{path}\0".encode())
        digest.update(file.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return Software(__version__, digest.hexdigest()[:12], python)


def _sources(folder: Traversable, under: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{under}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, path)
        elif entry.name.endswith(".py"):
            yield path, entry
