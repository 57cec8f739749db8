"""Map a device's sample clock to the monotonic clock. Pure.

A sound card counts samples with its own crystal, which is a few parts per million fast or slow, and its
blocks arrive with a varying delay. Since the delay is never negative, a line below all (sample, arrival)
points gives the clock's offset and drift. The line is an edge of the lower convex hull, as for one-way
network delays (Moon, Skelly, Towsley: Estimation and removal of clock skew from network delay measurements,
INFOCOM 1999).

If a device loses samples without counting them, all later blocks lie above the line and the estimate
restarts.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

__all__ = ["DeviceClock"]

_SECOND_NS = 1_000_000_000
_WINDOW = 60  # in seconds: a crystal's rate changes with temperature, over minutes
_MOST_DRIFT = 1e-3
_LOSS_NS = 5_000_000
_LOSS_S = 2  # blocks more than `_LOSS_NS` above the line for this long indicate lost samples


class DeviceClock:
    """Estimate capture times from the arrival times of blocks.

    The constant part of the delay cannot be measured, so estimated capture times are too late by this amount.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._earliest: deque[tuple[int, int]] = deque(maxlen=_WINDOW)  # (device time, delay) for each second
        self._second = -1
        self._at_ns = 0  # the line passes through this device time
        self._offset_ns = 0
        self._slope = 0.0

    @property
    def drift_ppm(self) -> float:
        """Deviation of the device clock from nominal, in parts per million; positive if fast."""
        return -self._slope * 1e6

    def observe(self, samples: int, at_ns: int) -> None:
        """Record that the device's first `samples` samples had arrived by `at_ns`."""
        device_ns = samples * _SECOND_NS // self._rate_hz
        offset_ns = at_ns - device_ns
        second = device_ns // _SECOND_NS
        if second != self._second:
            self._second = second
            self._forget_before_loss()
            self._earliest.append((device_ns, offset_ns))
            self._fit()
        elif offset_ns < self._earliest[-1][1]:
            self._earliest[-1] = (device_ns, offset_ns)
            if offset_ns < self._offset_at(device_ns):
                self._fit()

    def captured_ns(self, sample: float) -> int:
        """Return the time at which the device captured a sample, on the monotonic clock."""
        device_ns = round(sample * _SECOND_NS / self._rate_hz)
        return device_ns + self._offset_at(device_ns)

    def sample_at(self, at_ns: int) -> float:
        """Return the sample that the device captured at `at_ns`: the inverse of `captured_ns`."""
        device_ns = self._at_ns + (at_ns - self._at_ns - self._offset_ns) / (1 + self._slope)
        return device_ns * self._rate_hz / _SECOND_NS

    def _offset_at(self, device_ns: int) -> int:
        return self._offset_ns + round((device_ns - self._at_ns) * self._slope)

    def _forget_before_loss(self) -> None:
        """If samples were lost, discard all but the last few seconds of points."""
        last = list(self._earliest)[-_LOSS_S:]
        if all(offset_ns - self._offset_at(device_ns) > _LOSS_NS for device_ns, offset_ns in last):
            self._earliest = deque(last, maxlen=_WINDOW)

    def _fit(self) -> None:
        """Fit the line to the edge of the lower convex hull that spans the middle of the window."""
        hull: list[tuple[int, int]] = []
        for point in self._earliest:
            while len(hull) > 1 and _turns_down(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        middle_ns = (hull[0][0] + hull[-1][0]) // 2
        self._at_ns, self._offset_ns = hull[0]
        self._slope = 0.0
        for (begin_ns, low_ns), (end_ns, high_ns) in pairwise(hull):
            if begin_ns <= middle_ns <= end_ns:
                slope = (high_ns - low_ns) / (end_ns - begin_ns)
                self._slope = min(_MOST_DRIFT, max(-_MOST_DRIFT, slope))
                self._at_ns, self._offset_ns = begin_ns, low_ns


def _turns_down(first: tuple[int, int], middle: tuple[int, int], last: tuple[int, int]) -> bool:
    """Return whether `middle` is on or above the line from `first` to `last`."""
    return (middle[1] - first[1]) * (last[0] - first[0]) >= (last[1] - first[1]) * (middle[0] - first[0])
