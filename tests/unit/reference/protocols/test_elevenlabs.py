"""The server's side of ElevenLabs Agents. No sockets, no clock."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.elevenlabs import ELEVENLABS_CONFIG, ElevenLabsProtocol
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import SpeakingClient, types_of

BEGIN = {"type": "conversation_initiation_client_data"}


class Client(SpeakingClient[ElevenLabsProtocol]):
    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        engine = Engine("sess_0", session, ELEVENLABS_CONFIG, waits_for_words=False)
        super().__init__(ElevenLabsProtocol(engine))
        if ready:
            self.begun = self.say(BEGIN)

    def parsed(self, message: bytes) -> Any:
        return json.loads(message)

    def heard(self, pcm: bytes) -> dict[str, str]:
        return {"user_audio_chunk": base64.b64encode(pcm).decode()}


def test_a_turn_has_audio_and_then_the_text_but_no_end() -> None:
    client = Client()
    assert types_of(client.begun) == ["conversation_initiation_metadata", "ping"]
    messages = client.speak()
    assert types_of(messages) == ["audio", "agent_response"]
    numbers = [each["audio_event"]["event_id"] for each in messages if each["type"] == "audio"]
    assert numbers == sorted(set(numbers))
    pcm = b"".join(
        base64.b64decode(each["audio_event"]["audio_base_64"]) for each in messages if each["type"] == "audio"
    )
    assert len(pcm) == 2 * 16 * 400


def test_an_interruption_names_the_last_event() -> None:
    client = Client(delay_ms=100)
    client.say({"type": "user_message", "text": "Hello."})
    (stopped,) = client.take(client.engine.cancel(None))
    assert stopped == {
        "type": "interruption",
        "interruption_event": {"event_id": client.begun[-1]["ping_event"]["event_id"]},
    }


def test_the_prompt_is_overridden() -> None:
    client = Client(ready=False)
    override = {"agent": {"prompt": {"prompt": "Be brief."}, "first_message": ""}, "tts": {"voice_id": "v"}}
    client.say({**BEGIN, "conversation_config_override": override})
    client.speak()
    assert client.answers[0].instructions == "Be brief."


@pytest.mark.parametrize(
    "message", ["no JSON", "[]", "{}", '{"type":"pirouette"}', '{"user_audio_chunk":"?"}']
)
def test_an_invalid_message_closes_with_1008(message: str) -> None:
    client = Client()
    assert types_of(client.say(message)) == ["error"]
    assert client.closed is not None
    assert client.closed.code == 1008


def test_the_first_message_begins_the_conversation_and_is_not_repeated() -> None:
    client = Client(ready=False)
    client.say({"type": "user_activity"})
    assert client.closed is not None
    client = Client()
    client.say(BEGIN)
    assert client.closed is not None


def test_messages_without_effect_are_accepted() -> None:
    client = Client()
    for kind in ("pong", "user_activity", "contextual_update", "client_tool_result"):
        assert client.say({"type": kind}) == []
    assert client.closed is None
