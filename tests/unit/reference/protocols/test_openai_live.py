"""The server's side of GPT-Live, checked against the official SDK's types. No sockets, no clock."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.live import ServerEvent
from pydantic import TypeAdapter

from live_eval.audio import CodecName
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import (
    CloseConnection,
    FindReply,
    Silence,
)
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.openai_live import COMMANDS, OpenAiLiveProtocol
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import ProtocolClient

SERVER_EVENT: TypeAdapter[Any] = TypeAdapter(ServerEvent)
MS = 1_000_000
PCM = {"type": "audio/pcm", "rate": 24_000}

Json = dict[str, Any]


class Client(ProtocolClient[OpenAiLiveProtocol]):
    """Checks every message against the official SDK's types."""

    def __init__(self, **settings: Any) -> None:
        settings = {"calibrate": True, "chunk_ms": 40, **settings}
        engine = Engine("sess_0123456789abcdef", ReferenceSettings(**settings), waits_for_words=False)
        self.at_ms = 0
        super().__init__(OpenAiLiveProtocol(engine, expires_at=2_000_000_000))
        assert self.greeting == []

    def parsed(self, message: bytes) -> Json:
        return parsed(message)

    def find(self, request: FindReply) -> list[Json]:
        wire = packer(self.protocol, request.codec).pack(GeneratedReply("A tone.", calibration_reply(100), 0))
        return self.take(self.engine.reply(request.response_id, wire, self.at_ms * MS))

    def send(self, kind: str, **fields: Any) -> list[Json]:
        message = json.dumps({"type": kind, "event_id": "mine", **fields})
        return self.take(self.protocol.received(message, self.at_ms * MS))

    def start(self, **session: Any) -> list[Json]:
        audio = {"format": PCM}
        return self.send("session.start", session={"model": "gpt-live-1", "audio": audio, **session})

    def append(self, pcm: bytes, rate_hz: int = 24_000) -> list[Json]:
        """Append audio, wait for its duration, and return the output due by then."""
        events = self.send("session.input_audio.append", audio=base64.b64encode(pcm).decode())
        self.at_ms += len(pcm) // 2 * 1000 // rate_hz
        engine = self.protocol.engine
        while engine.wake_ns is not None and engine.wake_ns <= self.at_ms * MS:
            events += self.take(engine.due(self.at_ms * MS))
        return events

    def speak(self) -> list[Json]:
        """Send the marked speech and some silence, frame by frame."""
        speech = calibration_speech(200).audio.int16().astype("<i2").tobytes()
        frames = [speech[at : at + 960] for at in range(0, len(speech), 960)] + [bytes(960)] * 20
        return [event for frame in frames for event in self.append(frame)]


def parsed(message: bytes) -> Json:
    try:
        event: Json = json.loads(message)
    except json.JSONDecodeError:
        return {}
    if event["type"] != "session.interpretive_dance.delta":
        known = SERVER_EVENT.validate_python(event)
        assert known.type == event["type"]
    return event


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def test_a_session_starts_and_confirms_its_settings() -> None:
    client = Client()
    (started,) = client.start(instructions="Be brief.", delegation={"type": "client"}, store=False)
    assert started["type"] == "session.started"
    assert started["client_event_id"] == "mine"
    assert started["session"] == {
        "id": "sess_0123456789abcdef",
        "expires_at": 2_000_000_000,
        "status": "active",
        "model": "gpt-live-1",
        "audio": {"format": PCM, "output": {"voice": "marin"}},
        "instructions": "Be brief.",
        "delegation": {"type": "client"},
        "store": False,
    }
    assert client.protocol.engine.config.instructions == "Be brief."


def test_output_audio_flows_while_input_audio_does() -> None:
    client = Client()
    client.start()
    events = [event for _ in range(50) for event in client.append(bytes(960))]
    assert set(types(events)) == {"session.output_audio.delta"}
    # One frame of 40 ms immediately, and one for every 40 ms of the second that was sent.
    assert len(events) == 26
    assert all(base64.b64decode(event["delta"]) == bytes(1_920) for event in events)


def test_a_turn() -> None:
    client = Client(delay_ms=40)
    client.start()
    events = client.speak()
    told = [event for event in events if event["type"] != "session.output_audio.delta"]
    assert types(told) == ["session.output_transcript.delta", "session.usage.updated"]
    assert told[0]["delta"] == "A tone."
    assert told[0]["end_ms"] > told[0]["start_ms"] >= 200
    loud = [
        np.abs(np.frombuffer(base64.b64decode(event["delta"]), "<i2").astype(int)).max() > 0
        for event in events
        if event["type"] == "session.output_audio.delta"
    ]
    # 100 ms of audio are three frames of 40 ms, surrounded by silence.
    assert sum(loud) == 3
    first = loud.index(True)
    assert all(loud[first : first + 3])
    assert told[1]["usage"]["seconds"] > 0


