"""A chat endpoint that answers every request with a second of audio, streamed as by OpenAI."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from aiohttp import web
from aiohttp.typedefs import Middleware

from tests.support.serving import listening

__all__ = ["chat_endpoint"]

RATE_HZ = 24_000
CHUNKS = 10


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'chatcmpl-1', 'choices': [choice]})}\n\n".encode()


async def answer(request: web.Request) -> web.StreamResponse:
    with contextlib.suppress(ConnectionError):
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        sound = (8_000 * np.sin(np.arange(RATE_HZ) / 5)).astype("<i2")
        for piece in np.split(sound, CHUNKS):
            await response.write(event({"audio": {"data": base64.b64encode(piece.tobytes()).decode()}}))
            await asyncio.sleep(0.1)
        await response.write(event({"audio": {"transcript": "Beep."}}))
        await response.write(event({}, "stop") + b"data: [DONE]\n\n")
        return response
    return web.Response(status=400)  # reaches nobody


@contextlib.asynccontextmanager
async def chat_endpoint(*middlewares: Middleware) -> AsyncIterator[str]:
    """Serve it behind aiohttp's middlewares and yield its host and port."""
    application = web.Application(client_max_size=16 << 20, middlewares=middlewares)
    application.router.add_post("/v1/chat/completions", answer)
    async with listening(application) as address:
        yield address
