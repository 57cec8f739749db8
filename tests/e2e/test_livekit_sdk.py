"""LiveKit's SDK as a participant in a room of the reference endpoint."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import jiwer
import numpy as np
import pytest

from tests.e2e.conftest import Talk, python_of
from tests.e2e.helpers import PHONE, PHONE_REPLY, PHONE_SAYS, STRANGERS, recognised, told, words

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytest.importorskip("livekit.protocol")
pytestmark = [pytest.mark.local, pytest.mark.slow]


async def test_a_participant_talks_to_the_agent(reference: str, talk: Talk) -> None:
    """The SDK subscribes to the agent, publishes a recording, and gets states, transcripts and a voice."""
    python = python_of("livekit")
    recording = await asyncio.to_thread(talk, 48_000, 1.0, PHONE)
    command: list[str | Path] = [python, STRANGERS / "livekit_client.py", f"ws://{reference}", recording]
    [turn] = await asyncio.to_thread(told, command)
    assert words(turn["heard"]) == words(PHONE_SAYS)
    assert words(turn["said"]) == words(PHONE_REPLY)
    assert turn["states"][-4:] == ["listening", "thinking", "speaking", "listening"]
    pcm = np.frombuffer(base64.b64decode(turn["audio"]), "<i2")
    assert jiwer.wer(words(PHONE_REPLY), words(await asyncio.to_thread(recognised, pcm, 48_000))) <= 0.2
