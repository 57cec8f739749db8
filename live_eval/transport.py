"""The contract of transports: messages and media to and from an endpoint, stamped on arrival."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from live_eval.audio.rtp import MediaStats, RtpPacket
from live_eval.dialect import Dial, Message
from live_eval.types import StampKind

__all__ = [
    "Arrival",
    "AudioTrack",
    "EncodesFramesAhead",
    "EncodesMessagesAhead",
    "LoadsAhead",
    "Stamping",
    "Transport",
]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message and its arrival, stamped before parsing."""

    message: Message
    at_ns: int


class Stamping(NamedTuple):
    """How arrivals were stamped: ``stamps``, ``stamp_error_ns`` and ``clock_steps`` of a `TurnTrace`."""

    kind: StampKind
    error_ns: int
    clock_steps: int


@runtime_checkable
class EncodesMessagesAhead(Protocol):
    """A transport that can encode a message before it is due."""

    def prepare(self, message: Message) -> Callable[[], bool]:
        """Encode a message; return a function that sends it at once and returns whether that was possible."""
        ...

    def drained(self) -> Awaitable[object]:
        """Wait until the network accepts more data."""
        ...


@runtime_checkable
class EncodesFramesAhead(Protocol):
    """A track that can encode a frame before it is due."""

    def prepare_frame(self, pcm: bytes, skipped: int = 0) -> Callable[[], None]:
        """Encode a frame, as `AudioTrack.send` does; return a function that sends it at once."""
        ...


@runtime_checkable
class LoadsAhead(Protocol):
    """A transport whose first connection in a process loads something slow."""

    async def load(self, dial: Dial) -> None:
        """Load it before `connect`, so that it does not count as the endpoint's time."""
        ...


class AudioTrack(Protocol):
    """A media track for the user's audio, fed at the pace of speech."""

    def send(self, pcm: bytes, skipped: int = 0) -> None:
        """Encode and send a frame now. Never blocks; does nothing once the connection has ended.

        Args:
            pcm: int16 little-endian mono at the specification's input rate.
            skipped: Frames of silence that were skipped before this one: they advance the track's time.
        """
        ...

    async def stats(self) -> MediaStats:
        """Return what RTCP reports on the packets that we sent; fields on received packets stay zero."""
        ...


class Transport(Protocol):
    """A connection to an endpoint. Constructed with a `Clock`; used for one connection.

    `receive` may be awaited by one task while another sends. Cancelling it loses nothing.

    A transport whose arrivals are stamped by the kernel (see `live_eval.sockets`) also has the attributes
    ``stamps``, a `live_eval.types.StampKind`, and ``stamp_error_ns`` and ``clock_steps``, both int, as in
    `live_eval.timing.TurnTrace`.
    """

    @property
    def track(self) -> AudioTrack | None:
        """The track for the user's audio, once connected; None if audio travels in messages."""
        ...

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """Duration of each setup step, by name; available once connected, some a little later."""
        ...

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection.

        Raises:
            ConnectError: It could not be opened. The kind of failure distinguishes a refusal (authentication,
                rate limit), an unreachable endpoint and a timeout.
        """
        ...

    async def send(self, message: Message) -> None:
        """Hand a message to the network.

        Raises:
            TransportClosedError: The connection has ended.
        """
        ...

    async def receive(self) -> Arrival | RtpPacket:
        """Wait for the next message, or the next packet of the endpoint's track.

        Raises:
            TransportClosedError: The connection has ended and every arrival has been returned.
        """
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; does nothing if it has already ended. Never raises, never hangs."""
        ...
