"""Behaviour shared by all phone lines; test_twilio.py tests the queue and the marks."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.exotel import Exotel
from live_eval.clients.dialects.plivo import Plivo
from live_eval.clients.dialects.telnyx import Telnyx
from live_eval.clients.dialects.vonage import Vonage
from live_eval.clients.toolkit import PhoneLine
from live_eval.dialect import Close, EndpointSettings, Output, Send, SessionReady, SetTimer, StreamInterrupted
from live_eval.errors import UsageError

MS = 1_000_000
SIBLINGS = (Telnyx, Plivo, Exotel)
URL = "ws://127.0.0.1:9/ws?token=1"


def sent(outputs: Any) -> list[dict[str, Any]]:
    return [json.loads(output.message) for output in outputs if isinstance(output, Send)]


@pytest.mark.parametrize("dialect", SIBLINGS)
def test_a_call(dialect: type[PhoneLine]) -> None:
    """Each sibling is ready immediately, numbers its messages, and hangs up."""
    line = dialect(EndpointSettings(base_url=URL, extra={"dtmf": "7"}))
    assert line.dial().url == URL
    outputs: list[Output] = [
        *line.opened(5),
        *line.frame(bytes(320), 20 * MS),
        *line.timer("digit", 300 * MS),
    ]
    assert SessionReady(line.call_id) in outputs
    assert SetTimer("digit", 250 * MS + 5) in outputs
    events = [event for event in sent(outputs) if event["event"] != "connected"]
    assert [event["event"] for event in events] == ["start", "media", "dtmf"]
    assert [int(event[line.number_field]) for event in events] == [1, 2, 3]
    assert {event[line.stream_field] for event in events} == {line.stream_id}
    assert events[2]["dtmf"]["digit"] == "7"
    assert isinstance(line.finish(400 * MS)[-1], Close)
    assert line.frames == 1


def test_exotel_carries_16_bit_audio() -> None:
    assert Exotel.codec == Codec(CodecName.PCM16, 8_000)
    line = Exotel(EndpointSettings(base_url=URL))
    line.opened(0)
    (media,) = sent(line.frame(b"\x01\x02" * 800, 0))
    assert pybase64.b64decode(media["media"]["payload"]) == b"\x01\x02" * 800


def test_a_checkpoint_of_plivo() -> None:
    line = Plivo(EndpointSettings(base_url=URL))
    line.opened(0)
    message = json.dumps({"event": "checkpoint", "streamId": line.stream_id, "name": "one"})
    (played,) = sent(line.received(message, 0))
    assert (played["event"], played["name"]) == ("playedStream", "one")


@pytest.mark.parametrize("dialect", [Plivo, Vonage])
def test_an_option_without_a_message_is_refused(dialect: type[PhoneLine]) -> None:
    with pytest.raises(UsageError, match=r"endpoint\.extra\.from: unknown option"):
        dialect(EndpointSettings(base_url=URL, extra={"from": "+15550100009"}))


def test_vonage_carries_binary_audio_and_echoes_notifications() -> None:
    line = Vonage(EndpointSettings(base_url=URL, extra={"parameters": {"caller": "+1"}, "dtmf": 7}))
    (connected,) = sent(line.opened(0))
    assert connected == {
        "event": "websocket:connected",
        "content-type": "audio/l16;rate=16000",
        "caller": "+1",
    }
    assert line.frame(b"\x01\x02" * 320, 0) == (Send(b"\x01\x02" * 320),)
    assert sent(line.timer("digit", 300 * MS))[0] == {
        "event": "websocket:dtmf",
        "digit": "7",
        "duration": 260,
    }
    line.received(bytes(64_000), 0)  # two seconds
    notify = json.dumps({"action": "notify", "payload": {"reply": [1, None]}})
    assert sent(line.received(notify, MS)) == []
    (echo,) = sent(line.timer("mark", 2_000 * MS))
    assert echo == {"event": "websocket:notify", "payload": {"reply": [1, None]}}


def test_vonage_confirms_an_empty_queue_and_drops_notifications() -> None:
    line = Vonage(EndpointSettings(base_url=URL))
    line.opened(0)
    line.received(bytes(64_000), 0)
    line.received(json.dumps({"action": "notify", "payload": {}}), MS)
    outputs = line.received(json.dumps({"action": "clear"}), 100 * MS)
    assert StreamInterrupted() in outputs
    assert sent(outputs) == [{"event": "websocket:cleared"}]
    assert sent(line.timer("mark", 3_000 * MS)) == []


def test_only_twilio_has_its_options() -> None:
    with pytest.raises(UsageError, match="expected one of dtmf, from, parameters, to"):
        Telnyx(EndpointSettings(base_url=URL, extra={"call_sid": "CA1"}))
