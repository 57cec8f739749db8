"""Each family of dialects against the reference endpoint, over a real socket, with the real client."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from live_eval.audio import frames_of
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import Cadence
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.registry import ClientSpec, client, load
from live_eval.session import Session, Utterance
from live_eval.session.event_loop import LoopProbe
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from live_eval.types import Case, Secret, SpeechBoundaries, TurnMode, Variant
from tests.support.serving import reference

MS = 1_000_000
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=3, stall_s=3, silence_s=0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A dialect with the properties that these tests need.

    Args:
        spec: The client's specification.
        base: The path of its base URL.
        lossy: Whether its audio codec is lossy.
        continuous: Whether its turns are found by energy.
        error_is_fatal: Whether the endpoint's errors end the connection.
        takes_model: Whether a client can ask for a model.
        reports_errors: Whether the endpoint has a message for errors.
        closed: The failure if the endpoint closes the connection during a reply.
        expired: The failure at the session's duration limit; a service without a message for it just closes.
    """

    spec: ClientSpec
    base: str = "/v1"
    lossy: bool = False
    continuous: bool = False
    error_is_fatal: bool = False
    takes_model: bool = True
    reports_errors: bool = True
    closed: FailureKind = FailureKind.CLOSED
    expired: FailureKind = FailureKind.SESSION_EXPIRED


FAMILIES = (
    Family(spec=client("openai")),
    Family(spec=client("openai-beta")),
    Family(spec=client("gemini-live"), base="", error_is_fatal=True, closed=FailureKind.ENDPOINT_ERROR),
    Family(spec=client("openai-live"), continuous=True),
    Family(spec=client("moshi"), base="", lossy=True, continuous=True),
    Family(spec=client("deepgram"), expired=FailureKind.CLOSED),
    Family(spec=client("elevenlabs")),
    Family(spec=client("assemblyai"), takes_model=False),
    Family(spec=client("ultravox"), base="/api", reports_errors=False, expired=FailureKind.CLOSED),
)
WITH_MANUAL_TURNS = tuple(family for family in FAMILIES if TurnMode.MANUAL in family.spec.turn_modes)


def each(
    families: tuple[Family, ...] = FAMILIES, *, quick: Collection[str] | None = None
) -> pytest.MarkDecorator:
    """Run a test with each family; with `quick`, only with these families unless slow tests are selected."""
    rows = []
    for family in families:
        name = family.spec.name
        slow = quick is not None and name not in quick
        rows.append(pytest.param(family, id=name, marks=pytest.mark.slow if slow else ()))
    return pytest.mark.parametrize("family", rows)


@dataclass(frozen=True, slots=True)
class Served:
    """A running endpoint.

    Args:
        origin: Its address.
        truth: The file of its truth.
    """

    origin: str
    truth: Path

    async def known(self, record: TurnRecord) -> list[TrueReply]:
        """Return the truth of a turn's session."""
        turns = await asyncio.to_thread(lambda: read_truth(self.truth).replies)
        return [turn for turn in turns if turn.session_id == record.session_id]


@asynccontextmanager
async def endpoint(folder: Path, *, token: str | None = None, **settings: Any) -> AsyncIterator[Served]:
    """Serve in this process; the truth is complete when the context has ended."""
    path = folder / "truth.jsonl"
    async with reference(token=token, truth=path, calibrate=True, **{"reply_ms": 300, **settings}) as address:
        yield Served(f"ws://{address}", path)


