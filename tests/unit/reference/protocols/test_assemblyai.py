"""The server's side of AssemblyAI's Voice Agent. No sockets, no clock."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.assemblyai import ASSEMBLYAI_CONFIG, AssemblyAiProtocol
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import SpeakingClient, types_of

REPLY = ["transcript.agent.delta", "reply.audio", "transcript.agent", "reply.done"]
SESSION = {"system_prompt": "Be brief.", "output": {"voice": "ivy"}}


class Client(SpeakingClient[AssemblyAiProtocol]):
    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        engine = Engine("sess_0", session, ASSEMBLYAI_CONFIG, waits_for_words=False)
        super().__init__(AssemblyAiProtocol(engine))
        if ready:
            self.begun = self.update(SESSION)

    def update(self, session: object) -> list[Any]:
        return self.say({"type": "session.update", "session": session})

    def heard(self, pcm: bytes) -> dict[str, str]:
        return {"type": "input.audio", "audio": base64.b64encode(pcm).decode()}


def code(messages: list[Any]) -> str:
    (error,) = messages
    assert error["type"] == "session.error"
    return str(error["code"])


def test_a_turn_has_the_vendors_order() -> None:
    client = Client()
    assert client.begun == [{"type": "session.ready", "session_id": "sess_0", "config": SESSION}]
    messages = client.speak()
    assert types_of(messages) == ["input.speech.started", "input.speech.stopped", "reply.started", *REPLY]
    pcm = b"".join(base64.b64decode(each["data"]) for each in messages if each["type"] == "reply.audio")
    assert len(pcm) == 2 * 24 * 400
    assert messages[-1]["status"] == "completed"
    assert client.answers[0].instructions == "Be brief."


def test_settings_come_first_and_are_updated() -> None:
    client = Client(ready=False)
    assert code(client.say(client.heard(bytes(960)))) == "invalid_format"
    assert types_of(client.update(SESSION)) == ["session.ready"]
    assert types_of(client.update({"system_prompt": "Be long."})) == ["session.updated"]
    client.speak()
    assert client.answers[0].instructions == "Be long."


@pytest.mark.parametrize("session", [None, "prompt", {"input": {"format": {"encoding": "audio/pcmu"}}}])
def test_settings_that_cannot_be_met_are_refused(session: object) -> None:
    assert code(Client(ready=False).update(session)) == "invalid_value"


@pytest.mark.parametrize("message", ["no JSON", "[]", "{}", '{"type":"pirouette"}'])
def test_a_message_that_is_not_understood_is_an_error(message: str) -> None:
    client = Client()
    code(client.say(message))
    assert types_of(client.speak())[-1] == "reply.done"


def test_a_written_message_is_answered_when_a_reply_is_requested() -> None:
    client = Client()
    assert client.say({"type": "conversation.message", "role": "user", "content": "Hello."}) == []
    assert types_of(client.say({"type": "reply.create"}))[0] == "reply.started"


def test_the_session_ends_when_asked_or_expired() -> None:
    client = Client()
    assert types_of(client.say({"type": "session.end"})) == ["session.ended"]
    assert client.closed is not None
    assert client.closed.code == 1000
    assert types_of(client.take(client.protocol.expired())) == ["session.ended"]
