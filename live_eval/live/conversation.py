"""Run a conversation with a person, independently of screens and devices.

`push` accepts audio from a microphone or a browser's track, `run` runs consecutive sessions with the endpoint
and stores their turns as a run, and `updates` yields updates. Call all methods on one event loop; a separate
thread times and writes the turns.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import Clock, SystemClock
from live_eval.errors import FailureKind, LiveEvalError
from live_eval.live.captures import LiveCaptures, TurnNumbers, UserAudio
from live_eval.live.live_session import LiveSession
from live_eval.live.microphone import Microphone
from live_eval.live.performance import Performance
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.recorded_user import RecordedUser
from live_eval.live.recorder import LiveRecorder
from live_eval.live.reply import AudioSink, HeardAudio, IncomingReply
from live_eval.live.updates import State, StateChanged, Update, UpdateQueue
from live_eval.live.watcher import Watcher
from live_eval.recording import RunWriter
from live_eval.registry import load as load_object
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Plan
from live_eval.run.runner import running_endpoint
from live_eval.run.session_attempt import skipped_turns
from live_eval.session import Session
from live_eval.session.event_loop import LoopProbe, raise_priority, undisturbed
from live_eval.transport import Transport
from live_eval.types import Failure, TurnMode

__all__ = ["LiveConversation"]

_TICK_NS = 20_000_000


class LiveConversation:
    """Run a conversation with a person; see the module docstring.

    Args:
        plan: Plan made by `live_eval.run.plan.make_live_plan`.
        writer: Writer of the run, which the caller closes after `run`.
        device_hz: Sample rate of the blocks passed to `push`.
        half_duplex: Whether the microphone is muted while a reply plays.
        recorded: Recordings to stream instead of a live user; None for a person. With recordings, `push` does
            nothing, and the conversation ends after the last recording.
        performance: Performance that receives the audio from `push`; the conversation ends with it.
        scorer: Scorer of stored turns; None for no scores.
        numbers: Turn numbers that are shared with simultaneous conversations of the same person.
        delay_ns: Delay between the capture of a sample and the time at which it counts as spoken; see
            `live_eval.session.live_speaker`.
        device_spread_ns: Measured variation of the device delay, which is part of the error bar.
        spectra: Whether to yield `Levels` with the voices' spectra.
    """

    def __init__(
        self,
        plan: Plan,
        writer: RunWriter,
        sink: AudioSink,
        *,
        device_hz: int,
        half_duplex: bool = False,
        recorded: Sequence[RecordedUser] | None = None,
        performance: Performance | None = None,
        scorer: QuickScorer | None = None,
        numbers: TurnNumbers | None = None,
        delay_ns: int = 120_000_000,
        device_spread_ns: int = 0,
        spectra: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._plan = plan
        self._folder = writer.path
        self._sink = sink
        self._clock = clock or SystemClock()
        self._microphone = Microphone(
            device_hz,
            rate_hz=plan.spec.input_rate_hz,
            frame_ns=plan.spec.frame_ms * 1_000_000,
            delay_ns=delay_ns,
            half_duplex=half_duplex,
        )
        self.audible = True
        """Whether to search the microphone for echoes of what the person hears."""
        self.output: HeardAudio | None = None
        """What the person hears, if other replies are played too; None for this endpoint's replies only."""
        self.collect: Callable[[], object] = gc.collect
        """Function that collects garbage after a reply."""
        self._recorded = recorded
        self._performance = performance
        self._numbers = numbers
        self._greetings = Greetings.of(plan)
        self._updates = UpdateQueue()
        self._watcher = Watcher(self._microphone, spectra=spectra)
        self._thread = ThreadPoolExecutor(1, "live-writer", raise_priority)
        self._tasks = asyncio.TaskGroup()
        self._recorder = LiveRecorder(
            writer,
            self._thread,
            self._tasks,
            tell=self._updates.put,
            broken=self.stop,
            clock=self._clock,
            scorer=scorer,
            instructions=plan.live_instructions,
            device_spread_ns=device_spread_ns,
        )
        self._session: LiveSession | None = None  # the current or last session
        self._silence = HeardAudio()  # used before the first session
        self._sessions = self._turns = 0
        self._again = asyncio.Event()
        self._stopping = False

    # -- Control -----------------------------------------------------------------------------------------

    def push(self, pcm: NDArray[np.int16], at_ns: int, *, reply_plays: bool | None = None) -> None:
        """Accept a microphone block on arrival.

        Args:
            pcm: int16 mono, shape (samples,), at `device_hz`.
            at_ns: Arrival time on the conversation's clock.
            reply_plays: Whether a reply is audible, which mutes the microphone with half-duplex; None if only
                this conversation's reply is audible.
        """
        if self._performance is not None:
            self._microphone.is_open = not self._microphone.muted
            self._microphone.measure(pcm, self._microphone.device_hz)
            self._performance.push(np.zeros_like(pcm) if self._microphone.muted else pcm)
        elif self._recorded is None:
            if reply_plays is None:
                reply_plays = self._session is not None and self._session.reply.is_playing(at_ns)
            self._microphone.push(pcm, at_ns, reply_plays=reply_plays)

    def mute(self, muted: bool) -> None:
        """Mute or unmute the microphone; the endpoint receives silence while it is muted."""
        self._microphone.muted = muted

    def half_duplex(self, on: bool) -> None:
        """Set whether the microphone is muted while a reply plays."""
        self._microphone.half_duplex = on

    def commit(self) -> None:
        """End the user's utterance now; with manual turns, this requests the endpoint's response."""
        self._microphone.end_utterance()

    def reconnect(self) -> None:
        """Start another session if the previous one ended by itself; no-op while a session runs."""
        self._again.set()

    def stop(self) -> None:
        """End the conversation; `run` returns once everything is stored and scored.

        In `State.SCORING`, stop waiting for scores.
        """
        self._stopping = True
        self._recorder.abandon_scores()
        if self._performance is not None:
            self._performance.stop()
        if self._session is not None:
            self._session.leave()
        self._again.set()

    def count_device_xruns(self, input: int, output: int) -> None:
        """Report the total number of device xruns (overruns and underruns)."""
        self._watcher.device_xruns = (input, output)

    # -- Events ------------------------------------------------------------------------------------------

    @property
    def reply(self) -> IncomingReply | None:
        """The endpoint's reply in the current or last session; None before the first session."""
        return self._session.reply if self._session is not None else None

    def updates(self) -> AsyncIterator[Update]:
        """Yield updates until the conversation has ended. Only one reader is supported."""
        return self._updates.read()

    async def run(self) -> None:
        """Run the conversation until `stop`; if the endpoint has no URL, launch it first.

        If a session ends by itself, the conversation continues: `reconnect` starts another session.

        Raises:
            StoreError: A turn cannot be timed or written; earlier turns are kept.
            LiveEvalError: The endpoint cannot be launched or a take cannot be stored.
        """
        tell = self._updates.put
        failed: LiveEvalError | None = None
        try:
            tell(StateChanged(State.LAUNCHING if self._plan.base_url is None else State.STARTING))
            with undisturbed():
                async with (
                    running_endpoint(self._plan, self._folder) as base_url,
                    self._tasks as tasks,
                ):
                    probe = LoopProbe(self._clock)
                    watching = [tasks.create_task(probe.run()), tasks.create_task(self._watch())]
                    if self._recorded is not None:
                        await self._run_recorded(_each(self._recorded), base_url, probe)
                    elif self._performance is not None:
                        try:
                            await self._run_recorded(self._performance.users(tell), base_url, probe)
                        except LiveEvalError as error:
                            failed = error
                            self.stop()
                    while not self._stopping:
                        failure = (await self._run_session(base_url, probe)).failure
                        if not self._stopping:
                            failure = failure or Failure(FailureKind.CLOSED, "the session has ended")
                            tell(StateChanged(State.DISCONNECTED, failure))
                            self._again.clear()
                            await self._again.wait()
                    for task in watching:
                        task.cancel()
                    await self._recorder.finish()
        finally:
            await asyncio.to_thread(self._thread.shutdown)
            tell(StateChanged(State.ENDED))
        if (problem := self._recorder.error or failed) is not None:
            raise problem

    async def _run_recorded(
        self, users: AsyncGenerator[RecordedUser], base_url: str, probe: LoopProbe
    ) -> None:
        """Run the recorded sessions, then stop; record unreached turns as failed."""
        async with aclosing(users):
            async for user in users:
                if self._stopping:
                    return
                session = await self._run_session(base_url, probe, user)
                if self._stopping:
                    return  # the user hung up: skip the remaining turns instead of failing them
                if session.first is not None:
                    self._greetings.observe(session.first)
                ended = session.failure or Failure(FailureKind.CLOSED, "the session ended before")
                rest = user.jobs[len(session.captures) :]
                for record in skipped_turns(rest, 1, ended, self._clock) if rest else ():
                    self._turns += 1
                    self._recorder.record_unreached(self._turns, record)
        self.stop()

    async def _run_session(
        self, base_url: str, probe: LoopProbe, user: RecordedUser | None = None
    ) -> LiveSession:
        """Run a whole session with a person or recordings."""
        plan = self._plan
        if user is None:
            settings = replace(plan.settings(base_url), instructions=plan.live_instructions)
        else:
            settings = plan.settings(base_url, user.jobs[0].case)
        transport: Callable[[Clock], Transport] = load_object(plan.spec.transport)
        dialect = load_object(plan.spec.dialect)(settings)
        self._sessions += 1
        session = LiveSession(
            Session(
                dialect,
                transport,
                self._clock,
                turn_mode=plan.turn_mode,
                modality=settings.modality,
                transcribes=settings.transcription_model is not None,
                limits=plan.limits(),
                probe=probe,
            ),
            LiveCaptures(
                UserAudio(plan.spec.input_rate_hz),
                session=self._sessions,
                turns_before=self._turns,
                numbers=self._numbers,
                jobs=user.jobs if user is not None else None,
            ),
            self._recorder,
            self._sink,
            tell=self._updates.put,
            clock=self._clock,
            continuous=dialect.continuous_media,
            manual=plan.turn_mode is TurnMode.MANUAL,
            collect=self.collect,
            output=self.output,
        )
        self._session = session
        if self._sessions > 1 or plan.base_url is None:
            self._updates.put(StateChanged(State.STARTING))
        if user is None:  # live users hear the greeting and decide when to speak
            try:
                await session.run(self._microphone.new_speaker())
            finally:
                self._microphone.end_speaker()
        else:
            await session.run(user.speaker(self._greetings.patience_ns()), overheard_by=self._microphone)
        self._turns += len(session.captures)
        return session

    async def _watch(self) -> None:
        """Check every 20 ms whether a reply or a turn has ended; report levels and echo."""
        due_ns = self._clock.now_ns()
        while True:
            due_ns = max(due_ns + _TICK_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            heard, replying = self.output or self._silence, False
            if self._session is not None:
                self._session.check(due_ns)
                reply = self._session.reply
                heard, replying = self.output or reply.heard, reply.is_heard(due_ns)
            elif self._performance is None:
                continue
            for update in self._watcher.levels(due_ns, heard, replying=replying):
                self._updates.put(update)
            search = self._watcher.echo_search(due_ns, heard) if self.audible else None
            if search is not None:
                echo = await asyncio.get_running_loop().run_in_executor(self._thread, search)
                if echo is not None:
                    self._updates.put(echo)


async def _each(users: Sequence[RecordedUser]) -> AsyncGenerator[RecordedUser]:
    for user in users:
        yield user
