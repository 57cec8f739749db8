"""The contract of transports: messages to and from an endpoint, stamped on arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from live_eval.dialect import Dial, Message

__all__ = ["Arrival", "Transport"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message and when it arrived, stamped before anything looked at it."""

    message: Message
    at_ns: int


class Transport(Protocol):
    """A connection to an endpoint. Constructed with a `Clock`; used for one connection.

    `receive` may be awaited by one task while another sends. Cancelling it loses nothing.
    """

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection.

        Raises:
            ConnectError: It could not be opened; its kind says whether the endpoint refused us
                (authentication, rate limit), was not there, or took too long.
        """
        ...

    async def send(self, message: Message) -> None:
        """Hand a message to the network.

        Raises:
            TransportClosedError: The connection has ended.
        """
        ...

    async def receive(self) -> Arrival:
        """Wait for the next message.

        Raises:
            TransportClosedError: The connection has ended and every message that came has been returned.
        """
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; does nothing where it has ended already. Never raises, never hangs."""
        ...
