"""Keep an event loop busy with other work."""

import time


def hold_up(seconds: float) -> None:
    """Keep the caller's event loop busy."""
    time.sleep(seconds)
