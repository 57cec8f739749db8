"""The calibration sees an error of the harness where there is one, and of what size."""

import numpy as np

from clients.websocket import WebSocketTransport
from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.clock import Clock
from live_eval.transport import Arrival

LATE_NS = 50_000_000
PLAN = CalibrationPlan(sessions=4, turns=12, speech_ms=(200, 400), delay_ms=(50, 150), reply_ms=200)


class LateStamps(WebSocketTransport):
    """A transport that stamps 50 ms late."""

    async def receive(self) -> Arrival:
        arrival = await super().receive()
        return Arrival(arrival.message, arrival.at_ns + LATE_NS)


def late(clock: Clock) -> LateStamps:
    return LateStamps(clock)


async def test_a_client_that_stamps_50_ms_late_is_50_ms_off() -> None:
    honest, wrong = await calibrate(PLAN), await calibrate(PLAN, transport=late)
    assert not honest.failed
    assert not wrong.failed
    for name in ("first_byte", "voice_to_voice"):
        assert len(honest.errors_ns[name]) == len(wrong.errors_ns[name]) == PLAN.turns
        # The medians of both runs hold the machine's own delays; what is left is the late stamp.
        off_ns = np.median(wrong.errors_ns[name]) - np.median(honest.errors_ns[name])
        assert 45e6 < off_ns < 55e6
    figures = wrong.as_json()
    assert 45 < figures["errors_ms"]["first_byte"]["bias"] < 100
    assert figures["n"] == PLAN.turns
