"""Number the turns of a live session and keep the user's audio for each. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.live.echo_detection import LONGEST_NS, RATE_HZ, WINDOW_NS, is_echo
from live_eval.live.reply import HeardAudio
from live_eval.run.plan import Job
from live_eval.session.capture import TurnCapture
from live_eval.timing import play

__all__ = ["LiveCapture", "LiveCaptures", "OverheardReply", "TurnNumbers", "UserAudio"]

_SECOND_NS = 1_000_000_000
_TAIL_NS = 300_000_000  # audio recorded after the end of the utterance
_OVERLAPS = 8  # more than the number of turns that a session may still change
_MOST_NS = 600 * _SECOND_NS
_SAME_NS = 400_000_000  # less than the time between utterances, more than the offset between sessions


class UserAudio:
    """Store the user's frames with timestamps, at most the last ten minutes."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self._frames: deque[tuple[int, NDArray[np.int16]]] = deque()

    def append(self, start_ns: int, pcm: bytes) -> None:
        """Add a frame (int16 little-endian mono) whose first sample was spoken at `start_ns`."""
        self._frames.append((start_ns, np.frombuffer(pcm, "<i2")))
        self.forget(start_ns - _MOST_NS)

    def forget(self, before_ns: int) -> None:
        """Drop frames that began before `before_ns`."""
        while self._frames and self._frames[0][0] < before_ns:
            self._frames.popleft()

    def between(self, begin_ns: int, end_ns: int) -> NDArray[np.int16]:
        """Return the audio from `begin_ns` to `end_ns`: int16 mono, shape (samples,).

        Missing audio is filled with silence. Later frames take precedence over earlier ones.
        """
        pcm = np.zeros(max(0, self._samples(end_ns - begin_ns)), np.int16)
        for start_ns, frame in tuple(self._frames):
            at = self._samples(start_ns - begin_ns)
            if at >= len(pcm) or at + len(frame) <= 0:
                continue
            first = max(0, -at)
            at = max(0, at)
            kept = frame[first : first + len(pcm) - at]
            pcm[at : at + len(kept)] = kept
        return pcm

    def _samples(self, ns: int) -> int:
        return round(ns * self.rate_hz / _SECOND_NS)


class OverheardReply(NamedTuple):
    """The replies as heard during the last part of an utterance.

    Args:
        span_ns: Begin and end of that part, from the utterance's first sample.
        heard: See `live_eval.live.echo_detection.is_echo`.
    """

    span_ns: tuple[int, int]
    heard: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveCapture:
    """A turn of a live conversation with the user's audio.

    Args:
        number: Turn number in the run, from 1.
        session: Session number, from 1.
        index: Index of the turn in the session, from 0.
        user: The microphone's audio from `capture.trace.t0_ns` to the end of the turn, int16 mono, shape
            (samples,), at `rate_hz`.
        job: Job of the streamed case; None for a person, whose utterance becomes a new case.
        overlap: The replies as heard during the utterance, if any; see `OverheardReply`.
    """

    capture: TurnCapture
    number: int
    session: int
    index: int
    user: NDArray[np.int16]
    rate_hz: int
    job: Job | None = None
    overlap: OverheardReply | None = None

    @property
    def echoes(self) -> bool:
        """Whether the utterance is an echo of a reply."""
        if self.overlap is None:
            return False
        begin, end = (ns * self.rate_hz // _SECOND_NS for ns in self.overlap.span_ns)
        return is_echo(self.user[begin:end], self.rate_hz, self.overlap.heard)

    @property
    def utterance(self) -> NDArray[np.int16]:
        """The user's audio until shortly after the end of speech."""
        boundaries = self.capture.trace.boundaries
        if boundaries is None:
            return self.user
        return self.user[: (boundaries.voice_end_ns + _TAIL_NS) * self.rate_hz // _SECOND_NS]


class TurnNumbers:
    """Number the turns of simultaneous sessions with one user, in the order of the first requests.

    Turns that begin at nearly the same time belong to the same utterance.
    """

    def __init__(self) -> None:
        self._began_ns: list[int] = []

    def of(self, t0_ns: int) -> int:
        """Return the number, from 1, of the turn whose utterance began at `t0_ns`."""
        for number, began_ns in enumerate(self._began_ns, 1):
            if abs(t0_ns - began_ns) < _SAME_NS:
                return number
        self._began_ns.append(t0_ns)
        return len(self._began_ns)


class LiveCaptures:
    """Number the turns of a session in order of first appearance.

    Args:
        session: Session number, from 1.
        turns_before: Number of turns in the run before the session.
        numbers: Numbers that are shared with other sessions; None to continue after `turns_before`.
        jobs: Jobs of the streamed cases; None for a live person.
    """

    def __init__(
        self,
        user: UserAudio,
        *,
        session: int,
        turns_before: int = 0,
        numbers: TurnNumbers | None = None,
        jobs: Sequence[Job] | None = None,
    ) -> None:
        self.user = user
        """The user's audio in the session."""
        self._session = session
        self._turns_before = turns_before
        self._numbers = numbers
        self._jobs = jobs
        self._indexes: dict[int, int] = {}  # keyed by the time of the turn's first sample
        self._overlaps: dict[int, OverheardReply] = {}  # of the last utterances, by the same key

    def __len__(self) -> int:
        return len(self._indexes)

    def overheard(self, t0_ns: int, voice_end_ns: int, heard: HeardAudio) -> None:
        """Keep what was heard during the utterance that began at `t0_ns` and has just ended."""
        begin_ns = max(t0_ns, voice_end_ns - WINDOW_NS)
        replies = heard.between(begin_ns - LONGEST_NS, voice_end_ns, RATE_HZ)
        if replies.any():
            self._overlaps[t0_ns] = OverheardReply((begin_ns - t0_ns, voice_end_ns - t0_ns), replies)
        while len(self._overlaps) > _OVERLAPS:
            del self._overlaps[next(iter(self._overlaps))]

    def capture_of(self, capture: TurnCapture, now_ns: int) -> LiveCapture:
        """Return a completed or current turn in which the user has spoken, with its number and audio."""
        t0_ns = capture.trace.t0_ns
        assert t0_ns is not None
        index = self._indexes.setdefault(t0_ns, len(self._indexes))
        until_ns = min((later for later in self._indexes if later > t0_ns), default=now_ns)
        return LiveCapture(
            capture=capture,
            number=self._turns_before + index + 1 if self._numbers is None else self._numbers.of(t0_ns),
            session=self._session,
            index=index,
            user=self.user.between(t0_ns, _end_ns(capture, t0_ns, until_ns)),
            rate_hz=self.user.rate_hz,
            job=self._jobs[index] if self._jobs is not None else None,
            overlap=self._overlaps.get(t0_ns),
        )


def _end_ns(capture: TurnCapture, t0_ns: int, until_ns: int) -> int:
    """Return a time shortly after the end of the heard reply, capped at `until_ns`."""
    ends = [capture.trace.voice_end_ns or until_ns]
    for response in capture.wire:
        if len(response.record.chunk_samples) and response.record.rate_hz:
            heard = play(response.record)
            if heard.heard_samples:
                ends.append(heard.heard_ns(heard.heard_samples - 1))
    return min(until_ns, max(ends) + _TAIL_NS, t0_ns + _MOST_NS)
