"""The families over WebRTC against the reference endpoint, with the real clients."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from live_eval.errors import FailureKind
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import Cadence
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.registry import client
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from live_eval.types import StampKind, TurnMode
from tests.loopback.test_families import (
    MS,
    Family,
    Served,
    assert_true,
    endpoint,
    hold,
    statuses,
    user_turn,
    warned,
)
from tests.support.bundled import SPECS
from tests.support.extras import needs

OPENAI = Family(spec=client("openai-webrtc"), lossy=True)
BOTS = (
    Family(spec=client("pipecat-webrtc"), base="", lossy=True, continuous=True),
    Family(spec=client("fastrtc-webrtc"), base="", lossy=True, continuous=True),
)
ROOM = Family(spec=SPECS["livekit"], base="", lossy=True, continuous=True)
LIMITS = SessionLimits(connect_s=4, ready_s=5, reply_s=1, stall_s=1, silence_s=0.4)

in_a_room = needs("livekit", extra="livekit")
each = pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=family.spec.name, marks=in_a_room if family is ROOM else ())
        for family in (OPENAI, *BOTS, ROOM)
    ],
)
idle = pytest.mark.parametrize("idle_rtp", ["silence", "none"])


async def truth(served: Served) -> list[TrueReply]:
    return await asyncio.to_thread(lambda: read_truth(served.truth).replies)


@each
async def test_connect(family: Family, tmp_path: Path) -> None:
    """The steps of the setup and the arrival of the first packet are timed."""
    async with endpoint(tmp_path) as served:
        record = await hold(served, family)
    setup = record.trace.setup_ns
    assert {"offer", "answer", "ice", "dtls", "first_rtp"} <= set(setup)
    assert record.trace.stamps is StampKind.KERNEL
    connect_ns = record.timing.connect.ns
    assert connect_ns is not None
    assert 0 < sum(setup[step] for step in ("offer", "answer", "ice", "dtls")) <= connect_ns


@each
@idle
async def test_turn(family: Family, tmp_path: Path, idle_rtp: str) -> None:
    query = {"delay_ms": 150, "lead_silence_ms": 60, "reply_ms": 500, "idle_rtp": idle_rtp}
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, query=query)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await truth(served)
    assert true.voice_end_by == "energy"
    assert_true(record, true, family)
    assert record.reply is not None
    loud = np.abs(record.reply.astype(np.int32)) > 1_000
    assert 480 < np.ptp(np.flatnonzero(loud)) / 48 < 520
    assert record.responses[0].text == (None if family in BOTS else "A tone.")


@in_a_room
@pytest.mark.parametrize("name", ["elevenlabs_webrtc", "ultravox_webrtc"])
async def test_turn_with_a_hosted_agent(name: str, tmp_path: Path) -> None:
    """The client requests a room with the key; events are data packets in the room."""
    base = SPECS[name].emulation.base_path  # type: ignore[union-attr]  # both are emulated
    family = Family(spec=SPECS[name], base=base, lossy=True, continuous=True)
    async with endpoint(tmp_path, token="right") as served:
        record = await hold(served, family, key="right", query={"delay_ms": 150, "reply_ms": 500})
        wrong = await hold(served, family, key="wrong")
    assert record.failure is None
    assert record.responses[0].text == "A tone."
    if (
        name == "ultravox_webrtc"
    ):  # ElevenLabs reports the end of speech with the transcript, and a tone has none
        assert record.timing.endpointing.ns is not None
    (true,) = await truth(served)
    assert_true(record, true, family)
    assert wrong.failure is not None
    assert wrong.failure.kind is FailureKind.AUTHENTICATION


async def test_manual_turn(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        record = await hold(served, OPENAI, mode=TurnMode.MANUAL, query={"delay_ms": 100})
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await truth(served)
    assert_true(record, true, OPENAI)


@each
@pytest.mark.parametrize("cadence", list(Cadence))
async def test_barge_in(family: Family, tmp_path: Path, cadence: Cadence) -> None:
    """The user interrupts the reply: unplayed audio is dropped, and the interruption is answered."""
    turn = user_turn(family, again_after_ms=640)
    query = {"cadence": cadence, "delay_ms": 40, "reply_ms": 1_000}
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, turn, query=query)
    assert record.failure is None
    assert record.timing.headline == 1
    assert record.timing.premature == 1
    first, answered = await truth(served)
    assert 0 < len(first.chunk_sent_ns) < 45, "not all of its 50 pieces"
    assert_true(record, answered, family)


@pytest.mark.parametrize(
    ("fault", "warnings"),
    [
        ("error_event", [FailureKind.NOT_FATAL_ERROR]),
        ("unknown_event", [FailureKind.UNKNOWN_EVENT]),
    ],
)
async def test_odd_events(tmp_path: Path, fault: str, warnings: list[FailureKind]) -> None:
    async with endpoint(tmp_path, faults=parse_faults(fault)) as served:
        record = await hold(served, OPENAI)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    assert warned(record) == warnings


FAILURES: tuple[tuple[Family, str, FailureKind], ...] = (
    (OPENAI, "malformed", FailureKind.MALFORMED_MESSAGE),
    (OPENAI, "failed_response", FailureKind.RESPONSE_FAILED),
    (OPENAI, "incomplete_response", FailureKind.RESPONSE_INCOMPLETE),
    (OPENAI, "close_channel", FailureKind.CHANNEL_CLOSED),
    *((family, "no_rtp", FailureKind.NO_RTP) for family in (*BOTS, ROOM)),
    (ROOM, "no_agent", FailureKind.NO_SESSION),
    (ROOM, "never_ready", FailureKind.NO_SESSION),
    (ROOM, "agent_leaves:speech", FailureKind.CLOSED),
    (ROOM, "session_cap:500ms", FailureKind.CLOSED),
    (ROOM, "malformed", FailureKind.MALFORMED_MESSAGE),
    *(
        (family, fault, kind)
        for family in (OPENAI, *BOTS, ROOM)
        for fault, kind in (
            ("status:401", FailureKind.AUTHENTICATION),
            ("rate_limit:1s", FailureKind.RATE_LIMITED),
            *(() if family is ROOM else (("refuse_sdp", FailureKind.SDP_REFUSED),)),
            ("no_codec", FailureKind.CODEC_REFUSED),
            ("bad_candidates", FailureKind.ICE_FAILED),
            ("close:1011", FailureKind.CLOSED),
            ("silent", FailureKind.NO_RESPONSE),
        )
    ),
)


@pytest.mark.parametrize(
    ("family", "fault", "kind"),
    [
        pytest.param(
            *row,
            id=f"{row[0].spec.name}-{row[1]}",
            marks=in_a_room if row[0] is ROOM else pytest.mark.slow if row[0] is BOTS[1] else (),
        )
        for row in FAILURES
    ],
)
async def test_failure(family: Family, fault: str, kind: FailureKind, tmp_path: Path) -> None:
    """Each problem has its failure kind."""
    # With bad candidates, the connection fails only after its timeout.
    limits = replace(LIMITS, connect_s=1) if fault == "bad_candidates" else LIMITS
    async with endpoint(tmp_path, faults=parse_faults(fault)) as served:
        record = await hold(served, family, limits=limits)
    assert record.failure is not None
    assert record.failure.kind is kind, record.failure.message


@each
async def test_lost_packets_are_counted_and_concealed(family: Family, tmp_path: Path) -> None:
    query: dict[str, Any] = {"fault": "missing:10", "reply_ms": 600, "delay_ms": 100}
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, query=query)
    assert record.failure is None
    media = record.media
    assert media is not None
    assert media.lost > 3
    assert media.concealed_ns == media.lost * 20 * MS
    assert record.timing.voice_to_voice.ns is not None


async def test_session_expired(tmp_path: Path) -> None:
    async with endpoint(tmp_path, session_limit_s=1, notice_s=0) as served:
        record = await hold(served, OPENAI, user_turn(OPENAI, speech_ms=2_000))
    assert record.failure is not None
    assert record.failure.kind is FailureKind.SESSION_EXPIRED
