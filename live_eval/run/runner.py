"""Run every session of a plan, with retries, rate limits, resumption and Ctrl-C handling.

The path of a turn: `run_plan` launches the endpoint if necessary, `Recordings` finds speech boundaries, each
worker takes one session at a time from the `SessionQueue`, `RetriedSessions` runs the session until another
attempt cannot help, and the worker stores the turns. The turns of a dialogue share a session: they are run,
retried and resumed together.

The event loop, or the event loop of each session process, only streams. Recordings are read in two reader
threads; decoding, timing and writing take place in one writer thread.
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

_LOAD_NS = 250_000_000  # lead time from reading a session's recordings to dialling


RunnerFactory: TypeAlias = Callable[[str], contextlib.AbstractAsyncContextManager[SessionRunner]]
"""Returns the session runner for the endpoint at a base URL."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run.

    Args:
        captured: Number of captured turns, including earlier turns of a resumed run; `failed` likewise.
        interrupted: Whether the user stopped the run.
        unreachable: Reason for stopping if an outage exceeded the run's patience; empty otherwise.
        reached: Whether the endpoint has ever responded.
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
        """Whether the run ended with every planned turn recorded."""
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
) -> RunOutcome:
    """Run every turn of the plan that is not yet recorded, or whose audio is missing.

    Ctrl-C or SIGTERM stops the run cleanly: turns in progress are abandoned and can be resumed. The run
    pauses while the endpoint is unreachable, and stops in the same way after `turns.patience`.

    Args:
        folder: Run folder, for cassettes and the log of a launched endpoint.
        starts: Open loop: due times of sessions, in ascending nanoseconds from the start, at least one per
            session. At most `turns.concurrency` sessions run concurrently; a session without a free slot is
            dialled late, and its turn records the due time. None for a closed loop: the next session starts
            when another session ends.
        base_url: URL of a running endpoint; None to use the plan's URL or launch an endpoint for the run.
        stop: Signal handler of the command; None to handle signals here.
        runner: Session runner; None to run sessions in this process or in local processes, as planned.
        reached: Whether the endpoint is known to have responded; implied by captured turns. Otherwise, its
            address may be wrong: its turns fail, and the run does not wait for the endpoint.
        retry_failed: Whether to rerun turns that are recorded as failed.
        greetings: Knowledge about the endpoint's greetings from earlier runs.
        counts_refusals: Whether refused sessions fail while others are served, as required in load
            measurements; otherwise, three consecutive refusals are an outage.
        backoff: Wait between attempts; seeded with `turns.seed` by default.
    """
    own = StopSignals(for_command=False)
    with contextlib.nullcontext(stop) if stop is not None else own as signals, signals.gently():
        run = _Run(
            plan,
            writer,
            folder,
            observer,
            SystemClock(),
            runner,
            reached=reached,
            retry_failed=retry_failed,
            greetings=greetings or Greetings.of(plan),
            counts_refusals=counts_refusals,
            backoff=backoff or Backoff(plan.config.turns.seed),
        )
        try:
            with signals.cancelling():
                await run.run(starts, base_url)
        finally:
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
    """Yield the base URL of a plan's endpoint; without a URL, launch the endpoint and log to `folder`."""
    if plan.base_url is not None:
        yield plan.base_url
        return
    assert plan.spec.launch is not None  # the plan checks that there is a base URL or a hook
    launch = load_object(plan.spec.launch)
    async with launch(plan.data.root, folder) as base_url:
        yield base_url


def sessions_of(jobs: Sequence[Job]) -> list[tuple[Job, ...]]:
    """Group turns by session: a dialogue is one session, at the position of its first turn."""
    sessions: dict[tuple[str, int, bool], list[Job]] = {}
    for job in jobs:
        dialogue_id = job.case.dialogue_id
        key = (job.case.case_id if dialogue_id is None else dialogue_id, job.repeat, dialogue_id is None)
        sessions.setdefault(key, []).append(job)
    return [tuple(sorted(turns, key=lambda job: job.case.turn_index)) for turns in sessions.values()]


