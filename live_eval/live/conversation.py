"""A conversation with a person, without a screen and without a device.

`push` takes what a microphone or a browser's track captures. `hold` runs one session after the other with
the endpoint, each through `live_eval.session.Session`; turns are stored as a run, and `updates` yields what
happens. All methods belong to one event loop; turns are timed and written in a thread of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import Clock, SystemClock
from live_eval.errors import FailureKind
from live_eval.live.live_session import LiveSession
from live_eval.live.microphone import Microphone
from live_eval.live.played import PlayedSession
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.reply import AudioSink
from live_eval.live.said import SaidAudio
from live_eval.live.spoken_turns import SpokenTurns
from live_eval.live.turn_keeper import TurnKeeper
from live_eval.live.turn_store import TurnStore
from live_eval.live.updates import State, StateChanged, Update, UpdateQueue
from live_eval.live.watcher import Watcher
from live_eval.recording import RunWriter
from live_eval.registry import load as load_object
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Plan
from live_eval.run.runner import running_endpoint
from live_eval.run.session_attempt import unplayed_turns
from live_eval.session import Session
from live_eval.session.event_loop import LoopProbe, raise_priority, undisturbed
from live_eval.transport import Transport
from live_eval.types import Failure, TurnMode

__all__ = ["LiveConversation"]

_TICK_NS = 20_000_000


class LiveConversation:
    """Holds a conversation with a person; see the module.

    Args:
        plan: What `live_eval.run.plan.make_live_plan` returned.
        writer: The run's store; the caller ends it after `hold`.
        sink: Plays the reply.
        device_hz: Rate of the blocks that `push` takes.
        half_duplex: Whether the microphone is muted while a reply sounds.
        played: Recordings that speak in the user's place; None for a person. Then `push` does nothing, and
            the conversation ends after them.
        scorer: Scores the turns as they are stored; None for no scores.
        delay_ns: From a sample's capture to when it is spoken in the session; see `live_eval.session.live`.
        device_spread_ns: How far the devices' delay varied when it was measured: part of the error bar.
        clock: The session's clock.
    """

    def __init__(
        self,
        plan: Plan,
        writer: RunWriter,
        sink: AudioSink,
        *,
        device_hz: int,
        half_duplex: bool = False,
        played: Sequence[PlayedSession] | None = None,
        scorer: QuickScorer | None = None,
        delay_ns: int = 120_000_000,
        device_spread_ns: int = 0,
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
        self._played = played
        self._greetings = Greetings.of(plan)
        self._updates = UpdateQueue()
        self._watcher = Watcher(self._microphone)
        self._thread = ThreadPoolExecutor(1, "live-writer", raise_priority)
        self._tasks = asyncio.TaskGroup()
        self._keeper = TurnKeeper(
            TurnStore(writer, instructions=plan.live_instructions, device_spread_ns=device_spread_ns),
            self._thread,
            self._tasks,
            tell=self._updates.put,
            broken=self.stop,
            clock=self._clock,
            scorer=scorer,
        )
        self._session: LiveSession | None = None  # the last one
        self._sessions = self._turns = 0
        self._again = asyncio.Event()
        self._stopping = False

    # -- What the user does ------------------------------------------------------------------------------

    def push(self, pcm: NDArray[np.int16], at_ns: int) -> None:
        """Take a block of the microphone, as soon as it has come.

        Args:
            pcm: int16 mono, shape (samples,), at `device_hz`.
            at_ns: When it came, on the conversation's clock.
        """
        if self._played is None:
            sounds = self._session is not None and self._session.reply.sounds(at_ns)
            self._microphone.push(pcm, at_ns, reply_sounds=sounds)

    def mute(self, muted: bool) -> None:
        """Mute the microphone, or listen to it again: the endpoint gets silence meanwhile."""
        self._microphone.muted = muted

    def half_duplex(self, on: bool) -> None:
        """Set whether the microphone is muted while a reply sounds."""
        self._microphone.half_duplex = on

    def commit(self) -> None:
        """End the user's utterance now; with manual turns, the endpoint then answers."""
        self._microphone.end_utterance()

    def reconnect(self) -> None:
        """Begin another session after one that has ended by itself; do nothing while one goes on."""
        self._again.set()

    def stop(self) -> None:
        """End the conversation; `hold` returns once everything is stored and scored.

        In `State.SCORING`, stop waiting for the scores.
        """
        self._stopping = True
        self._keeper.abandon_scores()
        if self._session is not None:
            self._session.leave()
        self._again.set()

    def count_device_xruns(self, input: int, output: int) -> None:
        """Report how often the devices themselves have dropped or missed samples so far."""
        self._watcher.device_xruns = (input, output)

    # -- What happens ------------------------------------------------------------------------------------

    def updates(self) -> AsyncIterator[Update]:
        """Yield what happens, up to the end of the conversation. For one reader."""
        return self._updates.read()

    async def hold(self) -> None:
        """Hold the conversation until `stop`: launch the endpoint where it has no URL, then talk.

        A session that ends by itself does not end it: `reconnect` begins another.

        Raises:
            StoreError: A turn cannot be timed or written; those before it are kept.
            LiveEvalError: The endpoint cannot be launched.
        """
        tell = self._updates.put
        try:
            tell(StateChanged(State.STARTING))
            with undisturbed():
                async with (
                    running_endpoint(self._plan, self._folder) as base_url,
                    self._tasks as tasks,
                ):
                    probe = LoopProbe(self._clock)
                    watching = [tasks.create_task(probe.run()), tasks.create_task(self._watch())]
                    if self._played is not None:
                        await self._play(self._played, base_url, probe)
                    while not self._stopping:
                        failure = (await self._run_session(base_url, probe)).failure
                        if not self._stopping:
                            failure = failure or Failure(FailureKind.CLOSED, "the session has ended")
                            tell(StateChanged(State.DISCONNECTED, failure))
                            self._again.clear()
                            await self._again.wait()
                    for task in watching:
                        task.cancel()
                    await self._keeper.finish()
        finally:
            await asyncio.to_thread(self._thread.shutdown)
            tell(StateChanged(State.ENDED))
        if self._keeper.error is not None:
            raise self._keeper.error

    async def _play(self, sessions: Sequence[PlayedSession], base_url: str, probe: LoopProbe) -> None:
        """Run the sessions of recordings, then stop; a turn that was not reached failed."""
        for played in sessions:
            if self._stopping:
                return
            session = await self._run_session(base_url, probe, played)
            if self._stopping:
                return  # turns that the user did not wait for have not failed
            if session.first is not None:
                self._greetings.observe(session.first)
            ended = session.failure or Failure(FailureKind.CLOSED, "the session ended before")
            rest = played.jobs[len(session.turns) :]
            for record in unplayed_turns(rest, 1, ended, self._clock) if rest else ():
                self._turns += 1
                self._keeper.keep_unplayed(self._turns, record)
        self.stop()

    async def _run_session(
        self, base_url: str, probe: LoopProbe, played: PlayedSession | None = None
    ) -> LiveSession:
        """Run a session with a person, or with recordings, to its end."""
        plan = self._plan
        if played is None:
            settings = replace(plan.settings(base_url), instructions=plan.live_instructions)
        else:
            settings = plan.settings(base_url, played.jobs[0].case)
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
            SpokenTurns(
                SaidAudio(plan.spec.input_rate_hz),
                session=self._sessions,
                turns_before=self._turns,
                jobs=played.jobs if played is not None else None,
            ),
            self._keeper,
            self._sink,
            tell=self._updates.put,
            clock=self._clock,
            continuous=dialect.continuous_media,
            manual=plan.turn_mode is TurnMode.MANUAL,
        )
        self._session = session
        if self._sessions > 1:
            self._updates.put(StateChanged(State.STARTING))
        if played is None:  # a person hears a greeting and decides when to speak
            await session.run(self._microphone.begin())
        else:
            speaker = played.speaker(self._greetings.patience_ns())
            await session.run(speaker, overheard_by=self._microphone)
        self._turns += len(session.turns)
        return session

    async def _watch(self) -> None:
        """Look 50 times a second whether a reply or a turn has ended; report levels and echo."""
        due_ns = self._clock.now_ns()
        while True:
            due_ns = max(due_ns + _TICK_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            if self._session is None:
                continue
            self._session.look(due_ns)
            heard = self._session.reply.heard
            for update in self._watcher.levels(due_ns, heard):
                self._updates.put(update)
            search = self._watcher.echo_search(due_ns, heard)
            if search is not None:
                echo = await asyncio.get_running_loop().run_in_executor(self._thread, search)
                if echo is not None:
                    self._updates.put(echo)
