"""The official `openai` SDK speaks GPT-Live with the reference endpoint: `live.connect`."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import jiwer
import numpy as np
import pytest
from openai import AsyncOpenAI

from tests.e2e.helpers import PHONE, PHONE_REPLY, PHONE_SAYS, pace, recognised, words

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = pytest.mark.local


async def test_a_full_duplex_conversation(reference: str) -> None:
    """Our GPT-Live validates against the SDK's types: a stream without turns, and a close message."""
    client = AsyncOpenAI(base_url=f"http://{reference}/v1", api_key="none")
    events: list[Any] = []
    async with client, client.live.connect() as connection:
        audio: Any = {"format": {"type": "audio/pcm", "rate": 24_000}, "output": {"voice": "marin"}}
        await connection.session.start(
            session={"model": "gpt-live-1", "audio": audio, "delegation": {"type": "client"}}
        )
        started: Any = await connection.recv()
        assert started.type == "session.started"
        assert started.session.id

        async def speak() -> None:
            async for piece in pace(PHONE):
                await connection.session.input_audio.append(audio=piece)

        async with asyncio.timeout(40), asyncio.TaskGroup() as tasks:
            speaking = tasks.create_task(speak())
            while not events or events[-1].type != "session.usage.updated":
                events.append(await connection.recv())
            speaking.cancel()
            await connection.session.close()
            while events[-1].type != "session.closed":
                events.append(await connection.recv())
    assert events[-1].reason == "close_requested"
    kinds = {event.type for event in events}
    assert kinds == {
        "session.closed",
        "session.input_transcript.delta",
        "session.output_audio.delta",
        "session.output_transcript.delta",
        "session.usage.updated",
    }

    def text(kind: str) -> str:
        return "".join(event.delta for event in events if event.type == kind)

    assert words(text("session.input_transcript.delta")) == words(PHONE_SAYS)
    assert words(text("session.output_transcript.delta")) == words(PHONE_REPLY)
    deltas = [event.delta for event in events if event.type == "session.output_audio.delta"]
    pcm = np.frombuffer(b"".join(map(base64.b64decode, deltas)), "<i2")
    assert len(pcm) / 24_000 > 5, "silence is streamed as well, from the beginning"
    said = await asyncio.to_thread(recognised, pcm, 24_000)
    assert jiwer.wer(words(PHONE_REPLY), words(said)) <= 0.2
