"""What the reference endpoint refuses because there is too much of it."""

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.serving import reference


async def test_sessions_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.reference.server.app._MOST_SESSIONS", 2)
    async with reference() as address, contextlib.AsyncExitStack() as held:
        url = f"ws://{address}/v1/realtime?model=m"
        for _ in range(2):
            last = await held.enter_async_context(connect(url))
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 429
        assert b"at most 2 sessions" in (refused.value.response.body or b"")
        await last.close()
        async with connect(url) as again:
            assert "session.created" in str(await again.recv())


async def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.reference.server.site.MOST_CONNECTIONS", 3)
    async with reference() as address:
        host, port = address.split(":")
        held = [await asyncio.open_connection(host, port) for _ in range(5)]
        for reader, _ in held[3:]:
            assert await reader.read() == b""
        held[0][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await held[0][0].readline()
        for _, writer in held:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
