"""Run every session of a plan, with retries, rate limits, resumption and Ctrl-C handling.

`run_plan` launches the endpoint if necessary, and `Recordings` finds speech boundaries. Each worker takes one
session at a time from the `SessionQueue`. `RetriedSessions` runs it until another attempt cannot help, and
the worker stores its turns. A dialogue's turns share a session, so they are run, retried and resumed
together.

Event loops, in this process or in session processes, only stream audio. Two reader threads read recordings,
and one writer thread decodes, times and stores replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from live_eval.clock import Clock, SystemClock
from live_eval.dialect import TransportKind
from live_eval.recording import RunWriter, TurnRecord
from live_eval.registry import load as load_object
from live_eval.run.endpoint_health import EndpointHealth, Outage
from live_eval.run.greetings import Greetings
from live_eval.run.observers import Observer
from live_eval.run.pairing import PairedRun
from live_eval.run.plan import Job, Plan
from live_eval.run.processes import session_runner
from live_eval.run.recordings import Recordings
from live_eval.run.retried_sessions import RetriedSessions, Slot
from live_eval.run.retries import Backoff, Patience
from live_eval.run.session_attempt import SessionAttempts
from live_eval.run.session_queue import DueSession, SessionQueue
from live_eval.run.sessions import SessionRunner
from live_eval.run.spread import overload
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import raise_priority, stagger_ns
from live_eval.text.durations import duration_in_words

__all__ = [
    "Observer",
    "RunOutcome",
    "RunnerFactory",
    "run_plan",
    "running_endpoint",
    "sessions_of",
]

_T = TypeVar("_T")

_LOAD_NS = 250_000_000  # lead time for loading a session's recordings before dialling


RunnerFactory: TypeAlias = Callable[[str], contextlib.AbstractAsyncContextManager[SessionRunner]]
"""Function that returns a session runner for the endpoint at a base URL."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run.

    Args:
        captured: Number of captured turns. Like `failed`, it includes a resumed run's earlier turns.
        unreachable: Why the run stopped, if an outage exceeded its patience; empty otherwise.
        missing: Number of planned turns that are not recorded.
    """

    captured: int
    failed: int
    interrupted: bool
    unreachable: str = ""
    reached: bool = field(default=False, compare=False)
    missing: int = 0

    @property
    def complete(self) -> bool:
        """Whether the run ended and recorded every planned turn."""
        return not (self.interrupted or self.unreachable or self.missing)


async def run_plan(
    plan: Plan,
    writer: RunWriter,
    folder: Path,
    observer: Observer,
    *,
    starts: Iterable[int] | None = None,
    base_url: str | None = None,
    stop: StopSignals | None = None,
    runner: RunnerFactory | None = None,
    reached: bool = False,
    retry_failed: bool = False,
    greetings: Greetings | None = None,
    counts_refusals: bool = False,
    backoff: Backoff | None = None,
    paired: PairedRun | None = None,
) -> RunOutcome:
    """Run every planned turn that is not recorded yet or whose audio is missing.

    Ctrl-C or SIGTERM stops the run cleanly: turns in progress are abandoned and rerun when the run is
    resumed. While the endpoint is unreachable, the run pauses; after `turns.patience`, it stops in the same
    way.

    Args:
        folder: Run folder, for cassettes and the log of a launched endpoint.
        starts: When sessions are due in an open loop: ascending nanoseconds from the start, at least one time
            per session. At most `turns.concurrency` sessions run concurrently; without a free slot, a session
            is dialled late, and its turn records the due time. None for a closed loop, in which a session
            starts when another one ends.
        base_url: URL of a running endpoint; None to use the plan's URL or to launch an endpoint.
        stop: The command's signal handler; None to handle signals here.
        runner: Session runner; None to use the planned number of local processes.
        reached: Whether the endpoint is known to have responded, as captured turns show. If it has never
            responded, its address may be wrong, so turns fail without waiting for recovery.
        retry_failed: Whether to rerun turns recorded as failed.
        greetings: Greeting behaviour observed in earlier runs.
        counts_refusals: Whether sessions that are refused while others are served count as failed, as load
            measurements require; otherwise, three consecutive refusals count as an outage.
        backoff: Wait between attempts. Default: seeded with `turns.seed`.
        paired: The run's part in simultaneous runs, which wait for each other before each session; None for a
            single run.
    """
    own = StopSignals(for_command=False)
    with contextlib.nullcontext(stop) if stop is not None else own as signals, signals.gently():
        run = _Run(
            plan=plan,
            writer=writer,
            folder=folder,
            observer=observer,
            runner=runner,
            reached=reached,
            retry_failed=retry_failed,
            greetings=greetings or Greetings.of(plan),
            counts_refusals=counts_refusals,
            backoff=backoff or Backoff(plan.config.turns.seed),
            paired=paired,
        )
        try:
            with signals.cancelling():
                await run.run(starts, base_url)
        finally:
            if paired is not None:
                paired.leave()
            await asyncio.to_thread(run.close)
        done = await asyncio.to_thread(writer.done)
        captured = sum(done.values())
        return RunOutcome(
            captured,
            len(done) - captured,
            signals.requested,
            run.unreachable,
            run.reached,
            missing=sum(job.turn_id not in done for job in plan.jobs),
        )


@contextlib.asynccontextmanager
async def running_endpoint(plan: Plan, folder: Path) -> AsyncIterator[str]:
    """Yield the base URL of a plan's endpoint; launch the endpoint, logging to `folder`, if it has no URL."""
    if plan.base_url is not None:
        yield plan.base_url
        return
    assert plan.spec.launch is not None  # `make_plan` checks that an endpoint without a URL can be launched
    launch = load_object(plan.spec.launch)
    async with launch(plan.data.root, folder) as base_url:
        yield base_url


