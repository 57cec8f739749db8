"""The output of a conversation to its page: the paced reply, and updates as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import Decoder
from live_eval.errors import FailureKind
from live_eval.live.updates import (
    AudioSide,
    EchoDetected,
    LatencyMeasured,
    Levels,
    QuickScores,
    RecordStored,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    Xruns,
)
from live_eval.studio.talking.loudspeaker import TrackLoudspeaker
from live_eval.studio.talking.messages import as_json
from live_eval.testing.clock import FakeClock
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.types import Case, Failure, Variant
from live_eval.webrtc.media import InputPacket

MS = 1_000_000
RATE_HZ = 48_000


class Track:
    """A `MediaTrack` that records its packets with their times."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._decoder = Decoder(Codec(CodecName.OPUS, RATE_HZ))
        self.left: list[tuple[int, int, int]] = []

    async def hear(self) -> InputPacket | None:
        return None

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        peak = int(np.abs(self._decoder.decode(packet).astype(int)).max())
        self.left.append((self._clock.now_ns(), timestamp, peak))
        return self._clock.now_ns()

    @property
    def loud(self) -> int:
        """The number of packets that are not silent."""
        return sum(peak > 1_000 for _, _, peak in self.left)


def tone(ms: int, rate_hz: int = 24_000) -> NDArray[np.int16]:
    pcm: NDArray[np.float64] = 8_000 * np.sin(np.arange(ms * rate_hz // 1000) * 0.2)
    return pcm.astype(np.int16)


async def played(clock: FakeClock, loudspeaker: TrackLoudspeaker, ms: int) -> None:
    """Let time pass."""
    task = asyncio.create_task(loudspeaker.run())
    await clock.sleep_until(clock.now_ns() + ms * MS)
    task.cancel()
    await asyncio.wait([task])


async def test_a_burst_is_sent_at_the_pace_of_speech() -> None:
    clock = FakeClock()
    track = Track(clock)
    loudspeaker = TrackLoudspeaker(track, clock)
    loudspeaker.play(AudioSide.REPLY, tone(200), 24_000)
    loudspeaker.play(AudioSide.USER, tone(1_000), 24_000)
    await played(clock, loudspeaker, 395)
    begin_ns = track.left[0][0]
    assert [at_ns - begin_ns for at_ns, _, _ in track.left] == [20 * MS * count for count in range(20)]
    assert [timestamp for _, timestamp, _ in track.left] == [960 * count for count in range(20)]
    assert 9 <= track.loud <= 11


async def test_dropped_audio_is_not_sent() -> None:
    clock = FakeClock()
    track = Track(clock)
    loudspeaker = TrackLoudspeaker(track, clock)
    loudspeaker.play(AudioSide.REPLY, tone(2_000), 24_000)
    await played(clock, loudspeaker, 95)
    loudspeaker.drop()
    await played(clock, loudspeaker, 200)
    assert track.loud <= 6


async def test_late_audio_catches_up_and_late_silence_does_not() -> None:
    clock = FakeClock()
    track = Track(clock)
    loudspeaker = TrackLoudspeaker(track, clock)
    task = asyncio.create_task(loudspeaker.run())
    await clock.sleep_until(clock.now_ns() + 30 * MS)
    clock.advance(300 * MS)
    await clock.sleep_until(clock.now_ns() + 30 * MS)
    assert len(track.left) <= 5
    loudspeaker.play(AudioSide.REPLY, tone(500), 24_000)
    await clock.sleep_until(clock.now_ns() + 50 * MS)
    before = len(track.left)
    clock.advance(100 * MS)
    await clock.sleep_until(clock.now_ns() + 10 * MS)
    assert len(track.left) >= before + 5
    task.cancel()
    await asyncio.wait([task])


def test_every_update_becomes_a_json_message() -> None:
    case = Case(case_id="turn-0001", script_id="turn-0001", variant=Variant.TARGET, audio_path=Path("a.flac"))
    record = spoken_turn(case)
    failed = spoken_turn(
        case, TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "no response came"))
    )
    turn = as_json(LatencyMeasured(1, record, 12 * MS))
    assert turn["voice_to_voice_ms"] == round((record.timing.voice_to_voice.ns or 0) / 1e6, 1)
    assert sum(step["ms"] for step in turn["steps"]) == pytest.approx(turn["voice_to_voice_ms"], abs=0.3)
    assert turn["after_ms"] == 12
    silent = as_json(LatencyMeasured(2, failed, 0))
    assert silent["voice_to_voice_ms"] is None
    assert silent["failure"] == {"kind": "no_response", "message": "no response came"}
    lost = Failure(FailureKind.CLOSED, "the session has ended")
    messages = [
        turn,
        silent,
        as_json(StateChanged(State.DISCONNECTED, lost)),
        as_json(Levels(-20.04, -90, muted=True)),
        as_json(SpeechDetected(speaking=True, barge_in=True)),
        as_json(TranscriptPiece(AudioSide.USER, "Hello.", final=True)),
        as_json(RecordStored(record)),
        as_json(QuickScores("turn-0001", {"dnsmos.ovrl": 3.2})),
        as_json(EchoDetected(12.0, 0.9)),
        as_json(Xruns(underruns=2)),
    ]
    assert json.loads(json.dumps(messages)) == messages
    assert [each["type"] for each in messages] == [
        "turn",
        "turn",
        "state",
        "levels",
        "speech",
        "transcript",
        "kept",
        "note",
        "note",
        "note",
    ]
    assert "12 ms later" in messages[8]["text"]
    assert messages[9]["text"] == "Microphone: 2 frames late."
    assert messages[3] == {"type": "levels", "user": -20.0, "reply": -90, "muted": True}
