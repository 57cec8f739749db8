"""`@openai/agents-realtime` in Chromium as a client of the reference endpoint, over WebRTC.

The page is typical user code; its microphone is a recording, streamed once at the pace of speech.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import OpenAI

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
pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

CUT_S = 0.5


def test_a_page_speaks_listens_and_interrupts(node: str, browser: str, reference: str, talk: Talk) -> None:
    """OpenAI's SDK in a browser uses our endpoint over WebRTC: two turns and an interruption.

    Its server obtains an ephemeral key for the page. Its peculiarities: the offer is cross-origin with the
    SDK's own headers, so its preflight must be answered; the session, PCM formats included, is configured
    by `session.update` on the data channel; and the user's items are retrieved after transcription, when
    their audio would not fit into one message.
    """
    speech = talk(48_000, 3.0, PHONE, 6.0, PHONE, 1.6, MEETING, 6.0)
    with OpenAI(base_url=f"http://{reference}/v1", api_key="none") as client:
        key = client.realtime.client_secrets.create(session={"type": "realtime", "model": "gpt-realtime-2.1"})
    url = f"http://{reference}/v1/realtime/calls"
    lines = told([node, STRANGERS / "browser_agent.mjs", browser, url, key.value, speech, "3"], timeout_s=180)
    by_kind = {
        kind: [line for line in lines if line["type"] == kind] for kind in {line["type"] for line in lines}
    }
    assert not {"error", "sdk.error", "timeout", "console.error", "console.exception"} & set(by_kind), lines
    assert by_kind["connected"][0]["call"].startswith("rtc_"), "the page may read the call's Location"

    started, stopped, cleared = (
        by_kind[f"output_audio_buffer.{what}"] for what in ("started", "stopped", "cleared")
    )
    first, cut, last = (line["response_id"] for line in started)
    assert [line["response_id"] for line in stopped] == [first, last]
    assert [line["response_id"] for line in cleared] == [cut]
    assert len(by_kind["conversation.item.truncated"]) == 1
    assert "response.output_audio.delta" not in by_kind
    assert len(by_kind["response.output_audio_transcript.delta"]) >= 3

    (left,) = by_kind["left"]
    assert left["report"]["lost"] == 0
    said = [
        (item["role"], item["status"], words(item["content"][0]["transcript"])) for item in left["history"]
    ]
    assert said[3][1] == "incomplete"
    assert words(PHONE_REPLY).startswith(said[3][2])
    del said[3]
    assert said == [
        ("user", "completed", words(PHONE_SAYS)),
        ("assistant", "completed", words(PHONE_REPLY)),
        ("user", "completed", words(PHONE_SAYS)),
        ("user", "completed", words(MEETING_SAYS)),
        ("assistant", "completed", words(MEETING_REPLY)),
    ]
    heard = Heard(left)
    assert words(recognised(heard.between(started[0], stopped[0]), heard.rate_hz)) == words(PHONE_REPLY)
    assert words(recognised(heard.between(started[2], stopped[1]), heard.rate_hz)) == words(MEETING_REPLY)
    assert np.abs(heard.between(started[1], cleared[0])).max() > 1_000
    assert np.abs(heard.between(cleared[0], started[2], after_s=CUT_S)).max() < 100, "the cut reply is silent"


class Heard:
    """The events and audio that a page received, with times."""

    def __init__(self, left: dict[str, Any]) -> None:
        self.rate_hz: int = left["rate_hz"]
        self._from_ms: float = left["from_ms"]
        self._pcm = np.frombuffer(base64.b64decode(left["audio"]), "<i2")

    def between(
        self, one: dict[str, Any], other: dict[str, Any], *, after_s: float = 0.0
    ) -> NDArray[np.int16]:
        begin, end = (
            round((event["at_ms"] - self._from_ms) * self.rate_hz / 1_000) for event in (one, other)
        )
        return self._pcm[begin + round(after_s * self.rate_hz) : end]
