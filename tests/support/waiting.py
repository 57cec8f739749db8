"""Wait for other threads and processes."""

import time
from collections.abc import Callable


def until(true: Callable[[], object], within_s: float = 30.0) -> None:
    last = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < last
        time.sleep(0.05)
