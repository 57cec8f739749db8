"""The official `deepgram-sdk` as a client of the reference endpoint's Voice Agent."""

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


async def test_a_session_of_two_turns(strangers_python: Path, reference: str, talk: Talk) -> None:
    """Settings, two turns, transcripts and audio; the SDK sends settings without waiting for the welcome."""
    recordings = [await asyncio.to_thread(talk, 24_000, name) for name in (PHONE, MEETING)]
    command: list[str | Path] = [
        strangers_python,
        STRANGERS / "deepgram_client.py",
        f"ws://{reference}",
        *recordings,
    ]
    turns = await asyncio.to_thread(told, command)
    expected = ((PHONE_SAYS, PHONE_REPLY), (MEETING_SAYS, MEETING_REPLY))
    for turn, (user, reply) in zip(turns, expected, strict=True):
        assert words(turn["heard"]) == words(user)
        assert words(turn["said"]) == words(reply)
        assert turn["kinds"][-1] == "AgentAudioDone"
        assert "UserStartedSpeaking" in turn["kinds"]
        pcm = np.frombuffer(base64.b64decode(turn["audio"]), "<i2")
        assert jiwer.wer(words(reply), words(await asyncio.to_thread(recognised, pcm, 24_000))) <= 0.2
    assert turns[0]["kinds"][:2] == ["Welcome", "SettingsApplied"]
