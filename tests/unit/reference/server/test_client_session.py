"""A session whose client sends nothing. No sockets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from live_eval.reference.engine.engine import Engine
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.protocol import START_S
from live_eval.reference.protocols.twilio import TWILIO_CONFIG, TwilioProtocol
from live_eval.reference.responders.responder import ToneResponder
from live_eval.reference.server.client_session import ServerSession
from live_eval.reference.settings import ReferenceSettings
from live_eval.testing.fake_clock import FakeClock
from live_eval.transport import Arrival


class SilentClient:
    """A channel on which only the given messages arrive until it is closed."""

    def __init__(self, *messages: str) -> None:
        self.messages = list(messages)
        self.closed: tuple[int, str] | None = None
        self.ended = asyncio.Event()

    async def receive(self) -> Arrival | None:
        if self.messages:
            return Arrival(self.messages.pop(0), 0)
        await self.ended.wait()
        return None

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.ended.set()


@pytest.mark.parametrize(
    ("messages", "faults", "starts"),
    [
        ((), "", False),
        (('{"event":"connected"}',), "", False),
        (('{"event":"connected"}', '{"event":"start","streamSid":"MZ1"}'), "", True),
        ((), "never_ready", True),
    ],
)
async def test_a_phone_stream_that_is_never_started_is_closed(
    messages: tuple[str, ...], faults: str, starts: bool
) -> None:
    clock, client = FakeClock(), SilentClient(*messages)
    settings = ReferenceSettings(calibrate=True, session_limit_s=60, faults=parse_faults(faults))
    protocol = TwilioProtocol(Engine("sess_0", settings, TWILIO_CONFIG, waits_for_words=False))
    session = ServerSession(
        cast("Any", client), protocol, cast("Any", None), ToneResponder(), None, clock, lambda _: None
    )
    began_ns = clock.now_ns()
    await session.run()
    seconds = (clock.now_ns() - began_ns) / 1e9
    assert client.closed is not None
    assert ("'start'" in client.closed[1], round(seconds)) == ((False, 60) if starts else (True, START_S))
