"""When the bytes of a stream are delivered over a bad line. Pure: the caller says when they were sent.

A direction of a connection is a link with a capacity, a sender that hands over short pieces, a way that
stalls, and a delay. Nothing is lost and nothing overtakes, as TCP promises, but a connection may end early.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from live_eval.impair.spec import Impairment

__all__ = ["StreamPath"]

_MS = 1_000_000


class StreamPath:
    """One direction of a connection.

    Args:
        impairment: What is done to it, with the session's seed.
        direction: ``up`` or ``down``.
        began_ns: When the connection began; stalls are counted from there.
    """

    def __init__(self, impairment: Impairment, direction: str, began_ns: int) -> None:
        def time_ns(name: str) -> int:
            return round((impairment.number(name, direction) or 0.0) * _MS)

        self._kbps = impairment.number("bandwidth", direction)
        self._chunk_bytes = int(impairment.number("chunk", direction) or 0)
        self._gap_ns, self._delay_ns, self._jitter_ns = time_ns("gap"), time_ns("delay"), time_ns("jitter")
        self._delays = random.Random(f"{impairment.seed}/{direction}/jitter")
        limit = impairment.number("limit", direction)
        self._left_bytes = None if limit is None else int(limit)
        self._silent = impairment.number("timeout", direction) is not None
        self.ends_ns: int | None = began_ns + time_ns("timeout") if self._silent else None
        """When the connection is closed, as far as that is known; None for not yet."""
        reset = impairment.number("reset", direction)
        self.resets_ns: int | None = None if reset is None else began_ns + time_ns("reset")
        """When the connection is reset; None for never."""
        self.closes_later_ns = time_ns("slow_close")
        """How long after the last byte the end of the stream arrives."""
        self._stall_ns, self._every_ns = time_ns("stall"), time_ns("every")
        draws = random.Random(f"{impairment.seed}/{direction}/stall")
        self._first_stall_ns = began_ns + round(draws.random() * self._every_ns)
        self._free_ns = 0  # when the link has sent what waits
        self._next_piece_ns = 0
        self._latest_ns = 0

    def push(self, size: int, at_ns: int) -> Iterator[tuple[int, int]]:
        """Take bytes that were sent, or without the damage received, together.

        Args:
            size: How many.
            at_ns: When; not before those before them.

        Yields:
            Pieces in order: when each is delivered, and where it ends.
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
        delay_ns = self._delay_ns
        if self._jitter_ns:
            delay_ns = max(0, round(self._delays.gauss(delay_ns, self._jitter_ns)))
        due_ns = self._latest_ns = max(due_ns + delay_ns, self._latest_ns)
        return due_ns
