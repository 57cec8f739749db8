"""A plain aiortc client, written as a third party would write it, without live-eval."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import aiohttp
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame
from numpy.typing import NDArray

__all__ = ["Answered", "Stranger", "calling", "offered"]

RATE_HZ = 48_000
FRAME = 960
Json = dict[str, Any]


class Microphone(MediaStreamTrack):
    """Plays PCM in real time, then silence."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._frames: list[NDArray[np.int16]] = []
        self._silent = asyncio.Event()
        self._at = 0
        self._start_s: float | None = None

    def say(self, pcm: NDArray[np.int16]) -> None:
        padded = np.pad(pcm, (0, -len(pcm) % FRAME))
        self._frames += list(padded.reshape(-1, FRAME))
        self._silent.clear()

    async def said(self) -> None:
        """Wait until all PCM has been played."""
        await self._silent.wait()

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        self._start_s = self._start_s if self._start_s is not None else loop.time()
        await asyncio.sleep(self._start_s + self._at / RATE_HZ - loop.time())
        pcm = np.zeros(FRAME, np.int16)
        if self._frames:
            pcm = self._frames.pop(0)
        else:
            self._silent.set()
        frame = AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, self._at, Fraction(1, RATE_HZ)
        self._at += FRAME
        return frame


class Stranger:
    """A connection of the client.

    Args:
        label: Label of the data channel to open; no channel if None.
    """

    def __init__(self, label: str | None = "oai-events") -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.microphone = Microphone()
        self.peer.addTrack(self.microphone)
        self.channel: RTCDataChannel | None = None
        self.events: asyncio.Queue[Json] = asyncio.Queue()
        self.channel_open = asyncio.Event()
        self.channel_closed = asyncio.Event()
        self.heard: list[NDArray[np.int16]] = []
        self._heard_more = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        if label is not None:
            self.channel = self.peer.createDataChannel(label)
            self.channel.on("message", lambda message: self.events.put_nowait(json.loads(message)))
            self.channel.on("open", self.channel_open.set)
            self.channel.on("close", self.channel_closed.set)
        self.changed = asyncio.Event()
        self.peer.on("connectionstatechange", self.changed.set)
        self.peer.on("track", self._listen)

    def _listen(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.create_task(self._hear(track))

    async def _hear(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            assert isinstance(frame, AudioFrame)
            self._heard_more.set()
            self.heard.append(frame.to_ndarray()[0, :: len(frame.layout.channels)].astype(np.int16))

    @property
    def loudest(self) -> int:
        """Return the largest received amplitude."""
        return max((int(np.abs(pcm.astype(int)).max()) for pcm in self.heard), default=0)

    async def hears(self, amplitude: int) -> None:
        """Wait until the audio exceeds that amplitude."""
        while self.loudest <= amplitude:
            self._heard_more.clear()
            await self._heard_more.wait()

    async def packets_received(self) -> int:
        """Return the number of audio packets received."""
        report = await self.peer.getStats()
        return sum(each.packetsReceived for each in report.values() if each.type == "inbound-rtp")

    async def offer(self) -> str:
        await self.peer.setLocalDescription()
        return str(self.peer.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        await self.peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def becomes(self, state: str) -> None:
        """Wait until the connection reaches a state."""
        while self.peer.connectionState != state:
            self.changed.clear()
            await self.changed.wait()

    async def event(self, kind: str) -> list[Json]:
        """Return the events up to and including the first of a type."""
        found: list[Json] = []
        while not found or found[-1]["type"] != kind:
            found.append(await self.events.get())
        return found

    def send(self, **event: Any) -> None:
        assert self.channel is not None
        self.channel.send(json.dumps(event))

    async def close(self) -> None:
        await self.peer.close()
        if self._listening is not None:
            self._listening.cancel()  # aiortc ends a track only if its connection was established


@dataclass(frozen=True, slots=True)
class Answered:
    """The HTTP response to an offer.

    Args:
        status: HTTP status.
        text: The body.
        location: URL of the call, or None.
        allowed_origin: Value of Access-Control-Allow-Origin, or None.
    """

    status: int
    text: str
    location: str | None
    allowed_origin: str | None


async def offered(
    url: str, body: str | bytes | aiohttp.FormData, headers: Mapping[str, str] | None = None
) -> Answered:
    """Post an offer as OpenAI's clients do."""
    sdp = {} if isinstance(body, aiohttp.FormData) else {"Content-Type": "application/sdp"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, data=body, headers={**sdp, **(headers or {})}) as response,
    ):
        found = response.headers
        return Answered(
            response.status,
            await response.text(),
            found.get("Location"),
            found.get("Access-Control-Allow-Origin"),
        )


@asynccontextmanager
async def calling(
    base_url: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    **query: Any,
) -> AsyncIterator[Stranger]:
    """Set up a connection with OpenAI's signalling; no event has been read yet."""
    parameters = "".join(f"&{key}={value}" for key, value in query.items())
    stranger = Stranger()
    try:
        offer = await stranger.offer()
        body: str | aiohttp.FormData = offer
        if form is not None:
            body = aiohttp.FormData({"sdp": offer, **form}, default_to_multipart=True)
        answer = await offered(f"{base_url}/realtime/calls?model=m{parameters}", body, headers)
        assert answer.status == 201, answer.text
        assert answer.location is not None
        assert answer.location.startswith("/v1/realtime/calls/rtc_")
        await stranger.accept(answer.text)
        yield stranger
    finally:
        await stranger.close()
