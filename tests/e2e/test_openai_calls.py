"""The official `openai` SDK makes a call over WebRTC: `realtime.calls.create`, with aiortc as its peer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import openai
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.contrib.media import MediaPlayer
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from numpy.typing import NDArray
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from tests.e2e.conftest import Talk
from tests.e2e.helpers import PHONE, PHONE_REPLY, PHONE_SAYS, recognised, words

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = pytest.mark.local

RATE = 48_000
KNOWN_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


class Peer:
    """A peer as in aiortc's documentation: it sends a file and records the received audio."""

    def __init__(self, speech: Path) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard: list[NDArray[np.int16]] = []
        self._player = MediaPlayer(str(speech))
        assert self._player.audio is not None
        self.connection.addTrack(self._player.audio)
        self.channel = self.connection.createDataChannel("oai-events")
        self.channel.on("message", lambda message: self.events.put_nowait(json.loads(message)))
        self.connection.on("track", self._listen)
        self._listening: asyncio.Task[None] | None = None

    def _listen(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.create_task(self._hear(track))

    async def _hear(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame: Any = await track.recv()
                self.heard.append(frame.to_ndarray().reshape(-1, 2)[:, 0])
        except MediaStreamError:
            pass

    async def until(self, kind: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(30):
            while not events or events[-1]["type"] != kind:
                events.append(await self.events.get())
        return events

    async def close(self) -> None:
        await self.connection.close()
        if self._listening is not None:
            await self._listening


@asynccontextmanager
async def calling(reference: str, speech: Path, session: Any) -> AsyncIterator[Peer]:
    peer = Peer(speech)
    await peer.connection.setLocalDescription(await peer.connection.createOffer())
    try:
        async with AsyncOpenAI(base_url=f"http://{reference}/v1", api_key="none", max_retries=0) as client:
            offer = peer.connection.localDescription.sdp
            answer = await client.realtime.calls.create(sdp=offer, session=session)
            assert answer.response.status_code == 201
            assert answer.response.headers["Location"].startswith("/v1/realtime/calls/rtc_")
            await peer.connection.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        yield peer
    finally:
        await peer.close()


async def test_a_call_is_a_conversation(reference: str, talk: Talk) -> None:
    """The SDK's multipart offer is answered, its settings apply at once, and the reply is on the track.

    Its peculiarity: the session is a part of the form, as JSON without a JSON content type.
    """
    session = {
        "type": "realtime",
        "model": "gpt-realtime",
        "instructions": "Be kind.",
        "audio": {"input": {"transcription": {"model": "whisper-1"}}, "output": {"voice": "marin"}},
    }
    async with calling(reference, await asyncio.to_thread(talk, RATE, 0.5, PHONE, 9.0), session) as peer:
        (created,) = await peer.until("session.created")
        assert created["session"]["model"] == "gpt-realtime"
        assert created["session"]["instructions"] == "Be kind."
        assert created["session"]["audio"]["output"]["voice"] == "marin"
        events = await peer.until("output_audio_buffer.stopped")
    for event in events:
        KNOWN_EVENTS.validate_python(event)
    told = {event["type"]: event for event in events}
    assert "error" not in told
    assert "response.output_audio.delta" not in told, "the track has it"
    heard = told["conversation.item.input_audio_transcription.completed"]["transcript"]
    assert words(heard) == words(PHONE_SAYS)
    assert told["response.output_audio_transcript.done"]["transcript"] == PHONE_REPLY
    assert told["response.done"]["response"]["status"] == "completed"
    kinds = [event["type"] for event in events]
    assert kinds.index("output_audio_buffer.started") < kinds.index("response.done"), "it outlasts its events"
    sound = np.concatenate(peer.heard)
    assert jiwer.wer(words(PHONE_REPLY), words(await asyncio.to_thread(recognised, sound, RATE))) <= 0.2


async def test_a_call_that_is_refused(reference: str) -> None:
    """A refused call raises the SDK's own exception with our message."""
    async with AsyncOpenAI(base_url=f"http://{reference}/v1", api_key="none", max_retries=0) as client:
        wrong: Any = {"type": "realtime", "output_modalities": ["smell"]}
        with pytest.raises(openai.BadRequestError) as refusal:
            await client.realtime.calls.create(sdp="v=0 is no offer", session={"type": "realtime"})
        assert refusal.value.code == "invalid_offer"
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        peer.createDataChannel("oai-events")
        await peer.setLocalDescription(await peer.createOffer())
        with pytest.raises(openai.BadRequestError, match="smell"):
            await client.realtime.calls.create(sdp=peer.localDescription.sdp, session=wrong)
        await peer.close()
