"""The official `elevenlabs` SDK as a client of the reference endpoint's agent."""

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


@pytest.mark.parametrize("key", ["", "a key"], ids=["public", "signed"])
async def test_a_conversation_of_two_turns(
    strangers_python: Path, reference: str, talk: Talk, key: str
) -> None:
    """The first message, transcripts, audio and the agent's text, with and without a signed address."""
    recordings = [await asyncio.to_thread(talk, 16_000, name) for name in (PHONE, MEETING)]
    command: list[str | Path] = [
        strangers_python,
        STRANGERS / "elevenlabs_client.py",
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
        assert jiwer.wer(words(reply), words(await asyncio.to_thread(recognised, pcm, 16_000))) <= 0.2
