"""Simulate the playout of a response: ``heard(n) = max(arrival(n), heard(n−1) + 1/rate)``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.types import Usage

__all__ = ["Playout", "PlayoutQueue", "ResponseRecord", "ResponseStatus", "Run", "play"]

_SECOND_NS = 1_000_000_000


class ResponseStatus(StrEnum):
    """The outcome of a response."""

    OPEN = "open"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRecord:
    """A stored response of the endpoint. Times are on the session's monotonic clock.

    Args:
        response_id: ID assigned by the endpoint or, without one, by live-eval.
        created_ns: Arrival of the event that announces the response.
        first_text_ns: Arrival of the first text of the reply (transcript or text).
        done_ns: Arrival of the event that ends the response.
        interrupted_ns: Arrival of the event that interrupts the response and drops unplayed audio.
        status: Outcome of the response.
        chunk_arrival_ns: Arrival of each audio chunk, int64, shape (chunks,).
        chunk_samples: Number of samples in each chunk, including samples concealed before a packet, int64,
            shape (chunks,).
        rate_hz: Sample rate of the reply's audio; None without audio.
        first_audio_ns: Arrival of the first audio of the reply, if it is not the first chunk: on a media
            track, the chunks begin shortly before the event that announces the reply.
        fresh_chunks: Indices of chunks with which playout restarts after an idle gap of the sender.
        text: Text or transcript from the endpoint, or None.
        reason: Why the response did not complete; empty if it completed.
        usage: Token usage, if the endpoint reports it.
        audio_file: Audio file in the run folder; None before the file is written, and without audio.
        heard_ns: Start and end of each audible stretch as heard, split at every pause of `PAUSE_NS` or more;
            None in older runs.
        discarded_ns: Duration of audible audio that arrived but was not heard; None in older runs.
    """

    response_id: str
    created_ns: int | None = None
    first_text_ns: int | None = None
    done_ns: int | None = None
    interrupted_ns: int | None = None
    status: ResponseStatus = ResponseStatus.OPEN
    chunk_arrival_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    chunk_samples: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    rate_hz: int | None = None
    first_audio_ns: int | None = None
    fresh_chunks: tuple[int, ...] = ()
    text: str | None = None
    reason: str = ""
    usage: Usage | None = None
    audio_file: Path | None = None
    heard_ns: tuple[tuple[int, int], ...] | None = None
    discarded_ns: int | None = None

    @property
    def audio_began_ns(self) -> int | None:
        """Arrival of the first audio; None without audio."""
        if self.first_audio_ns is not None or not len(self.chunk_arrival_ns):
            return self.first_audio_ns
        return int(self.chunk_arrival_ns[0])


class PlayoutQueue:
    """Simulate playout of consecutive chunks as they arrive, without a jitter buffer."""

    def __init__(self) -> None:
        self._start_ns = -1 << 62  # start of the current uninterrupted stretch
        self._samples = 0
        self._rate_hz = 1

    @property
    def due_ns(self) -> int:
        """Time at which the next sample is due."""
        return self._start_ns + self._samples * _SECOND_NS // self._rate_hz

    def push(self, arrival_ns: int, samples: int, rate_hz: int) -> int:
        """Add a chunk, and return the time at which its first sample is heard."""
        start_ns = self.due_ns
        if arrival_ns > start_ns or rate_hz != self._rate_hz:
            self._start_ns = start_ns = max(arrival_ns, start_ns)
            self._samples, self._rate_hz = 0, rate_hz
        self._samples += samples
        return start_ns

    def drop(self, at_ns: int) -> None:
        """Drop samples that are due at or after `at_ns`."""
        if self.due_ns > at_ns:
            self._start_ns, self._samples = at_ns, 0


class Run(NamedTuple):
    """A stretch of a response's samples that is heard without interruption.

    Args:
        start_ns: Time at which the first sample is heard.
        first: Index of the first sample in the response.
        samples: Number of samples.
    """

    start_ns: int
    first: int
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class Playout:
    """Playout times of a response's chunks.

    Args:
        start_ns: Time at which each chunk's first sample is heard, int64, shape (chunks,).
        arrived: Number of samples in each chunk, int64, shape (chunks,).
        samples: Number of samples heard in each chunk (fewer than arrived after an interruption, or if late
            silence was dropped), int64, shape (chunks,).
        stall_ns: Length of each underrun between chunks, int64, shape (underruns,).
    """

    start_ns: NDArray[np.int64]
    arrived: NDArray[np.int64]
    samples: NDArray[np.int64]
    rate_hz: int
    stall_ns: NDArray[np.int64]

    @property
    def heard_samples(self) -> int:
        """Number of samples that are heard."""
        return int(self.samples.sum())

    @property
    def end_sample(self) -> int:
        """Index one past the last audible sample, or 0 if there is none."""
        heard = np.flatnonzero(self.samples)
        if not len(heard):
            return 0
        last = int(heard[-1])
        return int(self.arrived[:last].sum() + self.samples[last])

    def heard_ns(self, sample: int) -> int:
        """Return the time at which a sample of the response is heard.

        Raises:
            IndexError: The sample is never heard.
        """
        ends = np.cumsum(self.arrived)
        chunk = int(np.searchsorted(ends, sample, side="right"))
        offset = sample - int(ends[chunk] - self.arrived[chunk]) if chunk < len(ends) else 0
        if sample < 0 or chunk == len(ends) or offset >= self.samples[chunk]:
            raise IndexError(
                f"expected a sample up to {self.end_sample - 1} (the last one heard), got {sample}"
            )
        return int(self.start_ns[chunk]) + offset * _SECOND_NS // self.rate_hz

    def runs(self) -> Iterator[Run]:
        """Yield the stretches of samples that are heard without interruption."""
        run: Run | None = None
        first = 0
        for start_ns, arrived, samples in zip(
            self.start_ns.tolist(), self.arrived.tolist(), self.samples.tolist(), strict=True
        ):
            if (
                run is not None
                and run.first + run.samples == first
                and start_ns - run.start_ns <= run.samples * _SECOND_NS // self.rate_hz
            ):
                run = run._replace(samples=run.samples + samples)
            else:
                if run is not None:
                    yield run
                run = Run(start_ns, first, samples)
            first += arrived
        if run is not None:
            yield run


def play(
    marks: ResponseRecord,
    *,
    jitter_buffer_ns: int = 0,
    stretches: Sequence[tuple[int, int]] = (),
) -> Playout:
    """Simulate playout of a response.

    Args:
        marks: Timestamps of the response; `rate_hz` must be known if there are chunks.
        jitter_buffer_ns: Delay of playout after the first arrival and after each underrun.
        stretches: Audible stretches of a response on media at real-time pace (see `audible_stretches`).
            Playout restarts at each stretch: earlier silence that arrived late and has not been played is
            dropped.

    Returns:
        The playout times. Samples due after an interruption are dropped.
    """
    rate_hz = marks.rate_hz or 1
    # on a track, the endpoint controls playout, so audio arriving after an interruption is heard
    interrupted_ns = marks.interrupted_ns if marks.first_audio_ns is None else None
    starts = np.empty(len(marks.chunk_samples), np.int64)
    stalls: list[int] = []
    fresh = frozenset(marks.fresh_chunks)
    silent = _silent_before(marks.chunk_samples, stretches)
    heard = marks.chunk_samples.copy()
    queue = PlayoutQueue()
    for index, (arrival, samples) in enumerate(
        zip(marks.chunk_arrival_ns.tolist(), marks.chunk_samples.tolist(), strict=True)
    ):
        due_ns = queue.due_ns
        if arrival > due_ns:
            arrival += jitter_buffer_ns
            resumed_ns = arrival if interrupted_ns is None else min(arrival, interrupted_ns)
            if index and index not in fresh and resumed_ns > due_ns:
                stalls.append(resumed_ns - due_ns)
        elif index in silent:
            restart_ns = max(arrival + jitter_buffer_ns, due_ns - silent[index] * _SECOND_NS // rate_hz)
            if restart_ns < due_ns:
                queue.drop(restart_ns)
                room = np.maximum(0, restart_ns - starts[:index]) * rate_hz // _SECOND_NS
                heard[:index] = np.minimum(heard[:index], room)
        starts[index] = queue.push(arrival, samples, rate_hz)
    if interrupted_ns is not None:
        room = np.maximum(0, interrupted_ns - starts) * rate_hz // _SECOND_NS
        heard = np.minimum(heard, room)
    return Playout(starts, marks.chunk_samples, heard, rate_hz, np.asarray(stalls, np.int64))


def _silent_before(chunk_samples: NDArray[np.int64], stretches: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the number of silent samples before each chunk in which audible audio begins."""
    ends = np.cumsum(chunk_samples)
    silent: dict[int, int] = {}
    before = 0
    for begin, end in stretches:
        chunk = int(np.searchsorted(ends, begin, side="right"))
        first = int(ends[chunk] - chunk_samples[chunk])
        if first > before:
            silent.setdefault(chunk, first - before)
        before = end
    return silent
