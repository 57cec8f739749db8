"""A phone line against the reference endpoint, with the real client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from live_eval.clients.specs import TWILIO
from live_eval.errors import FailureKind
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import Cadence
from live_eval.reference.truth import read_truth
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from tests.loopback.test_families import Family, assert_true, endpoint, hold, statuses, user_turn, warned

PHONE = Family(spec=TWILIO, base="/media-stream", lossy=True, continuous=True)
each_cadence = pytest.mark.parametrize("cadence", list(Cadence))


@each_cadence
async def test_turn(tmp_path: Path, cadence: Cadence) -> None:
    """The latencies are the same whether the reply arrives at once or at the pace of speech."""
    query = {"delay_ms": 150, "lead_silence_ms": 60, "reply_ms": 500, "cadence": cadence}
    async with endpoint(tmp_path) as served:
        record = await hold(served, PHONE, query=query)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await asyncio.to_thread(lambda: read_truth(served.truth).replies)
    assert true.voice_end_by == "energy"
    assert_true(record, true, PHONE)
    assert record.reply is not None
    loud = np.abs(record.reply.astype(np.int32)) > 1_000
    assert 480 < np.ptp(np.flatnonzero(loud)) / 8 < 520


@each_cadence
async def test_barge_in(tmp_path: Path, cadence: Cadence) -> None:
    """The user interrupts the reply: the queue is emptied, however much of the reply it contained."""
    turn = user_turn(PHONE, again_after_ms=640)
    query = {"cadence": cadence, "chunk_ms": 40, "delay_ms": 40, "reply_ms": 1_000}
    async with endpoint(tmp_path) as served:
        record = await hold(served, PHONE, turn, query=query)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.CANCELLED, ResponseStatus.COMPLETED]
    assert record.timing.headline == 1
    first, answered = await asyncio.to_thread(lambda: read_truth(served.truth).replies)
    assert_true(record, answered, PHONE)
    heard = record.responses[0].heard_ns
    assert heard is not None
    assert heard[-1][1] - heard[0][0] < 900_000_000
    assert first.response_id != answered.response_id


async def test_connect_with_a_token(tmp_path: Path) -> None:
    """The token signs the handshake, and a wrong one is an authentication failure."""
    async with endpoint(tmp_path, token="right") as served:
        right = await hold(served, PHONE, key="right")
        wrong = await hold(served, PHONE, key="wrong")
    assert right.failure is None
    assert wrong.failure is not None
    assert wrong.failure.kind is FailureKind.AUTHENTICATION


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("malformed", FailureKind.MALFORMED_MESSAGE),
        ("close:1011", FailureKind.CLOSED),
        ("silent", FailureKind.NO_RESPONSE),
        ("reset", FailureKind.CLOSED),
    ],
)
async def test_failures(tmp_path: Path, fault: str, kind: FailureKind) -> None:
    limits = SessionLimits(reply_s=0.5, silence_s=0.4)
    async with endpoint(tmp_path, faults=parse_faults(fault)) as served:
        record = await hold(served, PHONE, limits=limits)
    assert record.failure is not None
    assert record.failure.kind is kind, record.failure


async def test_unknown_event(tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("unknown_event")) as served:
        record = await hold(served, PHONE)
    assert record.failure is None
    assert warned(record) == [FailureKind.UNKNOWN_EVENT]
