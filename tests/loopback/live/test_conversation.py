"""Conversations with a person at a microphone, over a real connection, without a sound card."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.errors import FailureKind, StoreError
from live_eval.live import AudioSide, LiveConversation, State
from live_eval.live.quick_scores import QuickScorer, quick_judges
from live_eval.live.recorded_user import load_recorded_users
from live_eval.live.updates import (
    LatencyMeasured,
    Levels,
    QuickScores,
    RecordStored,
    SpeechDetected,
    StateChanged,
)
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.server import process
from live_eval.reference.settings import Cadence
from live_eval.run.plan import make_live_plan, make_plan
from live_eval.run.run_file import validate
from tests.support.documentation import ROOT
from tests.support.live_user import RATE_HZ, Loudspeaker, Seen, speak
from tests.support.serving import reference

MS = 1_000_000
Speech: TypeAlias = NDArray[np.int16]

SPEECH = Path("live_eval/data/sample/data_human/audio/fast/le_101_fast_work_target.flac")


@pytest.fixture(scope="module")
def utterance() -> NDArray[np.int16]:
    return resample(read_audio(SPEECH).audio, RATE_HZ).int16()


def stored(folder: Path) -> list[TurnRecord]:
    with RunReader.open(folder) as run:
        return list(run.turns())


def silence(seconds: float) -> NDArray[np.int16]:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


@asynccontextmanager
async def conversing(
    folder: Path,
    speech: list[NDArray[np.int16]],
    *,
    turns: Mapping[str, Any] | None = None,
    scorer: QuickScorer | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[LiveConversation, Loudspeaker, Seen]]:
    """Talk to the reference endpoint; the run is stored once the context has ended."""
    seen = Seen()
    loudspeaker = Loudspeaker()
    async with reference(**settings) as address:
        endpoint = {"name": "reference", "base_url": f"ws://{address}/v1"}
        values = {"endpoint": endpoint, "turns": turns or {}}
        plan = await asyncio.to_thread(lambda: make_live_plan(validate(values)))
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        conversation = LiveConversation(plan, writer, loudspeaker, device_hz=RATE_HZ, scorer=scorer)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(seen.follow(conversation))
            running = tasks.create_task(conversation.run())
            speaking = tasks.create_task(speak(conversation, speech))
            try:
                yield conversation, loudspeaker, seen
            finally:
                conversation.stop()
                await asyncio.wait((running, following))
                speaking.cancel()
        await asyncio.to_thread(writer.end)


async def test_a_turn_is_shown_and_stored(tmp_path: Path, utterance: Speech) -> None:
    folder = tmp_path / "run"
    async with conversing(folder, [silence(0.5), utterance], reply_ms=400) as (_, loudspeaker, seen):
        await seen.until(RecordStored)
    (finished,) = seen.of(LatencyMeasured)
    assert finished.waterfall["complete"] >= 0
    assert loudspeaker.played
    assert seen.states == [State.STARTING, State.TALKING, State.ENDED]
    assert max(update.user for update in seen.of(Levels)) > -30
    assert max(update.reply for update in seen.of(Levels)) > -30
    (turn,) = await asyncio.to_thread(stored, folder)
    assert turn.failure is None
    assert turn.timing.voice_to_voice.ns is not None
    assert turn.case.source == "live"
    spoken = await asyncio.to_thread(read_audio, turn.case.audio_path)
    boundaries = turn.trace.boundaries
    assert boundaries is not None
    tail_ns = spoken.audio.duration_ns - boundaries.voice_end_ns
    assert 0 < tail_ns <= 310 * MS


async def test_a_launched_endpoint_is_shown_as_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading its models takes seconds, and the user must be told what they are waiting for."""
    async with reference() as address:

        @asynccontextmanager
        async def launch(_data: Path, _folder: Path) -> AsyncIterator[str]:
            yield f"ws://{address}/v1"

        monkeypatch.setattr(process, "launch", launch)
        plan = await asyncio.to_thread(lambda: make_live_plan(validate({"endpoint": {"name": "reference"}})))
        writer = await asyncio.to_thread(lambda: RunWriter.create(tmp_path / "run", plan.manifest()))
        conversation, seen = LiveConversation(plan, writer, Loudspeaker(), device_hz=RATE_HZ), Seen()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(seen.follow(conversation))
            tasks.create_task(conversation.run())
            await seen.until_state(State.TALKING)
            conversation.stop()
        await asyncio.to_thread(writer.end)
    assert seen.states == [State.LAUNCHING, State.STARTING, State.TALKING, State.ENDED]


