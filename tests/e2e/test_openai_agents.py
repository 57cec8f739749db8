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


def test_a_voice_agent_holds_a_conversation(strangers_python: Path, reference: str, talk: Talk) -> None:
    """An agents SDK, with its defaults, can be pointed at us: it hears, understands and keeps its history.

    Strange in it: it names its model in `session.update` alone, asks for `semantic_vad`, sets tracing by a
    second update, plays by its own clock, and when the user speaks over what it still plays, truncates the
    item there and retrieves it: the cut transcript must come back.
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
