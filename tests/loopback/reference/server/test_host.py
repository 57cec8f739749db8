"""Limits of the reference endpoint on sessions, connections and handshakes."""

import asyncio
import contextlib

import pytest
from aiohttp import ClientSession
from aiortc import RTCPeerConnection
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from live_eval.http.connection_rate import ConnectionRate
from tests.support.serving import reference


async def test_sessions_beyond_the_limit_are_refused() -> None:
    async with reference(limits={"most_sessions": 2}) as address, contextlib.AsyncExitStack() as held:
        url = f"ws://{address}/v1/realtime?model=m"
        for _ in range(2):
            last = await held.enter_async_context(connect(url))
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 429
        assert b"the limit is 2" in (refused.value.response.body or b"")
        await last.close()
        async with connect(url) as again:
            assert "session.created" in str(await again.recv())


async def test_a_new_connection_displaces_one_that_sends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.reference.server.site.MOST_CONNECTIONS", 3)
    async with reference() as address, connect(f"ws://{address}/v1/realtime?model=m") as session:
        host, port = address.split(":")
        held = [await asyncio.open_connection(host, port) for _ in range(6)]
        for reader, _ in held[:4]:
            assert await reader.read() == b""
        held[5][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await held[5][0].readline()
        assert "session.created" in str(await session.recv())
        for _, writer in held:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_a_connection_beyond_the_limit_is_refused_if_all_are_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("live_eval.reference.server.site.MOST_CONNECTIONS", 2)
    async with reference() as address, contextlib.AsyncExitStack() as held:
        for _ in range(2):
            session = await held.enter_async_context(connect(f"ws://{address}/v1/realtime?model=m"))
            await session.recv()
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, port)
        assert (await reader.read()).startswith(b"HTTP/1.1 429 ")
        writer.close()


async def test_new_connections_of_another_machine_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict(ConnectionRate):
        def admits(self, address: str, at_ns: int) -> bool:
            return super().admits(address.replace("127.", "10."), at_ns)

    strict = Strict(per_s=0.1, burst=2)
    monkeypatch.setattr("live_eval.reference.server.site.ConnectionRate", lambda **_: strict)
    async with reference() as address:
        url = f"ws://{address}/v1/realtime?model=m"
        for _ in range(2):
            async with connect(url):
                pass
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["Retry-After"] == "1"


async def test_handshakes_beyond_the_limit_are_refused() -> None:
    peer = RTCPeerConnection()
    peer.addTransceiver("audio")
    peer.createDataChannel("oai-events")
    await peer.setLocalDescription(await peer.createOffer())
    offer, kind = peer.localDescription.sdp, {"Content-Type": "application/sdp"}
    async with reference(limits={"most_handshakes": 2}) as address, ClientSession(headers=kind) as client:
        statuses = []
        for _ in range(3):  # none of them ever connects
            async with client.post(f"http://{address}/v1/realtime/calls", data=offer) as answer:
                statuses.append(answer.status)
        assert statuses == [201, 201, 429]
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{address}/v1/realtime?model=m")
        assert refused.value.response.status_code == 429
    await peer.close()
