"""Implement the ``--ray`` flag: run sessions and judges on the machines of a cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from live_eval import registry
from live_eval.errors import UsageError
from live_eval.recording import part_of
from live_eval.run.plan import Plan
from live_eval.run.run_file import JudgesTable
from live_eval.run.runner import RunnerFactory
from live_eval.run.spread import core_count
from live_eval.scoring.judge_pool import JudgePool
from live_eval.scoring.judge_processes import judge_processes
from live_eval.scoring.judge_runner import JudgeOptions

if TYPE_CHECKING:
    from live_eval.cluster.ray_connection import Cluster


@contextmanager
def connected_to(address: str | None) -> Iterator[Cluster | None]:
    """Connect to the Ray cluster at an address; without an address, yield None."""
    if address is None:
        yield None
        return
    if address.endswith(".toml"):
        raise UsageError(f"--ray {address}: expected an address; put the run file before --ray")
    from live_eval.cluster.ray_connection import connected

    with connected(address) as cluster:
        yield cluster


def cluster_runner(cluster: Cluster | None, plan: Plan, manifest: Mapping[str, Any]) -> RunnerFactory | None:
    """Return a session runner for the nodes of a cluster; None without a cluster."""
    if cluster is None:
        return None
    from live_eval.cluster.sessions import cluster_sessions

    earlier = part_of(manifest, "machine").get("nodes", ())
    return lambda base_url: cluster_sessions(cluster, plan, base_url, _announce, earlier)


@contextmanager
def judging_on(
    cluster: Cluster | None, options: JudgeOptions, table: JudgesTable
) -> Iterator[JudgePool | None]:
    """Yield a pool that runs judges on cluster nodes or in local processes; None to run them in this process.

    The default is one process per core if any judge is slow enough to benefit.
    """
    if cluster is None:
        jobs = table.jobs
        if jobs is None:
            jobs = core_count() if any(registry.judge(name).effort for name in table.names) else 0
        if not jobs or not hasattr(socket, "AF_UNIX"):
            yield None
            return
        with judge_processes(jobs, options, _announce) as processes:
            yield processes
        return
    from live_eval.cluster.judge_workers import cluster_judges

    with cluster_judges(cluster, options, _announce) as judges:
        yield judges


def _announce(line: str) -> None:
    click.echo(line, err=True)
