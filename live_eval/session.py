"""One session with an endpoint: joins a dialect, a transport and a pacer, and captures its turns.

The session alone touches the network and the clock. It decides nothing: the dialect says what to send, the
turn's state says when it is over. Most sessions hold one turn; those of a dialogue hold several, and the next
begins once the reply to the one before would have been heard, and a natural pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval._held import HeldTurn
from live_eval.capture import LoggedMessage, TurnCapture
from live_eval.cassettes import Call, Closed, Packet, Received, Sent, Step, Turn, expected
from live_eval.clock import Clock, Pacer
from live_eval.dialect import Close, Dialect, Event, Interrupted, Message, Output, Reconnect, Send, SetTimer
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.loop import LoopProbe, ProbeReading, describe
from live_eval.rtp import MediaStats, RtpPacket
from live_eval.timeline import TurnTrace
from live_eval.transport import Transport
from live_eval.turn import TurnLimits, TurnState
from live_eval.types import Failure, Modality, SpeechEdges, TurnMode

__all__ = ["PAUSE_NS", "Session", "UserTurn"]

PAUSE_NS = 600_000_000
"""From the end of a reply, as heard, to the user's next turn: a pause as people make it."""

_TICK_NS = 20_000_000
_LEAD_NS = 20_000_000
_SECOND_NS = 1_000_000_000
_FAREWELL_NS = 5 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """What the user says in a turn.

    Args:
        frames: The recording as frames of the wire (int16 little-endian mono).
        frame_ns: Length of a frame.
        edges: Where the speaker's own sound lies in the recording.
    """

    frames: Sequence[bytes]
    frame_ns: int
    edges: SpeechEdges


