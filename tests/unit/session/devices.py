"""Simulate devices with clocks that drift and stall."""

import random
from collections.abc import Iterator

MS = 1_000_000


S = 1_000_000_000


RATE = 8_000


BLOCK = 160


class Device:
    """A sound card whose clock is fast by `ppm`, and whose blocks arrive up to 10 ms late."""

    def __init__(self, ppm: float) -> None:
        self._rate_hz = RATE * (1 + ppm * 1e-6)
        self._start_ns = 7 * S
        self._random = random.Random(3)

    def captured_ns(self, sample: float) -> int:
        """Return the true capture time of a sample."""
        return self._start_ns + round(sample / self._rate_hz * S)

    def arrivals(self, seconds: float, block: int = BLOCK) -> Iterator[tuple[int, int]]:
        """Yield the number of samples that had arrived, and the time; blocks arrive in order."""
        last_ns = 0
        for end in range(block, round(seconds * self._rate_hz), block):
            late_ns = round(self._random.uniform(0, 10) * MS)
            last_ns = max(last_ns, self.captured_ns(end) + late_ns)
            yield end, last_ns
