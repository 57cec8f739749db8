"""ElevenLabs' SDK and pipecat's Ultravox service as clients of the reference endpoint's agents."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import jiwer
import numpy as np
import pytest

from tests.e2e.conftest import Talk
from tests.e2e.helpers import (
    MEETING,
    MEETING_REPLY,
    MEETING_SAYS,
    PHONE,
    PHONE_REPLY,
    PHONE_SAYS,
    STRANGERS,
    recognised,
    told,
    words,
)

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = [pytest.mark.local, pytest.mark.slow]


@pytest.mark.parametrize(
    ("program", "rate_hz", "key"),
    [
        pytest.param("elevenlabs_client.py", 16_000, "", id="elevenlabs-public"),
        pytest.param("elevenlabs_client.py", 16_000, "a key", id="elevenlabs-signed"),
        pytest.param("ultravox_client.py", 48_000, "a key", id="ultravox"),
    ],
)
async def test_a_conversation_of_two_turns(
    strangers_python: Path, reference: str, talk: Talk, program: str, rate_hz: int, key: str
) -> None:
    """The address of the conversation, transcripts, audio and the agent's text."""
    recordings = [await asyncio.to_thread(talk, rate_hz, name) for name in (PHONE, MEETING)]
    command: list[str | Path] = [
        strangers_python,
        STRANGERS / program,
        f"http://{reference}",
        key,
        *recordings,
    ]
    turns = await asyncio.to_thread(told, command)
    expected = ((PHONE_SAYS, PHONE_REPLY), (MEETING_SAYS, MEETING_REPLY))
    for turn, (user, reply) in zip(turns, expected, strict=True):
        assert words(turn["heard"]) == words(user)
        assert words(turn["said"]) == words(reply)
        assert turn["interruptions"] == 0
        pcm = np.frombuffer(base64.b64decode(turn["audio"]), "<i2")
        assert jiwer.wer(words(reply), words(await asyncio.to_thread(recognised, pcm, rate_hz))) <= 0.2
