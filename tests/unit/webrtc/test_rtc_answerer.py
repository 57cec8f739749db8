"""Waiting for delivered messages; whole connections: tests/loopback/clients/transports/test_livekit.py."""

from __future__ import annotations

from typing import Any

import pytest

from live_eval.testing import FakeClock
from live_eval.webrtc.rtc_answerer import delivered

MS = 1_000_000


class Channel:
    """A data channel whose message is in the association until it is acknowledged."""

    def __init__(self, sent: list[str]) -> None:
        self.bufferedAmount = 0
        self.transport = self
        self._outbound_queue: list[str] = []
        self._sent_queue = sent


@pytest.mark.parametrize(
    ("acknowledged_ms", "over_ms", "waits_ms"), [(0, 999, 0), (20, 999, 20), (999, 10, 10), (999, 999, 505)]
)
async def test_a_message_is_waited_for(acknowledged_ms: int, over_ms: int, waits_ms: int) -> None:
    clock, sent = FakeClock(), ["error"]
    channel: Any = Channel(sent)

    def is_over() -> bool:
        if clock.now_ns() >= began_ns + acknowledged_ms * MS:
            sent.clear()
        return clock.now_ns() >= began_ns + over_ms * MS

    began_ns = clock.now_ns()
    await delivered(channel, clock, is_over)
    assert clock.now_ns() == began_ns + waits_ms * MS
