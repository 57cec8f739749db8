"""ElevenLabs' SDK and pipecat's Ultravox service as clients of the reference endpoint's agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Talk
from tests.e2e.helpers import STRANGERS, two_turns

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
    client: list[str | Path] = [strangers_python, STRANGERS / program, f"http://{reference}", key]
    turns = await two_turns(client, talk, rate_hz)
    assert [turn["interruptions"] for turn in turns] == [0, 0]
