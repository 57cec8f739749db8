"""Dialogues over real sockets: several turns in one session, each with its own reply and latencies."""

import asyncio
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.analysis.cue_sensitivity.sensitivity import cue_sensitivity
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind, UsageError
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.recording.record import finish
from live_eval.recording.schema import RUN_FILE
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.truth import read_truth
from live_eval.registry import client, load
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import run_plan
from live_eval.session import Session
from live_eval.session.event_loop import LoopProbe
from live_eval.timing import ResponseStatus
from live_eval.types import Case, TurnMode, Variant
from tests.loopback.run.test_runner import Silent, finished, read, run, values
from tests.loopback.test_families import (
    FAMILIES,
    LIMITS,
    MS,
    WITH_MANUAL_TURNS,
    Family,
    Served,
    assert_true,
    each,
    endpoint,
    statuses,
    user_turn,
)
from tests.support.marked_cases import marked_turn, write_manifest

pytestmark = pytest.mark.usefixtures("own_cache")

WEBRTC = (
    Family(spec=client("openai-webrtc"), lossy=True),
    Family(spec=client("pipecat-webrtc"), base="", lossy=True, continuous=True),
    Family(spec=client("fastrtc-webrtc"), base="", lossy=True, continuous=True),
)
SPEECH_MS = (300, 500, 400)
PAUSE_NS = 400 * MS


async def converse(
    served: Served, family: Family, *, mode: TurnMode | None = None, query: Mapping[str, object]
) -> list[TurnRecord]:
    """Run a dialogue of three turns with the real client."""
    spec = family.spec
    dialect, transport = await asyncio.to_thread(lambda: (load(spec.dialect), load(spec.transport)))
    mode = mode or spec.turn_modes[0]
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    settings = EndpointSettings(
        base_url=f"{served.origin}{family.base}?{parameters}",
        model="live-eval-reference" if family.takes_model else None,
        turn_mode=mode,
    )
    clock = SystemClock()
    probe = LoopProbe(clock)
    session = Session(dialect(settings), transport, clock, turn_mode=mode, limits=LIMITS, probe=probe)
    probing = asyncio.create_task(probe.run())
    try:
        turns = [user_turn(family, speech_ms=speech_ms) for speech_ms in SPEECH_MS]
        captures = await session.converse(turns, pause_ns=PAUSE_NS)
    finally:
        probing.cancel()

    def finished() -> list[TurnRecord]:
        return [
            finish(
                replace(capture, log=session.log(index)),
                Case(case_id=f"d/{index}", script_id="d", variant=Variant.TARGET, audio_path=Path("x")),
                None,
                repeat=0,
                attempt=1,
            )
            for index, capture in enumerate(captures)
        ]

    return await asyncio.to_thread(finished)


def assert_held(records: list[TurnRecord]) -> None:
    """Check that three turns of one session are consecutive and that each has its own reply."""
    assert [record.failure for record in records] == [None] * 3
    assert [statuses(record) for record in records] == [[ResponseStatus.COMPLETED]] * 3
    first, *later = records
    assert first.timing.connect.ns is not None
    assert {record.timing.connect.reason for record in later} == {"an earlier turn opened the session"}
    assert len({record.session_id for record in records}) == 1
    for before, after in zip(records, later, strict=False):
        playout_ns = 500 * MS  # the reply's length
        heard_ns = (before.timing.voice_to_voice.ns or 0) + (before.trace.voice_end_ns or 0)
        begins_ns = after.trace.t0_ns
        assert begins_ns is not None
        assert begins_ns >= heard_ns + playout_ns + PAUSE_NS - 30 * MS
        assert len(after.trace.frame_sent_ns) > 0
        assert after.trace.frame_sent_ns[0] > before.trace.frame_sent_ns[-1]


@each(FAMILIES + WEBRTC, quick=("openai", "gemini-live", "moshi", "elevenlabs", "openai-webrtc"))
async def test_dialogue(family: Family, tmp_path: Path) -> None:
    """The endpoint sees one session of three turns, and times each as the client does."""
    query = {"delay_ms": 150, "lead_silence_ms": 60, "reply_ms": 500}
    async with endpoint(tmp_path) as served:
        records = await converse(served, family, query=query)
    assert_held(records)
    truth = await asyncio.to_thread(lambda: read_truth(served.truth).replies)
    assert len({true.session_id for true in truth}) == 1
    assert [true.turn for true in truth] == [0, 1, 2]
    for record, true in zip(records, truth, strict=True):
        assert_true(record, true, family)