def sessions_of(jobs: Sequence[Job]) -> list[tuple[Job, ...]]:
    """Group turns by session. A dialogue is one session, at the position of its first turn."""
    sessions: dict[tuple[str, int, bool], list[Job]] = {}
    for job in jobs:
        dialogue_id = job.case.dialogue_id
        key = (job.case.case_id if dialogue_id is None else dialogue_id, job.repeat, dialogue_id is None)
        sessions.setdefault(key, []).append(job)
    return [tuple(sorted(turns, key=lambda job: job.case.turn_index)) for turns in sessions.values()]


def _session_id(jobs: Sequence[Job]) -> str:
    return jobs[0].turn_id


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run's workers and their shared state."""

    plan: Plan
    writer: RunWriter
    folder: Path
    observer: Observer
    runner: RunnerFactory | None
    reached: bool
    retry_failed: bool
    greetings: Greetings
    counts_refusals: bool
    backoff: Backoff
    paired: PairedRun | None = None
    clock: Clock = field(default_factory=SystemClock)
    unreachable: str = ""
    open_loop: bool = False
    health: EndpointHealth = field(init=False)
    queue: SessionQueue = field(init=False)
    recordings: Recordings = field(init=False)
    writer_thread: ThreadPoolExecutor = field(init=False)
    unwritten_outages: list[Outage] = field(default_factory=list)
    earlier_attempts: dict[str, int] = field(default_factory=dict)  # number of earlier attempts, by turn

    def __post_init__(self) -> None:
        self.recordings = Recordings(self.plan.config, self.plan.spec)
        # the single writer has priority over other programs but not over session processes
        initializer = None if self.plan.processes else raise_priority
        self.writer_thread = ThreadPoolExecutor(1, "writer", initializer)

    def close(self) -> None:
        """Wait for writes in progress."""
        self.recordings.close()
        self.writer_thread.shutdown(wait=True)

    async def run(self, starts: Iterable[int] | None, base_url: str | None) -> None:
        plan = self.plan
        self.open_loop = starts is not None
        done = await asyncio.to_thread(self.writer.done)
        complete = done.keys() - await asyncio.to_thread(self.writer.to_repeat)
        if self.retry_failed:
            complete = {turn_id for turn_id in complete if done[turn_id]}
        self.earlier_attempts = await asyncio.to_thread(self.writer.attempts)
        self.health = EndpointHealth(
            self.plan.config.turns.patience,
            self.backoff,
            self._announce,
            reached_ns=self.clock.now_ns() if self.reached or any(done.values()) else None,
            over_http=plan.spec.transport_kind is TransportKind.HTTP,
            counts_refusals=self.counts_refusals,
        )
        sessions = [
            jobs for jobs in sessions_of(plan.jobs) if any(job.turn_id not in complete for job in jobs)
        ]
        if self.paired is not None:
            self.paired.plan(_session_id(jobs) for jobs in sessions)
        async with contextlib.AsyncExitStack() as stack:
            base_url = base_url or plan.base_url
            if base_url is None and sessions:
                async with asyncio.TaskGroup() as tasks:  # meanwhile, the endpoint loads its models
                    tasks.create_task(self._prepare(sessions))
                    base_url = await stack.enter_async_context(running_endpoint(plan, self.folder))
            else:
                await self._prepare(sessions)
            self.observer.running(len(plan.jobs), len(plan.jobs) - sum(map(len, sessions)))
            if sessions:
                await self._run_sessions(sessions, base_url or "", starts)

    async def _prepare(self, sessions: Sequence[Sequence[Job]]) -> None:
        """Find the speech boundaries of all recordings before any timing starts."""
        cases = (job.case for jobs in sessions for job in jobs)
        await self.recordings.prepare(cases, self.observer.preparing)

    async def _run_sessions(
        self, sessions: Sequence[Sequence[Job]], base_url: str, starts: Iterable[int] | None
    ) -> None:
        """Run the sessions, `turns.concurrency` at a time and, with a schedule, when each is due."""
        started = (
            self.runner(base_url)
            if self.runner is not None
            else session_runner(self.plan.spec, self.clock, processes=self.plan.processes)
        )
        async with started as runner:
            facts = {"processes": self.plan.processes, **runner.facts}
            await self._in_writer_thread(self.writer.describe_machine, facts)
            too_many = overload(self.plan.spec.transport_kind, self.plan.config.turns.concurrency)
            if too_many and self.runner is None:
                self.observer.note(too_many)
            began_ns = self.clock.now_ns() + _LOAD_NS
            due: Iterable[int | None] = itertools.repeat(None)
            if starts is not None:
                due = (began_ns + start_ns for start_ns in starts)
            self.queue = SessionQueue(
                (
                    DueSession(
                        jobs,
                        due_ns,
                        1 + max(self.earlier_attempts.get(job.turn_id, 0) for job in jobs),
                        Patience(self.plan.config.turns.patience),
                    )
                    for jobs, due_ns in zip(sessions, due, strict=False)
                ),
                self.health.opened_since,
                self.clock,
            )
            attempts = SessionAttempts(
                plan=self.plan,
                runner=runner,
                base_url=base_url,
                recordings=self.recordings,
                folder=self.folder,
                writer=self.writer_thread,
                clock=self.clock,
                greetings=self.greetings,
            )
            retried = RetriedSessions(
                plan=self.plan,
                attempts=attempts,
                health=self.health,
                queue=self.queue,
                backoff=self.backoff,
                clock=self.clock,
                observer=self.observer,
                store_failed=self._store_failed,
            )
            try:
                async with asyncio.TaskGroup() as workers:
                    number = min(self.plan.config.turns.concurrency, len(sessions))
                    for worker in range(number):
                        delay_ns = stagger_ns(worker, number) if starts is None else 0
                        workers.create_task(self._work(retried, Slot(self.clock.now_ns() + delay_ns)))
            finally:
                self.reached = self.health.reached
                await self._write_outages()

    async def _work(self, retried: RetriedSessions, slot: Slot) -> None:
        while (session := await self.queue.next(slot.opens_ns)) is not None:
            if session.due_ns is not None:
                await self.clock.sleep_until(session.due_ns - _LOAD_NS)
            if self.paired is not None:
                await self.paired.start(_session_id(session.jobs))
            final = await retried.run(session, slot)
            if final is None:
                return
            for records in self.queue.ended(session, *final):
                for record in records:
                    await self._in_writer_thread(self.writer.commit, record)
                    self.observer.turn(record)
            await self._write_outages()

    async def _store_failed(self, records: Sequence[TurnRecord]) -> None:
        for record in records:
            if record.failure is not None:
                await self._in_writer_thread(self.writer.attempt_failed, record)

    def _announce(self, outage: Outage) -> None:
        why, lasted = outage.failure.message, f"{outage.seconds:.0f} s"
        patience = duration_in_words(self.plan.config.turns.patience)
        if outage.ended_ns is None:
            since = datetime.fromtimestamp(self._wall_ns(outage) // 10**9).astimezone()
            self.observer.note(
                f"endpoint unreachable since {since:%H:%M:%S} ({why}); probing for up to {patience}; "
                "Ctrl-C stops"
            )
            return
        self.unwritten_outages.append(outage)
        if outage.over:
            self.observer.note(f"endpoint reachable again after {lasted}; the run continues")
            return
        asked = "" if outage.asked_s is None else f"; it requests a wait of {outage.asked_s:.0f} s"
        self.unreachable = (
            f"the endpoint was unreachable for {lasted} ({why}){asked}; --patience is {patience}"
        )
        self.queue.close()
        self.observer.note(f"{self.unreachable}: the run stops")

    def _wall_ns(self, outage: Outage) -> int:
        return self.clock.wall_ns() - (self.clock.now_ns() - outage.began_ns)

    async def _write_outages(self) -> None:
        while self.unwritten_outages:
            outage = self.unwritten_outages.pop(0)
            facts = {
                "since_wall_ns": self._wall_ns(outage),
                "seconds": outage.seconds,
                "over": outage.over,
                "open_loop": self.open_loop,
                "reason": outage.failure.message,
            }
            await self._in_writer_thread(self.writer.add_outage, facts)

    async def _in_writer_thread(self, work: Callable[[_T], object], what: _T) -> None:
        await asyncio.get_running_loop().run_in_executor(self.writer_thread, work, what)
