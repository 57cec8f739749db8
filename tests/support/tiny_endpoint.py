"""A minimal endpoint that answers manual turns, for tests of the code around a session."""

from __future__ import annotations

import base64
import json

from websockets.asyncio.server import ServerConnection

__all__ = ["answer"]


async def answer(socket: ServerConnection) -> None:
    """Answer each commit of a session in the OpenAI dialect with 0.1 s of silence."""
    await socket.send(json.dumps({"type": "session.created", "session": {"id": "s"}}))
    async for message in socket:
        event = json.loads(message)
        if event["type"] == "session.update":
            await socket.send(json.dumps({"type": "session.updated", "session": {"id": "s"}}))
        elif event["type"] == "response.create":
            audio = base64.b64encode(bytes(4_800)).decode()
            delta = {"response_id": "r", "item_id": "i", "content_index": 0, "delta": audio}
            done = {"response": {"id": "r", "status": "completed"}}
            await socket.send(json.dumps({"type": "response.output_audio.delta", **delta}))
            await socket.send(json.dumps({"type": "response.done", **done}))
