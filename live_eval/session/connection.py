"""Handle the endpoint's side of a session: pass arrivals to the dialect and carry out its actions.

Only this module uses the transport, which a dialect may replace. It reports all events to the timeline; other
modules handle pacing and turns.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from live_eval.audio.rtp import MediaStats, RtpPacket
from live_eval.clock import Clock, Tick
from live_eval.dialect import (
    Close,
    Dial,
    Dialect,
    Interrupted,
    Message,
    Output,
    Reconnect,
    Send,
    SetTimer,
)
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.session.timeline import Timeline
from live_eval.transport import EncodesFramesAhead, EncodesMessagesAhead, Stamping, Transport
from live_eval.types import StampKind

__all__ = ["TICK_NS", "Connection"]

TICK_NS = 20_000_000
"""Interval at which timers are checked while no frame is due."""
_FAREWELL_NS = 5_000_000_000


@dataclass(slots=True)
class Departure:
    """A frame waiting for its deadline.

    Args:
        transport: Transport for which the frame is encoded; None if the connection has ended.
        messages: Messages of the frame, if audio travels in messages; None before encoding.
        writes: Functions that send the frame; each returns False if the connection has ended.
        left_ns: Time at which the frame was passed to the network, or None.
    """

    transport: Transport | None
    pcm: bytes
    tick: Tick
    messages: list[Message] | None = None
    others: Sequence[Output] = ()
    writes: Sequence[Callable[[], bool | None]] = ()
    left_ns: int | None = None


class Connection:
    """The connection between a dialect and its transports.

    Call `connect`, then `open`, then the other methods, then `leave`; always call `close`.

    Args:
        transport: Connection factory, called once unless the dialect requests a reconnect.
        loaded: The first connection, if already created.
    """

    def __init__(
        self,
        dialect: Dialect,
        transport: Callable[[Clock], Transport],
        clock: Clock,
        connect_s: float,
        timeline: Timeline,
        loaded: Transport | None = None,
    ) -> None:
        self._dialect = dialect
        self._new_transport = transport
        self._loaded = loaded
        self._first: Transport | None = None
        self._used: list[Transport] = []  # transports used in the current turn
        self._reopening = False  # whether the dialect may be buffering frames
        self._kept_ns: list[int] = []  # deadlines of the buffered frames
        self._transport: Transport  # set by `connect`
        self._messages_ahead: EncodesMessagesAhead | None = None
        self._frames_ahead: EncodesFramesAhead | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._clock = clock
        self._connect_s = connect_s
        self._timeline = timeline
        self._timers: dict[str, int] = {}
        self._closing = False  # whether this side is ending the connection
        self._leaving = False  # whether later events belong to no turn
        self._tasks: asyncio.TaskGroup  # set by `open`, like the next attribute
        self._listening: asyncio.Task[None]
        self._receiving = False  # whether the listening task is waiting for the next arrival
        self._moving: asyncio.Task[None] | None = None
        self._redialling = False  # whether a new connection is being created
        self._nap: asyncio.Task[None] | None = None

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """Duration of each setup step of the first connection."""
        return self._first.setup_ns if self._first is not None else {}

    @property
    def stamping(self) -> Stamping:
        """Timestamp source for the turn's arrivals: the kernel only if all its transports use it."""
        kinds = {getattr(each, "stamps", StampKind.USER) for each in self._used}
        return Stamping(
            StampKind.KERNEL if kinds == {StampKind.KERNEL} else StampKind.USER,
            max((getattr(each, "stamp_error_ns", 0) for each in self._used), default=0),
            sum(getattr(each, "clock_steps", 0) for each in self._used),
        )

    def turn_begins(self) -> None:
        """Start a turn, and begin to record which connections it uses."""
        self._used = self._used[-1:]

    async def sent_stats(self) -> MediaStats | None:
        """Return the sent packet counts; None without a track."""
        track = self._transport.track
        return await track.stats() if track is not None else None

    async def connect(self, dial: Dial) -> None:
        """Connect the transport.

        Raises:
            ConnectError: The connection could not be opened.
        """
        self._first = transport = self._loaded or self._new_transport(self._clock)
        self._transport, self._used = transport, [transport]
        await transport.connect(dial, self._connect_s)
        self._use(transport)

    def _use(self, transport: Transport) -> None:
        self._transport, track = transport, transport.track
        self._messages_ahead = (
            transport if track is None and isinstance(transport, EncodesMessagesAhead) else None
        )
        self._frames_ahead = track if isinstance(track, EncodesFramesAhead) else None

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        """Request the session, and listen in a task in `tasks` until `leave`."""
        self._tasks = tasks
        self._listening = tasks.create_task(self._listen())
        await self._opened()

    def prepare(self, pcm: bytes, tick: Tick) -> Departure:
        """Encode a frame of the user's audio ahead of time, so that only a write remains at its deadline."""
        departure = Departure(None if self._listening.done() else self._transport, pcm, tick)
        if departure.transport is None:
            return departure
        if self._frames_ahead is not None:
            departure.writes = (self._frames_ahead.prepare_frame(pcm, tick.skipped),)
        elif (track := self._transport.track) is not None:
            departure.writes = (functools.partial(track.send, pcm, tick.skipped),)
        elif not self._redialling:  # encode the frame once the new connection is open
            self._settled.clear()
            messages = self._encode(departure)
            if self._messages_ahead is not None:
                departure.writes = list(map(self._messages_ahead.prepare, messages))
        return departure

    def hand_over(self, departure: Departure) -> int:
        """Pass a frame to the network now, and return the time of sending."""
        left = bool(departure.writes)
        for write in departure.writes:
            left = write() is not False and left
        now_ns = self._clock.now_ns()
        if left:
            departure.left_ns = now_ns
        return now_ns

    async def settle(self, departure: Departure) -> bool:
        """Finish a frame after its deadline; return whether the connection was still open."""
        if departure.transport is None:
            return False
        try:
            if departure.left_ns is None:
                messages = departure.messages
                if messages is None:
                    messages = self._encode(departure)
                for message in messages:
                    if not await self._send(message):  # not logged: frame times are stored separately
                        return False
                if self._reopening and not messages:
                    self._kept_ns.append(departure.tick.deadline_ns)
                else:
                    departure.left_ns = self._clock.now_ns()
            elif self._messages_ahead is not None:
                await self._messages_ahead.drained()
        finally:
            self._settled.set()
        if departure.left_ns is not None and self._reopening and not self._redialling:
            self._kept_frames_left()
        if departure.others:
            await self._carry_out(departure.others, departure.tick.deadline_ns)
        return True

    def _kept_frames_left(self) -> None:
        """Record the dialect's buffered frames as sent now, so that the delay counts as lag."""
        now_ns = self._clock.now_ns()
        for due_ns in self._kept_ns:
            self._timeline.frame_sent(due_ns, now_ns)
        self._kept_ns.clear()
        self._reopening = False

    def _encode(self, departure: Departure) -> list[Message]:
        departure.messages, departure.others = messages, others = [], []
        at_ns = departure.tick.deadline_ns
        self._timeline.called("frame", at_ns, pcm=departure.pcm)
        for output in self._dialect.frame(departure.pcm, at_ns):
            if isinstance(output, Send):
                messages.append(output.message)
            else:
                others.append(output)
        return messages

    async def end_turn(self) -> None:
        """Have the dialect commit the user's turn."""
        now_ns = self._clock.now_ns()
        self._timeline.called("end_turn", now_ns)
        await self._carry_out(self._dialect.end_turn(now_ns), now_ns)

    async def stop_reply(self) -> None:
        """Have the dialect stop the interrupted reply."""
        now_ns = self._clock.now_ns()
        for response_id, heard_ms in self._timeline.stop_reply(now_ns).items():
            await self._interrupt(response_id, heard_ms, now_ns)

    async def fire_timers(self) -> None:
        """Fire the dialect's timers that are due."""
        if not self._timers:
            return
        now_ns = self._clock.now_ns()
        for name in [name for name, at_ns in self._timers.items() if at_ns <= now_ns]:
            if self._timers.get(name, now_ns + 1) > now_ns:  # an earlier timer cancelled or moved it
                continue
            del self._timers[name]
            self._timeline.called("timer", now_ns, name=name)
            await self._carry_out(self._dialect.timer(name, now_ns), now_ns)

    async def wait(self, until_ns: int) -> None:
        """Wait for the next event, at most until `until_ns`; fire due timers."""
        alarm_ns = min([until_ns, *self._timers.values()])
        self._nap = self._tasks.create_task(self._clock.sleep_until(alarm_ns))
        await asyncio.wait((self._nap,))
        self._nap = None
        await self.fire_timers()

    async def leave(self) -> None:
        """End the session; if the dialect sets a timer, wait that long for the endpoint's final message.

        Later events do not belong to any turn. A reconnect in progress is not awaited.
        """
        self._closing = self._leaving = True
        self._timers.clear()
        if self._moving is not None:
            self._moving.cancel()
            await asyncio.wait((self._moving,))
        if not self._listening.done():
            now_ns = self._clock.now_ns()
            patience = self._tasks.create_task(self._close_at(now_ns + _FAREWELL_NS))
            self._timeline.called("finish", now_ns)
            await self._carry_out(self._dialect.finish(now_ns), now_ns)
            while self._timers and not self._listening.done():
                await self._clock.sleep_until(self._clock.now_ns() + TICK_NS)
                await self.fire_timers()
            patience.cancel()
        self._listening.cancel()

    async def close(self) -> None:
        """Close the connection unless it has ended. Never raises an error and never hangs."""
        self._closing = True
        if self._first is not None:
            await self._transport.close()

    async def _close_at(self, at_ns: int) -> None:
        await self._clock.sleep_until(at_ns)
        await self.close()

    # -- The connection ----------------------------------------------------------------------------------

    async def _opened(self) -> None:
        now_ns = self._clock.now_ns()
        self._timeline.called("opened", now_ns)
        await self._carry_out(self._dialect.opened(now_ns), now_ns)

    async def _listen(self) -> None:
        while True:
            transport = self._transport
            self._clock.catch_up()
            try:
                self._receiving = True
                arrival = await transport.receive()
                self._receiving = False
            except TransportClosedError as end:
                end.__traceback__ = None  # avoid a cycle: frames refer to the transport
                self._receiving = False
                if self._moving is not None:
                    await asyncio.wait((self._moving,))
                if transport is not self._transport:  # the transport was replaced
                    continue
                if not self._closing:
                    await self._ended(end)
                self._wake()
                return
            if isinstance(arrival, RtpPacket):
                self._timeline.packet_received(arrival)
                continue
            self._timeline.message_received(arrival.message, arrival.at_ns)
            outputs = self._dialect.received(arrival.message, arrival.at_ns)
            await self._carry_out(outputs, arrival.at_ns)
            if self._kept_ns and any(isinstance(output, Send) for output in outputs):
                self._kept_frames_left()
            if (flood := self._timeline.flooded) is not None:
                await self._stop_listening(flood)
                return

    async def _stop_listening(self, why: str) -> None:
        """End the connection because the endpoint has sent too much data."""
        end = TransportClosedError(None, why, self._clock.now_ns(), kind=FailureKind.ENDLESS)
        if not self._closing:
            self._closing = True
            await self._ended(end)
        await self._transport.close()
        self._wake()

    async def _ended(self, end: TransportClosedError) -> None:
        """Handle a connection that the endpoint or the network closed."""
        self._timers.clear()
        self._timeline.connection_ended(end)
        if end.kind is FailureKind.CLOSED:
            await self._carry_out(self._dialect.closed(end.code, end.reason, end.at_ns), end.at_ns)
        self._timeline.connection_lost(end)

    async def _move(self) -> None:
        """Replace the connection without waiting for messages on the old one.

        Runs as a separate task: the user continues to speak, and the old connection may close by itself.
        """
        transport = self._new_transport(self._clock)
        try:
            await transport.connect(self._dialect.dial(), self._connect_s)
        except ConnectError as error:
            message = f"the session could not be resumed: {error.message}"
            self._timeline.failed(error.kind, message, self._clock.now_ns(), error.retry_after_s)
            self._redialling = False
            self._wake()
            return
        await self._settled.wait()  # send the frames that are already encoded for the old connection
        old = self._transport
        self._use(transport)
        self._used.append(transport)
        if self._receiving:  # the old connection may take seconds to close
            self._receiving = False
            self._listening.cancel()
            self._listening = self._tasks.create_task(self._listen())
        self._tasks.create_task(old.close())
        await asyncio.sleep(0)  # close the old connection before the first message on the new one
        self._redialling = False
        await self._opened()  # must precede any audio

    async def _send(self, message: Message) -> bool:
        """Send a message; return whether the connection was still open. `_listen` reports a closed one."""
        try:
            await self._transport.send(message)
        except TransportClosedError:
            return False
        return True

    # -- Outputs of the dialect ---------------------------------------------------------------------------

    async def _carry_out(self, outputs: Iterable[Output], at_ns: int) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    if await self._send(message):
                        self._timeline.message_sent(message, self._clock.now_ns())
                case SetTimer(name, timer_ns):
                    if timer_ns is None:
                        self._timers.pop(name, None)
                    else:
                        self._timers[name] = timer_ns
                case Reconnect():
                    if not (self._leaving or self._redialling):
                        if self._moving is not None:  # the turn still uses the old connection
                            self._moving.cancel()
                        self._redialling = self._reopening = True
                        self._moving = self._tasks.create_task(self._move())
                case Close(code, reason):
                    self._closing = True
                    self._timers.clear()
                    await self._transport.close(code, reason)
                case _ if self._leaving:
                    pass
                case Interrupted(response_id):
                    turn = self._timeline.happened(output, at_ns)
                    await self._interrupt(response_id, turn.heard_ms(response_id, at_ns), at_ns)
                case _:
                    self._timeline.happened(output, at_ns)
        self._wake()

    async def _interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> None:
        self._timeline.called("interrupt", at_ns, response_id=response_id, heard_ms=heard_ms)
        await self._carry_out(self._dialect.interrupt(response_id, heard_ms, at_ns), at_ns)

    def _wake(self) -> None:
        if self._nap is not None:
            self._nap.cancel()
