import asyncio
from collections.abc import Sequence
from typing import Any, cast

from live_eval.recording.record import TurnRecord
from live_eval.run.session_queue import DueSession, SessionQueue
from live_eval.testing.fake_clock import FakeClock


class Queue:
    """A queue of numbered sessions; those dialled before `reached_ns` have been opened."""

    def __init__(self, number: int) -> None:
        self.sessions = [DueSession(cast("Any", (at,)), None) for at in range(number)]
        self.reached_ns = 0
        self.queue = SessionQueue(self.sessions, lambda at_ns: self.reached_ns >= at_ns, FakeClock())

    async def take(self) -> int | None:
        session = await self.queue.next()
        return None if session is None else self.sessions.index(session)

    def played(self, at: int, doubt_since_ns: int | None = None, records: str = "") -> list[str]:
        """Report a session; return those whose records are to be stored."""
        own = cast("Sequence[TurnRecord]", records or f"records of {at}")
        return cast("list[str]", self.queue.ended(self.sessions[at], own, doubt_since_ns))


async def test_the_failure_of_a_session_in_doubt_counts_once_a_later_one_has_been_opened() -> None:
    queue = Queue(3)
    assert await queue.take() == 0
    assert not queue.played(0, doubt_since_ns=5)
    assert await queue.take() == 1
    queue.reached_ns = 4
    assert queue.played(1) == ["records of 1"]
    assert await queue.take() == 2
    queue.reached_ns = 6
    assert queue.played(2) == ["records of 2", "records of 0"]
    assert await queue.take() is None


async def test_sessions_in_doubt_are_played_again_after_an_outage() -> None:
    queue = Queue(3)
    for at in (0, 1):
        assert await queue.take() == at
        queue.played(at, doubt_since_ns=1)
    excused = queue.queue.excuse(1)
    assert [await queue.take() for _ in range(3)] == [0, 1, 2]
    assert excused
    queue.reached_ns = 9
    assert [queue.played(at) for at in range(3)] == [[f"records of {at}"] for at in range(3)]
    assert await queue.take() is None


async def test_without_other_sessions_the_one_in_doubt_finds_out_and_its_failure_counts() -> None:
    queue = Queue(1)
    assert await queue.take() == 0
    queue.reached_ns = 1
    assert not queue.played(0, doubt_since_ns=2)
    assert await queue.take() == 0
    queue.reached_ns = 3
    assert queue.played(0, records="what it was asked with") == ["records of 0"]
    assert await queue.take() is None


async def test_a_session_that_detects_an_outage_is_not_run_twice() -> None:
    queue = Queue(1)
    await queue.take()
    queue.reached_ns = 1
    queue.played(0, doubt_since_ns=2)
    await queue.take()
    queue.queue.excuse(1)
    queue.reached_ns = 3
    assert queue.played(0) == ["records of 0"]
    assert await queue.take() is None


async def test_workers_without_a_session_wait_for_those_in_doubt() -> None:
    queue = Queue(3)
    assert [await queue.take() for _ in range(3)] == [0, 1, 2]
    assert not queue.played(0, doubt_since_ns=1)
    assert not queue.played(1, doubt_since_ns=1)
    waiting = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    queue.queue.excuse(1)
    assert sorted(await asyncio.gather(*waiting)) == [0, 1]  # type: ignore[type-var]


async def test_waiting_ends_once_the_endpoint_is_given_up() -> None:
    queue = Queue(2)
    assert [await queue.take() for _ in range(2)] == [0, 1]
    queue.played(0, doubt_since_ns=1)
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.queue.close()
    assert await waiting is None


def test_a_session_cut_off_by_three_outages_fails() -> None:
    session = DueSession((), None)
    excused = []
    for outage in (1, 2, 2, 3):
        session.cut = True
        excused.append(session.excuse(outage))
    assert excused == [True, True, True, False]
    assert session.excuse(4)  # it could not be opened


async def test_a_failure_in_doubt_counts_if_neither_an_outage_nor_an_open_session_is_found() -> None:
    queue = Queue(2)
    for at in range(2):
        assert await queue.take() == at
        assert not queue.played(at, doubt_since_ns=1)
    for _ in range(2):
        assert await queue.take() == 0
        assert not queue.played(0, doubt_since_ns=1, records="what it was asked with")
    assert await queue.take() == 0
    assert queue.played(0, doubt_since_ns=1) == ["records of 0", "records of 1"]
    assert await queue.take() is None


async def test_a_failure_in_doubt_counts_if_the_session_fails_otherwise() -> None:
    queue = Queue(1)
    assert await queue.take() == 0
    assert not queue.played(0, doubt_since_ns=1)
    assert await queue.take() == 0
    assert queue.played(0, records="of an invalid certificate") == ["records of 0"]
    assert await queue.take() is None
