"""The WebRTC transport against real aiortc peers behind real HTTP servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise

import aioice.ice
import aiortc
import numpy as np
import orjson
import pytest
from aiohttp import web
from aiortc import (
    RTCPeerConnection,
)
from aiortc.rtp import RtpPacket as WirePacket
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import Decoder, samples_in
from live_eval.audio.rtp import RtpPacket
from live_eval.audio.rtp_tap import check_aiortc
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import ConnectError, FailureKind, PluginError, TransportClosedError
from live_eval.transport import Arrival
from tests.support.rtc_peer import Peer, endpoint, served

KEY = "sk-test-5e4f1b"
OPUS = Codec(CodecName.OPUS, 48_000)
FRAME_NS = 20_000_000
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


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Fail if a task or a decoder keeps running after a test."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left
    assert not [thread for thread in threading.enumerate() if "decoder" in thread.name]


def dial(url: str, signalling: Signalling = JSON) -> Dial:
    return Dial(f"{url}?key={KEY}", {"Authorization": f"Bearer {KEY}"}, signalling=signalling)


def tone(frames: int, hz: float = 440.0) -> list[bytes]:
    at = np.arange(frames * 960) / 48_000
    pcm: NDArray[np.int16] = (8_000 * np.sin(2 * np.pi * hz * at)).astype("<i2")
    return [pcm[start : start + 960].tobytes() for start in range(0, len(pcm), 960)]


def pitch_hz(pcm: NDArray[np.int16], rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(np.argmax(spectrum)) * rate_hz / len(pcm)


async def speak(transport: WebRtcTransport, frames: list[bytes]) -> None:
    clock = SystemClock()
    pacer = Pacer(clock, clock.now_ns(), FRAME_NS)
    assert transport.track is not None
    for frame in frames:
        tick = pacer.next(speech=True)
        await clock.run_at(tick.deadline_ns, transport.track.prepare_frame(frame))


async def packets(transport: WebRtcTransport, count: int) -> list[RtpPacket]:
    found: list[RtpPacket] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            arrival = await transport.receive()
            assert isinstance(arrival, RtpPacket)
            found.append(arrival)
    return found


async def message(transport: WebRtcTransport) -> Arrival:
    async with asyncio.timeout(5):
        while True:
            arrival = await transport.receive()
            if isinstance(arrival, Arrival):
                return arrival


async def in_time(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait for reports: aiortc sends them at random 0.5 to 1.5 s apart, a round trip takes one each way."""
    async with asyncio.timeout(10):
        while not await is_so():  # noqa: ASYNC110  # aiortc has no event for a report
            await asyncio.sleep(0.05)


async def end_of(transport: WebRtcTransport) -> TransportClosedError:
    async with asyncio.timeout(5):
        while True:
            try:
                await transport.receive()
            except TransportClosedError as end:
                return end


async def refusal(url: str, signalling: Signalling = JSON, timeout_s: float = 5) -> ConnectError:
    transport = WebRtcTransport(SystemClock())
    with pytest.raises(ConnectError) as caught:
        await transport.connect(dial(url, signalling), timeout_s)
    assert KEY not in caught.value.message
    return caught.value


# -- Ordinary ------------------------------------------------------------------------------------------


async def test_audio_and_messages_come_back_stamped_in_order() -> None:
    peer = Peer()
    clock = SystemClock()
    async with connected(peer) as transport:
        begun_ns = clock.now_ns()
        await asyncio.gather(speak(transport, tone(30)), transport.send("hello"))
        found = [await transport.receive() for _ in range(31)]
        at_ns = [arrival.at_ns for arrival in found]
        assert at_ns == sorted(at_ns)
        assert begun_ns < at_ns[0] < at_ns[-1] < clock.now_ns()
        audio = [arrival for arrival in found if isinstance(arrival, RtpPacket)]
        assert [arrival.message for arrival in found if isinstance(arrival, Arrival)] == ["hello"]
        assert {packet.codec for packet in audio} == {OPUS}
        steps = {after.timestamp - before.timestamp for before, after in pairwise(audio)}
        assert steps == {960}
        decoder = Decoder(OPUS)
        pcm = np.concatenate([decoder.decode(packet.payload) for packet in audio])
        assert pitch_hz(pcm[4_800:], 48_000) == pytest.approx(440, abs=3)


