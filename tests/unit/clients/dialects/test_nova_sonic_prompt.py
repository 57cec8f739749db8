"""The messages that a client sends to Nova Sonic."""

from __future__ import annotations

from typing import Any

import pytest

from live_eval.clients.dialects._nova_sonic_prompt import NovaPrompt, nova_dial
from live_eval.dialect import EarlierTurn, EndpointSettings
from live_eval.errors import UsageError
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import sent

BASE = "https://bedrock-runtime.us-east-1.amazonaws.com"


def settings(**values: Any) -> EndpointSettings:
    return EndpointSettings(**{"base_url": BASE, "model": "amazon.nova-2-sonic-v1:0", **values})


def begun(prompt: NovaPrompt) -> list[tuple[str, dict[str, Any]]]:
    return [
        next(iter(message["event"].items())) for message in sent([*prompt.begin(), *prompt.begin_audio()])
    ]


def texts(prompt: NovaPrompt) -> list[tuple[str, list[str]]]:
    """Return the texts of each content block, by role."""
    found: list[tuple[str, list[str]]] = []
    for kind, event in begun(prompt):
        if kind == "contentStart" and event["type"] == "TEXT":
            found.append((event["role"], []))
        elif kind == "textInput":
            found[-1][1].append(event["content"])
    return found


def test_the_events_of_a_session_come_in_order() -> None:
    prompt = NovaPrompt(settings(instructions="Be brief.", voice="tiffany", max_output_tokens=200))
    (start, session), (prompting, asked), *contents, (_, audio) = begun(prompt)
    assert (start, prompting) == ("sessionStart", "promptStart")
    assert session == {"inferenceConfiguration": {"maxTokens": 200, "topP": 0.9, "temperature": 0.7}}
    assert asked["audioOutputConfiguration"]["voiceId"] == "tiffany"
    assert [kind for kind, _ in contents] == ["contentStart", "textInput", "contentEnd"]
    assert (audio["type"], audio["role"], audio["interactive"]) == ("AUDIO", "USER", True)
    (frame,) = sent(prompt.frame(b"\x01\x00"))
    names = {"promptName": "prompt_1", "contentName": "audio"}
    assert frame["event"]["audioInput"] == {**names, "content": "AQA="}
    ends = [next(iter(each["event"])) for each in sent(prompt.end())]
    assert ends == ["contentEnd", "promptEnd", "sessionEnd"]


def test_the_first_content_is_a_system_prompt_even_without_instructions() -> None:
    assert texts(NovaPrompt(settings())) == [("SYSTEM", ["You are a friendly assistant."])]


def test_a_later_session_has_the_conversation_and_another_name() -> None:
    prompt = NovaPrompt(settings(instructions="Be brief."))
    prompt.begin()
    for role, text in (("USER", "Hi."), ("ASSISTANT", "Hello,"), ("ASSISTANT", "you."), ("USER", "x" * 600)):
        prompt.remember(role, text)
    said = [("SYSTEM", ["Be brief."]), ("USER", ["Hi."]), ("ASSISTANT", ["Hello, you."])]
    assert texts(prompt) == [*said, ("USER", ["x" * 250, "x" * 250, "x" * 100])]
    assert {event["promptName"] for _, event in begun(prompt)[1:]} == {"prompt_3"}


def test_earlier_turns_of_a_dialogue_precede_the_audio() -> None:
    prompt = NovaPrompt(
        settings(history=[EarlierTurn(text="Hi.", reply="Hello."), EarlierTurn(text="Bye.", reply="Bye!")])
    )
    said = [("USER", ["Hi."]), ("ASSISTANT", ["Hello."]), ("USER", ["Bye."]), ("ASSISTANT", ["Bye!"])]
    assert texts(prompt)[1:] == said
    assert begun(prompt)[-1][1]["type"] == "AUDIO"


def test_a_long_conversation_is_cut_at_a_user_turn() -> None:
    prompt = NovaPrompt(settings())
    for number in range(12):
        prompt.remember("USER" if number % 2 == 0 else "ASSISTANT", f"{number} {'é' * 2_500}")
    roles = [role for role, _ in texts(prompt)]
    assert roles == ["SYSTEM", *(("USER", "ASSISTANT") * 3)]
    assert sum(len("".join(said).encode()) for _, said in texts(prompt)[1:]) <= 40_000


@pytest.mark.parametrize(
    ("base_url", "extra", "region"),
    [
        (BASE, {}, "us-east-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", {}, "us-gov-west-1"),
        ("https://vpce-1.bedrock-runtime.ap-northeast-1.vpce.amazonaws.com", {}, "ap-northeast-1"),
        ("https://127.0.0.1:8443", {}, "us-east-1"),
        ("https://127.0.0.1:8443", {"region": "us-west-2"}, "us-west-2"),
    ],
)
def test_the_region(base_url: str, extra: dict[str, Any], region: str) -> None:
    assert nova_dial(settings(base_url=base_url, extra=extra)).sdk["region"] == region


def test_the_credentials_are_for_the_sdk_and_never_shown() -> None:
    keys = {"key": Secret("wJalrX-secret"), "key_id": "AKIAEXAMPLE", "key_token": Secret("FwoG-token")}
    dial = nova_dial(settings(**keys))
    assert dial.url == f"{BASE}/model/amazon.nova-2-sonic-v1:0/invoke-with-bidirectional-stream"
    assert dial.sdk["aws_secret_access_key"] == "wJalrX-secret"
    assert dial.sdk["aws_session_token"] == "FwoG-token"
    assert not dial.headers
    assert not any(word in repr(dial) for word in ("wJalrX", "AKIA", "FwoG"))


def test_extra_is_merged_over_the_events() -> None:
    extra = {"sessionStart": {"inferenceConfiguration": {"temperature": 0}}, "region": "us-west-2"}
    (_, session), *_ = begun(NovaPrompt(settings(extra=extra)))
    assert session["inferenceConfiguration"] == {"maxTokens": 1_024, "topP": 0.9, "temperature": 0}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modality": Modality.TEXT}, "endpoint.modality: Nova Sonic always speaks"),
        ({"turn_mode": TurnMode.MANUAL}, "turns.mode: Nova Sonic's detector ends turns"),
        ({"language": "de"}, "endpoint.language: the voice sets the language"),
        ({"extra": {"agent": "x"}}, "endpoint.extra.agent: unknown option; expected region, sessionStart or"),
        ({"extra": {"sessionStart": 1}}, "endpoint.extra.sessionStart: expected an object, got 1"),
        (
            {"extra": {"promptStart": {"audioOutputConfiguration": {"sampleRateHertz": 8_000}}}},
            "endpoint.extra.promptStart.audioOutputConfiguration: expected .*24000.*the format in use",
        ),
        (
            {"model": "amazon.nova-sonic-v1:0", "turn_detection": {"endpointingSensitivity": "LOW"}},
            "endpoint.turn_detection: amazon.nova-sonic-v1:0 has no such settings",
        ),
    ],
)
def test_settings_that_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        NovaPrompt(settings(**values))


def test_a_region_that_is_not_text() -> None:
    with pytest.raises(UsageError, match=r"extra.region: expected a region such as us-west-2, got 7"):
        nova_dial(settings(extra={"region": 7}))
