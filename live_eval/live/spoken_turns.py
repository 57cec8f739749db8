"""The turns of a live session, numbered, and what the user said in each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from live_eval.live.said import SaidAudio
from live_eval.recording.record import TurnCapture
from live_eval.run.plan import Job
from live_eval.timing import play

__all__ = ["LiveTurn", "SpokenTurns"]

_SECOND_NS = 1_000_000_000
_TAIL_NS = 300_000_000  # recorded after the utterance
_MOST_TRACE_NS = 600 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveTurn:
    """A turn of a live conversation, and what the user said in it.

    Args:
        capture: What the session captured.
        number: Its number in the run, from 1.
        session: The number of its session, from 1.
        index: Its number in the session, from 0.
        user: Everything that the microphone gave from `capture.trace.t0_ns` to the end of the turn, int16
            mono, shape (samples,), at `rate_hz`.
        rate_hz: Rate of `user`.
        job: The case that was played; None for a person, whose utterance becomes a case.
    """

    capture: TurnCapture
    number: int
    session: int
    index: int
    user: NDArray[np.int16]
    rate_hz: int
    job: Job | None = None

    @property
    def utterance(self) -> NDArray[np.int16]:
        """What the user said, up to shortly after the end of their speech."""
        boundaries = self.capture.trace.boundaries
        if boundaries is None:
            return self.user
        return self.user[: (boundaries.voice_end_ns + _TAIL_NS) * self.rate_hz // _SECOND_NS]


class SpokenTurns:
    """Numbers the turns of a session in the order in which they are first seen.

    Args:
        said: What the user says in the session.
        session: The session's number, from 1.
        turns_before: How many turns the run had before the session.
        jobs: The cases that are played; None for a person.
    """

    def __init__(
        self, said: SaidAudio, *, session: int, turns_before: int = 0, jobs: Sequence[Job] | None = None
    ) -> None:
        self.said = said
        """What the user says in the session."""
        self._session = session
        self._turns_before = turns_before
        self._jobs = jobs
        self._indexes: dict[int, int] = {}  # by when the turn's first sample was spoken

    def __len__(self) -> int:
        return len(self._indexes)

    def turn(self, capture: TurnCapture, now_ns: int) -> LiveTurn:
        """Return a turn in which the user has spoken, so far or as a whole.

        Args:
            capture: What the session captured of it.
            now_ns: The time.
        """
        t0_ns = capture.trace.t0_ns
        assert t0_ns is not None
        index = self._indexes.setdefault(t0_ns, len(self._indexes))
        until_ns = min((later for later in self._indexes if later > t0_ns), default=now_ns)
        return LiveTurn(
            capture=capture,
            number=self._turns_before + index + 1,
            session=self._session,
            index=index,
            user=self._user(capture, t0_ns, until_ns),
            rate_hz=self.said.rate_hz,
            job=self._jobs[index] if self._jobs is not None else None,
        )

    def _user(self, capture: TurnCapture, t0_ns: int, until_ns: int) -> NDArray[np.int16]:
        """Return what the user's microphone gave until the reply has been heard, and a little more.

        Args:
            capture: The turn.
            t0_ns: When it began.
            until_ns: The end at the latest: the next turn's beginning, or the present.
        """
        ends = [capture.trace.voice_end_ns or until_ns]
        for response in capture.wire:
            if len(response.record.chunk_samples) and response.record.rate_hz:
                heard = play(response.record)
                if heard.heard_samples:
                    ends.append(heard.heard_ns(heard.heard_samples - 1))
        end_ns = min(until_ns, max(ends) + _TAIL_NS, t0_ns + _MOST_TRACE_NS)
        return self.said.between(t0_ns, end_ns)
