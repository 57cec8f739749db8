"""Cassettes are read as they were written, and hold no secret."""

from pathlib import Path

import orjson
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.cassettes import (
    Call,
    Cassette,
    Closed,
    Expected,
    Packet,
    Received,
    Sent,
    Step,
    Turn,
    read_cassette,
    write_cassette,
)
from live_eval.redaction import conceal
from live_eval.rtp import RtpPacket
from live_eval.types import Secret

KEY = Secret("sk-do-not-tell-4711")
ORIGIN_NS = 123_456_789_012_345
STEPS: tuple[Step, ...] = (
    Call(1, "opened", {}),
    Received(20_000_001, '{"type":"session.created"}'),
    Sent(20_000_002, b"\x00\x01"),
    Call(40_000_000, "frame", {"pcm": b"\x01\x00\x02\x00"}),
    Call(41_000_000, "interrupt", {"response_id": "r1", "heard_ms": 40}),
    Turn(42_000_000, "user_speaks", {"onset_ns": 5, "voice_end_ns": 7}),
    Packet(RtpPacket(60_000_003, 7, 6_720, b"opus", Codec(CodecName.OPUS, 48_000), 99)),
    Expected(61_000_000, "ResponseStarted", {"response_id": "r1"}),
    Closed(3_600_000_000_000_007, None, "lost"),
)


def moved(step: Step) -> Step:
    """The step as it happened on the machine's clock."""
    if isinstance(step, Packet):
        packet = step.packet
        fields = (packet.sequence, packet.timestamp, packet.payload, packet.codec, packet.ssrc)
        return Packet(RtpPacket(packet.at_ns + ORIGIN_NS, *fields))
    kind = type(step)
    rest = [getattr(step, name) for name in step.__slots__ if name != "at_ns"]
    return kind(step.at_ns + ORIGIN_NS, *rest)


def test_what_was_written_is_read_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded = {"turn_id": "t", "attempt": 1}
    settings = {"turn_mode": "manual", "modality": "text", "model": "m"}
    cassette = Cassette("a", "a turn", tuple(map(moved, STEPS)), settings, recorded)
    write_cassette(path, cassette, KEY, ORIGIN_NS)
    assert read_cassette(path) == Cassette("a", "a turn", STEPS, settings, recorded)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "message",
    [
        f'{{"type":"x","said":"the key is {KEY.reveal()}"}}',
        f"no JSON: {KEY.reveal()}",
        f'{{"type":"x","note":"{KEY.reveal()}"}}'.encode(),
        b"\x01\x02" + KEY.reveal().encode() + b"\xff",
        '{"session":{"client_secret":{"value":"ek_do-not-tell-4711"}}}',
        '{"sessionResumptionUpdate":{"newHandle":"do-not-tell-4711","resumable":true}}',
        b'{"setup":{"sessionResumption":{"handle":"do-not-tell-4711"}}}',
        '{"headers":{"Authorization":"Bearer do-not-tell-4711"},"broken',
    ],
)
def test_no_secret_is_kept(tmp_path: Path, message: str | bytes) -> None:
    path = tmp_path / "a.jsonl"
    write_cassette(path, Cassette("a", "", (Received(0, message), Sent(0, message))), KEY)
    (step, _) = read_cassette(path).steps
    assert isinstance(step, Received)
    said = step.message if isinstance(step.message, bytes) else step.message.encode()
    assert b"do-not-tell" not in said
    assert b"***" in said


def test_what_holds_no_secret_stays_as_it_is() -> None:
    for message in ('{"a" :  1}', "ping", b"\x01\xff", '{"delta":"AAAA"}'):
        assert conceal(message, KEY) == message
        assert conceal(message, None) == message


def test_messages_stay_json_where_secrets_are_masked() -> None:
    told = conceal('{"newHandle": "abc", "resumable": true, "handle": ""}', None)
    assert orjson.loads(told) == {"newHandle": "***", "resumable": True, "handle": ""}
