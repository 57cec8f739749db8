"""The sessions of a run: those to play, and those whose failure waits for a verdict.

A session that could not be opened or was cut off may be the first sign of an outage, whatever attempts are
left to it. Its failure counts once a later session has been opened, and is excused once an outage is known.
Where neither comes of playing it again a few times, the endpoint is there and fails: that counts too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from live_eval.recording.record import TurnRecord
from live_eval.run.outages import MISSES_OF_OUTAGE
from live_eval.run.plan import Job

__all__ = ["DueSession", "SessionQueue"]

_MOST_CUTS = 2


@dataclass(slots=True, eq=False)
class DueSession:
    """The turns of a session that is to be played.

    Args:
        jobs: The turns.
        due_ns: When it is due, in an open loop, whatever the endpoint does; None in a closed loop.
        attempt: Number of its next attempt.
        cut: Whether an attempt was cut off and no session has been opened since.
        cuts: How many outages it was under way in.
        last_cut: Number of the last of these.
        asks_since_ns: When its failure came into doubt, while it is played again only to find out whether the
            endpoint can be reached since then; else None.
        excused: Records of an attempt that does not count; they are yet to be stored.
    """

    jobs: Sequence[Job]
    due_ns: int | None
    attempt: int = 1
    cut: bool = False
    cuts: int = 0
    last_cut: int = 0
    asks_since_ns: int | None = None
    excused: Sequence[TurnRecord] = ()

    def excuse(self, outage: int) -> bool:
        """Take note of an outage; return whether it excuses the attempt that has failed.

        A session that is under way whenever the endpoint goes away may be why: the third outage counts.

        Args:
            outage: Its number in the run, from 1.
        """
        if self.cut and outage != self.last_cut:
            self.cuts, self.last_cut = self.cuts + 1, outage
        counts = self.cut and self.cuts > _MOST_CUTS
        self.cut = False
        return not counts


@dataclass(slots=True, eq=False)
class _Doubt:
    session: DueSession
    records: Sequence[TurnRecord]
    since_ns: int
    probes: int = 0  # how often it was played again to find out whether the endpoint is there


class SessionQueue:
    """Hands out the sessions of a run to its workers.

    Call `played` for each session that `next` has returned.

    Args:
        sessions: The sessions, in the order in which they are due.
        opened_since: Returns whether a session that was dialled at a time or later has been opened.
    """

    def __init__(self, sessions: Iterable[DueSession], opened_since: Callable[[int], bool]) -> None:
        self._sessions = iter(sessions)
        self._opened_since = opened_since
        self._again: deque[DueSession] = deque()
        self._doubts: list[_Doubt] = []
        self._counted: list[Sequence[TurnRecord]] = []
        self._playing = 0
        self._closed = False
        self._changed = asyncio.Event()

    async def next(self) -> DueSession | None:
        """Return the next session to play; None if there is none and will be none.

        Waits while it depends on other workers whether a session is played again. If it depends on no
        session any more, one of those in doubt is played again: if it can be opened, its failure counts.
        """
        while not self._closed:
            session = self._again.popleft() if self._again else next(self._sessions, None)
            if session is None and not self._doubts:
                return None
            if session is None and not self._playing:
                doubt = self._doubts[0]
                session = doubt.session
                session.asks_since_ns = doubt.since_ns
            if session is not None:
                self._playing += 1
                return session
            await self._changed.wait()
        return None

    def played(
        self, session: DueSession, records: Sequence[TurnRecord], doubt_since_ns: int | None
    ) -> list[Sequence[TurnRecord]]:
        """Take the records of a session whose attempts are used up, or that was captured.

        Args:
            session: The session.
            records: Of its last attempt.
            doubt_since_ns: None if they count; else they do once a session has been opened that was dialled
                then or later.

        Returns:
            The records of all sessions that are known to count by now, to be stored.
        """
        self._playing -= 1
        session.asks_since_ns = None
        asked = next((each for each in self._doubts if each.session is session), None)
        found_none = False  # that the endpoint is away; then all failures in doubt count
        if asked is not None:
            asked.probes += 1
            found_none = doubt_since_ns is None or asked.probes >= MISSES_OF_OUTAGE
        elif doubt_since_ns is not None:
            self._doubts.append(_Doubt(session, records, doubt_since_ns))
        else:
            self._counted.append(records)
        doubts, self._doubts = self._doubts, []
        for each in doubts:
            if found_none or self._opened_since(each.since_ns):
                self._counted.append(each.records)
            else:
                self._doubts.append(each)
        counted, self._counted = self._counted, []
        self._wake()
        return counted

    def excuse(self, outage: int) -> None:
        """Play the sessions in doubt again: their failures are due to an outage.

        Args:
            outage: Its number in the run, from 1.
        """
        for each in self._doubts:
            session = each.session
            asks = session.asks_since_ns is not None
            if not (asks or session.excuse(outage)):
                self._counted.append(each.records)
                continue
            session.excused = each.records
            session.asks_since_ns = None
            if not asks:
                self._again.append(session)
        self._doubts.clear()
        self._wake()

    def close(self) -> None:
        """Hand out no more sessions: the endpoint stays away."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
