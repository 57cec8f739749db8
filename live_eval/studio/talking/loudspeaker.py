"""Send the reply to the page on a media track in real time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from live_eval.audio.codecs import OPUS_RATE_HZ, OpusEncoder
from live_eval.clock import Clock
from live_eval.live.jitter_buffer import PlayoutBuffer
from live_eval.live.updates import AudioSide
from live_eval.webrtc.media import MediaTrack

__all__ = ["TrackLoudspeaker"]

_PACKET_NS = 20_000_000
_PACKET_SAMPLES = OPUS_RATE_HZ // 50
_WAIT_MS = 20  # the browser adds its own jitter buffer


class TrackLoudspeaker:
    """An `AudioSink` that sends the reply over a track in packets of 20 ms.

    Dropped audio is never sent, but the user may still hear audio in the browser's jitter buffer.
    """

    def __init__(self, track: MediaTrack, clock: Clock) -> None:
        self._track = track
        self._clock = clock
        self._buffer = PlayoutBuffer(OPUS_RATE_HZ, wait_ms=_WAIT_MS)

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """See `AudioSink.play`; the user's own side is not sent."""
        if side is AudioSide.REPLY:
            self._buffer.push(pcm, rate_hz, paced=paced)

    def drop(self) -> None:
        """See `AudioSink.drop`."""
        self._buffer.drop()

    async def run(self) -> None:
        """Send until cancelled; after a delay, catch up on audio but not on silence."""
        encoder = OpusEncoder(OPUS_RATE_HZ)
        due_ns, timestamp = self._clock.now_ns(), 0
        while True:
            if not self._buffer.waiting:
                due_ns = max(due_ns, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            pcm = self._buffer.read(_PACKET_SAMPLES)
            for packet in encoder.encode(pcm.astype("<i2", copy=False).tobytes()):
                await self._track.say(packet, timestamp)
                timestamp += _PACKET_SAMPLES
            due_ns += _PACKET_NS
