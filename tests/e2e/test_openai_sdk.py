"""The official `openai` SDK as a client of the reference endpoint: audio in, audio and transcript out."""

import asyncio
import base64
from typing import Any

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent

from tests.e2e.helpers import (
    MEETING,
    MEETING_REPLY,
    MEETING_SAYS,
    PHONE,
    PHONE_REPLY,
    PHONE_SAYS,
    frames,
    pace,
    recognised,
    words,
)

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = pytest.mark.local


@pytest.fixture
def base_url(reference: str) -> str:
    return f"http://{reference}/v1"


async def speak(connection: AsyncRealtimeConnection, name: str, *, speed: float = 1.0) -> None:
    async for audio in pace(name, speed=speed):
        await connection.input_audio_buffer.append(audio=audio)


async def until(connection: AsyncRealtimeConnection, kind: str) -> list[RealtimeServerEvent]:
    events: list[RealtimeServerEvent] = []
    async with asyncio.timeout(30):
        while not events or events[-1].type != kind:
            events.append(await connection.recv())
    return events


def of(events: list[RealtimeServerEvent], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]


def audio_of(events: list[RealtimeServerEvent]) -> NDArray[np.int16]:
    deltas = of(events, "response.output_audio.delta")
    return np.frombuffer(b"".join(base64.b64decode(delta.delta) for delta in deltas), "<i2")


async def test_a_conversation_of_two_turns(base_url: str) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    async with client, client.realtime.connect(model="live-eval-reference") as connection:
        created = await connection.recv()
        assert created.type == "session.created"
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be kind.",
                "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}},
            }
        )
        (updated,) = await until(connection, "session.updated")
        assert updated.type == "session.updated"
        assert updated.session.type == "realtime"
        assert updated.session.instructions == "Be kind."
        for name, said, reply in (
            (PHONE, PHONE_SAYS, PHONE_REPLY),
            (MEETING, MEETING_SAYS, MEETING_REPLY),
        ):
            async with asyncio.TaskGroup() as tasks:
                speaking = tasks.create_task(speak(connection, name))
                events = await until(connection, "response.done")
                speaking.cancel()
            (heard,) = of(events, "conversation.item.input_audio_transcription.completed")
            assert words(heard.transcript) == words(said)
            (transcript,) = of(events, "response.output_audio_transcript.done")
            assert transcript.transcript == reply
            done: Any = events[-1]
            assert done.response.status == "completed"
            assert done.response.output[0].content[0].transcript == reply
            assert done.response.usage.total_tokens > 0
            assert (
                jiwer.wer(words(reply), words(await asyncio.to_thread(recognised, audio_of(events), 24_000)))
                <= 0.2
            )


async def test_a_manual_turn_with_a_text_reply(base_url: str) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    async with client, client.realtime.connect(model="live-eval-reference") as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "output_modalities": ["text"],
                "audio": {"input": {"turn_detection": None}},
            }
        )
        for frame in await asyncio.to_thread(frames, PHONE):
            await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
        await connection.input_audio_buffer.commit()
        await connection.response.create()
        events = await until(connection, "response.done")
        assert of(events, "error") == []
        (text,) = of(events, "response.output_text.done")
        assert text.text == PHONE_REPLY
        assert len(audio_of(events)) == 0


async def test_a_user_speaks_over_the_reply(base_url: str) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    connecting = client.realtime.connect(
        model="live-eval-reference", extra_query={"cadence": "realtime", "lead_silence_ms": 5_000}
    )
    async with client, connecting as connection, asyncio.TaskGroup() as tasks:
        speaking = tasks.create_task(speak(connection, PHONE, speed=4))
        await until(connection, "response.output_audio.delta")
        speaking.cancel()
        speaking = tasks.create_task(speak(connection, MEETING, speed=4))
        cut_off: Any = (await until(connection, "response.done"))[-1]
        assert cut_off.response.status == "cancelled"
        assert cut_off.response.status_details.reason == "turn_detected"
        item = cut_off.response.output[0]
        assert item.status == "incomplete"
        await connection.conversation.item.truncate(item_id=item.id, content_index=0, audio_end_ms=40)
        events = await until(connection, "conversation.item.truncated")
        assert of(events, "error") == []
        answered = await until(connection, "response.output_audio.delta")
        assert of(answered, "response.created")
        speaking.cancel()


async def test_an_error_leaves_the_session_alive(base_url: str) -> None:
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    async with client, client.realtime.connect(model="live-eval-reference") as connection:
        await connection.response.cancel()
        wrong: Any = {"type": "realtime", "audio": {"input": {"format": {"type": "audio/opus"}}}}
        await connection.session.update(session=wrong)
        codes = [(await until(connection, "error"))[-1] for _ in range(2)]
        assert [event.error.code for event in codes if event.type == "error"] == [
            "response_cancel_not_active",
            "invalid_value",
        ]
        content: Any = [{"type": "input_text", "text": PHONE_SAYS}]
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": content}
        )
        await connection.response.create(response={"output_modalities": ["text"]})
        (text,) = of(await until(connection, "response.done"), "response.output_text.done")
        assert text.text == PHONE_REPLY
