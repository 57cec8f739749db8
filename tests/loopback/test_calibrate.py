"""Calibration detects a timing error of live-eval, with the right size."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from live_eval.audio.rtp import RtpPacket
from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import Clock
from live_eval.errors import UsageError
from live_eval.session.event_loop import undisturbed
from live_eval.transport import Arrival, Transport

LATE_NS = 50_000_000
PLAN = CalibrationPlan(sessions=6, turns=12, speech_ms=(200, 400), delay_ms=(50, 150), reply_ms=200)


class LateStamps(WebSocketTransport):
    """A transport that stamps 50 ms late."""

    async def receive(self) -> Arrival:
        arrival = await super().receive()
        return Arrival(arrival.message, arrival.at_ns + LATE_NS)


class LateMediaStamps(WebRtcTransport):
    """The same over WebRTC."""

    async def receive(self) -> Arrival | RtpPacket:
        arrival = await super().receive()
        return replace(arrival, at_ns=arrival.at_ns + LATE_NS)


def late(clock: Clock) -> LateStamps:
    return LateStamps(clock)


def late_media(clock: Clock) -> LateMediaStamps:
    return LateMediaStamps(clock)


@pytest.mark.parametrize(
    ("endpoint", "transport", "names"),
    [
        ("reference", late, ("first_byte", "voice_to_voice")),
        pytest.param("openai-webrtc", late_media, ("first_byte", "voice_to_voice"), marks=pytest.mark.slow),
        pytest.param("pipecat-webrtc", late_media, ("voice_to_voice",), marks=pytest.mark.slow),
    ],
)
async def test_a_client_that_stamps_50_ms_late_is_50_ms_off(
    endpoint: str,
    transport: Callable[[Clock], Transport],
    names: tuple[str, ...],
) -> None:
    plan = replace(PLAN, endpoint=endpoint, floor_wakes=50)  # no value here depends on the floor
    # Concurrently, so that the machine's own delays affect both equally.
    with undisturbed():
        honest, wrong = await asyncio.gather(calibrate(plan), calibrate(plan, transport=transport))
    assert not honest.failed
    assert not wrong.failed
    assert tuple(sorted(honest.errors_ns)) == names
    if "first_byte" not in names:  # continuous media
        assert not len(honest.arrival_ns)
    for name in names:
        assert len(honest.errors_ns[name]) == len(wrong.errors_ns[name]) == PLAN.turns
        off_ns = np.median(wrong.errors_ns[name]) - np.median(honest.errors_ns[name])
        assert 40e6 < off_ns < 60e6
    assert honest.why_not_kept == f"fewer than 50 turns were measured ({PLAN.turns})"
    figures = wrong.as_json()
    assert 45 < figures["errors_ms"][names[-1]]["bias"] < 100
    assert figures["n"] == PLAN.turns
    assert figures["endpoint"] == endpoint
    assert figures["transport"] == ("ws" if endpoint == "reference" else "webrtc")


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("hume", "does not emulate 'hume'; expected one of: assemblyai, deepgram, elevenlabs"),
        ("moshi", "moshi runs one session at a time, but 6 were requested"),
    ],
)
async def test_endpoints_that_cannot_be_calibrated_are_refused(endpoint: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        await calibrate(replace(PLAN, endpoint=endpoint))