@pytest.mark.parametrize(
    ("given", "name", "silence"),
    [
        ({"type": "audio/pcm", "rate": 16_000}, CodecName.PCM16, b"\x00"),
        ({"type": "audio/pcmu", "rate": 8_000}, CodecName.PCMU, b"\xff"),
        ({"type": "audio/pcma", "rate": 8_000}, CodecName.PCMA, b"\xd5"),
    ],
)
def test_other_audio_formats(given: Json, name: CodecName, silence: bytes) -> None:
    client = Client(calibrate=False)
    (started,) = client.start(audio={"format": given})
    assert started["session"]["audio"]["format"] == given
    config = client.protocol.engine.config
    assert config.input_codec == config.output_codec
    assert (config.output_codec.name, config.output_codec.rate_hz) == (name, given["rate"])
    (delta,) = client.take([Silence(given["rate"] * 40 // 1000)])
    assert set(base64.b64decode(delta["delta"])) == set(silence)


def test_muting_keeps_the_stream_flowing() -> None:
    client = Client()
    client.start()
    assert types(client.send("session.input_audio.mute")) == ["session.input_audio.muted"]
    assert set(types(client.speak())) == {"session.output_audio.delta"}
    assert types(client.send("session.input_audio.unmute")) == ["session.input_audio.unmuted"]
    assert "session.output_transcript.delta" in types(client.speak())


def test_instructions_are_appended_and_history_is_kept() -> None:
    client = Client()
    history = [{"role": "user", "content": [{"type": "input_text", "text": "Hello."}]}]
    client.start(instructions="Be brief.", input=history)
    (told,) = client.send("session.instructions.append", content="Be kind.", delegation_id=None)
    assert told["type"] == "session.instructions.appended"
    assert client.protocol.engine.config.instructions == "Be brief.\n\nBe kind."
    assert [item.parts[0].text for item in client.protocol.engine.conversation] == ["Hello."]
    (told,) = client.send("session.commentary.append", content="It is nine.", delegation_id=None)
    assert told["type"] == "session.commentary.appended"


def test_only_the_delegation_of_a_session_can_be_updated() -> None:
    client = Client()
    client.start()
    (told,) = client.send("session.update", session={"delegation": {"type": "client"}})
    assert told["type"] == "session.updated"
    assert told["session"]["delegation"] == {"type": "client"}
    (error,) = client.send("session.update", session={"instructions": "No."})
    assert error["error"]["param"] == "session"


def test_a_session_closes_on_request_and_when_it_expires() -> None:
    client = Client()
    client.start()
    client.append(bytes(48_000))
    (closed,) = client.send("session.close")
    assert (closed["reason"], closed["client_event_id"]) == ("close_requested", "mine")
    assert closed["usage"]["seconds"] > 0
    assert client.closed == CloseConnection(1000, "close_requested")
    other = Client()
    other.start()
    (closed,) = other.take(other.protocol.expired())
    assert closed["reason"] == "expired"
    assert other.closed == CloseConnection(1000, "expired")


@pytest.mark.parametrize(
    ("command", "code", "param"),
    [
        ({"type": "session.input_audio.append", "audio": "AAA"}, "invalid_value", "audio"),
        ({"type": "session.input_audio.append", "audio": "AA=="}, "invalid_value", "audio"),
        ({"type": "session.input_audio.append"}, "invalid_type", "audio"),
        ({"type": "session.start", "session": {}}, "session_already_started", "type"),
        ({"type": "response.create"}, "invalid_value", "type"),
        ({"type": 7}, "invalid_value", "type"),
        ({"type": "session.close", "now": True}, "unknown_parameter", "now"),
        (
            {"type": "session.instructions.append", "content": "x"},
            "missing_required_parameter",
            "delegation_id",
        ),
    ],
)
def test_invalid_commands_are_refused(command: Json, code: str, param: str) -> None:
    client = Client()
    client.start()
    message = json.dumps({"event_id": "mine", **command})
    (event,) = client.take(client.protocol.received(message, 0))
    assert event["type"] == "error"
    assert (event["error"]["code"], event["error"]["param"]) == (code, param)
    assert event["error"]["client_event_id"] == "mine"


def test_commands_before_the_start_are_refused() -> None:
    client = Client()
    (error,) = client.send("session.input_audio.append", audio="AAAA")
    assert error["error"]["code"] == "session_not_started"
    (error,) = client.start(audio={"format": {"type": "audio/pcm", "rate": 48_000}})
    assert error["error"]["param"] == "session.audio.format.rate"
    (error,) = client.start(audio={"format": {"type": "audio/pcmu", "rate": 8_000}})
    assert "is calibrating" in error["error"]["message"]
    assert types(client.start()) == ["session.started"]


def test_faults_use_events_of_the_dialect() -> None:
    for fault, kinds in (
        ("error_event", ["error"]),
        ("unknown_event", ["session.interpretive_dance.delta"]),
        ("failed_response", ["session.usage.updated", "error"]),
    ):
        client = Client(faults=parse_faults(fault))
        client.start()
        assert [kind for kind in types(client.speak()) if kind in kinds] == kinds


COMMAND = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(COMMANDS)) | st.just("session.input_audio.append")},
    optional={
        "session": st.dictionaries(st.sampled_from(["model", "audio", "input", "x"]), st.text() | st.none()),
        "audio": st.text() | st.integers() | st.binary().map(lambda data: base64.b64encode(data).decode()),
        "content": st.text() | st.none(),
        "delegation_id": st.none() | st.text(),
        "event_id": st.text() | st.integers(),
    },
)


@given(st.lists(COMMAND | st.text() | st.binary() | st.lists(st.integers()), max_size=8), st.booleans())
def test_no_message_breaks_the_protocol(messages: list[Any], started: bool) -> None:
    client = Client()
    if started:
        client.start()
    for message in messages:
        raw = message if isinstance(message, str | bytes) else json.dumps(message)
        client.take(client.protocol.received(raw, 0))


def test_the_length_of_commands_and_instructions_is_limited() -> None:
    client = Client()
    client.start()
    (refused,) = client.send("session.update", session={str(number): 1 for number in range(30_000)})
    assert refused["error"]["code"] == "message_too_large"
    (refused,) = client.send("session.update", session={"x": "y" * (1 << 20)})
    assert refused["error"]["code"] == "message_too_large"
    more = {"content": "x" * 600_000, "delegation_id": None}
    assert client.send("session.instructions.append", **more)[0]["type"] == "session.instructions.appended"
    (refused,) = client.send("session.instructions.append", **more)
    assert "at most 1000000 characters of instructions" in refused["error"]["message"]
