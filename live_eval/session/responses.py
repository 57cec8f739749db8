"""Track the responses of a turn as they arrive. Pure."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, resample_int16
from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError
from live_eval.playout import PlayoutQueue
from live_eval.session.bounds import TEXT_CHARACTERS
from live_eval.session.capture import CapturedResponse
from live_eval.session.preroll import MARGIN_NS, Preroll
from live_eval.timing import (
    AUDIBLE_WINDOWS,
    WINDOWS_PER_S,
    ResponseRecord,
    ResponseStatus,
    audible_onset,
    play,
)
from live_eval.types import Usage

__all__ = ["MOST_RESPONSES", "OnsetSearch", "OpenResponse", "Responses"]

_SECOND_NS = 1_000_000_000
MOST_RESPONSES = 200
"""Maximum number of responses per turn, far more than in any real conversation. Each is stored as an audio
file and a row.
"""
_HISTORY_CHUNKS = 5  # enough for a stateful codec to decode the next chunk correctly


@dataclass(slots=True)
class OpenResponse:
    """A response as it arrives. Timestamps are defined in `ResponseRecord`.

    Args:
        response_id: ID assigned by the endpoint or, without one, by live-eval.
        began_ns: Arrival of the first event or audio.
        playback_ns: Time at which the track began to play the response.
        progress_ns: Arrival of the latest event or audio.
        characters: Text length, including dropped text.
    """

    response_id: str
    began_ns: int
    created_ns: int | None = None
    first_text_ns: int | None = None
    first_audio_ns: int | None = None
    playback_ns: int | None = None
    interrupted_ns: int | None = None
    done_ns: int | None = None
    progress_ns: int = 0
    status: ResponseStatus = ResponseStatus.OPEN
    reason: str = ""
    usage: Usage | None = None
    codec: Codec | None = None
    arrivals: list[int] = field(default_factory=list)
    chunks: list[bytes | NDArray[np.int16]] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    concealed: list[int] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    preroll: Preroll | None = None
    characters: int = 0
    pieces: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    converters: dict[Codec, Decoder] = field(default_factory=dict)
    decoder: Decoder | None = None
    decoded: list[NDArray[np.int16]] = field(default_factory=list)
    undecodable: bool = False
    total_samples: int = 0
    queue: PlayoutQueue = field(default_factory=PlayoutQueue)
    starts: list[int] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The text: completed parts, followed by fragments of the current part."""
        text = " ".join([*self.parts, *(["".join(self.pieces)] if self.pieces else [])])
        return text or None

    @property
    def said_ns(self) -> int | None:
        """Arrival of the first audio or text; None before that."""
        first_audio_ns = self.first_audio_ns or next(iter(self.arrivals), None)
        signs = [at_ns for at_ns in (first_audio_ns, self.first_text_ns) if at_ns is not None]
        return min(signs, default=None)

    @property
    def audio_s(self) -> float:
        """Audio received so far, in seconds."""
        samples = self.total_samples - self.preroll_samples
        return samples / self.codec.rate_hz if self.codec is not None else 0.0

    @property
    def preroll_samples(self) -> int:
        """Number of samples that arrived before the event that announced the response."""
        return sum(self.samples[: self.preroll.chunks]) if self.preroll is not None else 0

    @property
    def heard_until_ns(self) -> int | None:
        """Time at which the last sample so far is heard; None if no audio has arrived."""
        rate_hz = self._place_chunks()
        cut_ns = self.interrupted_ns if self.first_audio_ns is None else None  # same rule as in `play`
        heard = len(self.starts) if cut_ns is None else bisect_left(self.starts, cut_ns)
        for at in reversed(range(heard)):
            samples = self.samples[at] if cut_ns is None else self._heard_samples(at, cut_ns, rate_hz)
            if samples:
                return self.starts[at] + (samples - 1) * _SECOND_NS // rate_hz
        return None

    def heard_ms(self, at_ns: int) -> int:
        """Return how many milliseconds have been heard by `at_ns`."""
        rate_hz = self._place_chunks()
        heard = sum(self._heard_samples(at, at_ns, rate_hz) for at in range(len(self.starts)))
        return max(0, heard - self.preroll_samples) * 1000 // rate_hz

    def _place_chunks(self) -> int:
        """Compute the playout times of chunks that arrived since the last call; return the sample rate."""
        rate_hz = self.codec.rate_hz if self.codec is not None else 1
        for at in range(len(self.starts), len(self.chunks)):
            self.starts.append(self.queue.push(self.arrivals[at], self.samples[at], rate_hz))
        return rate_hz

    def _heard_samples(self, at: int, until_ns: int, rate_hz: int) -> int:
        """Return how many samples of a chunk are heard before `until_ns`."""
        return min(self.samples[at], max(0, until_ns - self.starts[at]) * rate_hz // _SECOND_NS)

    @property
    def first_decoded(self) -> int:
        """Index of the first chunk that `pcm` decodes; older chunks cannot belong to the reply."""
        if self.preroll is None:
            return 0
        return bisect_left(self.arrivals, self.preroll.announced_ns - MARGIN_NS, hi=self.preroll.chunks)

    def pcm(self, at: int) -> NDArray[np.int16] | None:
        """Return a decoded chunk, with silence for lost samples before it; None if decoding fails.

        Each chunk is decoded once here. The recorded audio is decoded again outside the event loop, with one
        codec state for all responses.

        Args:
            at: Index of the chunk; chunks before `first_decoded` are returned as silence.
        """
        first = self.first_decoded
        if at < first:
            return np.zeros(self.samples[at], np.int16)
        if self.decoder is None:
            assert self.codec is not None
            self.decoder = Decoder(self.codec)
            with contextlib.suppress(AudioError):
                for chunk in self.chunks[max(0, first - _HISTORY_CHUNKS) : first]:
                    if isinstance(chunk, bytes):
                        self.decoder.decode(chunk)
        while len(self.decoded) <= at - first and not self.undecodable:
            chunk = self.chunks[first + len(self.decoded)]
            concealed = np.zeros(self.concealed[first + len(self.decoded)], np.int16)
            try:
                pcm = self.decoder.decode(chunk) if isinstance(chunk, bytes) else chunk
            except AudioError:  # the turn fails later, when its audio is decoded
                self.undecodable = True
            else:
                self.decoded.append(np.concatenate((concealed, pcm)) if len(concealed) else pcm)
        return self.decoded[at - first] if at - first < len(self.decoded) else None

    def hear(
        self,
        at_ns: int,
        data: bytes | NDArray[np.int16],
        codec: Codec,
        samples: int,
        *,
        concealed: int = 0,
        fresh: bool = False,
    ) -> None:
        """Add a chunk of audio.

        Args:
            data: Chunk in wire format, or its samples if already decoded.
            codec: Encoding of the chunk. A response keeps its first encoding; chunks in other encodings are
                decoded and resampled to the first rate.
            concealed: Number of samples lost before the chunk.
            fresh: Whether playout restarts with the chunk.
        """
        self.codec = self.codec or codec
        if codec != self.codec and isinstance(data, bytes):
            data, samples = self._converted(data, codec, samples)
            concealed = concealed * self.codec.rate_hz // codec.rate_hz
        if fresh:
            self.fresh.append(len(self.chunks))
        self.arrivals.append(at_ns)
        self.chunks.append(data)
        self.samples.append(samples + concealed)
        self.concealed.append(concealed)
        self.total_samples += samples + concealed

    def _converted(self, data: bytes, codec: Codec, samples: int) -> tuple[bytes | NDArray[np.int16], int]:
        assert self.codec is not None
        if codec not in self.converters:
            self.converters[codec] = Decoder(codec)
        try:
            pcm = resample_int16(self.converters[codec].decode(data), codec.rate_hz, self.codec.rate_hz)
        except AudioError:  # the turn fails later, when its audio is decoded
            return data, samples
        return pcm, len(pcm)

    def say(self, text: str, *, final: bool = False) -> None:
        """Add a text fragment, up to `TEXT_CHARACTERS`; final text replaces earlier fragments."""
        if final:
            self.characters -= sum(map(len, self.pieces))
            self.pieces.clear()
        self.characters += len(text)
        if self.characters <= TEXT_CHARACTERS:
            (self.parts if final else self.pieces).append(text)

    def record(self) -> ResponseRecord:
        """Return the record, with the chunk lengths known without decoding."""
        return ResponseRecord(
            response_id=self.response_id,
            created_ns=self.created_ns,
            first_text_ns=self.first_text_ns,
            done_ns=self.done_ns,
            interrupted_ns=self.interrupted_ns,
            status=self.status,
            chunk_arrival_ns=np.asarray(self.arrivals, np.int64),
            chunk_samples=np.asarray(self.samples, np.int64),
            rate_hz=self.codec.rate_hz if self.codec is not None else None,
            first_audio_ns=self.first_audio_ns,
            fresh_chunks=tuple(self.fresh),
            text=self.text,
            reason=self.reason,
            usage=self.usage,
        )

    def captured(self) -> CapturedResponse:
        """Return the response for its turn's capture."""
        return CapturedResponse(
            record=self.record(),
            chunks=tuple(self.chunks),
            concealed=tuple(self.concealed) if any(self.concealed) else (),
            preroll=self.preroll,
            codec=self.codec,
        )


class OnsetSearch:
    """Find the first audible sample of a response."""

    def __init__(self, response: OpenResponse, *, paced: bool = False) -> None:
        self._paced = paced
        self._response = response
        self._chunks = 0
        self._tail = np.empty(0, np.int16)
        self._before_tail = 0
        self._done = False

    def look(self) -> int | None:
        """Return the time at which the first audible sample is heard, once; None on all other calls."""
        response = self._response
        if self._done or response.codec is None:
            return None
        if self._chunks < response.first_decoded:
            self._chunks = response.first_decoded
            self._before_tail = sum(response.samples[: self._chunks])
        rate_hz = response.codec.rate_hz
        while self._chunks < len(response.chunks):
            pcm = response.pcm(self._chunks)
            if pcm is None:
                self._done = True
                return None
            self._chunks += 1
            samples = np.concatenate((self._tail, pcm))
            onset = audible_onset(samples, rate_hz)
            if onset is not None:
                self._done = True
                return self._heard_ns(self._before_tail + onset)
            kept = min(len(samples), AUDIBLE_WINDOWS * (rate_hz // WINDOWS_PER_S))
            self._before_tail += len(samples) - kept
            self._tail = samples[len(samples) - kept :]
        return None

    def _heard_ns(self, sample: int) -> int | None:
        """Return the time at which a sample of the response is heard, or None if it is never heard."""
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
        own = sample - sum(self._response.samples[:first])
        try:
            return play(marks, stretches=[(own, own + 1)] if self._paced else ()).heard_ns(own)
        except IndexError:  # interrupted before the sample was heard
            return None


class Responses:
    """The responses of a turn, in start order. At most `MOST_RESPONSES` are kept."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenResponse] = {}
        self.full = False
        """Whether later responses were dropped."""

    def __iter__(self) -> Iterator[OpenResponse]:
        return iter(self._by_id.values())

    @property
    def last(self) -> OpenResponse | None:
        """The most recent response."""
        return next(reversed(self._by_id.values()), None)

    def get(self, response_id: str) -> OpenResponse | None:
        """Return a response by its ID, or None if it has not begun."""
        return self._by_id.get(response_id)

    def touch(self, response_id: str, at_ns: int) -> OpenResponse:
        """Return the response that an arrival at `at_ns` belongs to; create it if necessary.

        Responses beyond the limit are dropped.
        """
        response = self._by_id.get(response_id)
        if response is None:
            response = OpenResponse(response_id, at_ns)
            self.full = len(self._by_id) == MOST_RESPONSES
            if not self.full:
                self._by_id[response_id] = response
        response.progress_ns = at_ns
        return response
