"""Conversations with a person at a microphone, over a real connection, without a sound card."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.errors import FailureKind
from live_eval.live import LiveConversation, SoundSide, State
from live_eval.live.played import load_sessions
from live_eval.live.updates import Levels, SpeechDetected, StateChanged, TurnFinished, TurnKept
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.reference.faults.script import parse_faults
from live_eval.reference.settings import Cadence
from live_eval.run.plan import make_live_plan, make_plan
from live_eval.run.run_file import validate
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
    folder: Path, speech: list[NDArray[np.int16]], *, mode: str | None = None, **settings: Any
) -> AsyncIterator[tuple[LiveConversation, Loudspeaker, Seen]]:
    """Talk to the reference endpoint; the run is stored once the context has ended."""
    turns = {} if mode is None else {"mode": mode}
    seen = Seen()
    loudspeaker = Loudspeaker()
    async with reference(**settings) as address:
        endpoint = {"name": "reference", "base_url": f"ws://{address}/v1"}
        values = {"endpoint": endpoint, "turns": turns}
        plan = await asyncio.to_thread(lambda: make_live_plan(validate(values)))
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        conversation = LiveConversation(plan, writer, loudspeaker, device_hz=RATE_HZ)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(seen.follow(conversation))
            holding = tasks.create_task(conversation.hold())
            speaking = tasks.create_task(speak(conversation, speech))
            try:
                yield conversation, loudspeaker, seen
            finally:
                conversation.stop()
                await asyncio.wait((holding, following))
                speaking.cancel()
        await asyncio.to_thread(writer.end)


async def test_a_turn_is_shown_and_stored_like_any_other(tmp_path: Path, utterance: Speech) -> None:
    folder = tmp_path / "run"
    async with conversing(folder, [silence(0.5), utterance], reply_ms=400) as (_, loudspeaker, seen):
        await seen.until(TurnKept)
    (finished,) = seen.of(TurnFinished)
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


async def test_what_was_said_is_kept_when_the_endpoint_goes_away_and_comes_back(
    tmp_path: Path, utterance: Speech
) -> None:
    folder = tmp_path / "run"
    said = [silence(0.3), utterance, silence(2), utterance]
    async with conversing(folder, said, reply_ms=600, faults=parse_faults("close")) as (
        conversation,
        _,
        seen,
    ):
        await seen.until(TurnKept)
        (down,) = [update for update in seen.of(StateChanged) if update.failure]
        assert down.state is State.DISCONNECTED
        assert down.failure is not None
        assert down.failure.kind is FailureKind.CLOSED
        conversation.reconnect()
        await seen.until(TurnKept, 2)
    turns = await asyncio.to_thread(stored, folder)
    assert [turn.failure is not None for turn in turns] == [True, True]
    assert [turn.case.dialogue_id for turn in turns] == ["session-1", "session-2"]


async def test_a_voice_over_the_reply_stops_it_also_with_manual_turns(
    tmp_path: Path, utterance: Speech
) -> None:
    folder = tmp_path / "run"
    said = [silence(0.3), utterance, silence(1.5), utterance]
    settings: dict[str, Any] = {"reply_ms": 8_000, "cadence": Cadence.BURST}
    async with conversing(folder, said, mode="manual", **settings) as (_, loudspeaker, seen):
        await seen.until(TurnFinished)
    assert [update.barge_in for update in seen.of(SpeechDetected) if update.speaking] == [False, True]
    assert loudspeaker.drops
    first, _ = await asyncio.to_thread(stored, folder)
    (stopped,) = first.responses
    assert first.trace.barge_in_ns is not None
    assert stopped.interrupted_ns is not None
    assert 0 <= stopped.interrupted_ns - first.trace.barge_in_ns < 500 * MS
    assert first.timing.barge_in_stop.ns is not None, first.timing.barge_in_stop.reason


async def test_recordings_speak_in_the_users_place(tmp_path: Path) -> None:
    folder, seen, loudspeaker = tmp_path / "run", Seen(), Loudspeaker()
    async with reference(reply_ms=300) as address:
        values = {
            "endpoint": {"name": "reference", "base_url": f"ws://{address}/v1"},
            "data": {"limit": 1},
            "turns": {"word_times": "off"},
        }
        plan = await asyncio.to_thread(lambda: make_plan(validate(values)))
        sessions = await load_sessions(plan, lambda done, total: None)
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        conversation = LiveConversation(plan, writer, loudspeaker, device_hz=RATE_HZ, played=sessions)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(seen.follow(conversation))
            await conversation.hold()
        await asyncio.to_thread(writer.end)
    (turn,) = await asyncio.to_thread(stored, folder)
    assert turn.failure is None
    assert turn.turn_id == plan.jobs[0].turn_id
    assert {side for side, _ in loudspeaker.played} == set(SoundSide)
    assert len(seen.of(TurnFinished)) == 1
