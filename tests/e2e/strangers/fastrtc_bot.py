"""A fastrtc stream, built as in its documentation, that echoes the user after a delay.

Runs in a separate environment and imports nothing from this project. Usage::

    ECHO_DELAY_MS=4000 python fastrtc_bot.py
"""

import asyncio
import os
from collections import deque
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI
from fastrtc import AsyncStreamHandler, Stream, wait_for_item

RATE_HZ = 24_000
DELAY_MS = int(os.environ.get("ECHO_DELAY_MS", "0"))


class Echo(AsyncStreamHandler):
    """A delay line for audio."""

    def __init__(self) -> None:
        super().__init__(input_sample_rate=RATE_HZ, output_sample_rate=RATE_HZ)
        self._line: deque[np.ndarray] = deque()
        self._held_ms = 0.0
        self._out: asyncio.Queue[np.ndarray] = asyncio.Queue()

    def copy(self) -> "Echo":
        """Return a new handler for the next client."""
        return Echo()

    async def start_up(self) -> None:
        """Do nothing: there is nothing to set up."""

    async def receive(self, frame: tuple[int, np.ndarray]) -> None:
        """Store a chunk of the user's audio."""
        rate_hz, samples = frame
        self._line.append(samples)
        self._held_ms += samples.size * 1000 / rate_hz
        while self._line and self._held_ms > DELAY_MS:
            oldest = self._line.popleft()
            self._held_ms -= oldest.size * 1000 / rate_hz
            self._out.put_nowait(oldest)

    async def emit(self) -> Any:
        """Return the next chunk of the reply; None if it is not due yet."""
        samples = await wait_for_item(self._out)
        return None if samples is None else (RATE_HZ, samples)

    async def shutdown(self) -> None:
        """Do nothing: there is nothing to release."""


app = FastAPI()
Stream(Echo(), modality="audio", mode="send-receive", concurrency_limit=3).mount(app)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=0)