@each(WITH_MANUAL_TURNS)
async def test_dialogue_of_manual_turns(family: Family, tmp_path: Path) -> None:
    query = {"delay_ms": 100, "reply_ms": 500}
    async with endpoint(tmp_path) as served:
        records = await converse(served, family, mode=TurnMode.MANUAL, query=query)
    assert_held(records)
    truth = await asyncio.to_thread(lambda: read_truth(served.truth).replies)
    for record, true in zip(records, truth, strict=True):
        assert_true(record, true, family)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two dialogues of three turns, and a single case."""

    def turn(name: str) -> dict[str, Any]:
        cue = "whisper" if name.endswith("2") else "neutral"
        return {**marked_turn(tmp_path, name, 300), "text": name, "cue": cue}

    rows = [
        {"id": name, "topic": "work", "turns": [turn(f"{name}{number}") for number in range(3)]}
        for name in ("a", "b")
    ]
    return write_manifest(tmp_path, [*rows, {"id": "c", **turn("c")}])


def kinds(turns: Mapping[str, TurnRecord]) -> dict[str, FailureKind | None]:
    return {name: turn.failure.kind if turn.failure else None for name, turn in turns.items()}


def left_out(out: Path) -> Mapping[str, int]:
    """Return the turns that cue sensitivity excludes because their history differs."""
    with RunReader.open(out) as reader:
        return cue_sensitivity(reader).left_out


async def test_a_run_of_dialogues(manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with endpoint(tmp_path) as served:
        outcome = await run(values(f"{served.origin}/v1?delay_ms=20&reply_ms=200", manifest), out)
    assert (outcome.captured, outcome.failed) == (7, 0)
    turns = await asyncio.to_thread(read, out)
    assert set(turns) == {"a/1", "a/2", "a/3", "b/1", "b/2", "b/3", "c"}
    sessions = {name: turn.session_id for name, turn in turns.items()}
    assert len(set(sessions.values())) == 3
    assert sessions["a/1"] == sessions["a/2"] == sessions["a/3"]
    assert [turns[f"a/{number}"].case.turn_index for number in (1, 2, 3)] == [0, 1, 2]
    assert {turn.case.script_id for turn in turns.values()} == {"a", "b", "c"}
    assert await asyncio.to_thread(left_out, out) == {"a turn of a dialogue": 6}


async def test_a_failed_turn_ends_only_its_dialogue(manifest: Path, tmp_path: Path) -> None:
    """The remaining turns of the dialogue fail with the reason; every turn is stored."""
    await asyncio.to_thread((tmp_path / "a1.wav").write_bytes, b"no sound")
    out = tmp_path / "run"
    async with endpoint(tmp_path) as served:
        outcome = await run(values(f"{served.origin}/v1?delay_ms=20&reply_ms=200", manifest), out)
    assert (outcome.captured, outcome.failed) == (5, 2)
    turns = await asyncio.to_thread(read, out)
    told = kinds(turns)
    assert told["a/1"] is None
    assert told["a/2"] is FailureKind.AUDIO_UNREADABLE
    assert told["a/3"] is FailureKind.DIALOGUE_ENDED
    failure = turns["a/3"].failure
    assert failure is not None
    assert failure.message.startswith("the dialogue ended at turn 2: ")


async def test_a_dropped_dialogue_is_retried_as_a_whole(manifest: Path, tmp_path: Path) -> None:
    settings = values("", manifest, retries=1)
    settings["data"]["cases"] = ["a/2"]
    out = tmp_path / "run"
    async with endpoint(tmp_path, faults=parse_faults("close:1011")) as served:
        settings["endpoint"]["base_url"] = f"{served.origin}/v1?delay_ms=20&reply_ms=600"
        await run(settings, out)
    turns = await asyncio.to_thread(read, out)
    ended = FailureKind.DIALOGUE_ENDED
    assert kinds(turns) == {"a/1": FailureKind.CLOSED, "a/2": ended, "a/3": ended}
    assert {turn.attempt for turn in turns.values()} == {2}


def begin(settings: dict[str, Any], out: Path) -> tuple[Plan, RunWriter]:
    plan = make_plan(validate(settings))
    return plan, RunWriter.create(out, plan.manifest())


def lose(out: Path, turn_id: str) -> None:
    """Delete a turn, as if the run had been killed before storing it."""
    with closing(sqlite3.connect(out / RUN_FILE)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
        db.commit()


async def test_an_incomplete_dialogue_is_replayed_from_its_first_turn(manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with endpoint(tmp_path) as served:
        settings = values(f"{served.origin}/v1?delay_ms=20&reply_ms=200", manifest)
        plan, writer = await asyncio.to_thread(begin, settings, out)
        await run_plan(plan, writer, out, Silent())
        await asyncio.to_thread(writer.end, finished=False)
        await asyncio.to_thread(lose, out, "a/2")
        writer = await asyncio.to_thread(RunWriter.resume, out)
        observer = Silent()
        outcome = await finished(plan, writer, out, observer)
    assert (outcome.captured, outcome.failed) == (7, 0)
    assert observer.already == 4
    assert [record.turn_id for record in observer.turns] == ["a/1", "a/2", "a/3"]


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        ("output", "record_wire", True, "--record-wire supports only single turns"),
        ("task", "prompt", "upper-bound", "depends on the cue, which changes during dialogue 'a'"),
        ("endpoint", "name", "openai-chat-audio", "makes one request per turn"),
    ],
)
def test_invalid_dialogues(manifest: Path, table: str, key: str, value: Any, said: str) -> None:
    settings = values("http://127.0.0.1:9/v1", manifest)
    settings.setdefault(table, {})[key] = value
    with pytest.raises(UsageError, match=re.escape(said)):
        make_plan(validate(settings))