class Session:
    """Holds the turns of one session, over one connection.

    Args:
        dialect: The endpoint's protocol; used for this session alone.
        transport: Makes connections; one, unless the dialect asks to reconnect.
        clock: The session's clock.
        turn_mode: Who decides that the user's turn is over.
        modality: What was asked for.
        transcribes: Whether the endpoint was asked to transcribe the input.
        limits: How long to wait for what.
        probe: The process's probe of the event loop, or None where lag is not to be known.
        records_wire: Whether to keep everything that happens, for `wire`.
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
        limits: TurnLimits | None = None,
        probe: LoopProbe | None = None,
        records_wire: bool = False,
    ) -> None:
        self._dialect = dialect
        self._connect = transport
        self._transport = transport(clock)
        self._clock = clock
        self._turn_mode = turn_mode
        self._limits = limits or TurnLimits()
        self._probe = probe
        self._modality = modality
        self._transcribes = transcribes
        self._held: list[HeldTurn] = []
        self._lost: Failure | None = None
        self._timers: dict[str, int] = {}
        self._wire: list[Step | tuple[int, Event]] | None = [] if records_wire else None
        self._closing = False
        self._leaving = False
        self._left = False
        self._tasks: asyncio.TaskGroup | None = None
        self._moving: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._track = False
        self._silent = b""

    async def hold(self, turn: UserTurn) -> TurnCapture:
        """Connect, speak the turn, listen until it is over, take leave.

        Args:
            turn: What the user says.

        Returns:
            What was captured. Whatever the endpoint, the network or a defect of the dialect does becomes a
            `Failure` in it; its log is empty, see `log`.
        """
        (capture,) = await self.converse((turn,))
        return capture

    async def converse(self, turns: Sequence[UserTurn], *, pause_ns: int = PAUSE_NS) -> list[TurnCapture]:
        """Connect, hold the turns one after the other, take leave.

        The user speaks on once the reply would have been heard to its end, and a pause. A turn that fails
        ends the session. What comes late of an earlier turn's response stays that turn's.

        Args:
            turns: What the user says, at least one turn.
            pause_ns: From the end of a reply, as heard, to the next turn.

        Returns:
            What was captured of each turn. The first alone has the setup of the session. Turns that were not
            reached failed as `DIALOGUE_ENDED`.
        """
        wall_ns, dial_ns = self._clock.wall_ns(), self._clock.now_ns()
        dial = self._dialect.dial()
        self._track = dial.signalling is not None
        self._begin(turns[0], dial_ns, wall_ns)
        try:
            await self._transport.connect(dial, self._limits.connect_s)
        except ConnectError as error:
            self._failed(error.kind, error.message, self._clock.now_ns())
            self._state.retry_after_s = error.retry_after_s
        else:
            try:
                async with asyncio.TaskGroup() as tasks:
                    self._tasks = tasks
                    listening = tasks.create_task(self._listen())
                    guarding = tasks.create_task(self._guard(turns, pause_ns))
                    await self._talk(turns, pause_ns)
                    self._current.sent_stats = await self._track_stats()
                    await self._leave(listening)
                    for task in (listening, guarding, self._moving):
                        if task is not None:
                            task.cancel()
            except ExceptionGroup as errors:
                self._failed(FailureKind.INTERNAL, describe(errors), self._clock.now_ns())
            finally:
                await self._transport.close()
        self._current.ended(self._reading(), self._current.sent_stats)
        return [self._captured(index) for index in range(len(turns))]

    def log(self, turn: int = 0) -> tuple[LoggedMessage, ...]:
        """Return every message of a turn with its stamp, redacted.

        Parsing them is work: call it off the event loop.

        Args:
            turn: Its index; a turn that was not reached has no messages.
        """
        return tuple(
            LoggedMessage(at_ns, "in" if incoming else "out", self._dialect.redact(message))
            for held in self._held[turn : turn + 1]
            for at_ns, incoming, message in held.messages
        )

    def wire(self) -> tuple[Step, ...]:
        """Return everything that happened, in order; empty where it was not asked for.

        Telling the events is work: call it off the event loop.
        """
        return tuple(expected(*step) if isinstance(step, tuple) else step for step in self._wire or ())

    @property
    def _current(self) -> HeldTurn:
        """The turn that is being held."""
        return self._held[-1]

    @property
    def _state(self) -> TurnState:
        return self._current.state

    def _begin(self, turn: UserTurn, at_ns: int, wall_ns: int) -> None:
        """From here on what happens belongs to this turn."""
        state = TurnState(
            self._limits,
            self._modality,
            transcribes=self._transcribes,
            track=self._track,
            continuous=self._dialect.continuous_media,
        )
        held = HeldTurn(edges=turn.edges, state=state, begun_ns=at_ns, wall_ns=wall_ns)
        if self._held:
            before = self._current
            state.session_id, state.model = before.state.session_id, before.state.model
            held.sent_before = before.sent_stats
        self._held.append(held)

    def _owner(self, event: Event) -> HeldTurn:
        """Return the turn that an event belongs to: an earlier one's response may say something yet."""
        earlier = (held for held in reversed(self._held[:-1]) if held.state.owns(event))
        return next(earlier, self._current)

    def _note(self, step: type[Call] | type[Turn], at_ns: int, called: str, /, **arguments: Any) -> None:
        """Keep what the session called of the dialect, or told the turn's state."""
        if self._wire is not None:
            self._wire.append(step(at_ns, called, arguments))

    def _failed(self, kind: FailureKind, message: str, at_ns: int) -> None:
        self._note(Turn, at_ns, "failed", kind=kind.value, message=message)
        self._state.fail(kind, message, at_ns)

    async def _open(self) -> None:
        """The connection is there."""
        now_ns = self._clock.now_ns()
        self._note(Call, now_ns, "opened")
        await self._carry_out(self._dialect.opened(now_ns), now_ns)

    async def _listen(self) -> None:
        """Receive until the connection ends."""
        while True:
            transport = self._transport
            try:
                arrival = await transport.receive()
            except TransportClosedError as end:
                if self._moving is not None:
                    await asyncio.wait((self._moving,))
                if transport is not self._transport:  # it was replaced
                    continue
                if not self._closing:
                    await self._ended(end)
                return
            if isinstance(arrival, RtpPacket):
                if self._wire is not None:
                    self._wire.append(Packet(arrival))
                self._state.on_packet(arrival)
                continue
            if self._wire is not None:
                self._wire.append(Received(arrival.at_ns, arrival.message))
            self._current.messages.append((arrival.at_ns, True, arrival.message))
            await self._carry_out(self._dialect.received(arrival.message, arrival.at_ns), arrival.at_ns)

    async def _ended(self, end: TransportClosedError) -> None:
        """The connection ended, and not by us."""
        self._state.retry_after_s = end.retry_after_s
        self._lost = Failure(end.kind, end.message, end.at_ns)
        if end.kind is FailureKind.CLOSED:
            if self._wire is not None:
                self._wire.append(Closed(end.at_ns, end.code, end.reason))
            await self._carry_out(self._dialect.closed(end.code, end.reason, end.at_ns), end.at_ns)
            said = f"the endpoint closed the connection: code {end.code}, reason {end.reason!r}"
            self._lost = Failure(end.kind, said, end.at_ns)
            self._state.closed(said, end.at_ns)
        else:
            self._failed(end.kind, end.message, end.at_ns)
        self._ready.set()

    async def _reconnect(self) -> None:
        """Replace the connection; what the old one still holds is not waited for.

        A task of its own: the user speaks on meanwhile, and the old connection may end by itself.
        """
        old, transport = self._transport, self._connect(self._clock)
        try:
            await transport.connect(self._dialect.dial(), self._limits.connect_s)
        except ConnectError as error:
            message = f"the session could not be resumed: {error.message}"
            self._failed(error.kind, message, self._clock.now_ns())
            return
        self._transport = transport
        await old.close()
        await self._open()

    async def _track_stats(self) -> MediaStats | None:
        track = self._transport.track
        return await track.stats() if track is not None else None

    async def _guard(self, turns: Sequence[UserTurn], pause_ns: int) -> None:
        """End a session that its own limits do not end: an endpoint that stops reading blocks our sending."""
        limits = self._limits
        waits_s = limits.ready_s + len(turns) * (2 * (limits.reply_s + limits.max_reply_s) + limits.stall_s)
        rests_ns = (len(turns) - 1) * (round(limits.max_reply_s * _SECOND_NS) + pause_ns)
        spoken_ns = sum(len(turn.frames) * turn.frame_ns for turn in turns)
        bound_ns = spoken_ns + rests_ns + round(waits_s * _SECOND_NS)
        await self._clock.sleep_until(self._clock.now_ns() + bound_ns)
        self._failed(
            FailureKind.STALLED,
            f"the session did not end within {bound_ns / _SECOND_NS:g} s, and no limit of it was reached: "
            f"after {sum(len(held.sent) for held in self._held)} frames the endpoint took no more",
            self._clock.now_ns(),
        )
        self._closing = True
        await self._transport.close()

    async def _carry_out(self, outputs: Iterable[Output], at_ns: int) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    if await self._send(message):
                        self._current.messages.append((self._clock.now_ns(), False, message))
                        if self._wire is not None:
                            self._wire.append(Sent(self._clock.now_ns(), message))
                case SetTimer(name, timer_ns):
                    if timer_ns is None:
                        self._timers.pop(name, None)
                    else:
                        self._timers[name] = timer_ns
                case Reconnect():
                    assert self._tasks is not None
                    self._moving = self._tasks.create_task(self._reconnect())
                case Close(code, reason):
                    self._closing = self._left = True
                    await self._transport.close(code, reason)
                case _ if not self._leaving:
                    if self._wire is not None:
                        self._wire.append((at_ns, output))
                    owner = self._owner(output)
                    owner.state.on_event(output, at_ns)
                    if isinstance(output, Interrupted):
                        await self._stop_playing(owner.state, output.response_id, at_ns)
                    if self._state.ready_ns is not None or self._state.failure is not None:
                        self._ready.set()

    async def _stop_playing(self, state: TurnState, response_id: str, at_ns: int) -> None:
        """Tell the endpoint how much of an interrupted response was heard, as a player would."""
        heard_ms = state.heard_ms(response_id, at_ns)
        self._note(Call, at_ns, "interrupt", response_id=response_id, heard_ms=heard_ms)
        await self._carry_out(self._dialect.interrupt(response_id, heard_ms, at_ns), at_ns)

    async def _send(self, message: Message) -> bool:
        """Send, and return whether the connection was still there; its end is told by `_listen`."""
        try:
            await self._transport.send(message)
        except TransportClosedError:
            return False
        return True

    async def _talk(self, turns: Sequence[UserTurn], pause_ns: int) -> None:
        """Open the session, hold the turns, and keep the session alive until the last one is over."""
        await self._open()
        await self._until_ready()
        for number, turn in enumerate(turns):
            if number:
                await self._rest(pause_ns)
                self._next(turn, await self._track_stats())
            if self._state.failure is None:
                await self._hold(turn)
            if self._state.failure is not None:
                return

    async def _hold(self, turn: UserTurn) -> None:
        """Speak, and listen until the turn is over."""
        pacer, t0_ns = self._paced(turn.frame_ns)
        self._current.speaks(pacer, t0_ns)
        onset_ns, voice_end_ns = turn.edges.onset_ns, turn.edges.voice_end_ns
        self._note(Turn, t0_ns, "user_speaks", onset_ns=onset_ns, voice_end_ns=voice_end_ns)
        self._state.user_speaks(t0_ns + onset_ns, t0_ns + voice_end_ns)
        for frame in turn.frames:
            await self._frame(pacer, frame, speech=True)
            if self._state.failure is not None:
                return
        if self._turn_mode is TurnMode.MANUAL:
            now_ns = self._clock.now_ns()
            self._note(Call, now_ns, "end_turn")
            await self._carry_out(self._dialect.end_turn(now_ns), now_ns)
        now_ns = self._clock.now_ns()
        self._note(Turn, now_ns, "user_done")
        self._state.user_done(now_ns)
        self._silent = bytes(len(turn.frames[0])) if turn.frames else b""
        while not self._over():
            await self._listen_on(pacer)

    def _paced(self, frame_ns: int) -> tuple[Pacer, int]:
        """Return what paces the turn that begins, and when its first sample is spoken.

        Where input flows on between turns, it stays on its grid.
        """
        before = self._held[-2] if len(self._held) > 1 else None
        if before is not None and before.pacer is not None and self._flows:
            return before.pacer, before.pacer.next_ns
        t0_ns = self._clock.now_ns() + _LEAD_NS
        return Pacer(self._clock, t0_ns, frame_ns), t0_ns

    @property
    def _flows(self) -> bool:
        """Whether silence is sent while the user does not speak."""
        return self._turn_mode is not TurnMode.MANUAL or self._dialect.needs_continuous_input

    async def _listen_on(self, pacer: Pacer) -> None:
        """Let the time of a frame pass in which the user does not speak."""
        if self._flows:
            await self._frame(pacer, self._silent, speech=False)
        else:
            await self._clock.sleep_until(self._clock.now_ns() + _TICK_NS)
            await self._fire_timers()

    async def _rest(self, pause_ns: int) -> None:
        """Let the user hear the reply to its end, and pause.

        What goes wrong meanwhile costs the next turn: this one has its reply.
        """
        state, pacer = self._state, self._current.pacer
        assert pacer is not None
        seen_ns: int | None = None
        heard_ns = 0
        while state.failure is None and self._lost is None:
            if state.progress_ns != seen_ns:  # playout is not simulated anew at every frame
                seen_ns = state.progress_ns
                heard_ns = max(seen_ns or 0, state.heard_until_ns or 0)
            now_ns = self._clock.now_ns()
            if now_ns >= heard_ns + pause_ns and not state.speaking(now_ns):
                break
            await self._listen_on(pacer)
        self._lost, state.failure = self._lost or state.failure, None

    def _next(self, turn: UserTurn, sent_stats: MediaStats | None) -> None:
        """End the turn that is over and begin another."""
        self._current.ended(self._reading(), sent_stats)
        first, now_ns = self._held[0], self._clock.now_ns()
        self._begin(turn, now_ns, first.wall_ns + now_ns - first.begun_ns)
        if self._lost is not None:
            self._failed(self._lost.kind, self._lost.message, self._lost.at_ns or now_ns)

    def _over(self) -> bool:
        now_ns = self._clock.now_ns()
        if not self._state.over(now_ns):
            return False
        self._note(Turn, now_ns, "over")
        return True

    async def _until_ready(self) -> None:
        deadline_ns = self._clock.now_ns() + round(self._limits.ready_s * _SECOND_NS)
        ready = asyncio.create_task(self._ready.wait())
        try:
            while not self._ready.is_set() and self._clock.now_ns() < deadline_ns:
                alarm_ns = min([deadline_ns, *self._timers.values()])
                alarm = asyncio.create_task(self._clock.sleep_until(alarm_ns))
                try:
                    await asyncio.wait((alarm, ready), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    alarm.cancel()
                await self._fire_timers()
        finally:
            ready.cancel()
        if self._state.ready_ns is None:
            self._failed(
                FailureKind.NO_SESSION,
                f"the endpoint accepted the connection, but its session was not ready within "
                f"{self._limits.ready_s:g} s; {self._last_words()}",
                self._clock.now_ns(),
            )

    def _last_words(self) -> str:
        """Return what the endpoint last said, for a message."""
        came = [message for _, incoming, message in self._current.messages if incoming]
        if not came:
            return "no message came"
        return f"{len(came)} messages came, the last of type {self._dialect.redact(came[-1]).get('type')!r}"

    async def _frame(self, pacer: Pacer, frame: bytes, *, speech: bool) -> None:
        tick = await pacer.wait(speech=speech)
        track = self._transport.track
        if track is not None:
            track.send(frame, tick.skipped)
        else:
            self._note(Call, tick.deadline_ns, "frame", pcm=frame)
        for output in self._dialect.frame(frame, tick.deadline_ns) if track is None else ():
            if isinstance(output, Send):
                if not await self._send(output.message):  # not logged: its times say all there is
                    return
            else:
                await self._carry_out((output,), tick.deadline_ns)
        self._current.sent.append(self._clock.now_ns())
        self._current.deadlines.append(tick.deadline_ns)
        await self._fire_timers()

    async def _fire_timers(self) -> None:
        if not self._timers:
            return
        now_ns = self._clock.now_ns()
        for name in [name for name, at_ns in self._timers.items() if at_ns <= now_ns]:
            del self._timers[name]
            self._note(Call, now_ns, "timer", name=name)
            await self._carry_out(self._dialect.timer(name, now_ns), now_ns)

    async def _leave(self, listening: asyncio.Task[None]) -> None:
        """Take leave, and hear the endpoint's farewell where the dialect waits for one with a timer.

        What the endpoint says from here on is not part of the turn.
        """
        self._closing = self._leaving = True
        self._timers.clear()
        now_ns = self._clock.now_ns()
        self._note(Call, now_ns, "finish")
        await self._carry_out(self._dialect.finish(now_ns), now_ns)
        until_ns = now_ns + _FAREWELL_NS
        while self._timers and not (self._left or listening.done()) and self._clock.now_ns() < until_ns:
            await self._clock.sleep_until(self._clock.now_ns() + _TICK_NS)
            await self._fire_timers()

    def _reading(self) -> ProbeReading | None:
        """Return how late the event loop was in the turn that ends now."""
        if self._probe is None:
            return None
        return self._probe.between(self._current.timed_from_ns, self._clock.now_ns())

    def _captured(self, index: int) -> TurnCapture:
        if index < len(self._held):
            return self._held[index].captured(
                manual=self._turn_mode is TurnMode.MANUAL,
                continuous=self._dialect.continuous_media,
                setup_ns=self._transport.setup_ns if index == 0 else {},
            )
        last, now_ns = self._current, self._clock.now_ns()
        why = last.state.failure.message if last.state.failure is not None else "it was over"
        message = f"the dialogue ended at turn {len(self._held)}: {why}"
        return TurnCapture(
            trace=TurnTrace(dial_ns=now_ns, continuous=self._dialect.continuous_media),
            session_id=last.state.session_id,
            model=last.state.model,
            wall_ns=self._held[0].wall_ns + now_ns - self._held[0].begun_ns,
            failure=Failure(FailureKind.DIALOGUE_ENDED, message, now_ns),
        )