def user_turn(family: Family, *, speech_ms: int = 400, again_after_ms: int | None = None) -> Utterance:
    """Return speech whose end the endpoint detects exactly, repeated after `again_after_ms` of silence."""
    spec = family.spec
    speech = calibration_speech(speech_ms, spec.input_rate_hz, spec.frame_ms, lossy=family.lossy)
    frames = frames_of(speech.audio.int16(), spec.input_rate_hz * spec.frame_ms // 1000)
    if again_after_ms is not None:
        pause = [bytes(len(frames[0]))] * (again_after_ms // spec.frame_ms)
        frames = [*frames, *pause, *frames]
    frame_ns = spec.frame_ms * MS
    boundaries = SpeechBoundaries(onset_ns=0, voice_end_ns=len(frames) * frame_ns, method="annotation")
    return Utterance(frames=frames, frame_ns=frame_ns, boundaries=boundaries)


async def hold(
    served: Served,
    family: Family,
    turn: Utterance | None = None,
    *,
    mode: TurnMode | None = None,
    query: Mapping[str, object] | None = None,
    key: str | None = None,
    limits: SessionLimits = LIMITS,
) -> TurnRecord:
    """Run a turn with the real client."""
    spec = family.spec
    dialect, transport = await asyncio.to_thread(lambda: (load(spec.dialect), load(spec.transport)))
    mode = mode or spec.turn_modes[0]
    parameters = "&".join(f"{name}={value}" for name, value in (query or {}).items())
    settings = EndpointSettings(
        base_url=f"{served.origin}{family.base}?{parameters}",
        model="live-eval-reference" if family.takes_model else None,
        turn_mode=mode,
        key=Secret(key) if key else None,
    )
    clock = SystemClock()
    probe = LoopProbe(clock)
    session = Session(dialect(settings), transport, clock, turn_mode=mode, limits=limits, probe=probe)
    probing = asyncio.create_task(probe.run())
    try:
        (capture,) = await session.converse([turn or user_turn(family)])
    finally:
        probing.cancel()
    case = Case(case_id="case", script_id="case", variant=Variant.NEUTRAL, audio_path=Path("constructed"))
    return await asyncio.to_thread(
        lambda: finish(replace(capture, log=session.log()), case, None, repeat=0, attempt=1)
    )


def statuses(record: TurnRecord) -> list[ResponseStatus]:
    return [response.status for response in record.responses]


def warned(record: TurnRecord) -> list[FailureKind]:
    return [warning.kind for warning in record.warnings]


# -- Connect -------------------------------------------------------------------------------------------


@each()
async def test_connect(family: Family, tmp_path: Path) -> None:
    """The session becomes ready, and the client has the endpoint's session id."""
    async with endpoint(tmp_path) as served:
        record = await hold(served, family)
    assert record.failure is None
    assert record.trace.ready_ns is not None
    (true,) = await served.known(record)
    assert true.voice_end_by == ("energy" if family.lossy else "mark")


@each()
async def test_connect_with_a_token(family: Family, tmp_path: Path) -> None:
    """The endpoint receives the key, and a wrong key is an authentication failure."""
    async with endpoint(tmp_path, token="right") as served:
        right = await hold(served, family, key="right")
        wrong = await hold(served, family, key="wrong")
    assert right.failure is None
    assert wrong.failure is not None
    assert wrong.failure.kind is FailureKind.AUTHENTICATION


@each()
async def test_connect_refused_for_now(family: Family, tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("rate_limit:1s")) as served:
        record = await hold(served, family)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.RATE_LIMITED


# -- Turns ---------------------------------------------------------------------------------------------


def assert_true(record: TurnRecord, true: TrueReply, family: Family) -> None:
    """Compare the measurement with the endpoint's truth, within the error bars of both sides."""
    bar_ns = 10 * MS + record.timing.lag_ns + (true.lag_ns or 0)
    measured_ns = record.timing.voice_to_voice.ns
    assert measured_ns is not None
    assert true.voice_to_voice_ns is not None
    assert abs(measured_ns - true.voice_to_voice_ns) < bar_ns
    if family.continuous:
        assert record.timing.first_byte.ns is None
    else:
        assert record.timing.first_byte.ns is not None
        assert true.first_byte_ns is not None
        assert abs(record.timing.first_byte.ns - true.first_byte_ns) < bar_ns


@each()
async def test_turn(family: Family, tmp_path: Path) -> None:
    """A turn that the endpoint's detector ends is answered, and its latencies match the endpoint's truth."""
    query = {"delay_ms": 150, "lead_silence_ms": 60, "reply_ms": 500}
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, query=query)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await served.known(record)
    assert_true(record, true, family)
    assert record.reply is not None
    rate_hz = record.responses[0].rate_hz or 0
    loud = np.abs(record.reply.astype(np.int32)) > 1_000
    assert 480 < np.ptp(np.flatnonzero(loud)) * 1000 / rate_hz < 520
    assert record.responses[0].text == "A tone."


@each(WITH_MANUAL_TURNS)
async def test_manual_turn(family: Family, tmp_path: Path) -> None:
    """A turn that the client ends is answered."""
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, mode=TurnMode.MANUAL, query={"delay_ms": 100})
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await served.known(record)
    assert true.voice_end_by == "mark"
    assert_true(record, true, family)


