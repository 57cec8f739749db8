"""A conversation with a person, without a screen and without a device: blocks of a microphone go in, what is
to be heard goes to a sink, turns are stored as a run, and news comes out.

`push` takes what a microphone or a browser's track captures. `hold` holds one session after the other with
the endpoint, each through `live_eval.session.Session`, and `updates` yields what happens. All methods belong
to one event loop; recordings are finished, timed and written in a thread of the conversation's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.latency.waterfall import waterfall_of
from live_eval.clock import Clock, SystemClock
from live_eval.dialect import InputTranscript, ReplyText, StreamText
from live_eval.errors import FailureKind, LiveEvalError, StoreError
from live_eval.live.echo_detection import LONGEST_NS, RATE_HZ, WINDOW_NS, EchoDetector
from live_eval.live.microphone import Microphone, decibels
from live_eval.live.played import PlayedSession
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.reply import AudioSink, IncomingReply
from live_eval.live.said import Observed, SaidAudio
from live_eval.live.turn_store import LiveTurn, TurnStore, said_in
from live_eval.live.updates import (
    EchoHeard,
    Levels,
    SoundSide,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    TurnFigures,
    TurnFinished,
    TurnKept,
    Update,
    Xruns,
)
from live_eval.recording import RunWriter
from live_eval.recording.record import LoggedMessage, TurnCapture, TurnRecord
from live_eval.registry import load as load_object
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Plan
from live_eval.run.runner import running_endpoint
from live_eval.run.session_attempt import unplayed_turns
from live_eval.session import Session
from live_eval.session.event_loop import LoopProbe, describe, raise_priority, undisturbed
from live_eval.session.speaker import EndpointEvent, EndpointPacket, Frame, Heard, ReplyEnded, Speaker
from live_eval.transport import Transport
from live_eval.types import Failure, TurnMode

__all__ = ["LiveConversation"]

_T = TypeVar("_T")

_SECOND_NS = 1_000_000_000
_TICK_NS = 20_000_000
_LEVELS_NS = 50_000_000
_LEVEL_HZ = 8_000
_ECHO_NS = 1_000_000_000
_REMIND_NS = 60_000_000_000
_MOST_NEWS = 1_000  # levels beyond them are left out while nobody reads


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
        self._folder: Path = writer.path
        self._writer = writer
        self._sink = sink
        self._clock = clock or SystemClock()
        self._device_hz = device_hz
        self._microphone = Microphone(
            device_hz,
            rate_hz=plan.spec.input_rate_hz,
            frame_ns=plan.spec.frame_ms * 1_000_000,
            delay_ns=delay_ns,
            half_duplex=half_duplex,
        )
        self._played = played
        self._greetings = Greetings.of(plan)
        self._scorer = scorer
        self._store = TurnStore(
            writer, instructions=plan.live_instructions, device_spread_ns=device_spread_ns
        )
        self._thread = ThreadPoolExecutor(1, "live-writer", raise_priority)
        self._news: asyncio.Queue[Update] = asyncio.Queue()
        self._tasks = asyncio.TaskGroup()
        self._writes: set[asyncio.Task[None]] = set()
        self._scores: set[asyncio.Task[None]] = set()
        self._awaits_scores = False
        self._said = SaidAudio(plan.spec.input_rate_hz)
        self._reply = IncomingReply(sink)
        self._session: Session | None = None
        self._speaker: Observed | None = None
        self._sessions = self._turns = self._turns_before = 0
        self._numbers: dict[int, int] = {}  # of turns, by when their first sample was spoken
        self._shown: dict[int, TurnFigures] = {}  # by number
        self._failing: Failure | None = None  # of the turn under way, as shown
        self._failure: Failure | None = None
        self._ready = self._continuous = False
        self._broken: LiveEvalError | None = None
        self._again = asyncio.Event()
        self._stopping = False
        self._cases: PlayedSession | None = None  # of the session under way
        self._echo = EchoDetector()
        self._device_xruns = (0, 0)
        self._xruns = Xruns()

    # -- What the user does ------------------------------------------------------------------------------

    def push(self, pcm: NDArray[np.int16], at_ns: int) -> None:
        """Take a block of the microphone, as soon as it has come.

        Args:
            pcm: int16 mono, shape (samples,), at `device_hz`.
            at_ns: When it came, on the conversation's clock.
        """
        if self._played is None:
            self._microphone.push(pcm, at_ns, reply_sounds=self._reply.sounds(at_ns))

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
        if self._awaits_scores and self._scorer is not None:
            self._scorer.abandon()
            for task in self._scores:
                task.cancel()
        if self._speaker is not None:
            self._speaker.leave()
        self._again.set()

    def count_device_xruns(self, input: int, output: int) -> None:
        """Report how often the devices themselves have dropped or missed samples so far."""
        self._device_xruns = (input, output)

    # -- What happens ------------------------------------------------------------------------------------

    async def updates(self) -> AsyncIterator[Update]:
        """Yield what happens, up to the end of the conversation. For one reader."""
        while True:
            update = await self._news.get()
            yield update
            if isinstance(update, StateChanged) and update.state is State.ENDED:
                return

    async def hold(self) -> None:
        """Hold the conversation until `stop`: launch the endpoint where it has no URL, then talk.

        A session that ends by itself does not end it: `reconnect` begins another.

        Raises:
            StoreError: A turn cannot be timed or written; those before it are kept.
            LiveEvalError: The endpoint cannot be launched.
        """
        try:
            self._tell(StateChanged(State.STARTING))
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
                        await self._hold_session(base_url, probe, None)
                        if not self._stopping:
                            failure = self._failure or Failure(FailureKind.CLOSED, "the session has ended")
                            self._tell(StateChanged(State.DISCONNECTED, failure))
                            self._again.clear()
                            await self._again.wait()
                    for task in watching:
                        task.cancel()
                    await self._stored()
        finally:
            await asyncio.to_thread(self._thread.shutdown)
            self._tell(StateChanged(State.ENDED))
        if self._broken is not None:
            raise self._broken

    async def _play(self, sessions: Sequence[PlayedSession], base_url: str, probe: LoopProbe) -> None:
        """Hold the sessions of recordings, then stop; a turn that was not reached failed."""
        for session in sessions:
            if self._stopping:
                return
            await self._hold_session(base_url, probe, session)
            if self._stopping:
                return  # who stops has seen enough
            ended = self._failure or Failure(FailureKind.CLOSED, "the session ended before")
            rest = session.jobs[self._turns - self._turns_before :]
            for record in unplayed_turns(rest, 1, ended, self._clock) if rest else ():
                self._turns += 1
                self._show(self._turns, record, self._clock.now_ns())
                self._start(self._writes, self._keep_unplayed(record))
        self.stop()

    async def _hold_session(self, base_url: str, probe: LoopProbe, played: PlayedSession | None) -> None:
        plan = self._plan
        if played is None:
            settings = replace(plan.settings(base_url), instructions=plan.live_instructions)
        else:
            settings = plan.settings(base_url, played.jobs[0].case)
        transport: Callable[[Clock], Transport] = load_object(plan.spec.transport)
        dialect = load_object(plan.spec.dialect)(settings)
        self._continuous = dialect.continuous_media
        session = self._session = Session(
            dialect,
            transport,
            self._clock,
            turn_mode=plan.turn_mode,
            modality=settings.modality,
            transcribes=settings.transcription_model is not None,
            limits=plan.limits(),
            probe=probe,
        )
        self._sessions += 1
        self._turns_before = self._turns
        self._reply = IncomingReply(self._sink)
        self._failure = self._failing = None
        self._ready = False
        if self._sessions > 1:
            self._tell(StateChanged(State.STARTING))
        self._cases = played
        user: Speaker = (
            self._microphone.begin()
            if played is None
            else played.speaker(self._greetings.patience_ns())  # a person hears for themselves when to speak
        )
        self._speaker = Observed(user, self._on_frame, self._on_heard, self._reply.sounds)
        await session.run(self._speaker, on_turn=self._on_turn, perseveres=played is None)
        self._session = self._speaker = None
        self._sink.drop()

    # -- From the session --------------------------------------------------------------------------------

    def _on_frame(self, frame: Frame, start_ns: int) -> None:
        if not self._ready:
            self._ready = True
            self._tell(StateChanged(State.TALKING))
        self._said.append(start_ns, frame.pcm)
        if self._cases is not None:
            pcm = np.frombuffer(frame.pcm, np.int16)
            self._microphone.overhear(pcm)
            self._sink.play(SoundSide.USER, pcm, self._said.rate_hz, paced=True)
        if frame.began is not None:
            over = self._reply.sounds(frame.began.onset_ns)
            if over and self._plan.turn_mode is TurnMode.MANUAL:  # the endpoint does not listen for the user
                self._reply.stop(self._clock.now_ns())
            self._tell(SpeechDetected(speaking=True, barge_in=over))
        if frame.ended is not None:
            self._tell(SpeechDetected(speaking=False))

    def _on_heard(self, heard: Heard) -> None:
        match heard:
            case EndpointPacket(packet):
                self._reply.packet(packet)
            case EndpointEvent(event, at_ns):
                self._reply.event(event, at_ns)
                match event:
                    case ReplyText():
                        self._tell(TranscriptPiece(SoundSide.REPLY, event.text, event.final))
                    case StreamText():
                        self._tell(TranscriptPiece(SoundSide.REPLY, event.text))
                    case InputTranscript() if not event.failed:
                        self._tell(TranscriptPiece(SoundSide.USER, event.text, event.final))
                    case _:
                        pass
            case ReplyEnded(at_ns) if self._continuous:
                self._look_at_turns(at_ns)
            case _:
                pass

    def _on_turn(self, capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
        """Take a turn that has ended."""
        if capture.failure is not None:
            self._failure = capture.failure
        if capture.trace.t0_ns is not None:  # something was said
            if self._turns == self._turns_before:
                self._greetings.observe(capture)
            self._start(self._writes, self._keep(self._turn(capture), log, self._clock.now_ns()))
            self._said.forget(capture.trace.t0_ns)

    def _look_at_turns(self, ended_ns: int) -> None:
        """Time, show and store the turns under way: a reply, or a turn that failed, ended at `ended_ns`."""

        def take(capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
            spoken = capture.trace.voice_end_ns is not None
            if spoken and (capture.wire or capture.failure is not None):
                self._start(self._writes, self._keep(self._turn(capture), log, ended_ns))

        if self._session is not None:
            self._session.so_far(take)

    def _turn(self, capture: TurnCapture) -> LiveTurn:
        trace = capture.trace
        assert trace.t0_ns is not None
        if trace.t0_ns not in self._numbers:
            self._turns += 1
            self._numbers[trace.t0_ns] = self._turns
        number = self._numbers[trace.t0_ns]
        later = [t0_ns for t0_ns in self._numbers if t0_ns > trace.t0_ns]
        index = number - 1 - self._turns_before
        return LiveTurn(
            capture=capture,
            number=number,
            session=self._sessions,
            index=index,
            user=said_in(capture, self._said, min(later, default=self._clock.now_ns())),
            rate_hz=self._said.rate_hz,
            job=self._cases.jobs[index] if self._cases is not None else None,
        )

    # -- Storing -----------------------------------------------------------------------------------------

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        """Do something in a task of the conversation, kept among `tasks` until it is done."""
        task = self._tasks.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _keep(self, turn: LiveTurn, log: Callable[[], Sequence[LoggedMessage]], ended_ns: int) -> None:
        """Time a turn in the writer's thread, show what is new of it, store it and let it be scored."""
        with self._ending_if_broken(f"turn {turn.number}"):
            record = await self._in_thread(lambda: self._store.record(turn, log()))
            self._show(turn.number, record, ended_ns)
            if await self._in_thread(lambda: self._store.keep(turn, record)):
                self._tell(TurnKept(record))
                if self._scorer is not None and record.failure is None:
                    self._start(self._scores, self._score(self._scorer, record.turn_id))

    async def _keep_unplayed(self, record: TurnRecord) -> None:
        with self._ending_if_broken(record.turn_id):
            await self._in_thread(lambda: self._writer.commit(record))
            self._tell(TurnKept(record))

    async def _score(self, scorer: QuickScorer, turn_id: str) -> None:
        self._tell(await scorer.score(turn_id))

    def _show(self, number: int, record: TurnRecord, ended_ns: int) -> None:
        """Show the figures of a turn, unless they have been shown as they are."""
        after_ns = self._clock.now_ns() - ended_ns
        finished = TurnFinished(number, record, waterfall_of(record) or {}, after_ns)
        if self._shown.get(number) != finished.figures:
            self._shown[number] = finished.figures
            self._tell(finished)

    @contextlib.contextmanager
    def _ending_if_broken(self, what: str) -> Iterator[None]:
        """End the conversation if a turn cannot be stored; `hold` then raises why."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, LiveEvalError):
                cause = error
                error = StoreError(f"{what} cannot be stored: {describe(cause)}")
                error.__cause__ = cause
            self._broken = self._broken or error
            self.stop()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _stored(self) -> None:
        """Wait until every turn is stored, and scored unless `stop` is called meanwhile."""
        while self._writes:
            await asyncio.wait(self._writes)
        if self._scores:
            self._awaits_scores = True
            self._tell(StateChanged(State.SCORING))
            await asyncio.wait(self._scores)

    # -- From time to time -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look 50 times a second whether a reply or a turn has ended; report levels and echo."""
        due_ns = self._clock.now_ns()
        levels_ns = echo_ns = due_ns
        while True:
            due_ns = max(due_ns + _TICK_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            ended_ns = self._reply.ended(due_ns)
            if ended_ns is not None:
                self._look_at_turns(ended_ns)
                if not gc.isenabled():
                    gc.collect()
            failure = self._session.failure if self._session is not None else None
            if failure != self._failing:
                self._failing = failure
                if failure is not None:
                    self._look_at_turns(due_ns)
            if due_ns >= levels_ns:
                self._report_levels(due_ns)
                levels_ns = due_ns + _LEVELS_NS
            if due_ns >= echo_ns:
                echo_ns = due_ns + _ECHO_NS
                if await self._echoes():
                    echo_ns = due_ns + _REMIND_NS

    async def _echoes(self) -> bool:
        """Return whether the microphone hears the reply, and report it."""
        blocks = self._microphone.recent()
        if not blocks or not self._microphone.listens:
            return False
        end_ns = blocks[-1][0]
        reply = self._reply.heard.between(end_ns - WINDOW_NS - LONGEST_NS, end_ns, RATE_HZ)
        if not reply.any():
            return False
        pcm = [block for _, block in blocks]
        look = functools.partial(self._echo.look, pcm, self._device_hz, reply)
        echo = await self._in_thread(look)
        if echo is None:
            return False
        self._tell(EchoHeard(echo.delay_ns / 1e6, echo.correlation))
        return True

    def _report_levels(self, now_ns: int) -> None:
        heard = self._reply.heard.between(now_ns - _LEVELS_NS, now_ns, _LEVEL_HZ)
        reply = decibels(float(np.abs(heard).max(initial=0.0)))
        if self._news.qsize() < _MOST_NEWS:
            self._tell(Levels(self._microphone.level(), reply, not self._microphone.listens))
        xruns = Xruns(*self._device_xruns, self._microphone.underruns, self._microphone.overruns)
        if xruns != self._xruns:
            self._xruns = xruns
            self._tell(xruns)

    def _tell(self, update: Update) -> None:
        self._news.put_nowait(update)
