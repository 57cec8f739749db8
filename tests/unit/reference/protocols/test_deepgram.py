"""The server's side of Deepgram's Voice Agent. No sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.audio import frames_of
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import FindReply
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.protocols.deepgram import DEEPGRAM_CONFIG, DeepgramProtocol
from live_eval.reference.protocols.protocol import TextMessage
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import ProtocolClient

MS = 1_000_000
SETTINGS = {"type": "Settings", "audio": {}, "agent": {"think": {"prompt": "Be brief."}}}


class Client(ProtocolClient[DeepgramProtocol]):
    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        self.at_ms = 0
        super().__init__(DeepgramProtocol(Engine("sess_0", session, DEEPGRAM_CONFIG, waits_for_words=False)))
        if ready:
            assert self.say(SETTINGS) == [{"type": "SettingsApplied"}]

    def parsed(self, message: bytes) -> Any:
        return json.loads(message) if isinstance(message, TextMessage) else message

    def find(self, request: FindReply) -> list[Any]:
        self.answers.append(request)
        wire = packer(self.protocol, request.codec).pack(GeneratedReply("A tone.", calibration_reply(400), 0))
        return self.take(self.engine.reply(request.response_id, wire, self.at_ms * MS))

    def say(self, message: dict[str, Any] | str | bytes) -> list[Any]:
        given = json.dumps(message) if isinstance(message, dict) else message
        messages = self.take(self.protocol.received(given, self.at_ms * MS))
        while self.engine.wake_ns is not None and self.engine.wake_ns <= self.at_ms * MS:
            messages += self.take(self.engine.due(self.at_ms * MS))
        return messages

    def speak(self) -> list[Any]:
        """Say the calibration's speech, then silence."""
        speech = calibration_speech(400).audio.int16()
        messages = []
        for pcm in [*frames_of(speech, 480), *[bytes(960)] * 60]:
            self.at_ms += 20
            messages += self.say(pcm)
        return messages


def kinds(messages: list[Any]) -> list[str]:
    """The messages' types, ``bytes`` for audio, without repetitions."""
    named = ["bytes" if isinstance(each, bytes) else each["type"] for each in messages]
    return [kind for place, kind in enumerate(named) if named[place - 1 : place] != [kind]]


def code(messages: list[Any]) -> str:
    (error,) = messages
    assert error["type"] == "Error"
    return str(error["code"])


def test_a_turn_has_the_vendors_order() -> None:
    client = Client()
    assert client.greeting == [{"type": "Welcome", "request_id": "sess_0"}]
    assert kinds(client.speak()) == ["UserStartedSpeaking", "ConversationText", "bytes", "AgentAudioDone"]
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
    assert kinds(client.speak())[-1] == "AgentAudioDone"


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
    assert kinds(client.say({"type": "KeepAlive"}))[-1] == "AgentAudioDone"
