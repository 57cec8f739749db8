"""Buffer the output audio of a media track and send it as packets in real time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from live_eval.audio.codecs import OPUS_RATE_HZ, OpusEncoder
from live_eval.clock import Clock
from live_eval.reference.engine.events import AudioPiece, Output, PlaybackState, ServerResponse, TrackPlayback
from live_eval.reference.settings import IdleRtp
from live_eval.webrtc.media import MediaTrack

__all__ = ["ReplyPlayer", "SessionAudio", "silence"]

_PACKET_NS = 20_000_000
_PACKET_SAMPLES = OPUS_RATE_HZ // 50


@dataclass(frozen=True, slots=True)
class SessionAudio:
    """A session's media track and the handler of its playback reports (`ServerProtocol.playback`)."""

    media: MediaTrack
    playback: Callable[[TrackPlayback], Sequence[Output]]


@lru_cache(maxsize=1)
def silence() -> bytes:
    """Return 20 ms of digital silence as Opus."""
    encoder = OpusEncoder(OPUS_RATE_HZ)
    frame = bytes(2 * _PACKET_SAMPLES)
    return [packet for _ in range(10) for packet in encoder.encode(frame)][-1]


class ReplyPlayer:
    """Send the replies of one session as packets.

    Packets are sent on a 20 ms grid. A reply starts at the next point of the grid or, if no packets are sent
    between replies (`IdleRtp.NONE`), starts a new grid. Late packets, including silent ones, are sent
    immediately, because a timestamp gap would indicate an idle track.

    Args:
        media: The track.
        idle: What to send between replies.
        notify: Called before a response's first packet, and when the response has been played.
        packet_sent: Called with each reply piece and its packet's send time.
    """

    def __init__(
        self,
        media: MediaTrack,
        clock: Clock,
        idle: IdleRtp,
        *,
        notify: Callable[[TrackPlayback], Awaitable[None]],
        packet_sent: Callable[[AudioPiece, int], None],
    ) -> None:
        self._media = media
        self._clock = clock
        self._idle = idle
        self._notify = notify
        self._packet_sent = packet_sent
        self._queue: deque[AudioPiece] = deque()
        self._whole: set[str] = set()
        self._cleared: set[str] = set()
        self._playing: ServerResponse | None = None
        self._played = 0
        self._sending = False
        self._wake = asyncio.Event()
        self._origin_ns = self._due_ns = clock.now_ns()

    async def run(self) -> None:
        """Send packets until cancelled."""
        while True:
            if self._idle is IdleRtp.NONE and not self._queue and not self._has_played_all:
                was_idle = self._playing is None
                self._wake.clear()
                await self._wake.wait()
                if was_idle:
                    self._due_ns = max(self._due_ns, self._clock.now_ns())
            await self._clock.sleep_until(self._due_ns)
            await self._tick()
            self._due_ns += _PACKET_NS

    async def push(self, piece: AudioPiece) -> bool:
        """Add one packet of a reply; return whether it will be sent."""
        if piece.response.response_id in self._cleared:
            return False
        self._queue.append(piece)
        # Announce the reply after the last idle packet and before the reply's first packet.
        if self._playing is None and not self._sending:
            await self._notify_changes()
        self._wake.set()
        return True

    def ended(self, response: ServerResponse) -> None:
        """Record that a response is complete."""
        self._whole.add(response.response_id)
        self._wake.set()

    def clear(self) -> list[TrackPlayback]:
        """Drop unsent pieces and later pieces of the same responses; return the playback reports."""
        dropped = {} if self._playing is None else {self._playing.response_id: self._playing}
        dropped |= {piece.response.response_id: piece.response for piece in self._queue}
        reports = [self._report(PlaybackState.CLEARED, response) for response in dropped.values()]
        self._cleared |= dropped.keys()
        self._queue.clear()
        self._playing = None
        return reports

    @property
    def _has_played_all(self) -> bool:
        return self._playing is not None and self._playing.response_id in self._whole and not self._queue

    async def _tick(self) -> None:
        await self._notify_changes()
        if self._queue:
            piece = self._queue.popleft()
            self._played += 1
            sent_ns = await self._say(piece.payload)
            if sent_ns is not None:
                self._packet_sent(piece, sent_ns)
        elif self._idle is IdleRtp.SILENCE:
            await self._say(silence())
            if self._playing is None:
                await self._notify_changes()

    async def _notify_changes(self) -> None:
        # Check again after each notification, because other tasks may push or clear meanwhile.
        while (change := self._change()) is not None:
            await self._notify(change)

    def _change(self) -> TrackPlayback | None:
        """Start or end a response if due; return its playback report, if any."""
        playing, first = self._playing, self._queue[0].response if self._queue else None
        if playing is not None and (self._has_played_all or first not in (None, playing)):
            stopped = self._report(PlaybackState.STOPPED, playing)
            self._playing = None
            return stopped
        if playing is None and first is not None:
            self._playing, self._played = first, 0
            return self._report(PlaybackState.STARTED, first)
        return None

    def _report(self, state: PlaybackState, response: ServerResponse) -> TrackPlayback:
        played = self._played if response is self._playing else 0
        return TrackPlayback(state, response, played * _PACKET_NS // 1_000_000)

    async def _say(self, packet: bytes) -> int | None:
        timestamp = (self._due_ns - self._origin_ns) * OPUS_RATE_HZ // 1_000_000_000
        self._sending = True
        sent_ns = await self._media.say(packet, timestamp)
        self._sending = False
        return sent_ns
