"""Compute delivery times of datagrams and bytes over an impaired network. Pure: the caller passes send times.

Each direction of a connection is modelled as a link with a capacity, followed by a path with a delay.
Datagrams can be lost, duplicated and reordered, as in WebRTC's SimulatedNetwork. The bytes of a stream are
never lost or reordered, as with TCP, but the stream may stall or end early.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from live_eval.impair.catalogue import QUEUE_MS
from live_eval.impair.spec import Impairment

__all__ = ["HEADER_BYTES", "PacketPath", "StreamPath", "is_damaged", "is_media"]

HEADER_BYTES = 28
"""Size of the IPv4 (without options) and UDP headers, which are added to each datagram's size on the link.
"""
_MS = 1_000_000
_DTLS_DATA = 23  # RFC 6347: an application data record


def is_media(datagram: bytes) -> bool:
    """Return whether a datagram is RTP (RFC 7983), as opposed to RTCP (RFC 5761, 4)."""
    return len(datagram) > 1 and 128 <= datagram[0] <= 191 and not 192 <= datagram[1] <= 223


def is_damaged(datagram: bytes) -> bool:
    """Return whether impairments apply to a datagram: media, RTCP or a data channel message (RFC 7983)."""
    # Never impair STUN or DTLS handshakes and alerts, because peers abandon a connection whose checks are
    # lost.
    return bool(datagram) and (128 <= datagram[0] <= 191 or datagram[0] == _DTLS_DATA)


class _Path:
    """Settings and delay of one direction (``up`` or ``down``)."""

    def __init__(self, impairment: Impairment, direction: str) -> None:
        self._impairment = impairment
        self._direction = direction
        self._kbps = self._number("bandwidth")
        self._delay_ns, self._jitter_ns = self._time_ns("delay"), self._time_ns("jitter")
        self._delays = self._draws("jitter")
        self._free_ns = 0  # time at which the link has sent all queued data
        self._latest_ns = 0

    def _number(self, name: str) -> float | None:
        return self._impairment.number(name, self._direction)

    def _time_ns(self, name: str) -> int:
        return round((self._number(name) or 0.0) * _MS)

    def _draws(self, what: str) -> random.Random:
        # Use a separate random sequence for each impairment, so that jitter does not change which packets are
        # lost.
        return random.Random(f"{self._impairment.seed}/{self._direction}/{what}")

    def _next_delay_ns(self) -> int:
        if not self._jitter_ns:
            return self._delay_ns
        return max(0, round(self._delays.gauss(self._delay_ns, self._jitter_ns)))


@dataclass(slots=True)
class _Losses:
    """Generate random losses, independent or in bursts (Gilbert model with the states good and lost)."""

    draw: random.Random
    starts: float  # loss probability after a delivered packet
    continues: float  # loss probability after a lost packet
    losing: bool

    def next(self) -> bool:
        self.losing = self.draw.random() < (self.continues if self.losing else self.starts)
        return self.losing


class PacketPath(_Path):
    """One direction (``up`` or ``down``) of a datagram connection."""

    def __init__(self, impairment: Impairment, direction: str) -> None:
        super().__init__(impairment, direction)
        loss, burst = self._share("loss"), self._number("burst")
        starts = loss if burst is None else loss / (1 - loss) / burst
        continues = loss if burst is None else 1 - 1 / burst
        # The varying timing of RTCP reports and messages must not affect which media packets are lost.
        self._losses = {}
        for media in (True, False):
            draw = self._draws(f"loss/{media}")
            self._losses[media] = _Losses(draw, starts, continues, losing=draw.random() < loss)
        self._reordered, self._reordered_by_ns = self._share("reorder"), self._time_ns("reorder_by")
        self._reorders = self._draws("reorder")
        self._duplicated, self._duplicates = self._share("duplicate"), self._draws("duplicate")
        queue_ms = self._number("queue")
        self._queue_ns = round((QUEUE_MS if queue_ms is None else queue_ms) * _MS)

    def push(self, size: int, at_ns: int, *, media: bool) -> Sequence[int]:
        """Send a datagram; return its delivery times, none if it is lost and two if it is duplicated.

        Args:
            size: Length in bytes, without headers.
            at_ns: Send time or, on the receiving side, unimpaired arrival time; must not decrease.
            media: Whether the datagram is RTP.
        """
        lost = self._losses[media].next()
        delay_ns = self._next_delay_ns()
        held_back = self._reordered > 0 and self._reorders.random() < self._reordered
        doubled = self._duplicated > 0 and self._duplicates.random() < self._duplicated
        if self._kbps is not None:
            begin_ns = max(at_ns, self._free_ns)
            if begin_ns - at_ns > self._queue_ns:
                return ()
            at_ns = self._free_ns = begin_ns + round((size + HEADER_BYTES) * 8 * _MS / self._kbps)
        if lost:
            return ()
        due_ns = at_ns + delay_ns
        if held_back:
            due_ns += self._reordered_by_ns
        else:
            due_ns = self._latest_ns = max(due_ns, self._latest_ns)
        return (due_ns, due_ns) if doubled else (due_ns,)

    def _share(self, name: str) -> float:
        return (self._number(name) or 0.0) / 100


class StreamPath(_Path):
    """One direction (``up`` or ``down``) of a byte stream that starts at `began_ns`."""

    def __init__(self, impairment: Impairment, direction: str, began_ns: int) -> None:
        super().__init__(impairment, direction)
        self._chunk_bytes = int(self._number("chunk") or 0)
        self._gap_ns = self._time_ns("gap")
        limit = self._number("limit")
        self._left_bytes = None if limit is None else int(limit)
        self._silent = self._number("timeout") is not None
        self.ends_ns: int | None = began_ns + self._time_ns("timeout") if self._silent else None
        """Time at which the connection is closed; None while unknown."""
        self.resets_ns: int | None = (
            None if self._number("reset") is None else began_ns + self._time_ns("reset")
        )
        """Time at which the connection is reset; None if it is never reset."""
        self.closes_later_ns = self._time_ns("slow_close")
        """Delay from the arrival of the last byte to the end of the stream."""
        self._stall_ns, self._every_ns = self._time_ns("stall"), self._time_ns("every")
        self._first_stall_ns = began_ns + round(self._draws("stall").random() * self._every_ns)
        self._next_piece_ns = 0

    def push(self, size: int, at_ns: int) -> Iterator[tuple[int, int]]:
        """Send `size` bytes at once; yield the delivery time and the end offset of each piece, in order.

        `at_ns` is the send time or, on the receiving side, the unimpaired arrival time; it must not decrease.
        """
        passes = 0 if self._silent else size
        if self._left_bytes is not None:
            passes = min(passes, self._left_bytes)
            self._left_bytes -= passes
        begin = 0
        while begin < passes:
            end = min(passes, begin + self._chunk_bytes) if self._chunk_bytes else passes
            yield self._piece(end - begin, at_ns), end
            begin = end
        if self._left_bytes == 0 and self.ends_ns is None:
            self.ends_ns = max(self._latest_ns, at_ns)

    def _piece(self, size: int, at_ns: int) -> int:
        due_ns = at_ns
        if self._chunk_bytes:
            due_ns = max(due_ns, self._next_piece_ns)
            self._next_piece_ns = due_ns + self._gap_ns
        if self._kbps is not None:
            due_ns = self._free_ns = max(due_ns, self._free_ns) + round(size * 8 * _MS / self._kbps)
        if self._stall_ns and due_ns >= self._first_stall_ns:
            since_ns = (due_ns - self._first_stall_ns) % self._every_ns
            due_ns += max(0, self._stall_ns - since_ns)
        due_ns = self._latest_ns = max(due_ns + self._next_delay_ns(), self._latest_ns)
        return due_ns
