"""Offers and answers of WebRTC, and refusals."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable

import orjson
import pytest
from aiohttp import web

from live_eval.dialect import SdpBody, Signalling
from live_eval.errors import FailureKind
from tests.loopback.clients.transports.webrtc_peers import connected, refusal
from tests.support.rtc_peer import Peer, endpoint, served

pytestmark = pytest.mark.usefixtures("nothing_left")
KEY = "sk-test-5e4f1b"


JSON = Signalling(SdpBody.JSON, SdpBody.JSON, fields={"webrtc_id": "w-1"}, channel="events")


async def test_an_offer_as_sdp() -> None:
    peer = Peer()
    async with connected(peer, Signalling(SdpBody.SDP, SdpBody.SDP, channel="oai-events")):
        assert peer.requests[0].headers["Authorization"] == f"Bearer {KEY}"
        assert peer.channels[0].label == "oai-events"


async def test_an_offer_as_a_form() -> None:
    peer = Peer()
    fields = {"session": {"type": "realtime", "model": "m"}, "note": "plain"}
    async with connected(peer, Signalling(SdpBody.FORM, SdpBody.SDP, fields=fields, channel="oai-events")):
        assert peer.forms[0]["sdp"][0] == "application/sdp"
        assert peer.forms[0]["session"] == ("application/json", '{"type":"realtime","model":"m"}')
        assert peer.forms[0]["note"] == ("text/plain", "plain")


async def test_an_offer_as_json_and_candidates() -> None:
    peer = Peer()
    signalling = Signalling(
        SdpBody.JSON, SdpBody.JSON, fields={"request_data": {"a": 1}}, channel="x", patch_candidates=True
    )
    async with connected(peer, signalling):
        offered = orjson.loads(peer.bodies[0])
        assert (offered["type"], offered["request_data"]) == ("offer", {"a": 1})
        patched = orjson.loads(peer.bodies[1])
        assert patched["pc_id"] == "pc-7"
        candidate = patched["candidates"][0]
        assert candidate["candidate"].startswith("candidate:")
        assert f"a={candidate['candidate']}" in offered["sdp"]
        assert (candidate["sdp_mid"], candidate["sdp_mline_index"]) == ("0", 0)
        assert peer.requests[1].method == "PATCH"


async def test_only_decodable_codecs_are_offered() -> None:
    peer = Peer()
    async with connected(peer):
        assert re.findall(r"a=rtpmap:\d+ (\w+)", peer.offers[0]) == ["opus", "PCMU", "PCMA"]


# -- Refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            401,
            '{"error":{"code":"invalid_api_key","message":"wrong KEY"}}',
            FailureKind.AUTHENTICATION,
        ),
        (403, "forbidden: KEY", FailureKind.AUTHENTICATION),
        (403, '{"error":{"code":"model_not_found","message":"no access"}}', FailureKind.UNKNOWN_MODEL),
        (404, '{"error":{"code":"model_not_found","message":"no m-9 for KEY"}}', FailureKind.UNKNOWN_MODEL),
        (400, '{"error":{"code":"invalid_model","message":"not realtime"}}', FailureKind.UNKNOWN_MODEL),
        (429, "slow down", FailureKind.RATE_LIMITED),
        (400, '{"error":{"code":"invalid_offer","message":"bad SDP"}}', FailureKind.SDP_REFUSED),
        (404, '{"detail":"Not Found"}', FailureKind.HANDSHAKE),
        (500, "", FailureKind.SERVER_ERROR),
        (503, "", FailureKind.UNAVAILABLE),
        (307, "", FailureKind.HANDSHAKE),
    ],
)
async def test_refusing_statuses(status: int, body: str, kind: FailureKind) -> None:
    async def refuse(request: web.Request) -> web.Response:
        headers = {"Retry-After": "7", "Location": f"http://127.0.0.1:1/x?key={KEY}"}
        return web.Response(status=status, text=body.replace("KEY", KEY), headers=headers)

    async with served(refuse) as url:
        error = await refusal(url)
    assert error.kind is kind
    assert str(status) in error.message
    assert url in error.message
    assert error.retry_after_s == 7


AUDIO_GONE = re.compile(r"m=audio.*?(?=m=application)", re.DOTALL)


@pytest.mark.parametrize(
    ("bend", "kind", "says"),
    [
        (lambda sdp: "", FailureKind.SDP_REFUSED, "audio section"),
        (lambda sdp: "<html>no</html>", FailureKind.SDP_REFUSED, "<html>no</html>"),
        (lambda sdp: sdp.replace("m=audio", "m=audio x y"), FailureKind.SDP_REFUSED, "session description"),
        (lambda sdp: AUDIO_GONE.sub("", sdp), FailureKind.SDP_REFUSED, "audio section"),
        (lambda sdp: sdp[: sdp.index("m=application")], FailureKind.SDP_REFUSED, "data channel 'events'"),
        (lambda sdp: sdp + "a=x:y\r\n" * 20_000, FailureKind.SDP_REFUSED, "at most 100000 characters"),
        (
            lambda sdp: sdp + "a=candidate:1 1 udp 1 ::1 9 typ host\r\n" * 101,
            FailureKind.SDP_REFUSED,
            "at most 100",
        ),
        (lambda sdp: re.sub("a=ice-(ufrag|pwd).*\r\n", "", sdp), FailureKind.SDP_REFUSED, "ICE"),
        (lambda sdp: sdp.replace("a=sendrecv", "a=sendonly"), FailureKind.SDP_REFUSED, "'sendonly'"),
        (lambda sdp: re.sub(r"m=audio \d+", "m=audio 0", sdp), FailureKind.CODEC_REFUSED, "port 0"),
        (lambda sdp: re.sub("opus|PCM[UA]", "L16", sdp), FailureKind.CODEC_REFUSED, "opus, pcmu, pcma"),
    ],
)
async def test_invalid_answers(bend: Callable[[str], str], kind: FailureKind, says: str) -> None:
    async with endpoint(Peer(bend=bend)) as url:
        error = await refusal(url)
    assert error.kind is kind
    assert says in error.message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"no JSON", FailureKind.SDP_REFUSED),
        (b"[1]", FailureKind.SDP_REFUSED),
        (b'{"type":"answer"}', FailureKind.SDP_REFUSED),
        (b'{"sdp":7}', FailureKind.SDP_REFUSED),
        (b"\xff\xfe", FailureKind.SDP_REFUSED),
        (
            b'{"status":"failed","meta":{"error":"concurrency_limit_reached","limit":1}}',
            FailureKind.BUSY,
        ),
    ],
)
async def test_answers_without_json_and_sdp(body: bytes, kind: FailureKind) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with served(answer) as url:
        error = await refusal(url)
    assert error.kind is kind
    assert "expected a JSON object with 'sdp'" in error.message


async def test_connection_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = await refusal(f"http://127.0.0.1:{port}/offer")
    assert error.kind is FailureKind.CONNECTION_REFUSED


async def test_an_endpoint_without_tls() -> None:
    async with endpoint(Peer()) as url:
        error = await refusal(url.replace("http://", "https://"))
    assert error.kind is FailureKind.TLS


async def test_an_endpoint_that_never_answers() -> None:
    done = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await done.wait()
        return web.Response()

    async with served(wait) as url:
        error = await refusal(url, timeout_s=0.3)
        done.set()
    assert error.kind is FailureKind.CONNECT_TIMEOUT
    assert "within 0.3 s" in error.message


async def test_an_endpoint_that_closes_the_connection() -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with served(hang_up) as url:
        error = await refusal(url)
    assert error.kind is FailureKind.CONNECT_FAILED


async def test_an_invalid_address() -> None:
    error = await refusal("ws://127.0.0.1/offer")
    assert error.kind is FailureKind.CONNECT_FAILED
    assert "https://HOST/PATH" in error.message


async def test_invalid_ice_servers() -> None:
    signalling = Signalling(SdpBody.SDP, SdpBody.SDP, ice_servers=("turn:me:hidden-word@a:b:c",))
    error = await refusal("http://127.0.0.1:1/offer", signalling)
    assert error.kind is FailureKind.CONNECT_FAILED
    assert "'turn:a:b:c'" in error.message
    assert "hidden-word" not in error.message
