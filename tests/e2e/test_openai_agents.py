"""The `openai-agents` SDK (Python) as a client of the reference endpoint, over WebSocket."""

from __future__ import annotations

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


def test_a_voice_agent_runs_a_conversation(strangers_python: Path, reference: str, talk: Talk) -> None:
    """The SDK works with our endpoint at its defaults: audio, transcripts and conversation history.

    Its peculiarities: it names the model only in `session.update`, asks for `semantic_vad`, and sets tracing
    in a second update. It plays audio by its own clock; when the user interrupts, it truncates the item at
    that position and retrieves it, and expects the truncated transcript.
    """
    client = STRANGERS / "agents_client.py"
    url = f"ws://{reference}/v1/realtime"
    recordings = [talk(24_000, PHONE), talk(24_000, MEETING)]
    lines = told([strangers_python, client, url, *recordings])
    kinds = [line["type"] for line in lines]
    assert not {"error", "exception"} & set(kinds), lines
    assert kinds[-1] == "closed"
    turns = [line for line in lines if line["type"] == "turn"]
    for turn, reply in zip(turns, (PHONE_REPLY, MEETING_REPLY), strict=True):
        pcm = np.frombuffer(base64.b64decode(turn["audio"]), "<i2")
        assert jiwer.wer(words(reply), words(recognised(pcm, 24_000))) <= 0.2
    assert [line for line in lines if line["type"] == "usage" and line["output"] > 0]
    assert kinds.count("audio_interrupted") == 1, "the second turn speaks over the first reply's playing"
    heard, cut, heard_too, said = turns[-1]["history"]
    assert [item["role"] for item in turns[-1]["history"]] == ["user", "assistant"] * 2
    assert words(heard["content"][0]["transcript"]) == words(PHONE_SAYS)
    assert words(heard_too["content"][0]["transcript"]) == words(MEETING_SAYS)
    assert said["content"][0]["transcript"] == MEETING_REPLY
    assert cut["status"] == "incomplete"
    assert PHONE_REPLY.startswith(cut["content"][0]["transcript"])
