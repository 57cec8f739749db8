"""A user who speaks over the reply of the reference endpoint, over a real connection."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.recording.record import TurnRecord, finish
from live_eval.reference.settings import Cadence
from live_eval.reference.truth import read_truth
from live_eval.registry import load
from live_eval.session import Session
from live_eval.timing import ResponseStatus, play
from live_eval.types import Case, TurnMode, Variant
from tests.loopback.test_families import (
    FAMILIES,
    LIMITS,
    MS,
    WITH_MANUAL_TURNS,
    Family,
    endpoint,
    hold,
    user_turn,
)
from tests.loopback.test_families_webrtc import BOTS
from tests.loopback.test_families_webrtc import OPENAI as WEBRTC
from tests.unit.session.scripted import Interrupting

WEBSOCKET = WITH_MANUAL_TURNS[0]


async def interrupt(
    folder: Path, family: Family, mode: TurnMode, **script: Any
) -> tuple[TurnRecord, TurnRecord]:
    """Speak, interrupt the reply 400 ms after its audible onset, and wait for the next reply."""
    spec = family.spec
    dialect, transport = await asyncio.to_thread(lambda: (load(spec.dialect), load(spec.transport)))
    recording = user_turn(family)
    speaker = Interrupting(recording, recording, after_ns=400 * MS, rate_hz=spec.input_rate_hz)
    script = {"reply_ms": 3_000, "delay_ms": 200, "cadence": Cadence.REALTIME, **script}
    async with endpoint(folder, **script) as served:
        settings = EndpointSettings(
            base_url=f"{served.origin}{family.base}",
            model="live-eval-reference" if family.takes_model else None,
            turn_mode=mode,
        )
        session = Session(dialect(settings), transport, SystemClock(), turn_mode=mode, limits=LIMITS)
        captures = await session.run(speaker)
        logs = [session.log(number) for number in range(len(captures))]
    assert [capture.failure for capture in captures] == [None, None]
    case = Case(case_id="case", script_id="case", variant=Variant.NEUTRAL, audio_path=Path("constructed"))
    first, second = await asyncio.to_thread(
        lambda: [
            finish(replace(capture, log=log), case, None, repeat=0, attempt=1)
            for capture, log in zip(captures, logs, strict=True)
        ]
    )
    assert first.trace.barge_in_ns == second.trace.onset_ns
    assert first.timing.voice_to_voice.ns is not None
    assert second.timing.voice_to_voice.ns is not None
    assert second.headline is not None
    assert second.headline.status is ResponseStatus.COMPLETED
    return first, second


@pytest.mark.parametrize("family", [WEBSOCKET, WEBRTC, *BOTS], ids=lambda family: family.spec.name)
async def test_the_endpoint_stops_when_the_user_speaks_over_its_reply(family: Family, tmp_path: Path) -> None:
    first, _ = await interrupt(tmp_path, family, family.spec.turn_modes[0])
    stop = first.timing.barge_in_stop
    assert stop.ns is not None, stop.reason
    # The endpoint's detector needs some speech before it interrupts; the full reply would take 2.6 s longer.
    assert 0 < stop.ns < 1_500 * MS
    (interrupted,) = first.trace.responses
    assert (interrupted.interrupted_ns is None) is family.continuous


async def test_a_client_interrupts_the_reply_in_manual_turns(tmp_path: Path) -> None:
    """The client makes the endpoint truncate its reply at the playout position; the record omits the rest."""
    first, second = await interrupt(tmp_path, WEBSOCKET, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.status is ResponseStatus.CANCELLED
    sent = [message.body for message in (*first.log, *second.log) if message.direction == "out"]
    (cancel,) = [body for body in sent if body["type"] == "response.cancel"]
    assert cancel["response_id"] == stopped.response_id
    (cut,) = [body for body in sent if body["type"] == "conversation.item.truncate"]
    assert cut["audio_end_ms"] == heard_ms(first)
    assert 0 < cut["audio_end_ms"] < 1_500  # of 3,000
    stop = first.timing.barge_in_stop
    assert stop.ns is not None, stop.reason
    assert 0 <= stop.ns < 500 * MS


@pytest.mark.parametrize("family", WITH_MANUAL_TURNS[1:], ids=lambda family: family.spec.name)
async def test_each_family_stops_its_reply_in_a_manual_turn(family: Family, tmp_path: Path) -> None:
    first, _ = await interrupt(tmp_path, family, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.interrupted_ns is not None
    assert stopped.status is ResponseStatus.CANCELLED
    assert 0 < heard_ms(first) < 1_500  # of 3,000


def heard_ms(record: TurnRecord) -> int:
    (response,) = record.trace.responses
    assert response.rate_hz is not None
    return play(response).heard_samples * 1000 // response.rate_hz


async def test_in_a_manual_turn_over_webrtc_we_ask_the_endpoint_to_stop_playing(tmp_path: Path) -> None:
    first, second = await interrupt(tmp_path, WEBRTC, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.status is ResponseStatus.CANCELLED
    sent = [message.body["type"] for message in (*first.log, *second.log) if message.direction == "out"]
    asked = sent.index("response.cancel")
    assert sent[asked : asked + 2] == ["response.cancel", "output_audio_buffer.clear"]
    stop = first.timing.barge_in_stop
    assert stop.ns is not None, stop.reason
    assert 0 <= stop.ns < 500 * MS


@pytest.mark.slow
async def test_heard_replies_match_the_scripted_endpoints_truth(tmp_path: Path) -> None:
    families = (*FAMILIES, WEBRTC, *BOTS)
    for family in families:  # concurrent imports in threads would disturb pytest's import hook
        await asyncio.to_thread(lambda spec: (load(spec.dialect), load(spec.transport)), family.spec)
    slots = asyncio.Semaphore(6)  # with all families at once, frames are late on two cores

    async def in_turn(family: Family) -> None:
        async with slots:
            await stops_on_time(tmp_path / family.spec.name, family)

    async with asyncio.TaskGroup() as tasks:
        for family in families:
            tasks.create_task(in_turn(family))


async def stops_on_time(folder: Path, family: Family) -> None:
    await asyncio.to_thread(folder.mkdir)
    first, _ = await interrupt(folder, family, family.spec.turn_modes[0], stop_ms=100, reply_ms=2_500)
    known = await asyncio.to_thread(read_truth, folder / "truth.jsonl")
    spoken, over = known.utterances
    stopped, answer = known.replies
    assert (spoken.over, over.over, over.reaction) == ("", stopped.response_id, "stopped")
    assert (answer.utterance, answer.voice_end_ns) == (over.utterance, over.end_ns)
    assert stopped.heard_until_ns is not None
    assert stopped.heard_until_ns > over.onset_ns + 50 * MS
    stop, onset_ns = first.timing.barge_in_stop, first.trace.barge_in_ns
    assert stop.ns is not None, stop.reason
    assert onset_ns is not None
    # benchmarks/duplex_truth.py measures the accuracy; an uninterrupted reply lasts 2 s longer.
    assert abs(onset_ns + stop.ns - stopped.heard_until_ns) < 500 * MS


async def test_a_scripted_endpoint_that_never_stops_answers_later(tmp_path: Path) -> None:
    mode = WEBSOCKET.spec.turn_modes[0]
    first, _ = await interrupt(tmp_path, WEBSOCKET, mode, stop_ms="never", reply_ms=1_000)
    known = await asyncio.to_thread(read_truth, tmp_path / "truth.jsonl")
    assert [utterance.reaction for utterance in known.utterances] == ["", "kept_talking"]
    assert [turn.status for turn in known.replies] == ["completed", "completed"]
    (whole,) = first.trace.responses
    assert (whole.status, whole.interrupted_ns) == (ResponseStatus.COMPLETED, None)


async def test_a_session_with_manual_turns_cannot_follow_a_script(tmp_path: Path) -> None:
    for family in (WEBSOCKET, FAMILIES[2]):
        async with endpoint(tmp_path, stop_ms=300) as served:
            record = await hold(served, family, mode=TurnMode.MANUAL)
        assert record.failure is not None
        assert "turn detection" in record.failure.message
