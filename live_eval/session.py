"""One session with an endpoint: joins a dialect, a transport and a pacer, and captures one turn.

The session alone touches the network and the clock. It decides nothing: the dialect says what to send, the
turn's state says when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from live_eval.capture import LoggedMessage, TurnCapture
from live_eval.cassettes import Call, Closed, Packet, Received, Sent, Step, Turn, expected
from live_eval.clock import Clock, Pacer
from live_eval.dialect import Close, Dialect, Event, Interrupted, Message, Output, Reconnect, Send, SetTimer
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.loop import LoopProbe, describe
from live_eval.rtp import MediaStats, RtpPacket
from live_eval.timeline import TurnTrace
from live_eval.transport import Transport
from live_eval.turn import TurnLimits, TurnState
from live_eval.types import Modality, SpeechEdges, TurnMode

__all__ = ["Session", "UserTurn"]

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
    """Holds one turn over one connection.

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
        self._state = TurnState(self._limits, modality)
        self._timers: dict[str, int] = {}
        self._messages: list[tuple[int, bool, Message]] = []
        self._wire: list[Step | tuple[int, Event]] | None = [] if records_wire else None
        self._closing = False
        self._leaving = False
        self._left = False
        self._tasks: asyncio.TaskGroup | None = None
        self._moving: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._deadlines: list[int] = []
        self._sent: list[int] = []
        self._t0_ns: int | None = None
        self._pacer: Pacer | None = None
        self._sent_stats: MediaStats | None = None

    async def hold(self, turn: UserTurn) -> TurnCapture:
        """Connect, speak the turn, listen until it is over, take leave.

        Args:
            turn: What the user says.

        Returns:
            What was captured. Whatever the endpoint, the network or a defect of the dialect does becomes a
            `Failure` in it; its log is empty, see `log`.
        """
        wall_ns, dial_ns = self._clock.wall_ns(), self._clock.now_ns()
        dial = self._dialect.dial()
        self._state = TurnState(
            self._limits,
            self._modality,
            transcribes=self._transcribes,
            track=dial.signalling is not None,
            continuous=self._dialect.continuous_media,
        )
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
                    guarding = tasks.create_task(self._guard(turn))
                    await self._talk(turn)
                    self._sent_stats = await self._track_stats()
                    await self._leave(listening)
                    for task in (listening, guarding, self._moving):
                        if task is not None:
                            task.cancel()
            except ExceptionGroup as errors:
                self._failed(FailureKind.INTERNAL, describe(errors), self._clock.now_ns())
            finally:
                await self._transport.close()
        return self._captured(turn, dial_ns, wall_ns)

    def log(self) -> tuple[LoggedMessage, ...]:
        """Return every message with its stamp, redacted. Parsing them is work: call it off the event loop."""
        return tuple(
            LoggedMessage(at_ns, "in" if incoming else "out", self._dialect.redact(message))
            for at_ns, incoming, message in self._messages
        )

    def wire(self) -> tuple[Step, ...]:
        """Return everything that happened, in order; empty where it was not asked for.

        Telling the events is work: call it off the event loop.
        """
        return tuple(expected(*step) if isinstance(step, tuple) else step for step in self._wire or ())

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
            self._messages.append((arrival.at_ns, True, arrival.message))
            await self._carry_out(self._dialect.received(arrival.message, arrival.at_ns), arrival.at_ns)

    async def _ended(self, end: TransportClosedError) -> None:
        """The connection ended, and not by us."""
        self._state.retry_after_s = end.retry_after_s
        if end.kind is FailureKind.CLOSED:
            if self._wire is not None:
                self._wire.append(Closed(end.at_ns, end.code, end.reason))
            await self._carry_out(self._dialect.closed(end.code, end.reason, end.at_ns), end.at_ns)
            said = f"the endpoint closed the connection: code {end.code}, reason {end.reason!r}"
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

    async def _guard(self, turn: UserTurn) -> None:
        """End a session that its own limits do not end: an endpoint that stops reading blocks our sending."""
        limits = self._limits
        waits_s = limits.ready_s + 2 * (limits.reply_s + limits.max_reply_s) + limits.stall_s
        bound_ns = len(turn.frames) * turn.frame_ns + round(waits_s * _SECOND_NS)
        await self._clock.sleep_until(self._clock.now_ns() + bound_ns)
        self._failed(
            FailureKind.STALLED,
            f"the session did not end within {bound_ns / _SECOND_NS:g} s, and no limit of it was reached: "
            f"after {len(self._sent)} frames the endpoint took no more",
            self._clock.now_ns(),
        )
        self._closing = True
        await self._transport.close()

    async def _carry_out(self, outputs: Iterable[Output], at_ns: int) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    if await self._send(message):
                        self._messages.append((self._clock.now_ns(), False, message))
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
                    self._state.on_event(output, at_ns)
                    if isinstance(output, Interrupted):
                        await self._stop_playing(output.response_id, at_ns)
                    if self._state.ready_ns is not None or self._state.failure is not None:
                        self._ready.set()

    async def _stop_playing(self, response_id: str, at_ns: int) -> None:
        """Tell the endpoint how much of an interrupted response was heard, as a player would."""
        heard_ms = self._state.heard_ms(response_id, at_ns)
        self._note(Call, at_ns, "interrupt", response_id=response_id, heard_ms=heard_ms)
        await self._carry_out(self._dialect.interrupt(response_id, heard_ms, at_ns), at_ns)

    async def _send(self, message: Message) -> bool:
        """Send, and return whether the connection was still there; its end is told by `_listen`."""
        try:
            await self._transport.send(message)
        except TransportClosedError:
            return False
        return True

    async def _talk(self, turn: UserTurn) -> None:
        """Open the session, speak, and keep the session alive until the turn is over."""
        await self._open()
        await self._until_ready()
        if self._state.failure is not None:
            return
        self._t0_ns = self._clock.now_ns() + _LEAD_NS
        self._pacer = Pacer(self._clock, self._t0_ns, turn.frame_ns)
        onset_ns, voice_end_ns = turn.edges.onset_ns, turn.edges.voice_end_ns
        self._note(Turn, self._t0_ns, "user_speaks", onset_ns=onset_ns, voice_end_ns=voice_end_ns)
        self._state.user_speaks(self._t0_ns + onset_ns, self._t0_ns + voice_end_ns)
        for frame in turn.frames:
            await self._frame(self._pacer, frame, speech=True)
            if self._state.failure is not None:
                return
        if self._turn_mode is TurnMode.MANUAL:
            now_ns = self._clock.now_ns()
            self._note(Call, now_ns, "end_turn")
            await self._carry_out(self._dialect.end_turn(now_ns), now_ns)
        now_ns = self._clock.now_ns()
        self._note(Turn, now_ns, "user_done")
        self._state.user_done(now_ns)
        silent = bytes(len(turn.frames[0])) if turn.frames else b""
        keep_talking = self._turn_mode is not TurnMode.MANUAL or self._dialect.needs_continuous_input
        while not self._over():
            if keep_talking:
                await self._frame(self._pacer, silent, speech=False)
            else:
                await self._clock.sleep_until(self._clock.now_ns() + _TICK_NS)
                await self._fire_timers()

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
        came = [message for _, incoming, message in self._messages if incoming]
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
        self._sent.append(self._clock.now_ns())
        self._deadlines.append(tick.deadline_ns)
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

    def _captured(self, turn: UserTurn, dial_ns: int, wall_ns: int) -> TurnCapture:
        state, t0_ns = self._state, self._t0_ns
        end_ns = self._clock.now_ns()
        edges = turn.edges
        from_ns = dial_ns if t0_ns is None else t0_ns + edges.voice_end_ns - 200_000_000
        reading = self._probe.between(from_ns, end_ns) if self._probe is not None else None
        nothing = np.empty(0, np.int64)
        trace = TurnTrace(
            dial_ns=dial_ns,
            ready_ns=state.ready_ns,
            t0_ns=t0_ns,
            onset_ns=None if t0_ns is None else t0_ns + edges.onset_ns,
            voice_end_ns=None if t0_ns is None else t0_ns + edges.voice_end_ns,
            edges_uncertain=edges.uncertain,
            frame_deadline_ns=np.asarray(self._deadlines, np.int64),
            frame_sent_ns=np.asarray(self._sent, np.int64),
            speech_stopped_ns=tuple(state.speech_stopped_ns),
            committed_ns=state.committed_ns if self._turn_mode is TurnMode.MANUAL else None,
            probe_at_ns=reading.at_ns if reading is not None else nothing,
            probe_lag_ns=reading.lag_ns if reading is not None else nothing,
            continuous=self._dialect.continuous_media,
            setup_ns=dict(self._transport.setup_ns),
        )
        return TurnCapture(
            trace=trace,
            responses=state.responses,
            heard_text=state.heard_text,
            rate_limits=tuple(state.rate_limits),
            session_id=state.session_id,
            model=state.model,
            wall_ns=wall_ns,
            late_speech_frames=self._pacer.late_speech_frames if self._pacer is not None else 0,
            skipped_silence_frames=self._pacer.skipped_silence_frames if self._pacer is not None else 0,
            failure=state.failure,
            retry_after_s=state.retry_after_s,
            warnings=tuple(state.warnings),
            media=self._media(),
        )

    def _media(self) -> MediaStats | None:
        heard, sent = self._state.media, self._sent_stats
        if heard is None or sent is None:
            return heard
        return replace(
            heard,
            sent_packets=sent.sent_packets,
            sent_lost=sent.sent_lost,
            round_trip_ns=sent.round_trip_ns,
        )
