"""Run a session with an endpoint: stream the user's audio in real time, and capture the replies.

A session connects a speaker, a dialect and a transport. The dialect implements the protocol, the speaker
decides what the user says next, and the timeline decides when a turn is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from live_eval.cassettes import WireRecord
from live_eval.clock import Clock, FrameSlots, Pacer
from live_eval.dialect import Dialect, Message
from live_eval.errors import FailureKind, TurnError
from live_eval.session.bounds import LOGGED_CHARACTERS, bounded_body
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.session.connection import TICK_NS, Connection
from live_eval.session.event_loop import LoopProbe, ProbeReading, describe
from live_eval.session.greeting import AfterGreeting, GreetingWatch
from live_eval.session.limits import SessionLimits
from live_eval.session.log import RawMessage
from live_eval.session.playback import PAUSE_NS, Playback, Utterance
from live_eval.session.script import ScriptPlayback
from live_eval.session.speaker import Frame, Speaker
from live_eval.session.surroundings import Surroundings
from live_eval.session.timeline import Timeline
from live_eval.session.turn import Turn
from live_eval.transport import LoadsAhead, Transport
from live_eval.types import Failure, Modality, TurnMode

__all__ = ["OnTurn", "Session", "logged"]

OnTurn = Callable[[TurnCapture, Callable[[], Sequence[LoggedMessage]]], None]
"""Callback for an ended turn, with a function that returns the turn's log; call it off the event
loop.
"""

_LEAD_NS = 20_000_000
_SECOND_NS = 1_000_000_000
_COSTS_ONE_TURN = {
    FailureKind.NO_RESPONSE,
    FailureKind.EMPTY_REPLY,
    FailureKind.RESPONSE_FAILED,
    FailureKind.RESPONSE_INCOMPLETE,
    FailureKind.RESPONSE_CANCELLED,
}
_TURNS_KEPT = 2  # the turn in progress, and the previous turn, whose reply may continue


def logged(messages: Sequence[RawMessage], dialect: Dialect) -> tuple[LoggedMessage, ...]:
    """Redact messages for the log, and truncate long strings from the endpoint.

    Call this function off the event loop, because parsing takes time.
    """

    def body(message: Message, *, incoming: bool) -> Mapping[str, Any]:
        redacted = dialect.redact(message)
        return dict(bounded_body(redacted)) if incoming and len(message) > LOGGED_CHARACTERS else redacted

    return tuple(
        LoggedMessage(at_ns, "in" if incoming else "out", body(message, incoming=incoming))
        for at_ns, incoming, message in messages
    )


def _any_moment(frame_ns: int) -> contextlib.nullcontext[Callable[[int], int]]:
    return contextlib.nullcontext(int)


class Session:
    """Run a conversation over one connection.

    Args:
        transport: Connection factory, called once unless the dialect requests a reconnect.
        probe: The process's event-loop probe; None to leave lag unmeasured.
        slots: The process's frame slots; None to send frames without coordination between sessions.
        records_wire: Whether to keep all calls and messages for `wire`.
    """

    def __init__(
        self,
        dialect: Dialect,
        transport: Callable[[Clock], Transport],
        clock: Clock,
        *,
        turn_mode: TurnMode,
        modality: Modality = Modality.AUDIO,
        transcribes: bool = False,
        limits: SessionLimits | None = None,
        probe: LoopProbe | None = None,
        slots: FrameSlots | None = None,
        records_wire: bool = False,
        around: Callable[[Speaker], Surroundings] | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._dialect = dialect
        self._new_transport = transport
        self._loaded: Transport | None = None
        self._clock = clock
        self._turn_mode = turn_mode
        self._limits = limits or SessionLimits()
        self._probe = probe
        self._around = around
        self._on_ready = on_ready
        self._surroundings: Surroundings | None = None
        self._slot = slots.slot if slots is not None else _any_moment
        self._wire = WireRecord(keeps=records_wire)
        self._new_turn = functools.partial(  # a method would create a reference cycle with the timeline
            Turn,
            self._limits,
            modality,
            transcribes=transcribes,
            continuous=dialect.continuous_media,
        )
        self._timeline = Timeline(self._wire, self._new_turn, listens=False)
        self._connection: Connection  # set by `run`, as is the pacer
        self._pacer: Pacer
        self._on_grid = False  # whether the next frame follows the last one without a gap
        self._alive_ns = 0
        self._began_ns = 0
        self._stops_ns: int | None = None  # time at which the user begins to speak over a reply
        self._on_turn: OnTurn | None = None
        self._survives_failures = False

    async def converse(
        self, utterances: Sequence[Utterance], *, pause_ns: int = PAUSE_NS, greeting_ns: int = 0
    ) -> list[TurnCapture]:
        """Connect, stream the recordings in order, and disconnect.

        A recording begins at its anchor or, without an anchor, `pause_ns` after the previous reply has been
        heard. A failed turn ends the session. Late audio of an earlier response is assigned to that
        response's turn.

        Args:
            pause_ns: Pause from the end of a reply, as heard, to the next recording.
            greeting_ns: Maximum wait for the endpoint's greeting, which is then heard to the end; 0 to speak
                immediately.

        Returns:
            The capture of each turn; only the first includes the session setup. Turns that were not reached
            have the failure `DIALOGUE_ENDED`.
        """
        limits, number = self._limits, len(utterances)
        waits_s = limits.ready_s + number * (2 * (limits.reply_s + limits.max_reply_s) + limits.stall_s)
        rests_ns = (number - 1) * (round(limits.max_reply_s * _SECOND_NS) + pause_ns)
        spoken_ns = sum(len(utterance.frames) * utterance.frame_ns for utterance in utterances)
        bound_ns = spoken_ns + rests_ns + round(waits_s * _SECOND_NS)
        speaker: Speaker = Playback(utterances, pause_ns)
        if any(utterance.anchor is not None or not utterance.expects_answer for utterance in utterances):
            speaker = ScriptPlayback(utterances, pause_ns, round(limits.reply_s * _SECOND_NS))
            anchored_ns = sum(utterance.anchor.after_ns for utterance in utterances if utterance.anchor)
            bound_ns += anchored_ns + number * round(limits.listen_s * _SECOND_NS)
        if greeting_ns:
            speaker = AfterGreeting(speaker, bytes(len(utterances[0].frames[0])), greeting_ns)
            bound_ns += greeting_ns + round(limits.max_reply_s * _SECOND_NS)
        captures = (await self.run(speaker, bound_ns=bound_ns))[:number]
        for at, capture in enumerate(captures):
            if capture.trace.t0_ns is None:  # the turn failed before the user spoke
                boundaries = utterances[at].boundaries
                trace = replace(
                    capture.trace, boundaries=boundaries, boundaries_uncertain=boundaries.uncertain
                )
                captures[at] = replace(capture, trace=trace)
        rest = number - len(captures)
        return [*captures, *[self._timeline.not_reached(self._clock.now_ns())] * rest]

    async def run(
        self,
        speaker: Speaker,
        *,
        bound_ns: int | None = None,
        on_turn: OnTurn | None = None,
        survives_failures: bool = False,
    ) -> list[TurnCapture]:
        """Connect, stream the speaker's audio until it is done or the session fails, and disconnect.

        Args:
            bound_ns: Maximum length of the session; None for no limit as long as it makes progress.
            on_turn: Called with each turn soon after it ends, which keeps memory use constant in long
                sessions; None to return all turns.
            survives_failures: Whether to continue the session after a turn without a complete reply.

        Returns:
            The captures of the turns, in order; empty with `on_turn`.
        """
        clock = self._clock
        await self.load()
        wall_ns, dial_ns = clock.wall_ns(), clock.now_ns()
        self._on_turn, self._survives_failures = on_turn, survives_failures
        if self._around is not None:
            speaker = self._surroundings = self._around(speaker)
        timeline = self._timeline = Timeline(self._wire, self._new_turn, listens=speaker.listens)
        loaded, self._loaded = self._loaded, None
        self._connection = Connection(
            self._dialect, self._new_transport, clock, self._limits.connect_s, timeline, loaded
        )
        sent = None
        try:
            dial = self._dialect.dial()
            timeline.on_track = dial.signalling is not None
            timeline.start(dial_ns, wall_ns)
            await self._connection.connect(dial)
            async with asyncio.TaskGroup() as tasks:
                guarding = tasks.create_task(self._guard(bound_ns))
                await self._connection.open(tasks)
                with self._slot(speaker.frame_ns) as first_ns:
                    await self._talk(speaker, first_ns)
                guarding.cancel()
                sent = await self._connection.sent_stats()
                await self._connection.leave()
        except Exception as error:
            if not timeline.turns:
                timeline.start(dial_ns, wall_ns)
            if isinstance(error, TurnError):
                timeline.failed(error.kind, error.message, clock.now_ns(), error.retry_after_s)
            else:  # a bug in live-eval or in a plugin
                timeline.failed(FailureKind.INTERNAL, describe(error), clock.now_ns())
        finally:
            await self._connection.close()
        timeline.end_turn(clock.now_ns(), self._reading(), sent)
        if on_turn is not None:
            self._release(0)
            return []
        return [self._captured(number, turn) for number, turn in enumerate(timeline.turns)]

    async def load(self) -> None:
        """Load everything that a process's first connection needs. `run` also does this before measuring.

        Errors are reported when the session connects.
        """
        with contextlib.suppress(Exception):
            if self._loaded is None:
                self._loaded = self._new_transport(self._clock)
                if isinstance(self._loaded, LoadsAhead):
                    await self._loaded.load(self._dialect.dial())

    @property
    def failure(self) -> Failure | None:
        """The current turn's failure; None if it has not failed or no turn has begun."""
        timeline = self._timeline
        return timeline.failure if timeline.turns else None

    def so_far(self, take: OnTurn) -> None:
        """Call `take` with the current state of the kept turns; `run` later passes their final state."""
        for number, turn in enumerate(self._timeline.turns, self._timeline.finished):
            reading = self._reading() if turn is self._timeline.current else None
            messages = tuple(turn.log.messages)
            take(self._captured(number, turn, reading), functools.partial(logged, messages, self._dialect))

    def timed(self) -> bool:
        """Return whether pausing this process now would distort the latencies.

        A pause has no effect before dialling or while the user speaks.
        """
        turns = self._timeline.turns
        return bool(turns) and self._clock.now_ns() >= turns[-1].timed_from_ns

    def log(self, turn: int = 0) -> tuple[LoggedMessage, ...]:
        """Return the redacted messages of turn number `turn` with timestamps. Call off the event loop."""
        return logged(self.messages(turn), self._dialect)

    @property
    def secrets(self) -> frozenset[str]:
        """Secrets that the messages may contain; see `Dialect.secrets`."""
        return frozenset(self._dialect.secrets)

    def messages(self, turn: int = 0) -> Sequence[RawMessage]:
        """Return a turn's unredacted messages for `logged`; they may contain secrets."""
        turns = self._timeline.turns[turn : turn + 1]
        return turns[0].log.messages if turns else ()

    @property
    def wire(self) -> WireRecord:
        """The recorded calls and messages; empty without `records_wire`."""
        return self._wire

    async def _guard(self, bound_ns: int | None) -> None:
        """End a session that no other limit ends: sending blocks forever if the endpoint stops reading."""
        clock, limits = self._clock, self._limits
        if bound_ns is not None:
            await clock.sleep_until(clock.now_ns() + bound_ns)
            what = f"the session did not end within {bound_ns / _SECOND_NS:g} s"
        else:
            patience_ns = round((limits.ready_s + limits.reply_s + limits.stall_s) * _SECOND_NS)
            self._alive_ns = clock.now_ns()
            while (until_ns := self._alive_ns + patience_ns) > clock.now_ns():
                await clock.sleep_until(until_ns)
            what = f"the session made no progress for {patience_ns / _SECOND_NS:g} s"
        self._timeline.failed(
            FailureKind.STALLED,
            f"{what}, without reaching another limit: the endpoint stopped reading after "
            f"{self._timeline.sent_frames} frames, or its responses interrupt each other without end",
            clock.now_ns(),
        )
        await self._connection.close()

    # -- The conversation --------------------------------------------------------------------------------

    async def _talk(self, speaker: Speaker, first_ns: Callable[[int], int]) -> None:
        """Stream the speaker's audio and receive, until the speaker is done or the turn has failed."""
        await self._until_ready()
        timeline, clock = self._timeline, self._clock
        greeting: GreetingWatch | None = GreetingWatch()
        self._pacer = Pacer(clock, first_ns(clock.now_ns() + _LEAD_NS), speaker.frame_ns)
        while True:
            self._alive_ns = now_ns = clock.now_ns()
            for heard in timeline.look(now_ns):
                speaker.hear(heard)
            if greeting is not None and timeline.spoken:
                greeting = None
            if greeting is not None:
                for heard in greeting.look(timeline.current, now_ns):
                    speaker.hear(heard)
            if self._surroundings is not None:
                self._surroundings.overhear(timeline.sounding())
            if self._failed:
                return
            if not self._on_grid:
                self._pacer.restart(first_ns(now_ns + _LEAD_NS))
            frame = speaker.frame(now_ns, self._pacer.next_ns)
            if frame is None:
                return
            if frame.began is not None or timeline.over:
                await self._place(frame)
            if not self._failed:
                await self._say(frame)

    @property
    def _failed(self) -> bool:
        """Whether the current turn has failed and ends the session."""
        failure = self._timeline.failure
        return failure is not None and not (self._survives_failures and failure.kind in _COSTS_ONE_TURN)

    async def _place(self, frame: Frame) -> None:
        """Begin the frame's turn unless it is already in progress."""
        timeline, began = self._timeline, frame.began
        user_continues = began is not None and began.own_turn and timeline.spoken and not timeline.over
        interrupts = began is not None and timeline.replies_at(began.onset_ns)
        if began is not None and interrupts:
            timeline.interrupted(began.onset_ns, backchannel=not began.expects_answer)
            self._stops_ns = began.onset_ns
        if timeline.over:
            timeline.current.settle()  # later failures belong to the next turn
        if began is not None and began.own_turn:
            begins = timeline.spoken
        else:
            begins = timeline.spoken and (  # a greeting is part of the first turn
                interrupts or (timeline.over and (began is not None or timeline.lost is not None))
            )
        if begins:
            await self._next_turn(user_continues=user_continues)
        if began is not None and timeline.failure is None:
            self._on_grid = True
            self._began_ns = began.t0_ns
            timeline.utterance_began(began, self._pacer)

    async def _next_turn(self, *, user_continues: bool) -> None:
        timeline = self._timeline
        sent = await self._connection.sent_stats()
        timeline.current.stamping = self._connection.stamping
        self._connection.turn_begins()
        timeline.next_turn(self._clock.now_ns(), self._reading(), sent, user_continues=user_continues)
        if self._on_turn is not None:
            self._release(_TURNS_KEPT)

    async def _say(self, frame: Frame) -> None:
        """Send a frame at its deadline, or only wait if it is silence that need not be sent."""
        if not (self._flows or frame.speech):
            self._on_grid = False
            await self._clock.sleep_until(self._clock.now_ns() + TICK_NS)
            await self._connection.fire_timers()
        else:
            self._on_grid = True
            await self._send(frame)
        if self._stops_ns is not None:
            await self._stop_reply(self._stops_ns)
        if frame.ended is not None and not self._failed:
            if self._turn_mode is TurnMode.MANUAL:
                await self._connection.end_turn()
            self._timeline.utterance_ended(frame.ended, self._began_ns, self._clock.now_ns())

    async def _stop_reply(self, onset_ns: int) -> None:
        """Stop the interrupted reply in a manual turn, because the endpoint does not detect speech."""
        if self._clock.now_ns() >= onset_ns:
            self._stops_ns = None
            if self._turn_mode is TurnMode.MANUAL:
                await self._connection.stop_reply()

    async def _send(self, frame: Frame) -> None:
        pacer, connection = self._pacer, self._connection
        tick = pacer.next(speech=frame.speech)
        departure = connection.prepare(frame.pcm, tick)
        leave = functools.partial(connection.hand_over, departure)
        pacer.left(tick, await self._clock.run_at(tick.deadline_ns, leave), speech=frame.speech)
        if await connection.settle(departure) and departure.left_ns is not None:
            self._timeline.frame_sent(tick.deadline_ns, departure.left_ns)
            await connection.fire_timers()

    @property
    def _flows(self) -> bool:
        """Whether silence is sent while the user is not speaking."""
        return self._turn_mode is not TurnMode.MANUAL or self._dialect.needs_continuous_input

    async def _until_ready(self) -> None:
        turn = self._timeline.current
        deadline_ns = self._clock.now_ns() + round(self._limits.ready_s * _SECOND_NS)
        while turn.ready_ns is None and turn.failure is None and self._clock.now_ns() < deadline_ns:
            await self._connection.wait(deadline_ns)
        if turn.ready_ns is not None:
            if self._on_ready is not None:
                self._on_ready()
        else:
            self._timeline.failed(
                FailureKind.NO_SESSION,
                f"the endpoint accepted the connection, but the session was not ready within "
                f"{self._limits.ready_s:g} s; {self._last_words()}",
                self._clock.now_ns(),
            )

    def _last_words(self) -> str:
        """Describe the endpoint's messages so far."""
        came = [message for _, incoming, message in self._timeline.current.log.messages if incoming]
        if not came:
            return "no message arrived"
        last = bounded_body(self._dialect.redact(came[-1]).get("type"))
        return f"{len(came)} messages arrived; the last has the type {last!r}"

    # -- Captures ------------------------------------------------------------------------------------

    def _reading(self) -> ProbeReading:
        """Return the event-loop lag during the turn that is ending."""
        if self._probe is None:
            return ProbeReading()
        return self._probe.between(self._timeline.current.timed_from_ns, self._clock.now_ns())

    def _release(self, kept: int) -> None:
        """Call `on_turn` with all except the last `kept` turns."""
        assert self._on_turn is not None
        first = self._timeline.finished
        for number, turn in enumerate(self._timeline.release(kept), first):
            log = functools.partial(logged, turn.log.messages, self._dialect)
            self._on_turn(self._captured(number, turn), log)

    def _captured(self, number: int, turn: Turn, reading: ProbeReading | None = None) -> TurnCapture:
        return turn.captured(
            manual=self._turn_mode is TurnMode.MANUAL,
            setup_ns=self._connection.setup_ns if number == 0 else {},
            stamping=self._connection.stamping,
            reading=reading,
        )
