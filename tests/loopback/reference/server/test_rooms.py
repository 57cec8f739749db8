"""The reference endpoint's LiveKit rooms: admission, and the agent's behaviour."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiortc import RTCPeerConnection

from live_eval.clients.dialects.livekit import LiveKitAgent
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings, Send
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.reference.server import rooms
from live_eval.registry import load
from live_eval.transport import Arrival
from live_eval.types import Secret
from live_eval.webrtc.livekit_messages import as_json, load_protocol, with_member
from tests.loopback.test_families import Family, endpoint, hold
from tests.support.bundled import SPECS
from tests.support.extras import needs
from tests.support.serving import reference

pytestmark = needs("livekit", extra="livekit")

ROOM = Family(spec=SPECS["livekit"], base="", lossy=True, continuous=True)
SECRET = "a secret of the test"


def signed_token() -> str:
    signed = LiveKitAgent(EndpointSettings(base_url="ws://h", key=Secret(SECRET))).dial().signed
    assert signed is not None
    return signed(SystemClock().wall_ns())["Authorization"].removeprefix("Bearer ")


class Client:
    """A participant that sends no audio.

    Args:
        dialect: The dialect, which subscribes to the agent.
        transport: Its connection.
    """

    def __init__(self, dialect: LiveKitAgent, transport: Any) -> None:
        self.dialect = dialect
        self.transport = transport

    async def until(self, kind: str, **fields: str) -> Any:
        """Return the next message of this kind that has these fields."""
        async with asyncio.timeout(5):
            while True:
                arrival = await self.transport.receive()
                if not isinstance(arrival, Arrival):
                    continue
                for output in self.dialect.received(arrival.message, arrival.at_ns):
                    if isinstance(output, Send):
                        await self.transport.send(output.message)
                found = json.loads(arrival.message)
                if found["type"] == kind and fields.items() <= found.items():
                    return found

    async def state(self, wanted: str) -> None:
        """Wait until the agent has this state."""
        while True:
            update = await self.until("update")
            if update["participants"][0]["attributes"]["lk.agent.state"] == wanted:
                return


async def participant(address: str, **settings: Any) -> Client:
    """Return a client that has joined; its transport cannot be imported without the extra."""
    dialect = LiveKitAgent(EndpointSettings(base_url=f"ws://{address}", **settings))
    client = Client(dialect, (await asyncio.to_thread(load, ROOM.spec.transport))(SystemClock()))
    await client.transport.connect(dialect.dial(), 5)
    return client


@asynccontextmanager
async def joined(address: str, **settings: Any) -> AsyncIterator[Client]:
    client = await participant(address, **settings)
    try:
        yield client
    finally:
        await client.transport.close()


async def test_a_token_must_be_signed_with_the_secret(tmp_path: Path) -> None:
    token = signed_token()
    async with endpoint(tmp_path, token=SECRET) as served:
        right = [await hold(served, ROOM, key=key) for key in (SECRET, token)]
        wrong = await hold(served, ROOM, key="another secret")
        missing = await hold(served, ROOM)
    assert [record.failure for record in right] == [None, None]
    for record in (wrong, missing):
        assert record.failure is not None
        assert record.failure.kind is FailureKind.AUTHENTICATION
        assert SECRET not in record.failure.message


async def test_validate_reports_why_a_token_is_refused() -> None:
    async with reference(token=SECRET) as address, aiohttp.ClientSession() as http:
        good = signed_token()
        for query, status in (({"access_token": good}, 200), ({"access_token": f"{good}x"}, 401), ({}, 401)):
            async with http.get(f"http://{address}/rtc/validate", params=query) as response:
                assert response.status == status
        async with http.get(f"http://{address}/rtc", params={"access_token": good}) as response:
            assert response.status == 426


async def test_the_room_the_identity_and_the_agent_are_those_of_the_token() -> None:
    extra = {"room": "kitchen", "identity": "cook", "agent_name": "support"}
    settings: dict[str, Any] = {"key": Secret(SECRET), "extra": extra}
    async with reference() as address, joined(address, **settings) as client:
        join = await client.until("join")
        await client.until("track_subscribed", track_sid="TR_client")
    assert join["room"]["name"] == "kitchen"
    assert join["participant"]["identity"] == "cook"
    (agent,) = join["other_participants"]
    named = {"lk.agent.name": "support", "lk.agent.state": "initializing"}
    assert (agent["kind"], agent["attributes"]) == ("AGENT", named)


async def test_chat_is_answered() -> None:
    async with reference(reply_ms=200) as address, joined(address) as client:
        await client.state("listening")
        content = base64.b64encode(b"What time is it?").decode()
        for packet in (
            {"type": "stream_header", "topic": "lk.chat", "mime_type": "text/plain", "text_header": {}},
            {"type": "stream_chunk", "content": content},
            {"type": "stream_trailer"},
        ):
            await client.transport.send(json.dumps({**packet, "stream_id": "s"}))
        header = await client.until("stream_header")
        chunk = await client.until("stream_chunk", stream_id=header["stream_id"])
        assert base64.b64decode(chunk["content"]) == b"A tone."
        await client.until("stream_trailer", stream_id=header["stream_id"])


@pytest.mark.parametrize("sdp", ["v=0\r\nm=nonsense", "v=0"])
async def test_an_invalid_offer_ends_the_session(sdp: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client does not close its WebSocket."""
    closed = asyncio.Event()

    class Peer(RTCPeerConnection):
        async def close(self) -> None:
            await super().close()
            closed.set()

    monkeypatch.setattr(rooms, "RTCPeerConnection", Peer)
    monkeypatch.setattr(rooms, "_CLOSE_TIMEOUT_S", 0.1)
    protocol = load_protocol().rtc
    async with reference() as address, aiohttp.ClientSession() as http:
        socket = await http.ws_connect(f"ws://{address}/rtc", autoclose=False)
        offer = with_member(protocol.SignalRequest, "offer", {"type": "offer", "sdp": sdp})
        await socket.send_bytes(offer.SerializeToString())
        async with asyncio.timeout(5):
            leave = protocol.SignalResponse()
            while leave.WhichOneof("message") != "leave":
                leave = protocol.SignalResponse.FromString(await socket.receive_bytes())
            assert json.loads(as_json(leave) or "{}")["reason"] == "JOIN_FAILURE"
            await closed.wait()
        await socket.close()


async def test_the_endpoint_says_goodbye_when_it_stops() -> None:
    async with reference() as address:
        client = await participant(address)
        await client.state("listening")
    assert (await client.until("leave"))["reason"] == "SERVER_SHUTDOWN"
    with pytest.raises(TransportClosedError):
        await client.until("update")
    await client.transport.close()


async def test_many_sessions_at_the_same_time(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        records = await asyncio.gather(*(hold(served, ROOM) for _ in range(4)))
    assert [record.failure for record in records] == [None] * 4
