"""Find when a reply becomes audible while it arrives, for a speaker that reacts to it. Pure."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError
from live_eval.recording.preroll import MARGIN_NS, Preroll
from live_eval.session.responses import OpenResponse
from live_eval.session.speaker import ReplyAudible
from live_eval.timing import AUDIBLE_WINDOWS, WINDOWS_PER_S, audible_onset, play

__all__ = ["Audibility"]

_HISTORY_CHUNKS = 5  # of a codec with memory: what it decodes next is as if it had decoded all


class Audibility:
    """Finds the first audible sample of each response of a turn as its chunks arrive.

    Args:
        paced: Whether the audio flows at the pace of speech (`live_eval.timing.is_paced`).
    """

    def __init__(self, *, paced: bool = False) -> None:
        self._paced = paced
        self._searches: dict[str, _Search] = {}

    def look(self, responses: Iterable[OpenResponse]) -> Iterator[ReplyAudible]:
        """Yield the responses that have become audible since the last call."""
        for response in responses:
            search = self._searches.setdefault(response.response_id, _Search(response, paced=self._paced))
            at_ns = search.look()
            if at_ns is not None:
                yield ReplyAudible(response.response_id, at_ns)


class _Search:
    """The search for the first audible sample of one response."""

    def __init__(self, response: OpenResponse, *, paced: bool) -> None:
        self._paced = paced
        self._response = response
        self._decoder: Decoder | None = None
        self._chunks = 0
        self._tail = np.empty(0, np.int16)
        self._before_tail = 0
        self._done = False

    def look(self) -> int | None:
        """Return when the first audible sample is heard, once, when it is found."""
        response = self._response
        if self._done or response.codec is None:
            return None
        if self._decoder is None:
            self._decoder = Decoder(response.codec)
            if response.preroll is not None:
                self._skip(response.preroll)
        rate_hz = response.codec.rate_hz
        while self._chunks < len(response.chunks):
            at = self._chunks
            self._chunks += 1
            try:
                pcm = self._decoded(self._decoder, at)
            except AudioError:  # the turn fails when it is decoded for the record
                self._done = True
                return None
            samples = np.concatenate((self._tail, np.zeros(response.concealed[at], np.int16), pcm))
            onset = audible_onset(samples, rate_hz)
            if onset is not None:
                self._done = True
                return self._heard_ns(self._before_tail + onset)
            kept = min(len(samples), AUDIBLE_WINDOWS * (rate_hz // WINDOWS_PER_S))
            self._before_tail += len(samples) - kept
            self._tail = samples[len(samples) - kept :]
        return None

    def _heard_ns(self, sample: int) -> int | None:
        """Return when a sample is heard: playout begins where the record of the response will begin."""
        marks, first, preroll = self._response.record(), 0, self._response.preroll
        if preroll is not None:
            chunk = int(np.searchsorted(np.cumsum(marks.chunk_samples), sample, side="right"))
            begins_ns = min(int(marks.chunk_arrival_ns[chunk]), preroll.announced_ns)
            first = bisect_left(self._response.arrivals, begins_ns - MARGIN_NS, hi=preroll.chunks)
            marks = replace(
                marks,
                chunk_arrival_ns=marks.chunk_arrival_ns[first:],
                chunk_samples=marks.chunk_samples[first:],
                fresh_chunks=tuple(at - first for at in marks.fresh_chunks if at >= first),
            )
        try:
            own = sample - sum(self._response.samples[:first])
            return play(marks, stretches=[(own, own + 1)] if self._paced else ()).heard_ns(own)
        except IndexError:  # interrupted before it was heard
            return None

    def _skip(self, preroll: Preroll) -> None:
        """Begin a little before the event that announced the response; older chunks cost too much here."""
        response = self._response
        since_ns = preroll.announced_ns - MARGIN_NS
        self._chunks = bisect_left(response.arrivals, since_ns, hi=preroll.chunks)
        self._before_tail = sum(response.samples[: self._chunks])
        assert self._decoder is not None
        with contextlib.suppress(AudioError):
            for at in range(max(0, self._chunks - _HISTORY_CHUNKS), self._chunks):
                self._decoded(self._decoder, at)

    def _decoded(self, decoder: Decoder, at: int) -> NDArray[np.int16]:
        chunk = self._response.chunks[at]
        return decoder.decode(chunk) if isinstance(chunk, bytes) else chunk
