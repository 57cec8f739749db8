from typing import Any

from live_eval.reference.server.site import SocketChannel
from live_eval.sockets.framing import WebSocketFraming


async def test_a_ping_that_cannot_be_answered_ends_the_session() -> None:
    class Gone:
        async def receive(self) -> None:
            raise ConnectionResetError("Cannot write to closing transport")

    socket: Any = Gone()
    stream: Any = None
    assert await SocketChannel(socket, WebSocketFraming(), stream, binary=False).receive() is None
