"""Run a session's turns once, and create a record for each turn, even if it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from live_eval.cassettes import Step, write_cassette
from live_eval.clock import Clock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind, StoreError, TurnError
from live_eval.files import private_folder
from live_eval.impair import Impairment
from live_eval.recording import WIRE_FOLDER, cassette_name
from live_eval.recording.record import TurnRecord, finish
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Job, Plan
from live_eval.run.recordings import PlayableCase, Recordings
from live_eval.run.sessions import SessionOrder, SessionResult, SessionRunner
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.session.event_loop import describe
from live_eval.session.limits import SessionLimits
from live_eval.session.turn import Turn
from live_eval.types import Failure, History, Modality

__all__ = ["SessionAttempts", "skipped_turns"]


@dataclass(slots=True, kw_only=True)
class SessionAttempts:
    """Run sessions, one attempt per call."""

    plan: Plan
    runner: SessionRunner
    base_url: str
    recordings: Recordings  # prepared for all cases in the plan
    folder: Path  # run folder, for cassettes
    writer: ThreadPoolExecutor  # thread for decoding, timing and writing
    clock: Clock
    greetings: Greetings

    async def run(
        self,
        jobs: Sequence[Job],
        attempt: int,
        due_ns: int | None = None,
        unusable: Failure | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> list[TurnRecord]:
        """Run a session's turns once and return their records. Failures do not affect other sessions.

        Args:
            due_ns: When to dial in an open loop; None in a closed loop.
            unusable: Why the turns cannot be run, if known.
            on_ready: See `SessionRunner.run`.

        Raises:
            StoreError: A cassette cannot be written.
        """
        playable: list[PlayableCase] = []
        try:
            for job in jobs if unusable is None else ():
                try:
                    playable.append(await self.recordings.load(job.case, self._impairment(job)))
                except TurnError as error:
                    unusable = Failure(error.kind, error.message)
                    break
            records = []
            if playable:
                order = self._order(jobs, playable, due_ns)
                if self.plan.config.turns.history is History.INJECT_AUDIO:
                    order = await self._with_recordings(order, jobs[0])
                session = await self.runner.run(order, on_ready)
                self.greetings.observe(session.captures[0])
                records = await self._session_records(jobs, playable, order, session, attempt)
            elif due_ns is not None:
                await self.clock.sleep_until(due_ns)
        except TurnError as error:
            records, unusable = [], Failure(error.kind, error.message)
        except StoreError:
            raise  # no more turns can be recorded
        except Exception as error:
            records, unusable = [], Failure(FailureKind.INTERNAL, self._redact(describe(error)))
        if unusable is not None:
            records += skipped_turns(jobs, attempt, unusable, self.clock, after=records)
        first, *later = records
        return [replace(first, trace=replace(first.trace, intended_ns=due_ns)), *later]

    def _order(
        self, jobs: Sequence[Job], playable: Sequence[PlayableCase], due_ns: int | None
    ) -> SessionOrder:
        plan = self.plan
        return SessionOrder(
            dialect=plan.spec.dialect,
            transport=plan.spec.transport,
            settings=plan.settings(self.base_url, jobs[0].case),
            turn_mode=plan.turn_mode,
            limits=plan.limits(),
            utterances=[case.utterance for case in playable],
            pause_ns=round(plan.config.turns.pause * 1e9),
            # an open loop has no time to wait for a greeting
            greeting_ns=self.greetings.patience_ns(listens=due_ns is None),
            due_ns=due_ns,
            records_wire=plan.config.output.record_wire,
            impairment=self._impairment(jobs[0]),
        )

    async def _with_recordings(self, order: SessionOrder, job: Job) -> SessionOrder:
        """Return an order whose history contains the user's recordings.

        Raises:
            TurnError: A recording cannot be used.
        """
        history = [
            replace(turn, audio=await self.recordings.base64(case))
            for turn, case in zip(order.settings.history, job.earlier, strict=True)
        ]
        return replace(order, settings=replace(order.settings, history=history))

    def _impairment(self, job: Job) -> Impairment | None:
        """Return the impairment for a turn or for the session that it starts, seeded by the turn's name."""
        impairment = self.plan.impairment
        return impairment.for_session(job.turn_id) if impairment is not None else None

    async def _session_records(
        self,
        jobs: Sequence[Job],
        playable: Sequence[PlayableCase],
        order: SessionOrder,
        session: SessionResult,
        attempt: int,
    ) -> list[TurnRecord]:
        def finish_records() -> list[TurnRecord]:
            records = [
                finish(
                    self._complete(capture, case.warnings, log),
                    user=case.audio,
                    case=job.case,
                    repeat=job.repeat,
                    attempt=attempt,
                )
                for job, capture, log, case in zip(
                    jobs, session.captures, session.logs(order), playable, strict=False
                )
            ]
            if self.plan.config.output.record_wire:
                self._write_wire(records[0], order.settings, session.wire())
            return records

        return await asyncio.get_running_loop().run_in_executor(self.writer, finish_records)

    def _complete(
        self, capture: TurnCapture, warnings: Sequence[Failure], log: Sequence[LoggedMessage]
    ) -> TurnCapture:
        """Add the turn's messages and its recording's warnings to a capture, and redact the key."""
        failure = capture.failure
        if failure is not None:
            failure = replace(failure, message=self._redact(failure.message))
        return replace(capture, failure=failure, log=log, warnings=(*warnings, *capture.warnings))

    def _write_wire(self, record: TurnRecord, settings: EndpointSettings, steps: Sequence[Step]) -> None:
        folder = self.folder / WIRE_FOLDER
        path = folder / cassette_name(record.turn_id, record.attempt)
        cassette = self.plan.cassette(record, settings, steps)
        try:
            private_folder(folder)
            write_cassette(path, cassette, self.plan.key, record.trace.dial_ns)
        except OSError as error:
            raise StoreError(f"cannot write the messages of a turn to {path}: {error}") from error

    def _redact(self, text: str) -> str:
        return self.plan.key.redact(text) if self.plan.key is not None else text


def skipped_turns(
    jobs: Sequence[Job],
    attempt: int,
    failure: Failure,
    clock: Clock,
    *,
    after: Sequence[TurnRecord] = (),
) -> list[TurnRecord]:
    """Return records for a session's turns that were never sent, which follow the turns in `after`.

    `failure` is assigned to the first of them, unless an earlier turn has already failed.
    """
    rest = jobs[len(after) :]
    ended_by = next(
        (_dialogue_ended(number, record.failure) for number, record in enumerate(after) if record.failure),
        None,
    )
    failures = [ended_by or failure, *[ended_by or _dialogue_ended(len(after), failure)] * (len(rest) - 1)]
    return [
        finish(
            _unsent(each, clock),
            user=None,
            case=job.case,
            repeat=job.repeat,
            attempt=attempt,
        )
        for job, each in zip(rest, failures, strict=False)
    ]


def _unsent(failure: Failure, clock: Clock) -> TurnCapture:
    turn = Turn(SessionLimits(), Modality.AUDIO, begun_ns=clock.now_ns(), wall_ns=clock.wall_ns())
    turn.failure = failure
    return turn.captured()


def _dialogue_ended(turn: int, failure: Failure) -> Failure:
    message = f"the dialogue ended at turn {turn + 1}: {failure.message}"
    return Failure(FailureKind.DIALOGUE_ENDED, message)
