"""Process the arriving reply: its audio, its level, and the end of its playout."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec
from live_eval.audio.codecs import Decoder, samples_in
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.dialect import (
    Event,
    Interrupted,
    PlaybackStarted,
    PlaybackStopped,
    ReplyAudio,
    ResponseDone,
    StreamAudio,
)
from live_eval.errors import AudioError
from live_eval.live.updates import AudioSide
from live_eval.playout import PlayoutQueue

__all__ = ["AudioSink", "HeardAudio", "IncomingReply", "loud_samples"]

_SECOND_NS = 1_000_000_000
_KEPT_NS = 5 * _SECOND_NS
_LOUD = 300  # peak of about -40 dBFS
_HOLDS_NS = 300_000_000


def loud_samples(pcm: NDArray[np.int16]) -> NDArray[np.intp]:
    """Return the indexes of the samples of speech, as opposed to silence or noise, in int16 mono audio."""
    return np.flatnonzero(np.abs(pcm.astype(np.int32)) > _LOUD)


class AudioSink(Protocol):
    """Interface of an audio player. Methods are called on the event loop and must not block."""

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """Play samples after the pending samples of the same side.

        Args:
            pcm: int16 mono, shape (samples,).
            paced: Whether the samples arrive at real-time pace, on a clock that may drift.
        """
        ...

    def drop(self) -> None:
        """Drop pending samples of the reply."""
        ...


class HeardAudio:
    """Store the last seconds of the reply, timed as heard without device delay."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, NDArray[np.int16], int]] = deque()
        self._queue = PlayoutQueue()
        self.loud_until_ns = 0
        """The time at which the last received loud sample is heard; silence may follow."""
        self.loud_from_ns: int | None = None
        """The time at which the first loud sample since `expect` is heard; None before it arrives."""

    @property
    def until_ns(self) -> int:
        """The time at which the last received sample is heard."""
        return self._queue.due_ns

    def expect(self) -> None:
        """Forget `loud_from_ns`, because another reply begins."""
        self.loud_from_ns = None

    def push(self, pcm: NDArray[np.int16], rate_hz: int, at_ns: int) -> None:
        """Append samples that arrived at `at_ns`; they are heard after the pending samples."""
        start_ns = self._queue.push(at_ns, len(pcm), rate_hz)
        self._pieces.append((start_ns, pcm, rate_hz))
        loud = loud_samples(pcm)
        if len(loud):
            self.loud_until_ns = start_ns + (int(loud[-1]) + 1) * _SECOND_NS // rate_hz
            if self.loud_from_ns is None:
                self.loud_from_ns = start_ns + int(loud[0]) * _SECOND_NS // rate_hz
        while self._pieces and self._pieces[0][0] < at_ns - _KEPT_NS:
            self._pieces.popleft()

    def drop(self, at_ns: int) -> None:
        """Drop the samples after `at_ns`."""
        self.loud_until_ns = min(self.loud_until_ns, at_ns)
        while self._pieces and self._pieces[-1][0] >= at_ns:
            self._pieces.pop()
        if self._pieces and self.until_ns > at_ns:
            start_ns, pcm, rate_hz = self._pieces.pop()
            self._pieces.append((start_ns, pcm[: (at_ns - start_ns) * rate_hz // _SECOND_NS], rate_hz))
        self._queue.drop(at_ns)

    def pending(self, at_ns: int) -> tuple[NDArray[np.int16], int]:
        """Return the audio that is heard after `at_ns`, int16 mono, shape (samples,), and its rate."""
        if not self._pieces or self.until_ns <= at_ns:
            return np.zeros(0, np.int16), 1
        rate_hz = self._pieces[-1][2]
        return self.between(at_ns, self.until_ns, rate_hz).astype(np.int16), rate_hz

    def between(self, begin_ns: int, end_ns: int, rate_hz: int) -> NDArray[np.float32]:
        """Return the audio heard from `begin_ns` to `end_ns`, shape (samples,), at `rate_hz`.

        Nearest-neighbour resampling suffices for levels and correlation.
        """
        out = np.zeros((end_ns - begin_ns) * rate_hz // _SECOND_NS, np.float32)
        for start_ns, pcm, own_hz in self._pieces:
            first = max(0, (start_ns - begin_ns) * rate_hz // _SECOND_NS)
            last = min(len(out), (start_ns - begin_ns) * rate_hz // _SECOND_NS + len(pcm) * rate_hz // own_hz)
            if first < last:
                at_ns = begin_ns + np.arange(first, last) * (_SECOND_NS // rate_hz)
                at = np.clip((at_ns - start_ns) * own_hz // _SECOND_NS, 0, len(pcm) - 1)
                out[first:last] = pcm[at]
        return out


class IncomingReply:
    """Decode arriving replies and play them on a sink."""

    def __init__(self, sink: AudioSink) -> None:
        self._sink = sink
        self._decoders: dict[Codec, Decoder] = {}
        self._track = RtpTrack()
        self._open: set[str] = set()
        self._on_track: set[str] = set()
        self._dropped: set[str] = set()
        self._loud_until_ns = 0  # end of loud audio, for endpoints whose audio never pauses
        self._ends_ns: int | None = None
        self.heard = HeardAudio()
        """The reply as heard."""

    def is_playing(self, at_ns: int) -> bool:
        """Return whether a reply is being heard or is still arriving."""
        return bool(self._open) or at_ns < max(self._loud_until_ns, self._ends_ns or 0)

    def is_speaking(self, at_ns: int) -> bool:
        """Return whether a reply is playing and its remainder is audible."""
        return self.is_arriving(at_ns) or at_ns < self.heard.loud_until_ns

    def is_arriving(self, at_ns: int) -> bool:
        """Return whether the rest of a reply has yet to arrive."""
        return bool(self._open) or at_ns < self._loud_until_ns

    def is_heard(self, at_ns: int) -> bool:
        """Return whether a reply is speaking, after the silence at its start."""
        from_ns = self.heard.loud_from_ns
        return from_ns is not None and at_ns >= from_ns and self.is_speaking(at_ns)

    def event(self, event: Event, at_ns: int) -> None:
        """Handle a dialect event."""
        match event:
            case ReplyAudio() if event.data and event.response_id not in self._dropped:
                self._expect(at_ns)
                self._open.add(event.response_id)
                self._play(event.data, event.codec, at_ns)
            case StreamAudio():
                self._play(event.data, event.codec, at_ns, paced=True)
            case PlaybackStarted():
                self._expect(at_ns)
                self._open.add(event.response_id)
                self._on_track.add(event.response_id)
            case Interrupted():
                self._dropped.add(event.response_id)
                self._close(event.response_id, at_ns)
                self._drop(at_ns)
            case ResponseDone() if (
                event.response_id not in self._on_track
            ):  # on a track, `PlaybackStopped` marks the end
                self._close(event.response_id, max(at_ns, self.heard.until_ns))
            case PlaybackStopped():
                self._close(event.response_id, at_ns)
            case _:
                pass

    def packet(self, packet: RtpPacket) -> None:
        """Handle a packet of the endpoint's track."""
        placed = self._track.push(packet, samples_in(packet.payload, packet.codec))
        if placed is not None:
            self._play(packet.payload, packet.codec, packet.at_ns, placed.concealed_samples, paced=True)

    def stop(self, at_ns: int) -> None:
        """Drop the rest of a reply that the user has interrupted."""
        self._dropped |= self._open
        for response_id in tuple(self._open):
            self._close(response_id, at_ns)
        self._drop(at_ns)

    def ended(self, at_ns: int) -> int | None:
        """Return once when a reply finished playing, or None if none has finished by `at_ns`."""
        ends_ns = self._ends_ns
        if ends_ns is None or self._open or at_ns < ends_ns:
            return None
        self._ends_ns = None
        return ends_ns

    def _expect(self, at_ns: int) -> None:
        if not self.is_speaking(at_ns):
            self.heard.expect()

    def _close(self, response_id: str, ends_ns: int) -> None:
        if response_id in self._open:
            self._open.discard(response_id)
            self._ends_ns = ends_ns

    def _drop(self, at_ns: int) -> None:
        self.heard.drop(at_ns)
        self._ends_ns = min(self._ends_ns or at_ns, at_ns)
        self._sink.drop()

    def _play(self, data: bytes, codec: Codec, at_ns: int, lost: int = 0, *, paced: bool = False) -> None:
        decoder = self._decoders.setdefault(codec, Decoder(codec))
        try:
            pcm = decoder.decode(data)
        except AudioError:  # the turn fails later, when the record is decoded
            return
        if lost:
            pcm = np.concatenate((np.zeros(min(lost, codec.rate_hz), np.int16), pcm))
        if paced and len(loud_samples(pcm)):
            self._loud_until_ns = at_ns + _HOLDS_NS
        self.heard.push(pcm, codec.rate_hz, at_ns)
        self._sink.play(AudioSide.REPLY, pcm, codec.rate_hz, paced=paced)
