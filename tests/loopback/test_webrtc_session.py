"""Whole sessions over WebRTC: a bot that echoes, and failures after it has connected."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from live_eval.clients.dialects.fastrtc_webrtc import FastRtcWebRtc
from live_eval.clients.dialects.pipecat_webrtc import PipecatWebRtc
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial, Dialect, EndpointSettings
from live_eval.errors import FailureKind
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.types import SpeechBoundaries, TurnMode
from tests.support.rtc_peer import Peer, endpoint

FRAME_NS = 20_000_000
SECOND_NS = 1_000_000_000
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=2, silence_s=0.3, linger_s=0.1)
BOUNDARIES = SpeechBoundaries(onset_ns=200_000_000, voice_end_ns=600_000_000)


def turn() -> Utterance:
    """Return 0.8 s of audio with a tone from 0.2 to 0.6 s."""
    pcm = (8_000 * np.sin(2 * np.pi * 440 * np.arange(38_400) / 48_000)).astype("<i2")
    pcm[:9_600] = pcm[28_800:] = 0
    return Utterance(
        frames=[pcm[at : at + 960].tobytes() for at in range(0, len(pcm), 960)],
        frame_ns=FRAME_NS,
        boundaries=BOUNDARIES,
    )


def rtvi(message: str | bytes) -> Sequence[str]:
    """Answer like a bot with RTVI messages."""
    if message == "ping" or isinstance(message, bytes):
        return ()
    assert json.loads(message)["type"] == "client-ready"
    said = [("bot-ready", {"version": "1.0.0"}), ("bot-tts-text", {"text": "as you say"})]
    return [json.dumps({"label": "rtvi-ai", "type": kind, "data": data}) for kind, data in said]


async def held(peer: Peer, make: Callable[[EndpointSettings], Dialect]) -> TurnCapture:
    async with endpoint(peer) as url:
        session = Session(
            make(EndpointSettings(base_url=url.removesuffix("/offer"))),
            WebRtcTransport,
            SystemClock(),
            turn_mode=TurnMode.FULL_DUPLEX,
            limits=LIMITS,
        )
        return (await session.converse([turn()]))[0]


async def test_a_turn_with_a_bot_that_echoes() -> None:
    peer = Peer(delay_ns=SECOND_NS, answers=rtvi)
    capture = await held(peer, PipecatWebRtc)
    assert capture.failure is None
    assert [response.record.text for response in capture.wire] == ["as you say "]
    assert [request.path for request in peer.requests] == ["/api/offer", "/api/offer"]
    assert peer.messages.count("ping") >= 2
    reply, trace = capture.wire[0], capture.trace
    assert trace.onset_ns is not None
    assert reply.record.created_ns == pytest.approx(trace.onset_ns + SECOND_NS, abs=150_000_000)
    assert list(trace.setup_ns) == ["offer", "answer", "ice", "dtls", "channel", "first_rtp"]
    assert capture.media is not None
    assert capture.media.packets > 40
    assert capture.media.lost == 0
    assert capture.media.sent_packets == len(trace.frame_sent_ns)


async def test_a_closed_connection_is_freed_without_a_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[object]] = []

    class Watched(WebRtcTransport):
        async def connect(self, dial: Dial, timeout_s: float) -> None:
            made.append(weakref.ref(self))
            await super().connect(dial, timeout_s)
            assert self._connection is not None
            made.extend(map(weakref.ref, (self._connection, self._connection.getSenders()[0].transport)))

    monkeypatch.setattr(f"{__name__}.WebRtcTransport", Watched)
    gc.disable()
    try:
        await held(Peer(delay_ns=SECOND_NS, answers=rtvi), PipecatWebRtc)
        assert [type(each()) for each in made] == [type(None)] * 3
    finally:
        gc.enable()


async def test_a_turn_with_a_bot_that_sends_no_events() -> None:
    capture = await held(Peer(delay_ns=SECOND_NS, answers=lambda message: ()), PipecatWebRtc)
    assert capture.failure is None
    assert capture.trace.ready_ns is not None
    assert capture.trace.ready_ns - capture.trace.dial_ns > 2 * SECOND_NS


async def test_a_turn_with_a_stream() -> None:
    def log(message: str | bytes) -> Sequence[str]:
        return [json.dumps({"type": "log", "data": f"Server received: {message!r}"})]

    peer = Peer(delay_ns=SECOND_NS, answers=log)
    capture = await held(peer, FastRtcWebRtc)
    assert capture.failure is None
    assert len(capture.wire) == 1
    assert json.loads(peer.bodies[0])["webrtc_id"]
    assert peer.messages == ["handshake"]


async def test_no_packets_arrive() -> None:
    capture = await held(Peer(echo=False, answers=rtvi), PipecatWebRtc)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.NO_RTP


async def test_the_channel_closes_before_the_reply() -> None:
    peer = Peer(echo=False)

    def close(message: str | bytes) -> Sequence[str]:
        if peer.messages.count("ping") == 2:
            peer.channels[0].close()
        return () if message == "ping" else rtvi(message)

    peer.answers = close
    capture = await held(peer, PipecatWebRtc)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CHANNEL_CLOSED


async def test_no_common_codec() -> None:
    capture = await held(
        Peer(bend=lambda sdp: sdp.replace("opus/", "L16/").replace("PCM", "X")), PipecatWebRtc
    )
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CODEC_REFUSED
