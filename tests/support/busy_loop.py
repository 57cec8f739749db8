"""An event loop that is busy with something else."""

import time


def hold_up(seconds: float) -> None:
    """Keep the event loop of the caller busy."""
    time.sleep(seconds)