async def test_binary_and_empty_messages_keep_their_kind() -> None:
    async with connected(Peer()) as transport:
        for sent in ("text", b"\x00\xff", "", b"", "é" * 20_000):
            await transport.send(sent)
            assert (await message(transport)).message == sent


async def test_setup_steps_are_timed() -> None:
    async with connected(Peer()) as transport:
        assert list(transport.setup_ns) == ["offer", "answer", "ice", "dtls", "channel"]
        await speak(transport, tone(3))
        await packets(transport, 1)
        assert list(transport.setup_ns)[5:] == ["first_rtp"]
        assert all(0 <= took_ns < 5e9 for took_ns in transport.setup_ns.values())


async def test_both_sides_have_statistics() -> None:
    peer = Peer()

    async def we_know_the_round_trip() -> bool:
        assert transport.track is not None
        return (await transport.track.stats()).round_trip_ns is not None

    async def the_peer_has_our_report() -> bool:
        reports = (await peer.connections[0].getStats()).values()
        return any(report.type == "remote-inbound-rtp" for report in reports)

    async with connected(peer) as transport:
        assert transport.track is not None
        await speak(transport, tone(10))
        await in_time(we_know_the_round_trip)
        stats = await transport.track.stats()
        assert (stats.sent_packets, stats.sent_lost) == (10, 0)
        assert stats.round_trip_ns is not None
        assert abs(stats.round_trip_ns) < 100_000_000
        await in_time(the_peer_has_our_report)


async def test_statistics_are_missing_before_the_first_report() -> None:
    async with connected(Peer()) as transport:
        assert transport.track is not None
        stats = await transport.track.stats()
        assert (stats.sent_packets, stats.sent_lost, stats.round_trip_ns) == (0, None, None)


async def test_timestamps_advance_over_dropped_silence() -> None:
    peer = Peer(echo=False)
    async with connected(peer) as transport:
        assert transport.track is not None
        for skipped in (0, 0, 3, 0):
            transport.track.send(bytes(1920), skipped)
        async with asyncio.timeout(5):
            heard = [await peer.heard[0].get() for _ in range(4)]
        assert [packet.timestamp - heard[0].timestamp for packet in heard] == [0, 960, 4800, 5760]
        assert [packet.sequence - heard[0].sequence for packet in heard] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["PCMU", "PCMA"])
async def test_g711_where_the_endpoint_chooses_it(name: str) -> None:
    peer = Peer(codecs=[f"audio/{name}"])
    async with connected(peer) as transport:
        await speak(transport, tone(20, 1_000))
        audio = await packets(transport, 20)
        codec = Codec(CodecName(name.lower()), 8_000)
        assert {packet.codec for packet in audio} == {codec}
        assert audio[1].timestamp - audio[0].timestamp == 160
        decoder = Decoder(codec)
        pcm = np.concatenate([decoder.decode(packet.payload) for packet in audio])[160:]
        assert pitch_hz(pcm, 8_000) == pytest.approx(1_000, abs=4)
        assert np.abs(pcm).max() == pytest.approx(8_000, rel=0.05)


async def test_reply_packets_are_not_buffered() -> None:
    async with connected(Peer()) as transport:
        await speak(transport, tone(1))
        assert len(await packets(transport, 1)) == 1  # a jitter buffer would wait for four


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


async def test_without_a_channel_the_track_alone_connects() -> None:
    peer = Peer()
    async with connected(peer, Signalling(SdpBody.SDP, SdpBody.SDP)) as transport:
        await speak(transport, tone(2))
        await packets(transport, 2)
        assert "m=application" not in peer.offers[0]
        assert "channel" not in transport.setup_ns


async def test_only_decodable_codecs_are_offered() -> None:
    peer = Peer()
    async with connected(peer):
        assert re.findall(r"a=rtpmap:\d+ (\w+)", peer.offers[0]) == ["opus", "PCMU", "PCMA"]


# -- The tap -------------------------------------------------------------------------------------------


