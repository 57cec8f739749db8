"""Replies of Talk sent to the browser at the pace of speech."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import Decoder
from live_eval.live.updates import (
    AudioSide,
)
from live_eval.studio.talking.loudspeaker import TrackLoudspeaker
from live_eval.testing.fake_clock import FakeClock
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
        """Return the number of packets that are not silent."""
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
