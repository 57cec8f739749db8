"""Sessions as they are ordered and handed back, whoever holds them: this process, or one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from live_eval.cassettes import Step
from live_eval.cassettes.recorder import WireRecord
from live_eval.clock import Clock, FrameSlots
from live_eval.dialect import EndpointSettings, TransportKind
from live_eval.impair import Impairment
from live_eval.recording.record import LoggedMessage, TurnCapture
from live_eval.registry import load as load_object
from live_eval.session import PAUSE_NS, Session, Utterance, logged
from live_eval.session.echo import Echo
from live_eval.session.event_loop import Collector, LoopProbe, Priority, undisturbed
from live_eval.session.limits import TurnLimits
from live_eval.session.speaker import Speaker
from live_eval.session.surroundings import Surroundings
from live_eval.session.timeline import RawMessage
from live_eval.transport import Transport
from live_eval.types import TurnMode

__all__ = ["Cpu", "HeldSession", "SessionHolder", "SessionOrder", "local_sessions"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionOrder:
    """Everything that is needed to hold a session. It can be sent to another process.

    Args:
        dialect: The implementation, ``"module:Class"``.
        transport: The same.
        settings: What the dialect is made with; they hold the endpoint's key.
        turn_mode: Who decides that the user's turn is over.
        limits: How long to wait at each stage.
        utterances: What the user says, at least one recording.
        pause_ns: From the end of a reply, as heard, to the next recording.
        greeting_ns: How long to wait for the endpoint's greeting to begin; 0 to speak at once.
        due_ns: When to dial, on the monotonic clock; None for at once.
        records_wire: Whether to keep everything that happens.
        impairment: What is done to the traffic, with the session's seed; None for nothing. A transport that
            can be given one takes it as ``impairment``.
    """

    dialect: str
    transport: str
    settings: EndpointSettings = field(repr=False)
    turn_mode: TurnMode
    limits: TurnLimits
    utterances: Sequence[Utterance] = field(repr=False)
    pause_ns: int = PAUSE_NS
    greeting_ns: int = 0
    due_ns: int | None = None
    records_wire: bool = False
    impairment: Impairment | None = None

    def new_transport(self) -> Callable[[Clock], Transport]:
        """Return what makes the session's connections."""
        transport: Callable[..., Transport] = load_object(self.transport)
        if self.impairment is None or not self.impairment.on_network:
            return transport
        return functools.partial(transport, impairment=self.impairment)

    def surroundings(self) -> Callable[[Speaker], Surroundings] | None:
        """Return what puts the user into their surroundings; None where nothing but them is heard."""
        level_db = self.impairment.number("echo") if self.impairment is not None else None
        if level_db is None and not any(utterance.background for utterance in self.utterances):
            return None
        echo = None
        if level_db is not None:
            assert self.impairment is not None
            delay_ms = self.impairment.number("echo_delay") or 0.0
            first = self.utterances[0]
            rate_hz = len(first.frames[0]) // 2 * 1_000_000_000 // first.frame_ns
            echo = Echo(level_db, round(delay_ms * 1e6), rate_hz)
        return functools.partial(Surroundings, utterances=self.utterances, echo=echo)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldSession:
    """What came of a session.

    Args:
        captures: What was captured of each turn; their logs are empty.
        messages: The messages of each turn as they travelled. They may hold secrets.
        recorded: Everything that happened, if the order asked for it.
    """

    captures: Sequence[TurnCapture]
    messages: Sequence[Sequence[RawMessage]] = field(repr=False)
    recorded: WireRecord = field(repr=False)

    def logs(self, order: SessionOrder) -> list[tuple[LoggedMessage, ...]]:
        """Return every message of each turn with its stamp, redacted.

        Parsing them is work: call it off the event loop.
        """
        dialect = load_object(order.dialect)(order.settings)
        return [logged(messages, dialect) for messages in self.messages]

    def wire(self) -> tuple[Step, ...]:
        """Return everything that happened, in order; empty if it was not to be recorded.

        Building the steps is work: call it off the event loop.
        """
        return self.recorded.steps()


class Cpu(NamedTuple):
    """Processor seconds.

    Args:
        total_s: Of this process, and of those that hold its sessions.
        loops_s: Of the threads alone whose event loops hold sessions.
    """

    total_s: float
    loops_s: float


class SessionHolder(Protocol):
    """Holds sessions, any number at a time."""

    @property
    def priority(self) -> Priority:
        """The priority of the threads that stream; the lowest of them."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the manifest of a run says of who holds its sessions: JSON values without secrets."""
        ...

    async def hold(self, order: SessionOrder) -> HeldSession:
        """Hold a session. What the endpoint or the network does becomes a `Failure` of its turns.

        Raises:
            TurnError: There was no session, or nothing is left of it.
        """
        ...

    def cpu(self) -> Cpu:
        """Return the processor time that was spent so far."""
        ...


class LocalSessions:
    """Holds sessions on the event loop that runs; see `local_sessions`."""

    def __init__(
        self,
        clock: Clock,
        probe: LoopProbe,
        collector: Collector,
        priority: Priority,
        transport: Callable[[Clock], Transport] | None,
    ) -> None:
        self._clock = clock
        self._probe = probe
        self._collector = collector
        self._slots = FrameSlots(clock)
        self._transport = transport
        self.priority = priority

    @property
    def facts(self) -> Mapping[str, Any]:
        """As `SessionHolder.facts`."""
        return {"priority": self.priority.value}

    async def hold(self, order: SessionOrder) -> HeldSession:
        """As `SessionHolder.hold`; a bug of the dialect raises what it raises."""
        settings = order.settings
        session = Session(
            load_object(order.dialect)(settings),
            self._transport or order.new_transport(),
            self._clock,
            turn_mode=order.turn_mode,
            modality=settings.modality,
            transcribes=settings.transcription_model is not None,
            limits=order.limits,
            probe=self._probe,
            slots=self._slots,
            records_wire=order.records_wire,
            around=order.surroundings(),
        )
        await session.load()
        if order.due_ns is not None:
            await self._clock.sleep_until(order.due_ns)
        with self._collector.session(session.timed):
            captures = await session.converse(
                order.utterances, pause_ns=order.pause_ns, greeting_ns=order.greeting_ns
            )
        return HeldSession(
            captures=captures,
            messages=[session.messages(turn) for turn in range(len(captures))],
            recorded=session.wire,
        )

    def cpu(self) -> Cpu:
        """As `SessionHolder.cpu`."""
        return Cpu(time.process_time(), time.thread_time())


@contextlib.asynccontextmanager
async def local_sessions(
    clock: Clock, kind: TransportKind, transport: Callable[[Clock], Transport] | None = None
) -> AsyncIterator[SessionHolder]:
    """Hold sessions on this event loop, undisturbed and probed.

    Args:
        clock: Their clock.
        kind: The kind of their transport.
        transport: What makes their transports, instead of what the orders name.
    """
    with undisturbed() as priority:
        probe = LoopProbe(clock)
        async with asyncio.TaskGroup() as tasks:
            probing = tasks.create_task(probe.run())
            yield LocalSessions(clock, probe, Collector(kind), priority, transport)
            probing.cancel()
