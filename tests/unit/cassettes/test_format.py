"""Cassettes are read as written, and contain no secret."""

from pathlib import Path

import orjson
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import RtpPacket
from live_eval.cassettes import (
    Call,
    Cassette,
    Closed,
    Expected,
    Received,
    Sent,
    SessionReport,
    Step,
    expected,
    read_cassette,
    write_cassette,
)
from live_eval.dialect import RateLimit, RateLimits, ReplyAudio, ResponseDone
from live_eval.errors import DataError
from live_eval.redaction import Concealer
from live_eval.timing import ResponseStatus
from live_eval.types import Secret

KEY = Secret("sk-do-not-tell-4711")
ORIGIN_NS = 123_456_789_012_345
STEPS: tuple[Step, ...] = (
    Call(1, "opened", {}),
    Received(20_000_001, '{"type":"session.created"}'),
    Sent(20_000_002, b"\x00\x01"),
    Call(40_000_000, "frame", {"pcm": b"\x01\x00\x02\x00"}),
    Call(40_500_000, "frame", {"pcm": bytes(640)}),
    Call(41_000_000, "interrupt", {"response_id": "r1", "heard_ms": 40}),
    SessionReport(42_000_000, "user_speaks", {"onset_ns": 5, "voice_end_ns": 7}),
    RtpPacket(60_000_003, 7, 6_720, b"opus", Codec(CodecName.OPUS, 48_000), 99),
    Expected(61_000_000, "ResponseStarted", {"response_id": "r1"}),
    Closed(3_600_000_000_000_007, None, "lost"),
)


def moved(step: Step) -> Step:
    """Return the step with its time on the machine's clock."""
    kind = type(step)
    rest = [getattr(step, name) for name in step.__slots__ if name != "at_ns"]
    return kind(step.at_ns + ORIGIN_NS, *rest)


def test_a_cassette_is_read_as_written_to_the_nanosecond(tmp_path: Path) -> None:
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
        '{"newHandle":"do-not-tell-4711","broken',
        '{"said":"the key is sk\\u002ddo-not-tell-4711"}',
        '{"new\\u0048andle":"do-not-tell-4711"}',
        '{"said":"Incorrect API key provided: sk-do-not-tell-47***********11"}',
        '{"said":"*** wss://do-not-tell:4711@host/v1"}',
    ],
)
def test_no_secret_is_written(tmp_path: Path, message: str | bytes) -> None:
    path = tmp_path / "a.jsonl"
    write_cassette(path, Cassette("a", "", (Received(0, message), Sent(0, message))), KEY)
    (step, _) = read_cassette(path).steps
    assert isinstance(step, Received)
    said = step.message if isinstance(step.message, bytes) else step.message.encode()
    assert b"do-not-tell" not in said
    assert b"***" in said


def test_messages_without_secrets_stay_unchanged() -> None:
    odd = (
        '{"a" :  1}',
        '{"said":"\\u00e9"}',
        '{"said":"\\ud800"}',
        "ping",
        b"\x01\xff",
        '{"delta":"AA//"}',
        "[" * 9_999,
    )
    for message in odd:
        assert Concealer(KEY).message(message) == message
        assert Concealer(None).message(message) == message


def test_messages_with_masked_secrets_are_still_json() -> None:
    masked = Concealer(None).message('{"newHandle": "abc", "resumable": true, "handle": ""}')
    assert orjson.loads(masked) == {"newHandle": "***", "resumable": True, "handle": ""}


def test_a_secret_from_a_field_is_hidden_in_later_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    handle = "handle-do-not-tell-0815"
    steps = (
        Received(0, f'{{"sessionResumptionUpdate":{{"newHandle":"{handle}"}}}}'),
        Sent(1, f'{{"note":"again {handle}"}}'),
        Expected(2, "EndpointProblem", {"message": f"{handle} and {KEY.reveal()}"}),
        SessionReport(3, "failed", {"kind": "closed", "message": f"{handle} and {KEY.reveal()}"}),
        Closed(4, 1008, f"{handle} and {KEY.reveal()}"),
    )
    settings = {"extra": {"client_secret": {"value": "ek_do-not-tell"}, "note": KEY.reveal()}}
    write_cassette(path, Cassette("a", "", steps, settings), KEY)
    assert "do-not-tell" not in path.read_text("utf-8")
    cassette = read_cassette(path)
    assert cassette.settings["extra"] == {"client_secret": "***", "note": "***"}
    assert cassette.steps[-1] == Closed(4, 1008, "*** and ***")
    assert cassette.steps[1] == Sent(1, '{"note":"again ***"}')


