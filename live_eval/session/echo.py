"""Mix the echo of replies into the microphone signal, as if there were no echo cancellation. Pure.

Chunks are decoded only when due because a complete reply may arrive in one burst.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import soxr
from numpy.typing import NDArray

from live_eval.playout import PlayoutQueue
from live_eval.session.responses import OpenResponse

__all__ = ["EchoMixer"]

_AHEAD_NS = 40_000_000
"""Decoding lookahead, because a resampler delays the end of its input."""
_SECOND_NS = 1_000_000_000


class EchoMixer:
    """Mix the echo of replies into the user's frames.

    Args:
        level_db: Level of the echo relative to the reply, in decibels.
        delay_ns: Delay between a sample's playout and its capture by the microphone; at least 40 ms, because
            a frame is created before its last sample is spoken.
    """

    def __init__(self, level_db: float, delay_ns: int, rate_hz: int) -> None:
        self._factor = np.float32(10 ** (level_db / 20))
        self._delay_ns = delay_ns
        self._rate_hz = rate_hz
        self._replies: dict[int, _Playout] = {}  # keyed by the response's identity

    def listen(self, responses: Iterable[OpenResponse]) -> None:
        """Register responses that may be audible now."""
        for response in responses:
            if id(response) not in self._replies and response.codec is not None:
                self._replies[id(response)] = _Playout(response, self._rate_hz)

    def mix(self, pcm: bytes, start_ns: int) -> bytes:
        """Return a frame with the echo mixed in."""
        heard_ns = start_ns - self._delay_ns
        samples = len(pcm) // 2
        mixed: NDArray[np.float32] | None = None
        for reply in self._replies.values():
            echo = reply.heard(heard_ns, samples)
            if echo is not None:
                mixed = echo if mixed is None else mixed + echo
        if mixed is None:
            return pcm
        total = np.frombuffer(pcm, "<i2") + self._factor * mixed
        return bytes(np.clip(np.rint(total), -32_768, 32_767).astype("<i2"))


class _Playout:
    """A response as heard without a jitter buffer, at the microphone's sample rate."""

    def __init__(self, response: OpenResponse, rate_hz: int) -> None:
        assert response.codec is not None
        self._response = response
        self._reply_hz = response.codec.rate_hz
        self._rate_hz = rate_hz
        self._resampler: soxr.ResampleStream | None = None
        self._chunks = 0
        self._restarts = True
        self._queue = PlayoutQueue()  # playout of decoded samples
        self._at = 0  # position of the next resampled sample
        self._pieces: deque[tuple[int, NDArray[np.float32]]] = deque()

    def heard(self, from_ns: int, samples: int) -> NDArray[np.float32] | None:
        """Return the samples heard from `from_ns`, on the int16 scale; None for silence."""
        self._decode(from_ns + samples * _SECOND_NS // self._rate_hz + _AHEAD_NS)
        begin = self._place(from_ns)
        stop = begin + samples
        if self._at < min(
            stop, self._place(self._queue.due_ns)
        ):  # the rest is due, and no later chunk will flush it
            self._flush()
        found: NDArray[np.float32] | None = None
        if self._response.interrupted_ns is not None:  # audio after the interruption is dropped
            stop = min(stop, self._place(self._response.interrupted_ns))
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= begin:
            self._pieces.popleft()
        for at, piece in self._pieces:
            first, last = max(at, begin), min(at + len(piece), stop)
            if first >= last:
                break
            found = np.zeros(samples, np.float32) if found is None else found
            found[first - begin : last - begin] = piece[first - at : last - at]
        return found

    def _place(self, at_ns: int) -> int:
        return at_ns * self._rate_hz // _SECOND_NS

    def _decode(self, until_ns: int) -> None:
        """Decode the chunks whose playout starts before a given time."""
        response = self._response
        while self._chunks < len(response.chunks):
            at = self._chunks
            arrival_ns = response.arrivals[at]
            fresh = at in response.fresh
            if (arrival_ns if fresh else max(arrival_ns, self._queue.due_ns)) >= until_ns:
                return
            pcm = response.pcm(at)
            if pcm is None:
                return
            self._chunks += 1
            sound = pcm.astype(np.float32)
            due_ns = self._queue.due_ns
            if fresh:
                self._queue.drop(arrival_ns)
            begin_ns = self._queue.push(arrival_ns, len(sound), self._reply_hz)
            if self._restarts or begin_ns != due_ns:
                self._restart(begin_ns)
            self._add(sound)

    def _restart(self, begin_ns: int) -> None:
        self._flush()
        if self._reply_hz != self._rate_hz:
            self._resampler = soxr.ResampleStream(
                self._reply_hz, self._rate_hz, 1, dtype="float32", quality="LQ"
            )
        self._at = self._place(begin_ns)
        self._restarts = False

    def _flush(self) -> None:
        """Flush the resampler; the next chunk needs a new resampler."""
        if self._resampler is not None:
            self._keep(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
            self._resampler = None
            self._restarts = True

    def _add(self, sound: NDArray[np.float32]) -> None:
        self._keep(sound if self._resampler is None else self._resampler.resample_chunk(sound))

    def _keep(self, sound: NDArray[np.float32]) -> None:
        if len(sound):
            self._pieces.append((self._at, sound))
            self._at += len(sound)