async def test_turns_are_kept_when_the_endpoint_disconnects_and_returns(
    tmp_path: Path, utterance: Speech
) -> None:
    folder = tmp_path / "run"
    said = [silence(0.3), utterance, silence(2), utterance]
    async with conversing(folder, said, reply_ms=600, faults=parse_faults("close")) as (
        conversation,
        _,
        seen,
    ):
        await seen.until(SpeechDetected)
        conversation.reconnect()  # does nothing while a session runs
        await seen.until(RecordStored)
        await seen.until_state(State.DISCONNECTED)
        (down,) = [update for update in seen.of(StateChanged) if update.failure]
        assert down.state is State.DISCONNECTED
        assert down.failure is not None
        assert down.failure.kind is FailureKind.CLOSED
        assert seen.states[-1] is State.DISCONNECTED
        conversation.reconnect()
        await seen.until(RecordStored, 2)
    turns = await asyncio.to_thread(stored, folder)
    assert [turn.failure is not None for turn in turns] == [True, True]
    assert [turn.case.dialogue_id for turn in turns] == ["session-1", "session-2"]


async def test_a_barge_in_stops_the_reply_with_manual_turns(tmp_path: Path, utterance: Speech) -> None:
    folder = tmp_path / "run"
    said = [silence(0.3), utterance, silence(1.5), utterance]
    settings: dict[str, Any] = {"reply_ms": 8_000, "cadence": Cadence.BURST}
    async with conversing(folder, said, turns={"mode": "manual"}, **settings) as (_, loudspeaker, seen):
        await seen.until(LatencyMeasured)
    assert [update.barge_in for update in seen.of(SpeechDetected) if update.speaking] == [False, True]
    assert loudspeaker.drops
    first, *_ = await asyncio.to_thread(stored, folder)  # the conversation ended amid the second utterance
    (stopped,) = first.responses
    assert first.trace.barge_in_ns is not None
    assert stopped.interrupted_ns is not None
    shown = [(update.number, update.values) for update in seen.of(LatencyMeasured)]
    assert all(earlier != later for earlier, later in pairwise(shown))
    assert 0 <= stopped.interrupted_ns - first.trace.barge_in_ns < 500 * MS
    assert first.timing.barge_in_stop.ns is not None, first.timing.barge_in_stop.reason


async def test_the_conversation_continues_after_a_turn_without_a_reply(
    tmp_path: Path, utterance: Speech
) -> None:
    said = [silence(0.3), utterance[:RATE_HZ], silence(2), utterance[:RATE_HZ]]
    settings: dict[str, Any] = {"reply_ms": 300, "faults": parse_faults("silent@turn=1")}
    async with conversing(tmp_path / "run", said, turns={"reply_timeout": 0.5}, **settings) as (_, _, seen):
        (failed,) = await seen.until(LatencyMeasured)
        assert failed.record.failure is not None
        assert failed.record.failure.kind is FailureKind.NO_RESPONSE
        assert seen.states[-1] is State.TALKING
        _, answered = await seen.until(LatencyMeasured, 2)
    assert (answered.number, answered.record.failure) == (2, None)
    assert [update.number for update in seen.of(LatencyMeasured)] == [1, 2]


@pytest.mark.slow
async def test_a_second_stop_skips_the_scores(tmp_path: Path, utterance: Speech) -> None:
    folder = tmp_path / "run"
    scorer = await asyncio.to_thread(lambda: QuickScorer(quick_judges()))
    async with conversing(folder, [silence(0.3), utterance[:RATE_HZ]], scorer=scorer, reply_ms=300) as (
        conversation,
        _,
        seen,
    ):
        await seen.until(RecordStored)
        conversation.stop()
        await seen.until_state(State.SCORING)
    assert seen.states[-2:] == [State.SCORING, State.ENDED]
    assert not seen.of(QuickScores)
    await asyncio.to_thread(scorer.close)
    assert len(await asyncio.to_thread(stored, folder)) == 1


