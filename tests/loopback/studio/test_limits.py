"""The studio's limits on slow clients and on connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from live_eval.http.connections import Connections
from live_eval.studio import application as studio
from live_eval.studio.security import Guard
from live_eval.types import Secret
from tests.support.studio import TOKEN

REQUEST = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"


@contextlib.asynccontextmanager
async def served(folder: Path, **limits: Any) -> AsyncIterator[int]:
    """Serve the studio as its command does, and yield its port."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    app = studio.application((folder,), Guard(Secret(TOKEN)))
    serving = asyncio.create_task(studio.serve(app, "127.0.0.1", 0, port.set_result, **limits))
    try:
        yield await port
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_a_client_that_never_ends_its_headers_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studio, "Connections", lambda clock: Connections(clock, most_header_s=0.3))
    async with served(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST % port)

        async def drip() -> None:
            while True:
                writer.write(b"X-More: 1\r\n")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        dripping.cancel()
        writer.close()


async def test_a_new_connection_displaces_one_that_sends_no_request(tmp_path: Path) -> None:
    async with served(tmp_path, most_connections=3) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for reader, _ in held[:2]:
            assert await reader.read() == b""
        held[4][1].write(REQUEST % port + b"\r\n")
        assert b"401" in await held[4][0].readline()
        for _, writer in held:
            writer.close()
