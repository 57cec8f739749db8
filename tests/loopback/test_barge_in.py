"""A user who speaks over the reply of the reference endpoint, over a real connection."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.recording.record import TurnRecord, finish
from live_eval.reference.settings import Cadence
from live_eval.registry import load
from live_eval.session import Session
from live_eval.timing import ResponseStatus, play
from live_eval.types import Case, TurnMode, Variant
from tests.loopback.test_families import LIMITS, MS, WITH_MANUAL_TURNS, Family, endpoint, user_turn
from tests.loopback.test_families_webrtc import BOTS
from tests.loopback.test_families_webrtc import OPENAI as WEBRTC
from tests.unit.session.scripted import Interrupting

WEBSOCKET = WITH_MANUAL_TURNS[0]


async def interrupt(folder: Path, family: Family, mode: TurnMode) -> tuple[TurnRecord, TurnRecord]:
    """Say something, speak over the reply 400 ms after its first sound, and hear the answer to that."""
    spec = family.spec
    dialect, transport = await asyncio.to_thread(lambda: (load(spec.dialect), load(spec.transport)))
    recording = user_turn(family)
    speaker = Interrupting(recording, recording, after_ns=400 * MS, rate_hz=spec.input_rate_hz)
    async with endpoint(folder, reply_ms=3_000, delay_ms=200, cadence=Cadence.REALTIME) as served:
        settings = EndpointSettings(
            base_url=f"{served.origin}{family.base}", model="live-eval-reference", turn_mode=mode
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
    # The endpoint's detector needs some speech before it interrupts; a whole reply would take 2.6 s more.
    assert 0 < stop.ns < 1_500 * MS
    (interrupted,) = first.trace.responses
    assert (interrupted.interrupted_ns is None) is family.continuous


async def test_in_a_manual_turn_we_stop_the_reply(tmp_path: Path) -> None:
    """The client makes the endpoint cut its reply where playout was, and the record drops the rest."""
    first, _ = await interrupt(tmp_path, WEBSOCKET, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.status is ResponseStatus.CANCELLED
    sent = [message.body for message in first.log if message.direction == "out"]
    (cancel,) = [body for body in sent if body["type"] == "response.cancel"]
    assert cancel["response_id"] == stopped.response_id
    (cut,) = [body for body in sent if body["type"] == "conversation.item.truncate"]
    assert cut["audio_end_ms"] == heard_ms(first)
    assert 350 < cut["audio_end_ms"] < 480


@pytest.mark.parametrize("family", WITH_MANUAL_TURNS[1:], ids=lambda family: family.spec.name)
async def test_each_family_stops_its_reply_in_a_manual_turn(family: Family, tmp_path: Path) -> None:
    first, _ = await interrupt(tmp_path, family, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.interrupted_ns is not None
    assert stopped.status is ResponseStatus.CANCELLED
    assert 350 < heard_ms(first) < 480


def heard_ms(record: TurnRecord) -> int:
    (response,) = record.trace.responses
    assert response.rate_hz is not None
    return play(response).heard_samples * 1000 // response.rate_hz


async def test_in_a_manual_turn_over_webrtc_we_ask_the_endpoint_to_stop_playing(tmp_path: Path) -> None:
    first, _ = await interrupt(tmp_path, WEBRTC, TurnMode.MANUAL)
    (stopped,) = first.trace.responses
    assert stopped.status is ResponseStatus.CANCELLED
    sent = [message.body["type"] for message in first.log if message.direction == "out"]
    assert sent[-2:] == ["response.cancel", "output_audio_buffer.clear"]
    stop = first.timing.barge_in_stop
    assert stop.ns is not None, stop.reason
    assert 0 <= stop.ns < 500 * MS
