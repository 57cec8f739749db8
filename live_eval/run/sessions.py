"""Define session orders and results, and run sessions in this process."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from live_eval.cassettes import Step, WireRecord
from live_eval.clock import Clock, FrameSlots
from live_eval.dialect import EndpointSettings
from live_eval.impair import Impairment
from live_eval.registry import load as load_object
from live_eval.session import PAUSE_NS, Session, Utterance, logged
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.session.echo import EchoMixer
from live_eval.session.event_loop import Collector, LoopProbe, Priority, undisturbed
from live_eval.session.limits import SessionLimits
from live_eval.session.log import RawMessage
from live_eval.session.speaker import Speaker
from live_eval.session.surroundings import Surroundings
from live_eval.transport import Transport
from live_eval.types import TurnMode

__all__ = ["Cpu", "SessionOrder", "SessionResult", "SessionRunner", "local_runner"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionOrder:
    """All inputs of a session, in picklable form.

    Args:
        dialect: Implementation as ``"module:Class"``, like `transport`.
        settings: Dialect settings, with the endpoint's key.
        pause_ns: Pause from the end of a reply, as heard, to the next recording.
        greeting_ns: Maximum wait for the endpoint's greeting to begin; 0 to speak immediately.
        due_ns: When to dial, on the monotonic clock; None for now.
        records_wire: Whether to record every message and event.
        impairment: Traffic impairment with the session's seed, passed to transports as ``impairment``.
    """

    dialect: str
    transport: str
    settings: EndpointSettings = field(repr=False)
    turn_mode: TurnMode
    limits: SessionLimits
    utterances: Sequence[Utterance] = field(repr=False)
    pause_ns: int = PAUSE_NS
    greeting_ns: int = 0
    due_ns: int | None = None
    records_wire: bool = False
    impairment: Impairment | None = None

    def new_transport(self) -> Callable[[Clock], Transport]:
        """Return the session's transport factory."""
        transport: Callable[..., Transport] = load_object(self.transport)
        if self.impairment is None or not self.impairment.on_network:
            return transport
        return functools.partial(transport, impairment=self.impairment)

    def surroundings(self) -> Callable[[Speaker], Surroundings] | None:
        """Return the factory for background noise and echo; None for a session without them."""
        level_db = self.impairment.number("echo") if self.impairment is not None else None
        if level_db is None and not any(utterance.background for utterance in self.utterances):
            return None
        echo = None
        if level_db is not None:
            assert self.impairment is not None
            delay_ms = self.impairment.number("echo_delay") or 0.0
            first = self.utterances[0]
            rate_hz = len(first.frames[0]) // 2 * 1_000_000_000 // first.frame_ns
            echo = EchoMixer(level_db, round(delay_ms * 1e6), rate_hz)
        return functools.partial(Surroundings, utterances=self.utterances, echo=echo)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionResult:
    """The result of a session.

    Args:
        captures: Captured turns, with empty logs.
        messages: Each turn's sent and received messages; may contain secrets.
        secrets: Secrets of the session, for example tokens that the endpoint has issued.
        recorded: All messages and events, if the order requested them.
    """

    captures: Sequence[TurnCapture]
    messages: Sequence[Sequence[RawMessage]] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    recorded: WireRecord = field(repr=False)

    def logs(self, order: SessionOrder) -> list[tuple[LoggedMessage, ...]]:
        """Return each turn's redacted messages with timestamps. Slow, so call outside the event loop."""
        dialect = load_object(order.dialect)(order.settings)
        dialect.secrets.update(self.secrets)
        return [logged(messages, dialect) for messages in self.messages]

    def wire(self) -> tuple[Step, ...]:
        """Return the recorded messages and events in order. Slow, so call outside the event loop."""
        return self.recorded.steps()


class Cpu(NamedTuple):
    """CPU time in seconds of this process and its session processes, and of their event loops alone."""

    total_s: float
    loops_s: float


class SessionRunner(Protocol):
    """Interface for running concurrent sessions."""

    @property
    def priority(self) -> Priority:
        """Lowest priority of the streaming threads."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """The runner's entries in a run's manifest: JSON values without secrets."""
        ...

    async def run(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionResult:
        """Run a session. Faults of the endpoint or the network become a `Failure` of its turns.

        Args:
            on_ready: Called when the endpoint's session is ready; a runner on other machines never calls it.

        Raises:
            TurnError: The session could not be run, or its result was lost.
        """
        ...

    def cpu(self) -> Cpu:
        """Return the CPU time used so far."""
        ...


class LocalRunner:
    """A `SessionRunner` on the current event loop; see `local_runner`."""

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
        """See `SessionRunner`."""
        return {"priority": self.priority.value}

    async def run(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionResult:
        """See `SessionRunner`. Exceptions from bugs in the dialect propagate."""
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
            on_ready=on_ready,
        )
        await session.load()
        if order.due_ns is not None:
            await self._clock.sleep_until(order.due_ns)
        with self._collector.session(session.timed):
            captures = await session.converse(
                order.utterances, pause_ns=order.pause_ns, greeting_ns=order.greeting_ns
            )
        return SessionResult(
            captures=captures,
            messages=[session.messages(turn) for turn in range(len(captures))],
            secrets=session.secrets,
            recorded=session.wire,
        )

    def cpu(self) -> Cpu:
        """See `SessionRunner`."""
        return Cpu(time.process_time(), time.thread_time())


@contextlib.asynccontextmanager
async def local_runner(
    clock: Clock, transport: Callable[[Clock], Transport] | None = None
) -> AsyncIterator[SessionRunner]:
    """Run sessions on this event loop with raised priority and a lag probe.

    Args:
        transport: Transport factory; replaces the class specified in an order.
    """
    with undisturbed() as priority:
        probe = LoopProbe(clock)
        async with asyncio.TaskGroup() as tasks:
            probing = tasks.create_task(probe.run())
            yield LocalRunner(clock, probe, Collector(), priority, transport)
            probing.cancel()
