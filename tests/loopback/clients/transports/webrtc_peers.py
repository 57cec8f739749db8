"""Connections to a WebRTC peer on the loopback."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import ConnectError
from tests.support.rtc_peer import Peer, endpoint

KEY = "sk-test-5e4f1b"


JSON = Signalling(SdpBody.JSON, SdpBody.JSON, fields={"webrtc_id": "w-1"}, channel="events")


@contextlib.asynccontextmanager
async def connected(peer: Peer, signalling: Signalling = JSON) -> AsyncIterator[WebRtcTransport]:
    transport = WebRtcTransport(SystemClock())
    async with endpoint(peer) as url:
        await transport.connect(dial(url, signalling), 5)
        try:
            yield transport
        finally:
            await transport.close()


def dial(url: str, signalling: Signalling = JSON) -> Dial:
    return Dial(f"{url}?key={KEY}", {"Authorization": f"Bearer {KEY}"}, signalling=signalling)


async def refusal(url: str, signalling: Signalling = JSON, timeout_s: float = 5) -> ConnectError:
    transport = WebRtcTransport(SystemClock())
    with pytest.raises(ConnectError) as caught:
        await transport.connect(dial(url, signalling), timeout_s)
    assert KEY not in caught.value.message
    return caught.value