@pytest.mark.parametrize(
    "message",
    [
        '{"type":"x","n":[1,2.5,-0.0,1e-07,18446744073709551615],"said":"\u2028\x85é"}',
        '{"type":"x","type":"y"}',
        '{"n":123456789012345678901234567890}',
        '{"said":"\\ud800"}',
        "half a pair: \ud800",
        '{"a":' * 5_000,
        '{"a":' * 500 + "1" + "}" * 500,
        '{"a": 1}',
        "",
        b"",
        bytes(range(256)),
    ],
)
def test_any_message_is_read_as_written(tmp_path: Path, message: str | bytes) -> None:
    path = tmp_path / "a.jsonl"
    write_cassette(path, Cassette("a", "", (Received(0, message),)), None)
    assert read_cassette(path).steps == (Received(0, message),)


def test_messages_are_legible(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_cassette(path, Cassette("a", "", (Received(1_500_000, '{"type":"session.created"}'),)), None)
    line = path.read_text("utf-8").splitlines()[1]
    assert line == '{"at_ms":1.5,"direction":"in","message":{"type":"session.created"}}'


def test_an_event_is_written_with_all_of_its_fields() -> None:
    audio = ReplyAudio("r", b"1234", Codec(CodecName.PCM16, 24_000), "item")
    assert expected(7, audio).fields == {
        "response_id": "r",
        "bytes": 4,
        "crc32": 0x9BE3E0A3,
        "codec": {"name": "pcm16", "rate_hz": 24_000},
        "item_id": "item",
    }
    limits = expected(7, RateLimits((RateLimit("requests", 10, 9.5, 1),)))
    assert limits == Expected(
        7, "RateLimits", {"limits": [{"name": "requests", "limit": 10, "remaining": 9.5, "reset_s": 1}]}
    )
    done = expected(7, ResponseDone("r", ResponseStatus.FAILED, "why"))
    assert done.fields == {"response_id": "r", "status": "failed", "reason": "why", "usage": None}


HEADER = '{"cassette": 1}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[" * 100_000], "line 1: expected JSON"),
        (
            [HEADER, '{"at_ms": 1, "direction": "in", "message": ' + "[" * 300 + "]" * 300 + "}"],
            "line 2: expected a cassette step",
        ),
        ([HEADER, '{"at_ms": 1e308, "call": "opened"}'], "line 2: expected a cassette step"),
        ([HEADER, '{"at_ms": NaN, "call": "opened"}'], "line 2: expected a cassette step"),
        ([HEADER, '{"at_ms": 1, "call": "frame", "silence": 1000000000000}'], "at most 65536"),
        ([HEADER, '{"at_ms": 1, "call": "frame", "count": 1000000000000}'], "at most 100000"),
        ([HEADER, '{"at_ms": 1, "call": "end_turn", "at_ns": 5}'], "unknown arguments at_ns"),
        (
            [HEADER, '{"at_ms": 1, "turn": "user_speaks", "onset_ns": "x", "voice_end_ns": 1}'],
            "onset_ns: expected int",
        ),
        ([HEADER, '{"at_ms": 1, "closed": {"code": "x", "reason": 5}}'], "as reason, got 'x' and 5"),
        (['{"cassette": 1, "settings": [1]}'], "settings: expected dict"),
        (['{"cassette": 1, "origin_ns": 1e308}'], "origin_ns: expected int"),
    ],
)
def test_an_impossible_step_is_an_error_that_names_the_line(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=message) as caught:
        read_cassette(path)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_bytes_that_are_not_utf8_are_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="expected UTF-8"):
        read_cassette(tmp_path / "a.jsonl")


@pytest.mark.parametrize("settings", [{"no_such": 1}, {"turn_mode": "no such"}])
def test_an_unknown_setting_is_named(settings: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"no.such"):
        Cassette("a", "", (), settings).endpoint_settings("ws://127.0.0.1", None)
