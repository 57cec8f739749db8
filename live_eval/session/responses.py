"""The responses of a turn as they arrive. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, resample_int16
from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError
from live_eval.playout import PlayoutQueue
from live_eval.recording.preroll import Preroll
from live_eval.recording.record import CapturedResponse
from live_eval.session.bounds import TEXT_CHARACTERS
from live_eval.timing import ResponseRecord, ResponseStatus
from live_eval.types import Usage

__all__ = ["MOST_RESPONSES", "OpenResponse", "Responses"]

_SECOND_NS = 1_000_000_000
MOST_RESPONSES = 200
"""Most responses of a turn. Each becomes an audio file and a row; no conversation needs this many."""


@dataclass(slots=True)
class OpenResponse:
    """A response as it arrives.

    Args:
        response_id: The endpoint's name for it, or ours.
        began_ns: Its first sign.
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
    heard_samples: int = 0
    characters: int = 0
    pieces: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    decoders: dict[Codec, Decoder] = field(default_factory=dict)
    queue: PlayoutQueue = field(default_factory=PlayoutQueue)
    starts: list[int] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The completed parts, followed by the pieces of the current one."""
        text = " ".join([*self.parts, *(["".join(self.pieces)] if self.pieces else [])])
        return text or None

    @property
    def said_ns(self) -> int | None:
        """When its first audio or text arrived; None if none has."""
        first_audio_ns = self.first_audio_ns or next(iter(self.arrivals), None)
        signs = [at_ns for at_ns in (first_audio_ns, self.first_text_ns) if at_ns is not None]
        return min(signs, default=None)

    @property
    def audio_s(self) -> float:
        """Seconds of audio so far."""
        samples = self.heard_samples - self.preroll_samples
        return samples / self.codec.rate_hz if self.codec is not None else 0.0

    @property
    def preroll_samples(self) -> int:
        """How many samples came before the event that announced it."""
        return sum(self.samples[: self.preroll.chunks]) if self.preroll is not None else 0

    @property
    def heard_until_ns(self) -> int | None:
        """When the last sample so far is heard; None if no audio has arrived."""
        rate_hz = self.codec.rate_hz if self.codec is not None else 1
        for at in range(len(self.starts), len(self.chunks)):  # what came since the last call
            self.starts.append(self.queue.push(self.arrivals[at], self.samples[at], rate_hz))
        cut_ns = self.interrupted_ns if self.first_audio_ns is None else None  # as `play`
        heard = len(self.starts) if cut_ns is None else bisect_left(self.starts, cut_ns)
        for at in reversed(range(heard)):
            start_ns, samples = self.starts[at], self.samples[at]
            if cut_ns is not None:
                samples = min(samples, (cut_ns - start_ns) * rate_hz // _SECOND_NS)
            if samples:
                return start_ns + (samples - 1) * _SECOND_NS // rate_hz
        return None

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
            at_ns: Its arrival.
            data: The chunk as on the wire, or its samples where they are decoded already.
            codec: How it is encoded. A response is kept in the encoding with which it begins; what comes in
                another one is decoded, and resampled to the rate of the first.
            samples: How many samples it holds.
            concealed: Samples that were lost before it.
            fresh: Whether playout restarts with it.
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
        self.heard_samples += samples + concealed

    def _converted(self, data: bytes, codec: Codec, samples: int) -> tuple[bytes | NDArray[np.int16], int]:
        assert self.codec is not None
        if codec not in self.decoders:
            self.decoders[codec] = Decoder(codec)
        try:
            pcm = resample_int16(self.decoders[codec].decode(data), codec.rate_hz, self.codec.rate_hz)
        except AudioError:  # the turn fails when it is decoded for the record
            return data, samples
        return pcm, len(pcm)

    def say(self, text: str, *, final: bool = False) -> None:
        """Add a piece of its text, up to `TEXT_CHARACTERS`; what is final replaces the pieces before it."""
        if final:
            self.characters -= sum(map(len, self.pieces))
            self.pieces.clear()
        self.characters += len(text)
        if self.characters <= TEXT_CHARACTERS:
            (self.parts if final else self.pieces).append(text)

    def record(self) -> ResponseRecord:
        """Return its record; chunk lengths are those known without decoding."""
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
        """Return the response for the capture of its turn."""
        return CapturedResponse(
            record=self.record(),
            chunks=tuple(self.chunks),
            concealed=tuple(self.concealed) if any(self.concealed) else (),
            preroll=self.preroll,
            codec=self.codec,
        )


class Responses:
    """The responses of a turn, in the order in which they began; at most `MOST_RESPONSES` are kept."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenResponse] = {}
        self.full = False
        """Whether further responses were dropped."""

    def __iter__(self) -> Iterator[OpenResponse]:
        return iter(self._by_id.values())

    @property
    def last(self) -> OpenResponse | None:
        """The response that began last."""
        return next(reversed(self._by_id.values()), None)

    def get(self, response_id: str) -> OpenResponse | None:
        """Return a response by its name, or None if it has not begun."""
        return self._by_id.get(response_id)

    def touch(self, response_id: str, at_ns: int) -> OpenResponse:
        """Return the response that something arrived for at `at_ns`; the first sign creates it.

        One beyond those that are kept is forgotten at once.
        """
        response = self._by_id.get(response_id)
        if response is None:
            response = OpenResponse(response_id, at_ns)
            self.full = len(self._by_id) == MOST_RESPONSES
            if not self.full:
                self._by_id[response_id] = response
        response.progress_ns = at_ns
        return response
