import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from live_eval.http.connections import Connections
from live_eval.testing.fake_clock import FakeClock

SECOND_NS = 1_000_000_000


class Connection:
    """A fake of an aiohttp request handler and its transport."""

    def __init__(self) -> None:
        self.open = True
        self.reading = True
        self.transport: Connection | None = self

    def is_reading(self) -> bool:
        return self.reading

    def get_write_buffer_size(self) -> int:
        return 0

    def force_close(self) -> None:
        self.open = False


async def test_a_connection_without_a_request_is_closed_and_one_with_a_session_is_not() -> None:
    clock = FakeClock()
    begun_ns = clock.now_ns()
    connections: Any = Connections(clock, most_header_s=20)
    slow, talking = Connection(), Connection()
    server = SimpleNamespace(connections=[slow, talking])

    async def session(_: Any) -> web.Response:
        await clock.sleep_until(begun_ns + 30 * SECOND_NS)
        return web.Response()

    watch = asyncio.create_task(connections.watch(server))
    await connections.middleware(SimpleNamespace(protocol=talking), session)
    assert (slow.open, talking.open) == (False, True)
    server.connections = [talking]
    await clock.sleep_until(begun_ns + 45 * SECOND_NS)
    assert talking.open, "it has been idle for less than the limit"
    await clock.sleep_until(begun_ns + 55 * SECOND_NS)
    assert not talking.open
    watch.cancel()


async def test_a_connection_that_receives_a_file_is_not_closed() -> None:
    clock = FakeClock()
    begun_ns = clock.now_ns()
    connections: Any = Connections(clock, most_header_s=20)
    slow = Connection()
    slow.reading = False
    watch = asyncio.create_task(connections.watch(SimpleNamespace(connections=[slow])))
    await clock.sleep_until(begun_ns + 100 * SECOND_NS)
    assert slow.open
    slow.reading = True
    await clock.sleep_until(begun_ns + 115 * SECOND_NS)
    assert slow.open
    await clock.sleep_until(begun_ns + 125 * SECOND_NS)
    assert not slow.open
    watch.cancel()


async def test_the_oldest_idle_connection_is_displaced() -> None:
    connections: Any = Connections(FakeClock())
    answered, old, new = Connection(), Connection(), Connection()

    async def answer(_: Any) -> web.Response:
        assert connections.make_room([answered, old, new])
        assert (answered.open, old.open, new.open) == (True, False, True)
        assert not connections.make_room([answered])
        return web.Response()

    await connections.middleware(SimpleNamespace(protocol=answered), answer)
    assert connections.make_room([answered, new])
    assert not answered.open


async def test_the_longest_idle_connection_is_displaced_not_an_older_active_one() -> None:
    clock = FakeClock()
    begun_ns = clock.now_ns()
    connections: Any = Connections(clock)
    old, new, latest = Connection(), Connection(), Connection()
    server = SimpleNamespace(connections=[old, new])

    async def answer(_: Any) -> web.Response:
        return web.Response()

    watch = asyncio.create_task(connections.watch(server))
    await clock.sleep_until(begun_ns + 5 * SECOND_NS)
    await connections.middleware(SimpleNamespace(protocol=old), answer)
    for seconds, closed in ((5, new), (9, old)):
        await clock.sleep_until(begun_ns + seconds * SECOND_NS)
        assert connections.make_room([old, new, latest])
        assert not closed.open
        closed.transport = None
    assert latest.open
    watch.cancel()


async def test_a_client_that_leaves_before_it_is_answered_is_not_an_error() -> None:
    async def gone(_: Any) -> web.Response:
        raise ConnectionResetError("Cannot write to closing transport")

    connections: Any = Connections(FakeClock())
    answer = await connections.middleware(SimpleNamespace(protocol=Connection()), gone)
    assert answer.status == 400