async def test_the_tap_sees_a_packet_before_aiortc_and_stamps_its_datagram() -> None:
    """Fails if aiortc or aioice no longer pass packets through the tapped method."""
    handled: list[int] = []
    clock = SystemClock()
    peer = Peer()
    async with connected(peer) as transport:
        assert transport._connection is not None
        dtls = transport._connection.getReceivers()[0].transport
        parse = dtls._handle_rtp_data

        async def busy(data: bytes, arrival_time_ms: int) -> None:
            handled.append(clock.now_ns())
            await asyncio.sleep(0.01)  # aiortc is slow: the next datagram waits in aioice's queue
            await parse(data, arrival_time_ms)

        vars(dtls).update(_handle_rtp_data=busy)
        assert transport.track is not None
        for frame in tone(10):
            transport.track.send(frame)
        audio = await packets(transport, 10)
        stamps = [packet.at_ns for packet in audio]
        assert stamps == sorted(stamps)
        assert all(at_ns < handled_ns for at_ns, handled_ns in zip(stamps, handled, strict=False))
        assert stamps[-1] - stamps[0] < handled[-1] - handled[0] - 50_000_000
        report = await transport._connection.getStats()
        inbound = [entry for entry in report.values() if entry.type == "inbound-rtp"]
        assert len(inbound) == 1  # aiortc keeps counting, so that RTCP continues
        assert not [thread for thread in threading.enumerate() if thread.name == "audio-decoder"]


async def test_comfort_noise_is_received_as_silence() -> None:
    peer = Peer()
    async with connected(peer) as transport:
        assert transport.track is not None
        for frame in tone(3):
            transport.track.send(frame)
        audio = await packets(transport, 3)
        last = audio[-1]
        noise = WirePacket(
            payload_type=13, sequence_number=last.sequence + 1, timestamp=last.timestamp + 960, ssrc=last.ssrc
        )
        noise.payload = b"\x40"
        assert transport._tap is not None
        await transport._tap._packet(noise, 0)
        [heard] = await packets(transport, 1)
        assert (heard.sequence, heard.payload, heard.codec) == (last.sequence + 1, b"", last.codec)
        assert samples_in(heard.payload, heard.codec) == 0


def test_another_aiortc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiortc, "__version__", "1.17.0")
    with pytest.raises(PluginError, match=r"aiortc 1\.16\.0.*1\.17\.0 is installed"):
        check_aiortc()


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


# -- ICE, DTLS, the data channel -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "bend",
    [
        lambda sdp: re.sub(r"a=ice-pwd:.*", "a=ice-pwd:0123456789012345678901", sdp),
        lambda sdp: re.sub(r"a=candidate:.*\r\n", "", sdp).replace("a=end-of-candidates\r\n", ""),
    ],
)
async def test_ice_that_never_connects(bend: Callable[[str], str]) -> None:
    def deaf(connection: RTCPeerConnection) -> None:
        connection.getTransceivers()[0].receiver.transport.transport._connection.request_received = (  # type: ignore[method-assign]
            lambda *request: None
        )

    async with endpoint(Peer(bend=bend, before_answer=deaf)) as url:
        error = await refusal(url, timeout_s=0.5)
    assert error.kind is FailureKind.ICE_FAILED
    assert "ICE found none within 0.5 s" in error.message


async def test_a_failed_connection_is_cleaned_up_at_once() -> None:
    gone = Peer()
    async with connected(gone):
        sdp = gone.connections[0].localDescription.sdp

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"sdp": sdp, "type": "answer"})

    async with served(answer) as url:
        before = asyncio.all_tasks()
        error = await refusal(url, timeout_s=0.5)
        left = [repr(task) for task in asyncio.all_tasks() - before]
        assert not [task for task in left if "aiortc" in task or "aioice" in task]
    assert error.kind is FailureKind.ICE_FAILED


async def test_a_certificate_that_differs_from_the_answer() -> None:
    def other(sdp: str) -> str:
        return re.sub(r"(a=fingerprint:\S+ )..", r"\g<1>00", sdp)

    async with endpoint(Peer(bend=other)) as url:
        error = await refusal(url)
    assert error.kind is FailureKind.DTLS_FAILED
    assert "certificate" in error.message


