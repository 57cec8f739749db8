"""The packets of a WebRTC connection: the user's decoded, the reply's sent without another encoding."""

import asyncio
from collections.abc import Sequence

import numpy as np

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, OpusEncoder
from live_eval.audio.rtp import RtpPacket
from live_eval.testing.fake_clock import FakeClock
from live_eval.webrtc.packets import ReplyTrack, SpeechPackets

OPUS = Codec(CodecName.OPUS, OPUS_RATE_HZ)
FRAME = 960


def packets(count: int) -> list[RtpPacket]:
    encoder = OpusEncoder(OPUS_RATE_HZ)
    tone = (8_000 * np.sin(np.arange(count * FRAME) * 2 * np.pi * 440 / OPUS_RATE_HZ)).astype("<i2")
    data = [
        packet
        for start in range(0, count * FRAME, FRAME)
        for packet in encoder.encode(tone[start : start + FRAME].tobytes())
    ]
    return [
        RtpPacket(
            at_ns=number, sequence=number, timestamp=number * FRAME, payload=payload, codec=OPUS, ssrc=1
        )
        for number, payload in enumerate(data)
    ]


def heard(given: Sequence[RtpPacket]) -> list[tuple[int, int]]:
    """Return the arrival and the number of samples of each packet."""

    async def collect() -> list[tuple[int, int]]:
        speech, found = SpeechPackets(), []
        for packet in given:
            speech.add(packet)
        speech.end()
        while (packet_heard := await speech.get()) is not None:
            found.append((packet_heard.at_ns, len(packet_heard.pcm) // 2))
        return found

    return asyncio.run(collect())


def test_packets_are_decoded_in_order() -> None:
    assert heard(packets(4)) == [(number, FRAME) for number in range(4)]


def test_a_lost_packet_becomes_silence_before_the_next_one() -> None:
    first, second, _, fourth = packets(4)
    assert heard([first, second, fourth]) == [(0, FRAME), (1, FRAME), (3, 2 * FRAME)]


def test_a_packet_that_cannot_be_decoded_is_silent() -> None:
    first, second = packets(2)
    broken = RtpPacket(
        at_ns=1, sequence=second.sequence, timestamp=FRAME, payload=b"\xff", codec=OPUS, ssrc=1
    )
    assert heard([first, broken])[0] == (0, FRAME)


async def test_a_reply_packet_keeps_its_bytes_and_reports_when_it_is_sent() -> None:
    clock = FakeClock()
    track = ReplyTrack(clock)
    sending = asyncio.ensure_future(track.say(b"opus", 960))
    packet = await track.recv()
    assert (bytes(packet), packet.pts) == (b"opus", 960)
    assert await sending == clock.now_ns()


async def test_a_packet_without_a_waiter_is_still_sent() -> None:
    track = ReplyTrack(FakeClock())
    sending = asyncio.ensure_future(track.say(b"opus", 0))
    await asyncio.sleep(0)
    sending.cancel()
    assert bytes(await track.recv()) == b"opus"
