"""The server's side of the beta dialect, where it differs from GA. No sockets, no clock."""

import base64
import json
from typing import Any

import pytest

from live_eval.audio import CodecName
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.protocols.openai_beta import OpenAiBetaProtocol
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import ProtocolClient

Json = dict[str, Any]


class Client(ProtocolClient[OpenAiBetaProtocol]):
    def __init__(self, **settings: Any) -> None:
        engine = Engine("sess_0123456789abcdef", ReferenceSettings(**settings), waits_for_words=False)
        super().__init__(OpenAiBetaProtocol(engine, "some-model", expires_at=2_000_000_000))
        (self.created,) = self.greeting

    def send(self, kind: str, **fields: Any) -> list[Json]:
        return self.take(self.protocol.received(json.dumps({"type": kind, **fields}), 0))

    def update(self, **session: Any) -> Json:
        (told,) = self.send("session.update", session=session)
        return told

    def whole_turn(self) -> list[Json]:
        """Commit half a second of audio, request a response, and return all its events."""
        audio = base64.b64encode(bytes(24_000)).decode()
        events = self.send("input_audio_buffer.append", audio=audio)
        events += self.send("input_audio_buffer.commit")
        events += self.send("response.create")
        answer = self.answers.pop()
        tone = calibration_reply(200)
        reply = GeneratedReply("A tone.", tone if answer.wants_audio else None, 0)
        wire = packer(self.protocol, answer.codec).pack(reply)
        events += self.take(self.protocol.engine.reply(answer.response_id, wire, 0))
        while (wake_ns := self.protocol.engine.wake_ns) is not None:
            events += self.take(self.protocol.engine.due(wake_ns))
        return events


def test_the_session_is_flat() -> None:
    session = Client().created["session"]
    assert session == {
        "id": "sess_0123456789abcdef",
        "object": "realtime.session",
        "expires_at": 2_000_000_000,
        "model": "some-model",
        "modalities": ["text", "audio"],
        "instructions": "",
        "voice": "alloy",
        "speed": 1.0,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "input_audio_noise_reduction": None,
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
            "idle_timeout_ms": None,
            "create_response": True,
            "interrupt_response": True,
        },
        "tools": [],
        "tool_choice": "auto",
        "tracing": None,
        "temperature": 0.8,
        "max_response_output_tokens": "inf",
    }


def test_an_update_is_confirmed_and_reaches_the_engine() -> None:
    client = Client()
    told = client.update(
        modalities=["audio", "text"],
        instructions="Be brief.",
        voice="verse",
        input_audio_format="g711_ulaw",
        output_audio_format="g711_alaw",
        input_audio_transcription={"model": "whisper-1"},
        turn_detection={"type": "server_vad", "silence_duration_ms": 200, "create_response": False},
        max_response_output_tokens=77,
        temperature=0.7,
    )
    session = told["session"]
    assert told["type"] == "session.updated"
    assert (session["input_audio_format"], session["output_audio_format"]) == ("g711_ulaw", "g711_alaw")
    assert (session["voice"], session["instructions"]) == ("verse", "Be brief.")
    assert session["turn_detection"]["silence_duration_ms"] == 200
    config = client.protocol.engine.config
    assert (config.input_codec.name, config.output_codec.name) == (CodecName.PCMU, CodecName.PCMA)
    assert config.transcribe
    assert not config.create_response
    assert config.max_output_tokens == 77
    assert config.wants_audio


def test_omitted_settings_stay_and_null_disables_detection() -> None:
    client = Client()
    client.update(instructions="Be brief.")
    session = client.update(turn_detection=None)["session"]
    assert session["instructions"] == "Be brief."
    assert session["turn_detection"] is None
    assert client.protocol.engine.config.detection is None


def test_a_turn_uses_the_beta_event_names() -> None:
    client = Client()
    client.update(turn_detection=None)
    events = client.whole_turn()
    kinds = [event["type"] for event in events]
    assert kinds == [
        "input_audio_buffer.committed",
        "conversation.item.created",
        "response.created",
        "response.output_item.added",
        "conversation.item.created",
        "response.content_part.added",
        "response.audio_transcript.delta",
        "response.audio.delta",
        "response.audio.delta",
        "response.audio.done",
        "response.audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]
    response = events[-2]["response"]
    assert response["modalities"] == ["text", "audio"]
    assert response["output_audio_format"] == "pcm16"
    assert "audio" not in response
    assert response["output"][0]["content"] == [{"type": "audio", "transcript": "A tone."}]
    assert len(base64.b64decode(events[7]["delta"])) == 4_800


def test_a_text_response() -> None:
    client = Client()
    client.update(turn_detection=None, modalities=["text"])
    events = client.whole_turn()
    kinds = [event["type"] for event in events]
    assert "response.text.delta" in kinds
    assert "response.text.done" in kinds
    assert events[-2]["response"]["output"][0]["content"] == [{"type": "text", "text": "A tone."}]


def test_items_and_responses_are_requested_in_beta_shapes() -> None:
    client = Client()
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    (created,) = client.send("conversation.item.create", item=said, previous_item_id="root")
    assert created["type"] == "conversation.item.created"
    assert created["item"]["content"] == [{"type": "text", "text": "Hello."}]
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]}
    client.send(
        "response.create",
        response={
            "modalities": ["text"],
            "input": [said, asked],
            "conversation": "none",
            "max_response_output_tokens": 5,
            "output_audio_format": "g711_ulaw",
        },
    )
    (answer,) = client.answers
    assert answer.said == (ItemContent(Role.ASSISTANT, "Hello."), ItemContent(Role.USER, "And now?"))
    assert not answer.wants_audio
    assert answer.codec.name is CodecName.PCMU
    assert client.protocol.engine.active is not None
    assert client.protocol.engine.active.max_output_tokens == 5


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {}}, "session.audio"),
        ({"type": "realtime"}, "session.type"),
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        ({"input_audio_format": None}, "session.input_audio_format"),
        ({"turn_detection": {"type": "none"}}, "session.turn_detection.type"),
        ({"temperature": 2}, "session.temperature"),
        ({"model": "another"}, "session.model"),
    ],
)
def test_errors_use_the_clients_parameter_names(session: Json, param: str) -> None:
    told = Client().update(**session)
    assert told["type"] == "error"
    assert told["error"]["param"] == param
    assert "audio.input" not in told["error"]["message"]


def test_calibration_requires_pcm() -> None:
    told = Client(calibrate=True).update(input_audio_format="g711_ulaw")
    assert told["error"]["param"] == "session.input_audio_format"