async def test_dtls_that_never_answers() -> None:
    def mute(connection: RTCPeerConnection) -> None:
        async def wait(*parameters: object) -> None:
            await asyncio.sleep(0)

        vars(connection.getTransceivers()[0].receiver.transport).update(start=wait)

    async with endpoint(Peer(before_answer=mute)) as url:
        error = await refusal(url, timeout_s=0.5)
    assert error.kind is FailureKind.DTLS_FAILED
    assert "within 0.5 s" in error.message


async def test_a_channel_that_never_opens() -> None:
    def mute(connection: RTCPeerConnection) -> None:
        async def wait(*parameters: object) -> None:
            await asyncio.sleep(0)

        assert connection.sctp is not None
        vars(connection.sctp).update(start=wait)

    async with endpoint(Peer(before_answer=mute)) as url:
        error = await refusal(url, timeout_s=0.5)
    assert error.kind is FailureKind.CHANNEL_CLOSED
    assert "did not open within 0.5 s" in error.message


async def test_a_lost_network_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aioice.ice, "CONSENT_INTERVAL", 0.05)
    monkeypatch.setattr(aioice.ice, "CONSENT_FAILURES", 1)
    peer = Peer()
    async with connected(peer) as transport:
        ice = peer.connections[0].getTransceivers()[0].receiver.transport.transport
        vars(ice._connection).update(request_received=lambda *request: None)
        end = await end_of(transport)
    assert end.kind is FailureKind.ICE_FAILED


# -- Ends ----------------------------------------------------------------------------------------------


async def test_the_endpoint_closes_the_channel() -> None:
    peer = Peer()
    async with connected(peer) as transport:
        await transport.send("last words")
        assert (await message(transport)).message == "last words"
        peer.channels[0].send("after it")
        peer.channels[0].close()
        assert (await message(transport)).message == "after it"
        end = await end_of(transport)
        assert end.kind is FailureKind.CHANNEL_CLOSED
        assert end.message == "the endpoint closed the data channel"
        with pytest.raises(TransportClosedError):
            await transport.send("too late")
        assert await end_of(transport) is end


async def test_the_endpoint_closes_the_connection() -> None:
    peer = Peer()
    async with connected(peer) as transport:
        await peer.connections[0].close()
        end = await end_of(transport)
        assert end.kind is FailureKind.CLOSED
        assert end.code is None
        assert transport.track is not None
        transport.track.send(tone(1)[0])  # silent once the connection ended


async def test_we_close() -> None:
    async with connected(Peer()) as transport:
        await transport.close(1000, "done")
        assert (await end_of(transport)).code == 1000
        await transport.close()


async def test_a_message_over_the_endpoints_limit() -> None:
    def small(sdp: str) -> str:
        return re.sub(r"a=max-message-size:\d+", "a=max-message-size:1000", sdp)

    async with connected(Peer(bend=small)) as transport:
        with pytest.raises(TransportClosedError) as caught:
            await transport.send("x" * 1001)
        assert caught.value.kind is FailureKind.MESSAGE_TOO_BIG
        assert "1001 bytes" in caught.value.message
        assert await end_of(transport) is caught.value


async def test_cancelling_receive_loses_nothing() -> None:
    async with connected(Peer()) as transport:
        waiting = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        await transport.send("still there")
        assert (await message(transport)).message == "still there"


async def test_cancelling_connect_cleans_up() -> None:
    asked, done = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        asked.set()
        await done.wait()
        return web.Response()

    transport = WebRtcTransport(SystemClock())
    async with served(wait) as url:
        connecting = asyncio.create_task(transport.connect(dial(url), 5))
        await asked.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        done.set()


async def test_closing_an_unconnected_transport() -> None:
    transport = WebRtcTransport(SystemClock())
    await transport.close()
    assert transport.track is None
    assert transport.setup_ns == {}


async def test_many_sessions_at_once() -> None:
    peer = Peer()

    async def one(url: str) -> int:
        transport = WebRtcTransport(SystemClock())
        await transport.connect(dial(url), 10)
        await speak(transport, tone(10))
        await transport.close()
        return len(transport.setup_ns)

    async with endpoint(peer) as url:
        assert set(await asyncio.gather(*(one(url) for _ in range(8)))) <= {5, 6}
