"""The transport interface: messages and media to and from an endpoint, stamped on arrival."""

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
    """A message and its arrival time, stamped before parsing."""

    message: Message
    at_ns: int


class Stamping(NamedTuple):
    """Quality of arrival timestamps: a `TurnTrace`'s ``stamps``, ``stamp_error_ns`` and ``clock_steps``."""

    kind: StampKind
    error_ns: int
    clock_steps: int


@runtime_checkable
class EncodesMessagesAhead(Protocol):
    """A transport that can encode a message ahead of its deadline."""

    def prepare(self, message: Message) -> Callable[[], bool]:
        """Encode a message; return a function that sends it immediately and returns whether it succeeded."""
        ...

    def drained(self) -> Awaitable[object]:
        """Wait until the network accepts more data."""
        ...


@runtime_checkable
class EncodesFramesAhead(Protocol):
    """A track that can encode a frame ahead of its deadline."""

    def prepare_frame(self, pcm: bytes, skipped: int = 0) -> Callable[[], None]:
        """Encode a frame, like `AudioTrack.send`; return a function that sends it immediately."""
        ...


@runtime_checkable
class LoadsAhead(Protocol):
    """A transport with code or data that a process should load before its first connection."""

    async def load(self, dial: Dial) -> None:
        """Load code and data before `connect`, so that loading time does not count as endpoint latency."""
        ...


class AudioTrack(Protocol):
    """A media track for the user's audio, sent in real time."""

    def send(self, pcm: bytes, skipped: int = 0) -> None:
        """Encode and send a frame immediately, without blocking; do nothing after the connection has ended.

        Args:
            pcm: int16 little-endian mono at the specification's input rate.
            skipped: Number of silence frames skipped before this frame; they advance the track's time.
        """
        ...

    async def stats(self) -> MediaStats:
        """Return RTCP statistics of the packets sent; the fields for received packets stay zero."""
        ...


class Transport(Protocol):
    """A connection to an endpoint, constructed with a `Clock`. Each instance serves one connection.

    One task may await `receive` while another sends. Cancelling `receive` loses no messages.

    If the kernel timestamps its arrivals (see `live_eval.sockets`), a transport also has the attributes
    ``stamps``, a `live_eval.types.StampKind`, and ``stamp_error_ns`` and ``clock_steps``, both int, as in
    `live_eval.timing.TurnTrace`.
    """

    @property
    def track(self) -> AudioTrack | None:
        """The track for the user's audio, once connected; None if audio travels in messages."""
        ...

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """Duration of each setup step by name, available after connecting (some slightly later)."""
        ...

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection.

        Raises:
            ConnectError: The connection could not be opened. The failure kind distinguishes a refusal
                (authentication, rate limit), an unreachable endpoint and a timeout.
        """
        ...

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            TransportClosedError: The connection has ended.
        """
        ...

    async def receive(self) -> Arrival | RtpPacket:
        """Wait for the next message or the next packet on the endpoint's track.

        Raises:
            TransportClosedError: The connection has ended and every arrival has been returned.
        """
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; no-op if it has ended. Never raises or blocks indefinitely."""
        ...
