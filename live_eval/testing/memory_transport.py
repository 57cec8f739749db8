"""Provide an in-memory transport, which can delay, lose and reorder messages, and its peer."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from live_eval.clock import Clock
from live_eval.dialect import Dial, Message
from live_eval.errors import ConnectError, TransportClosedError
from live_eval.transport import Arrival

__all__ = ["Link", "MemoryPeer", "MemoryTransport", "memory_pair"]


@dataclass(frozen=True, slots=True)
class Link:
    """The delivery of messages in one direction.

    Args:
        delay_ns: Function that returns the delay of message n (from 0); messages with a short delay can
            overtake earlier ones.
        drop: Function that returns whether message n is lost.
    """

    delay_ns: Callable[[int], int] = lambda _: 0
    drop: Callable[[int], bool] = lambda _: False


class _Channel:
    """One direction: messages in transit, ordered by arrival."""

    def __init__(self, clock: Clock, link: Link) -> None:
        self._clock = clock
        self._link = link
        self._sent = itertools.count()
        self._flying: list[tuple[int, int, Message]] = []
        self._news = asyncio.Event()
        self.closing: tuple[int, str] | None = None

    def put(self, message: Message) -> None:
        number = next(self._sent)
        if not self._link.drop(number):
            at_ns = self._clock.now_ns() + self._link.delay_ns(number)
            heapq.heappush(self._flying, (at_ns, number, message))
            self._news.set()

    def close(self, code: int, reason: str) -> None:
        if self.closing is None:
            self.closing = (code, reason)
            self._news.set()

    async def get(self) -> Arrival:
        while True:
            if self._flying:
                at_ns = self._flying[0][0]
                if at_ns <= self._clock.now_ns():
                    _, _, message = heapq.heappop(self._flying)
                    return Arrival(message, self._clock.now_ns())
                await self._clock.sleep_until(at_ns)
            elif self.closing is not None:
                raise TransportClosedError(*self.closing, self._clock.now_ns())
            else:
                self._news.clear()
                await self._news.wait()


class MemoryTransport:
    """The client side of the connection, as a `Transport`."""

    def __init__(self, clock: Clock, up: _Channel, down: _Channel, refuse: ConnectError | None) -> None:
        self._clock, self._up, self._down, self._refuse = clock, up, down, refuse
        self.dial: Dial | None = None

    @property
    def track(self) -> None:
        """Always None: audio is sent in messages."""

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """Always empty: no setup is necessary."""
        return {}

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Record the connection attempt, or raise the configured error."""
        self.dial = dial
        await asyncio.sleep(0)
        if self._refuse is not None:
            raise self._refuse

    async def send(self, message: Message) -> None:
        """Send a message to the peer."""
        if self._down.closing is not None:
            raise TransportClosedError(*self._down.closing, self._clock.now_ns())
        self._up.put(message)
        await asyncio.sleep(0)

    async def receive(self) -> Arrival:
        """Wait for a message from the peer."""
        return await self._down.get()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection in both directions."""
        self._up.close(code, reason)
        self._down.close(code, reason)


class MemoryPeer:
    """The endpoint side of the connection, driven by the test."""

    def __init__(self, up: _Channel, down: _Channel) -> None:
        self._up, self._down = up, down

    async def receive(self) -> Arrival:
        """Wait for a message from the client; raise `TransportClosedError` once it has closed."""
        return await self._up.get()

    def send(self, message: Message) -> None:
        """Send a message to the client."""
        self._down.put(message)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; messages in transit still arrive."""
        self._down.close(code, reason)
        self._up.close(code, reason)


def memory_pair(
    clock: Clock, *, up: Link | None = None, down: Link | None = None, refuse: ConnectError | None = None
) -> tuple[MemoryTransport, MemoryPeer]:
    """Return the two sides of an in-memory connection.

    Args:
        clock: Clock of both sides.
        up: Delivery of messages from the client; immediate and lossless if omitted.
        down: Delivery of messages from the endpoint.
        refuse: Error raised by `connect`, or None.
    """
    channels = _Channel(clock, up or Link()), _Channel(clock, down or Link())
    return MemoryTransport(clock, *channels, refuse), MemoryPeer(*channels)