@each()
async def test_barge_in(family: Family, tmp_path: Path) -> None:
    """The user interrupts the reply: it stops, and the interruption is answered."""
    turn = user_turn(family, again_after_ms=640)
    query = {"cadence": Cadence.REALTIME, "chunk_ms": 40, "delay_ms": 40, "reply_ms": 1_000}
    async with endpoint(tmp_path) as served:
        record = await hold(served, family, turn, query=query)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.CANCELLED, ResponseStatus.COMPLETED]
    assert record.timing.headline == 1
    cancelled, answered = await served.known(record)
    assert (cancelled.status, cancelled.reason) == ("cancelled", "turn_detected")
    assert_true(record, answered, family)


# -- Failures ------------------------------------------------------------------------------------------


@each()
async def test_error(family: Family, tmp_path: Path) -> None:
    """The endpoint reports an error during a reply: the turn fails only if the session does."""
    async with endpoint(tmp_path, faults=parse_faults("error_event")) as served:
        record = await hold(served, family)
    if family.error_is_fatal:
        assert record.failure is not None
        assert record.failure.kind is FailureKind.ENDPOINT_ERROR
        assert "on purpose" in record.failure.message
        return
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    assert warned(record) == [FailureKind.NOT_FATAL_ERROR] * family.reports_errors


@each()
async def test_malformed_message(family: Family, tmp_path: Path) -> None:
    """An unreadable message fails the turn, although the reply continues to its end."""
    async with endpoint(tmp_path, faults=parse_faults("malformed")) as served:
        record = await hold(served, family)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.MALFORMED_MESSAGE
    assert statuses(record) == [ResponseStatus.COMPLETED]


@each()
async def test_unknown_event(family: Family, tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("unknown_event")) as served:
        record = await hold(served, family)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    assert warned(record) == [FailureKind.UNKNOWN_EVENT]


@each()
async def test_close(family: Family, tmp_path: Path) -> None:
    """The endpoint closes the connection during a reply: the turn fails, and its audio is kept."""
    async with endpoint(tmp_path, faults=parse_faults("close:1011")) as served:
        record = await hold(served, family)
    assert record.failure is not None
    assert record.failure.kind is family.closed
    assert len(record.responses) == 1
    assert len(record.responses[0].chunk_samples)


@each()
async def test_a_silent_reply_is_not_a_response(family: Family, tmp_path: Path) -> None:
    limits = SessionLimits(reply_s=0.5, silence_s=0.4)
    async with endpoint(tmp_path, faults=parse_faults("silent")) as served:
        record = await hold(served, family, limits=limits)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.NO_RESPONSE


@each()
async def test_session_expired(family: Family, tmp_path: Path) -> None:
    """A session at its duration limit ends the current turn."""
    async with endpoint(tmp_path, session_limit_s=1, notice_s=0) as served:
        record = await hold(served, family, user_turn(family, speech_ms=2_000))
    assert record.failure is not None
    assert record.failure.kind is family.expired


async def test_gemini_moves_to_another_connection(tmp_path: Path) -> None:
    """After goAway, the client switches to a new connection during speech, and the turn is answered."""
    (family,) = (family for family in FAMILIES if family.spec.name == "gemini-live")
    turn = user_turn(family, speech_ms=3_500)
    async with endpoint(tmp_path, session_limit_s=8, notice_s=7) as served:
        record = await hold(served, family, turn, query={"delay_ms": 100})
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]
    (true,) = await served.known(record)
    assert_true(record, true, family)
    assert sum("setup" in message.body for message in record.log) == 2
