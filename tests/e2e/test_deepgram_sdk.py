"""The official `deepgram-sdk` as a client of the reference endpoint's Voice Agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Talk
from tests.e2e.helpers import STRANGERS, two_turns

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = [pytest.mark.local, pytest.mark.slow]


async def test_a_session_of_two_turns(strangers_python: Path, reference: str, talk: Talk) -> None:
    """Settings, two turns, transcripts and audio; the SDK sends settings without waiting for the welcome."""
    client: list[str | Path] = [strangers_python, STRANGERS / "deepgram_client.py", f"ws://{reference}"]
    turns = await two_turns(client, talk, 24_000)
    assert [turn["kinds"][-1] for turn in turns] == ["AgentAudioDone"] * 2
    assert all("UserStartedSpeaking" in turn["kinds"] for turn in turns)
    assert turns[0]["kinds"][:2] == ["Welcome", "SettingsApplied"]
