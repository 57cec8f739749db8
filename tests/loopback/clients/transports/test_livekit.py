"""The LiveKit transport against the reference endpoint's rooms, and against servers with defects."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from live_eval.clients.dialects.livekit import LiveKitAgent
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.reference.server import rooms
from live_eval.registry import load
from live_eval.timing import ResponseStatus
from live_eval.types import StampKind
from live_eval.webrtc.livekit_messages import load_protocol
from tests.loopback.test_families import Family, endpoint, hold, statuses
from tests.support.bundled import SPECS
from tests.support.extras import needs
from tests.support.serving import listening

pytestmark = needs("livekit", extra="livekit")

ROOM = Family(spec=SPECS["livekit"], base="", lossy=True, continuous=True)
_CANDIDATE = re.compile(r"^a=(candidate:.*)\r\n", re.MULTILINE)


async def created() -> Any:
    """Return a transport; its module cannot be imported without the extra."""
    return (await asyncio.to_thread(load, ROOM.spec.transport))(SystemClock())


Serve = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[str]:
    """Serve one WebSocket and yield its base URL."""

    async def enter(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await serve(socket)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/rtc", enter)
    async with listening(app) as address:
        yield f"ws://{address}"


async def failure(serve: Serve) -> ConnectError:
    async with server(serve) as url:
        transport = await created()
        with pytest.raises(ConnectError) as error:
            await transport.connect(LiveKitAgent(EndpointSettings(base_url=url)).dial(), 5)
        await transport.close()
    return error.value


def join() -> bytes:
    signal = load_protocol().rtc.SignalResponse()
    signal.join.room.name = "r"
    data: bytes = signal.SerializeToString()
    return data


@pytest.mark.parametrize("first", [b"\xff\xff", b"", "text", load_protocol])
async def test_a_server_that_is_not_livekits(first: Any) -> None:
    if not isinstance(first, str | bytes):
        first = first().rtc.SignalResponse(pong=1).SerializeToString()

    async def serve(socket: web.WebSocketResponse) -> None:
        await (socket.send_str(first) if isinstance(first, str) else socket.send_bytes(first))

    error = await failure(serve)
    assert error.kind is FailureKind.HANDSHAKE
    assert "expected the message 'join' from a LiveKit server: check the base URL" in error.message


async def test_a_server_that_closes_before_the_room_is_joined() -> None:
    async def serve(socket: web.WebSocketResponse) -> None:
        await socket.close(code=1008, message=b"no such room")

    error = await failure(serve)
    assert error.kind is FailureKind.CLOSED
    assert "before the room was joined: no such room" in error.message


@pytest.mark.parametrize(
    ("sdp", "kind"), [("v=0", FailureKind.SDP_REFUSED), ("no description", FailureKind.SDP_REFUSED)]
)
async def test_an_answer_that_is_unusable(sdp: str, kind: FailureKind) -> None:
    async def serve(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(join())
        answer = load_protocol().rtc.SignalResponse()
        answer.answer.type, answer.answer.sdp = "answer", sdp
        await socket.send_bytes(answer.SerializeToString())
        await asyncio.sleep(2)

    error = await failure(serve)
    assert error.kind is kind
    assert error.message.count("ws://") == 1


async def test_an_offer_that_is_unusable() -> None:
    async def serve(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(join())
        offer = load_protocol().rtc.SignalResponse()
        offer.offer.type, offer.offer.sdp = "offer", "v=0"
        await socket.send_bytes(offer.SerializeToString())
        await asyncio.sleep(2)

    error = await failure(serve)
    assert error.kind is FailureKind.SDP_REFUSED
    assert "expected a valid offer of the agent's track" in error.message


async def test_a_candidate_of_an_unknown_connection_is_ignored() -> None:
    async def serve(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(join())
        trickle = load_protocol().rtc.SignalResponse()
        trickle.trickle.target = 7
        await socket.send_bytes(trickle.SerializeToString())
        await socket.close(code=1008, message=b"enough")

    assert (await failure(serve)).kind is FailureKind.CLOSED


async def test_a_signal_that_cannot_be_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error ends the session, which would otherwise continue without signals."""

    async def broken(self: Any, trickle: Any) -> None:
        raise KeyError("a defect")

    async def serve(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(join())
        trickle = load_protocol().rtc.SignalResponse()
        trickle.trickle.target = 1
        await socket.send_bytes(trickle.SerializeToString())
        await asyncio.sleep(2)

    monkeypatch.setattr(type(await created()), "_trickled", broken)
    error = await failure(serve)
    assert error.kind is FailureKind.INTERNAL
    assert "a signal was not handled: KeyError: 'a defect'" in error.message


async def test_candidates_may_follow_their_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like LiveKit's server, send candidates in separate messages, including an unusable one."""
    tell = rooms.RoomParticipant.tell

    async def trickling(self: Any, kind: str, **content: Any) -> int:
        if kind not in ("offer", "answer"):
            return await tell(self, kind, **content)
        found = _CANDIDATE.findall(content["sdp"])
        content["sdp"] = _CANDIDATE.sub("", content["sdp"]).replace("a=end-of-candidates\r\n", "")
        target = "SUBSCRIBER" if kind == "offer" else "PUBLISHER"
        for candidate in ("candidate:nonsense", *found):
            init = {"candidate": candidate, "sdpMid": "0", "sdpMLineIndex": 0}
            await tell(self, "trickle", candidateInit=orjson.dumps(init).decode(), target=target)
        return await tell(self, kind, **content)

    monkeypatch.setattr(rooms.RoomParticipant, "tell", trickling)
    async with endpoint(tmp_path) as served:
        record = await hold(served, ROOM)
    assert record.failure is None
    assert statuses(record) == [ResponseStatus.COMPLETED]


async def test_a_track_may_be_offered_while_the_connection_is_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client receives the track, although aiortc starts no receiver that is added while it connects."""
    offer = rooms.RoomParticipant.offer
    offers = 0

    async def twice(self: Any) -> None:
        nonlocal offers
        offers += 1
        await offer(self)
        if offers == 1:  # an unchanged second offer, before the first connection has been set up
            await self._answered.wait()
            await offer(self)

    monkeypatch.setattr(rooms.RoomParticipant, "offer", twice)
    async with endpoint(tmp_path) as served:
        record = await hold(served, ROOM)
    assert record.failure is None


async def test_setup_steps_and_stamps(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        transport = await created()
        await transport.connect(LiveKitAgent(EndpointSettings(base_url=served.origin)).dial(), 5)
        steps = list(transport.setup_ns)
        assert steps == ["dns", "tcp", "http", "join", "offer", "answer", "ice", "dtls", "channel"]
        assert transport.stamps is StampKind.KERNEL
        await transport.close()
        with pytest.raises(TransportClosedError):
            await transport.send('{"type":"leave"}')