async def test_a_turn_that_cannot_be_stored_ends_the_conversation_with_its_message(
    tmp_path: Path, utterance: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(RunWriter, "commit", crash)
    with pytest.raises(ExceptionGroup) as raised:
        async with conversing(tmp_path / "run", [silence(0.3), utterance[:RATE_HZ]], reply_ms=300) as (
            _,
            _,
            seen,
        ):
            await seen.until_state(State.ENDED)
    assert raised.group_contains(StoreError, match="cannot store turn 1: OSError: the disk is on fire")


@pytest.mark.slow
async def test_recordings_replace_the_user(tmp_path: Path) -> None:
    folder, seen, loudspeaker = tmp_path / "run", Seen(), Loudspeaker()
    async with reference(reply_ms=300) as address:
        values = {
            "endpoint": {"name": "reference", "base_url": f"ws://{address}/v1"},
            "data": {"limit": 2},
            "turns": {"word_times": "off"},
        }
        plan = await asyncio.to_thread(lambda: make_plan(validate(values)))
        users = await load_recorded_users(plan, lambda done, total: None)
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        conversation = LiveConversation(plan, writer, loudspeaker, device_hz=RATE_HZ, recorded=users)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(seen.follow(conversation))
            await conversation.run()
        await asyncio.to_thread(writer.end)
    turns = await asyncio.to_thread(stored, folder)
    assert [turn.failure for turn in turns] == [None, None]
    assert [turn.turn_id for turn in turns] == [job.turn_id for job in plan.jobs]
    assert {side for side, _ in loudspeaker.played} == set(AudioSide)
    assert [(update.number, update.record.turn_id) for update in seen.of(LatencyMeasured)] == [
        (number, job.turn_id) for number, job in enumerate(plan.jobs, 1)
    ]


async def test_recordings_that_no_session_reaches_fail(tmp_path: Path) -> None:
    folder, seen = tmp_path / "run", Seen()
    async with reference(reply_ms=300) as address:
        values = {
            "endpoint": {"name": "reference", "base_url": f"ws://{address}/nowhere"},
            "data": {"limit": 2},
            "turns": {"word_times": "off"},
        }
        plan = await asyncio.to_thread(lambda: make_plan(validate(values)))
        users = await load_recorded_users(plan, lambda done, total: None)
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        conversation = LiveConversation(plan, writer, Loudspeaker(), device_hz=RATE_HZ, recorded=users)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(seen.follow(conversation))
            await conversation.run()
        await asyncio.to_thread(writer.end)
    assert [(update.number, update.record.turn_id) for update in seen.of(LatencyMeasured)] == [
        (number, job.turn_id) for number, job in enumerate(plan.jobs, 1)
    ]
    assert all(update.record.failure is not None for update in seen.of(LatencyMeasured))
    assert len(await asyncio.to_thread(stored, folder)) == 2


@pytest.mark.slow
async def test_the_documented_program_runs_a_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = await asyncio.to_thread(lambda: resample(read_audio(SPEECH).audio, 48_000).int16())

    async def microphone() -> AsyncIterator[Speech]:
        block = 480
        for start in range(0, len(recording) + 3 * 48_000, block):  # the speech, then silence
            piece = recording[start : start + block]
            yield np.pad(piece, (0, block - len(piece)))
            await asyncio.sleep(0.01)

    talk = await asyncio.to_thread(lambda: run_path(str(ROOT / "examples/own_microphone.py"))["talk"])
    async with reference(reply_ms=400) as address:
        endpoint = {"name": "reference", "base_url": f"ws://{address}/v1"}
        await asyncio.to_thread(talk, microphone(), Loudspeaker(), tmp_path / "run", endpoint)
    assert "RecordStored" in capsys.readouterr().out
    [turn] = await asyncio.to_thread(stored, tmp_path / "run")
    assert turn.failure is None
