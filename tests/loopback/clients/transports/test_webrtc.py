"""WebRTC connections: audio, messages, the tap, ICE, DTLS and ends."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise

import aiohttp
import aioice.ice
import aiortc
import numpy as np
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
from live_eval.clients.transports._webrtc_signalling import Signaller
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import SdpBody, Signalling
from live_eval.errors import ConnectError, FailureKind, PluginError, TransportClosedError
from live_eval.transport import Arrival
from live_eval.webrtc.rtp_tap import check_aiortc
from tests.loopback.clients.transports.webrtc_peers import connected, dial, refusal
from tests.support.rtc_peer import Peer, endpoint, served

pytestmark = pytest.mark.usefixtures("nothing_left")
KEY = "sk-test-5e4f1b"


OPUS = Codec(CodecName.OPUS, 48_000)


FRAME_NS = 20_000_000


JSON = Signalling(SdpBody.JSON, SdpBody.JSON, fields={"webrtc_id": "w-1"}, channel="events")


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
    """Wait for reports, which aiortc sends 0.5 to 1.5 s apart; a round trip needs one in each direction."""
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
async def test_g711_if_the_endpoint_chooses_it(name: str) -> None:
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


async def test_without_a_channel_only_the_track_connects() -> None:
    peer = Peer()
    async with connected(peer, Signalling(SdpBody.SDP, SdpBody.SDP)) as transport:
        await speak(transport, tone(2))
        await packets(transport, 2)
        assert "m=application" not in peer.offers[0]
        assert "channel" not in transport.setup_ns


# -- The tap -------------------------------------------------------------------------------------------


async def test_the_tap_sees_a_packet_before_aiortc_and_stamps_its_datagram() -> None:
    """The tapped method still receives all packets of aiortc and aioice."""
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
        await transport._tap._listeners[0]._packet(noise, 0)
        [heard] = await packets(transport, 1)
        assert (heard.sequence, heard.payload, heard.codec) == (last.sequence + 1, b"", last.codec)
        assert samples_in(heard.payload, heard.codec) == 0


def test_another_aiortc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiortc, "__version__", "1.17.0")
    with pytest.raises(PluginError, match=r"aiortc 1\.16\.0.*1\.17\.0 is installed"):
        check_aiortc()


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
        error = await refusal(url, timeout_s=2)
    assert error.kind is FailureKind.ICE_FAILED
    assert "ICE found no network path to the endpoint within 2 s" in error.message


async def test_a_failed_connection_is_cleaned_up_at_once() -> None:
    gone = Peer()
    async with connected(gone):
        sdp = gone.connections[0].localDescription.sdp

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"sdp": sdp, "type": "answer"})

    async with served(answer) as url:
        before = asyncio.all_tasks()
        error = await refusal(url, timeout_s=2)
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


@pytest.mark.parametrize("error", [aiohttp.ServerDisconnectedError(), RuntimeError("too late")])
async def test_a_request_that_fails_after_the_connection_does_not_hide_why(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched(WebRtcTransport):
        """A transport whose failure sets `failed`."""

        def _ended(self, kind: FailureKind, why: str, code: int | None = None) -> None:
            super()._ended(kind, why, code)
            failed.set()

    async def candidates(*_: object) -> None:
        await failed.wait()
        raise error

    failed = asyncio.Event()
    monkeypatch.setattr(Signaller, "candidates", candidates)
    async with endpoint(Peer(bend=lambda sdp: re.sub(r"(a=fingerprint:\S+ )..", r"\g<1>00", sdp))) as url:
        with pytest.raises(ConnectError) as caught:
            await Watched(SystemClock()).connect(dial(url, replace(JSON, patch_candidates=True)), 5)
    assert caught.value.kind is FailureKind.DTLS_FAILED


async def test_dtls_that_never_answers() -> None:
    def mute(connection: RTCPeerConnection) -> None:
        async def wait(*parameters: object) -> None:
            await asyncio.sleep(0)

        vars(connection.getTransceivers()[0].receiver.transport).update(start=wait)

    async with endpoint(Peer(before_answer=mute)) as url:
        error = await refusal(url, timeout_s=2)
    assert error.kind is FailureKind.DTLS_FAILED
    assert "within 2 s" in error.message


async def test_a_channel_that_never_opens() -> None:
    def mute(connection: RTCPeerConnection) -> None:
        async def wait(*parameters: object) -> None:
            await asyncio.sleep(0)

        assert connection.sctp is not None
        vars(connection.sctp).update(start=wait)

    async with endpoint(Peer(before_answer=mute)) as url:
        error = await refusal(url, timeout_s=2)
    assert error.kind is FailureKind.CHANNEL_CLOSED
    assert "did not open within 2 s" in error.message


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
