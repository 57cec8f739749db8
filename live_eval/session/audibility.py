"""Find when a reply becomes audible while it arrives, for a speaker that reacts to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError
from live_eval.session.responses import OpenResponse
from live_eval.session.speaker import ReplyAudible
from live_eval.timing import AUDIBLE_WINDOWS, WINDOWS_PER_S, audible_onset, play

__all__ = ["Audibility"]


class Audibility:
    """Finds the first audible sample of each response of a turn as its chunks arrive."""

    def __init__(self) -> None:
        self._searches: dict[str, _Search] = {}

    def look(self, responses: Iterable[OpenResponse]) -> Iterator[ReplyAudible]:
        """Yield the responses that have become audible since the last call."""
        for response in responses:
            search = self._searches.setdefault(response.response_id, _Search(response))
            at_ns = search.look()
            if at_ns is not None:
                yield ReplyAudible(response.response_id, at_ns)


class _Search:
    """The search for the first audible sample of one response."""

    def __init__(self, response: OpenResponse) -> None:
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
            self._chunks = response.preroll.chunks if response.preroll is not None else 0
            self._before_tail = response.preroll_samples
        rate_hz = response.codec.rate_hz
        while self._chunks < len(response.chunks):
            at = self._chunks
            self._chunks += 1
            chunk = response.chunks[at]
            try:
                pcm = self._decoder.decode(chunk) if isinstance(chunk, bytes) else chunk
            except AudioError:  # the turn fails when it is decoded for the record
                self._done = True
                return None
            samples = np.concatenate((self._tail, np.zeros(response.concealed[at], np.int16), pcm))
            onset = audible_onset(samples, rate_hz)
            if onset is not None:
                self._done = True
                try:
                    return play(response.record()).heard_ns(self._before_tail + onset)
                except IndexError:  # interrupted before it was heard
                    return None
            kept = min(len(samples), AUDIBLE_WINDOWS * (rate_hz // WINDOWS_PER_S))
            self._before_tail += len(samples) - kept
            self._tail = samples[len(samples) - kept :]
        return None