class _Run:
    """The workers of a run and their shared state."""

    def __init__(
        self,
        plan: Plan,
        writer: RunWriter,
        folder: Path,
        observer: Observer,
        clock: Clock,
        runner: RunnerFactory | None,
        *,
        reached: bool,
        retry_failed: bool,
        greetings: Greetings,
        counts_refusals: bool,
        backoff: Backoff,
    ) -> None:
        self._plan = plan
        self._runner = runner
        self._turns = plan.config.turns
        self._folder = folder
        self._writer = writer
        self._observer = observer
        self._clock = clock
        self._backoff = backoff
        self.reached = reached
        self._retry_failed = retry_failed
        self._counts_refusals = counts_refusals
        self._open_loop = False
        self._health: EndpointHealth
        self._outages_over: list[Outage] = []  # pending writes
        self._queue: SessionQueue
        self._earlier: dict[str, int] = {}  # earlier attempts per turn
        self.unreachable = ""
        self._recordings = Recordings(plan.config, plan.spec)
        # The store has a single writer, with priority over other programs but not over session processes.
        initializer = None if plan.processes else raise_priority
        self._writer_thread = ThreadPoolExecutor(1, "writer", initializer)
        self._greetings = greetings

    def close(self) -> None:
        """Wait for writes in progress."""
        self._recordings.close()
        self._writer_thread.shutdown(wait=True)

    async def run(self, starts: Iterable[int] | None, base_url: str | None) -> None:
        plan = self._plan
        self._open_loop = starts is not None
        done = await asyncio.to_thread(self._writer.done)
        whole = done.keys() - await asyncio.to_thread(self._writer.to_repeat)
        if self._retry_failed:
            whole = {turn_id for turn_id in whole if done[turn_id]}
        self._earlier = await asyncio.to_thread(self._writer.attempts)
        self._health = EndpointHealth(
            self._turns.patience,
            self._backoff,
            self._announce,
            reached_ns=self._clock.now_ns() if self.reached or any(done.values()) else None,
            over_http=plan.spec.transport_kind is TransportKind.HTTP,
            counts_refusals=self._counts_refusals,
        )
        sessions = [jobs for jobs in sessions_of(plan.jobs) if any(job.turn_id not in whole for job in jobs)]
        async with contextlib.AsyncExitStack() as stack:
            base_url = base_url or plan.base_url
            if base_url is None and sessions:
                async with asyncio.TaskGroup() as tasks:  # load its models while boundaries are found
                    tasks.create_task(self._prepare(sessions))
                    base_url = await stack.enter_async_context(running_endpoint(plan, self._folder))
            else:
                await self._prepare(sessions)
            self._observer.running(len(plan.jobs), len(plan.jobs) - sum(map(len, sessions)))
            if sessions:
                await self._run_sessions(sessions, base_url or "", starts)

    async def _prepare(self, sessions: Sequence[Sequence[Job]]) -> None:
        """Find the speech boundaries of all recordings, before any timing starts."""
        cases = (job.case for jobs in sessions for job in jobs)
        await self._recordings.prepare(cases, self._observer.preparing)

    async def _run_sessions(
        self, sessions: Sequence[Sequence[Job]], base_url: str, starts: Iterable[int] | None
    ) -> None:
        """Run the sessions, `turns.concurrency` at a time; with a schedule, each session at its due time."""
        started = (
            self._runner(base_url)
            if self._runner is not None
            else session_runner(self._plan.spec, self._clock, processes=self._plan.processes)
        )
        async with started as runner:
            facts = {"processes": self._plan.processes, **runner.facts}
            await self._in_writer_thread(self._writer.describe_machine, facts)
            too_many = overload(self._plan.spec.transport_kind, self._turns.concurrency)
            if too_many and self._runner is None:
                self._observer.note(too_many)
            began_ns = self._clock.now_ns() + _LOAD_NS
            due: Iterable[int | None] = itertools.repeat(None)
            if starts is not None:
                due = (began_ns + start_ns for start_ns in starts)
            self._queue = SessionQueue(
                (
                    DueSession(
                        jobs,
                        due_ns,
                        1 + max(self._earlier.get(job.turn_id, 0) for job in jobs),
                        Patience(self._turns.patience),
                    )
                    for jobs, due_ns in zip(sessions, due, strict=False)
                ),
                self._health.opened_since,
                self._clock,
            )
            attempts = SessionAttempts(
                plan=self._plan,
                runner=runner,
                base_url=base_url,
                recordings=self._recordings,
                folder=self._folder,
                writer=self._writer_thread,
                clock=self._clock,
                greetings=self._greetings,
            )
            retried = RetriedSessions(
                plan=self._plan,
                attempts=attempts,
                health=self._health,
                queue=self._queue,
                backoff=self._backoff,
                clock=self._clock,
                observer=self._observer,
                store_failed=self._store_failed,
            )
            try:
                async with asyncio.TaskGroup() as workers:
                    number = min(self._turns.concurrency, len(sessions))
                    for worker in range(number):
                        delay_ns = stagger_ns(worker, number) if starts is None else 0
                        workers.create_task(self._work(retried, Slot(self._clock.now_ns() + delay_ns)))
            finally:
                self.reached = self._health.reached
                await self._write_outages()

    async def _work(self, retried: RetriedSessions, slot: Slot) -> None:
        while (session := await self._queue.next(slot.opens_ns)) is not None:
            if session.due_ns is not None:
                await self._clock.sleep_until(session.due_ns - _LOAD_NS)
            final = await retried.run(session, slot)
            if final is None:
                return
            for records in self._queue.ended(session, *final):
                for record in records:
                    await self._in_writer_thread(self._writer.commit, record)
                    self._observer.turn(record)
            await self._write_outages()

    async def _store_failed(self, records: Sequence[TurnRecord]) -> None:
        for record in records:
            if record.failure is not None:
                await self._in_writer_thread(self._writer.attempt_failed, record)

    def _announce(self, outage: Outage) -> None:
        """Notify the user that an outage begins, has ended, or has exceeded the patience."""
        why, lasted = outage.failure.message, f"{outage.seconds:.0f} s"
        patience = duration_in_words(self._turns.patience)
        if outage.ended_ns is None:
            since = datetime.fromtimestamp(self._wall_ns(outage) // 10**9).astimezone()
            self._observer.note(
                f"endpoint unreachable since {since:%H:%M:%S} ({why}); probing for up to {patience}; "
                "Ctrl-C stops"
            )
            return
        self._outages_over.append(outage)
        if outage.over:
            self._observer.note(f"endpoint reachable again after {lasted}; the run continues")
            return
        asked = "" if outage.asked_s is None else f"; it asks to wait {outage.asked_s:.0f} s"
        self.unreachable = (
            f"the endpoint could not be reached for {lasted} ({why}){asked}, and turns.patience is {patience}"
        )
        self._queue.close()
        self._observer.note(f"{self.unreachable}: the run stops")

    def _wall_ns(self, outage: Outage) -> int:
        return self._clock.wall_ns() - (self._clock.now_ns() - outage.began_ns)

    async def _write_outages(self) -> None:
        while self._outages_over:
            outage = self._outages_over.pop(0)
            facts = {
                "since_wall_ns": self._wall_ns(outage),
                "seconds": outage.seconds,
                "over": outage.over,
                "open_loop": self._open_loop,
                "reason": outage.failure.message,
            }
            await self._in_writer_thread(self._writer.add_outage, facts)

    async def _in_writer_thread(self, work: Callable[[_T], object], what: _T) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writer_thread, work, what)
