"""Which datagrams are lost, and when the others are delivered. Pure: the caller says when each was sent.

A direction of a connection is a link with a capacity and a queue, then a way with losses and a delay, as in
WebRTC's SimulatedNetwork. Each kind of damage draws from its own sequence of random numbers, one for each
packet: the packets that are lost are the same ones with jitter and without.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.impair.catalogue import QUEUE_MS
from live_eval.impair.spec import Impairment

__all__ = ["HEADER_BYTES", "PacketPath", "is_damaged", "is_media"]

HEADER_BYTES = 28
"""IPv4 without options, and UDP: they take capacity with each datagram."""
_MS = 1_000_000
_DTLS_DATA = 23  # RFC 6347: a record of application data


def is_media(datagram: bytes) -> bool:
    """Return whether a datagram is RTP, by RFC 7983 and, to tell it from RTCP, RFC 5761, 4."""
    return len(datagram) > 1 and 128 <= datagram[0] <= 191 and not 192 <= datagram[1] <= 223


def is_damaged(datagram: bytes) -> bool:
    """Return whether a datagram is media, RTCP or a message of a data channel (RFC 7983).

    STUN, and the handshake and alerts of DTLS, pass: a connection whose checks are lost would be given up,
    which is not what is measured.
    """
    return bool(datagram) and (128 <= datagram[0] <= 191 or datagram[0] == _DTLS_DATA)


@dataclass(slots=True)
class _Losses:
    """Random losses, each by itself or in bursts (Gilbert's model with two states, good and lost)."""

    draw: random.Random
    starts: float  # probability that a packet is lost after one that was not
    goes_on: float  # and after one that was
    losing: bool

    def next(self) -> bool:
        self.losing = self.draw.random() < (self.goes_on if self.losing else self.starts)
        return self.losing


class PacketPath:
    """One direction of a connection.

    Args:
        impairment: What is done to it, with the session's seed.
        direction: ``up`` or ``down``.
    """

    def __init__(self, impairment: Impairment, direction: str) -> None:
        def share(name: str) -> float:
            return (impairment.number(name, direction) or 0.0) / 100

        def time_ns(name: str) -> int:
            return round((impairment.number(name, direction) or 0.0) * _MS)

        def draws(what: str) -> random.Random:
            return random.Random(f"{impairment.seed}/{direction}/{what}")

        loss, burst = share("loss"), impairment.number("burst", direction)
        starts = loss if burst is None else loss / (1 - loss) / burst
        goes_on = loss if burst is None else 1 - 1 / burst
        # Reports and messages come at moments of their own: they may not change which media is lost.
        self._losses = {}
        for media in (True, False):
            draw = draws(f"loss/{media}")
            self._losses[media] = _Losses(draw, starts, goes_on, losing=draw.random() < loss)
        self._delay_ns, self._jitter_ns = time_ns("delay"), time_ns("jitter")
        self._delays = draws("jitter")
        self._reordered, self._reordered_by_ns = share("reorder"), time_ns("reorder_by")
        self._reorders = draws("reorder")
        self._duplicated, self._duplicates = share("duplicate"), draws("duplicate")
        self._kbps = impairment.number("bandwidth", direction)
        queue_ms = impairment.number("queue", direction)
        self._queue_ns = round((QUEUE_MS if queue_ms is None else queue_ms) * _MS)
        self._free_ns = 0  # when the link has sent what waits
        self._latest_ns = 0

    def push(self, size: int, at_ns: int, *, media: bool) -> Sequence[int]:
        """Take a datagram.

        Args:
            size: Its length in bytes, without headers.
            at_ns: When it was sent, or without the damage received; not before the one before it.
            media: Whether it is RTP.

        Returns:
            When it is delivered: no moment if it is lost, two if it is doubled.
        """
        lost = self._losses[media].next()
        delay_ns = self._delay_ns
        if self._jitter_ns:
            delay_ns = max(0, round(self._delays.gauss(delay_ns, self._jitter_ns)))
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
