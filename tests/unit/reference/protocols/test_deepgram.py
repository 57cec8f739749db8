"""The server's side of Deepgram's Voice Agent. No sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.deepgram import DEEPGRAM_CONFIG, DeepgramProtocol
from live_eval.reference.protocols.protocol import TextMessage
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import SpeakingClient, types_of

SETTINGS = {"type": "Settings", "audio": {}, "agent": {"think": {"prompt": "Be brief."}}}


class Client(SpeakingClient[DeepgramProtocol]):
    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        super().__init__(DeepgramProtocol(Engine("sess_0", session, DEEPGRAM_CONFIG, waits_for_words=False)))
        if ready:
            assert self.say(SETTINGS) == [{"type": "SettingsApplied"}]

    def parsed(self, message: bytes) -> Any:
        return json.loads(message) if isinstance(message, TextMessage) else message

    def heard(self, pcm: bytes) -> bytes:
        return pcm


def code(messages: list[Any]) -> str:
    (error,) = messages
    assert error["type"] == "Error"
    return str(error["code"])


def test_a_turn_has_the_vendors_order() -> None:
    client = Client()
    assert client.greeting == [{"type": "Welcome", "request_id": "sess_0"}]
    assert types_of(client.speak()) == [
        "UserStartedSpeaking",
        "ConversationText",
        "bytes",
        "AgentAudioDone",
    ]
    assert client.answers[0].instructions == "Be brief."


def test_audio_is_sampled_as_asked() -> None:
    client = Client(ready=False)
    client.say({**SETTINGS, "audio": {"output": {"sample_rate": 48_000}}})
    audio = b"".join(each for each in client.speak() if isinstance(each, bytes))
    assert len(audio) == 2 * 48 * 400


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"audio": {"input": {"sample_rate": 24_000.0}}}, "audio.input.sample_rate"),
        ({"audio": {"output": {"encoding": "opus"}}}, "audio.output.encoding"),
        ({"audio": {"output": {"container": "wav"}}}, "audio.output.container"),
        ({"agent": {"think": "gpt"}}, "agent"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(settings: dict[str, Any], words: str) -> None:
    client = Client(ready=False)
    (error,) = client.say({**SETTINGS, **settings})
    assert error["code"] == "INVALID_SETTINGS"
    assert words in error["description"]
    assert client.say(SETTINGS) == [{"type": "SettingsApplied"}]


def test_settings_come_first_and_once() -> None:
    client = Client(ready=False)
    assert code(client.say(bytes(960))) == "SETTINGS_EXPECTED"
    assert code(client.say({"type": "KeepAlive"})) == "SETTINGS_EXPECTED"
    client.say(SETTINGS)
    assert client.say({"type": "KeepAlive"}) == []
    assert code(client.say(SETTINGS)) == "SETTINGS_ALREADY_APPLIED"


@pytest.mark.parametrize("message", ["no JSON", "[]", "{}", '{"type":"Pirouette"}', b"odd"])
def test_a_message_that_is_not_understood_is_an_error(message: str | bytes) -> None:
    client = Client()
    code(client.say(message))
    assert types_of(client.speak())[-1] == "AgentAudioDone"


def test_the_prompt_is_updated() -> None:
    client = Client()
    assert client.say({"type": "UpdatePrompt", "prompt": "Be long."}) == [{"type": "PromptUpdated"}]
    assert client.say({"type": "UpdateSpeak", "speak": {}}) == [{"type": "SpeakUpdated"}]
    client.speak()
    assert client.answers[0].instructions == "Be long."


def test_a_written_message_is_answered_or_refused_during_a_reply() -> None:
    client = Client(delay_ms=1_000)
    assert client.say({"type": "InjectUserMessage", "content": "Hello."}) == []
    assert client.say({"type": "InjectUserMessage", "content": "Hello."})[0]["type"] == "InjectionRefused"
    client.at_ms += 3_000
    assert types_of(client.say({"type": "KeepAlive"}))[-1] == "AgentAudioDone"
