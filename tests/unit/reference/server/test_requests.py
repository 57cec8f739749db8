"""The channel of a request and its response. No sockets."""

from __future__ import annotations

from typing import Any, cast

from live_eval.reference.server.requests import RequestChannel
from live_eval.testing.fake_clock import FakeClock


class Response:
    """A response that stores written data until the client disconnects."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.left = False

    async def write(self, data: bytes) -> None:
        if self.left:
            raise ConnectionResetError
        self.written.append(data)

    async def write_eof(self) -> None:
        self.written.append(b"(end)")


def channel(response: Response) -> RequestChannel:
    return RequestChannel(cast("Any", None), cast("Any", response), b"{}", FakeClock(start_ns=7))


async def test_the_request_is_received_and_the_end_of_the_response() -> None:
    response = Response()
    open_channel = channel(response)
    arrival = await open_channel.receive()
    assert arrival is not None
    assert (arrival.message, arrival.at_ns) == (b"{}", 7)
    assert await open_channel.send(b"one") == 7
    await open_channel.close(1000, "")
    await open_channel.send(b"late")
    await open_channel.close(1000, "")
    assert response.written == [b"one\0", b"(end)"]
    assert await open_channel.receive() is None


async def test_a_client_that_leaves_ends_the_channel() -> None:
    response = Response()
    open_channel = channel(response)
    await open_channel.receive()
    response.left = True
    await open_channel.send(b"one")
    assert await open_channel.receive() is None
