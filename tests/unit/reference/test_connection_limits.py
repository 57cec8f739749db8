import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from live_eval.reference.server.connection_limits import Connections
from live_eval.reference.server.site import SocketChannel
from live_eval.sockets.framing import WebSocketFraming
from live_eval.testing.clock import FakeClock

SECOND_NS = 1_000_000_000


class Connection:
    """Stands in for one of aiohttp's."""

    def __init__(self) -> None:
        self.open = True

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


async def test_a_client_that_leaves_before_it_is_answered_is_no_fault() -> None:
    async def gone(_: Any) -> web.Response:
        raise ConnectionResetError("Cannot write to closing transport")

    connections: Any = Connections(FakeClock())
    answer = await connections.middleware(SimpleNamespace(protocol=Connection()), gone)
    assert answer.status == 400


async def test_a_ping_that_cannot_be_answered_ends_the_session() -> None:
    class Gone:
        async def receive(self) -> None:
            raise ConnectionResetError("Cannot write to closing transport")

    socket: Any = Gone()
    stream: Any = None
    assert await SocketChannel(socket, WebSocketFraming(), stream, binary=False).receive() is None
