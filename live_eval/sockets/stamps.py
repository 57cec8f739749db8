"""Map the kernel's receive timestamps to the monotonic clock.

Linux timestamps each packet on arrival (`SO_TIMESTAMPNS`, socket(7)), long before a busy process reads it.
The timestamp is on the wall clock and is mapped by its age: monotonic now, minus (wall now − timestamp). The
two clocks are read within a bracket whose width bounds the error. If the wall clock has been set since the
previous reading, the age is wrong, so the read is stamped in user space instead. The same applies to later
reads with an older timestamp, because their bytes were waiting in the socket when the clock was set.

For TCP, a read has the timestamp of its last segment, so a read should not extend past the end of a message.
One error remains: the kernel merges segments that are waiting in the socket (`tcp_try_coalesce`) and keeps
the timestamp of the last one. If a process reads late, the first of several waiting messages may therefore be
stamped late, but by no more than the delay of the read.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

from live_eval.clock import Clock
from live_eval.types import StampKind

__all__ = ["ANCILLARY_BYTES", "ArrivalStamps", "Stamp"]

# Python has no constant; the value is the same on all Linux architectures except PA-RISC and SPARC.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq" if sys.maxsize > 2**32 else "@ll")
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
"""Buffer size for a read's ancillary data."""

_BRACKET_NS = 20_000
_TRIES = 3
_SLEW = 0.000_5  # maximum NTP adjustment rate of the wall clock (adjtime(3))
_STEP_NS = 200_000
_OLDEST_NS = 600_000_000_000


class Stamp(NamedTuple):
    """An arrival time on the monotonic clock, and its source."""

    at_ns: int
    kind: StampKind


class ArrivalStamps:
    """Map timestamps for all sockets that share a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.steps = 0
        """Number of times the wall clock was set."""
        self.error_ns = 0
        """Maximum error of the mapping."""
        self._stepped_ns = -_OLDEST_NS  # time at which the last clock step was detected
        self._reading = self._read()

    def now_ns(self) -> int:
        """Return a user-space timestamp."""
        return self._clock.now_ns()

    def enable(self, sock: socket.socket) -> None:
        """Enable kernel timestamps for a socket's packets, which only Linux supports."""
        if sys.platform == "linux":
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def stamp(self, ancillary: Iterable[tuple[int, int, bytes]]) -> Stamp:
        """Return the timestamp of a read that has just returned."""
        before_ns, before_offset_ns, before_width_ns = self._reading
        self._reading = now_ns, offset_ns, width_ns = self._read()
        drift_ns = abs(offset_ns - before_offset_ns)
        if drift_ns > _STEP_NS:
            unsure_ns = width_ns + before_width_ns + _SLEW * (now_ns - before_ns)
            if drift_ns > _STEP_NS + unsure_ns:
                self.steps += 1
                self._stepped_ns = now_ns
                return Stamp(now_ns, StampKind.USER)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                age_ns = now_ns + offset_ns - (seconds * 1_000_000_000 + nanoseconds)
                if -width_ns <= age_ns < min(_OLDEST_NS, now_ns - self._stepped_ns):
                    if width_ns > 2 * self.error_ns:
                        self.error_ns = width_ns // 2
                    return Stamp(now_ns - age_ns if age_ns > 0 else now_ns, StampKind.KERNEL)
        return Stamp(now_ns, StampKind.USER)

    def _read(self) -> tuple[int, int, int]:
        """Return the monotonic time, the wall clock's offset from it, and the bracket's width."""
        clock = self._clock
        best = (0, 0, sys.maxsize)
        for _ in range(_TRIES):
            before_ns = clock.now_ns()
            wall_ns = clock.wall_ns()
            width_ns = clock.now_ns() - before_ns
            if width_ns < best[2]:
                middle_ns = before_ns + width_ns // 2
                best = (middle_ns, wall_ns - middle_ns, width_ns)
            if width_ns <= _BRACKET_NS:
                break
        return best
