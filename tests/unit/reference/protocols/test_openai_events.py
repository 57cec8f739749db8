"""The envelope of OpenAI's events: faults, errors and limits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.openai_schema import CLIENT_EVENTS
from live_eval.reference.settings import Cadence
from tests.support.openai_client import (
    SILENT,
    VOICED,
    Json,
    OpenAiClient,
    error_of,
    only,
    types,
)

# -- Faults --------------------------------------------------------------------------------------------


def faulty(fault: str) -> tuple[OpenAiClient, list[Json]]:
    client = OpenAiClient(faults=parse_faults(fault))
    client.say()
    client.recognise()
    return client, client.reply() + client.pass_time()


def test_a_silent_endpoint_creates_no_response() -> None:
    client = OpenAiClient(faults=parse_faults("silent"))
    assert types(client.say())[-1] == "conversation.item.done"
    client.recognise()
    assert client.answers == []


def test_a_malformed_message() -> None:
    client, events = faulty("malformed")
    assert b'{"type":"response.output_audio.delta","delta":' in client.raw
    assert only(events, "response.done")["response"]["status"] == "completed"


def test_an_unknown_event() -> None:
    _, events = faulty("unknown_event")
    assert "response.interpretive_dance.delta" in types(events)
    assert types(events)[-2] == "response.done"


def test_a_non_fatal_error() -> None:
    _, events = faulty("error_event")
    assert only(events, "error")["error"]["code"] == "reference_fault"
    assert types(events)[-2] == "response.done"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("failed_response", "failed"),
        ("incomplete_response", "incomplete"),
        ("empty_reply", "completed"),
    ],
)
def test_responses_that_do_not_complete(fault: str, status: str) -> None:
    _, events = faulty(fault)
    assert only(events, "response.done")["response"]["status"] == status


def test_audio_after_the_end() -> None:
    _, events = faulty("audio_after_done")
    assert types(events)[-3:] == ["response.done", "rate_limits.updated", "response.output_audio.delta"]


def test_a_stall() -> None:
    client, events = faulty("stall")
    assert types(events)[-1] == "response.output_audio.delta"
    assert client.engine.wake_ns is None
    assert client.engine.active is not None


def test_an_endless_reply_can_be_cancelled() -> None:
    client = OpenAiClient(faults=parse_faults("endless"))
    client.say()
    client.recognise()
    client.reply()
    assert types(client.pass_time(chunks=100)).count("response.output_audio.delta") == 100
    assert only(client.send("response.cancel"), "response.done")["response"]["status"] == "cancelled"
    assert client.engine.wake_ns is None


# -- Anything at all -----------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = [*CLIENT_EVENTS, "input_audio_buffer.append"]
KEYS = [
    *("session", "item", "item_id", "audio", "response", "event_id", "content_index", "audio_end_ms"),
    *("previous_item_id", "response_id"),
]


@given(st.binary(max_size=40) | st.text(max_size=40) | JSON.map(json.dumps))
def test_any_message_gets_at_worst_an_error(message: str | bytes) -> None:
    assert error_of(OpenAiClient().text(message))["type"] == "invalid_request_error"


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_any_event_of_a_known_type_gets_at_worst_an_error(kind: str, fields: Json) -> None:
    OpenAiClient().send(kind, **fields)


SESSION_KEYS = [
    "type",
    "audio",
    "input",
    "output",
    "format",
    "turn_detection",
    "transcription",
    "voice",
    "speed",
]
NESTED: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        ["realtime", "audio/pcm", "server_vad", "semantic_vad", "text", None, 24_000, 0.5, -1, []]
    ),
    lambda inner: st.dictionaries(st.sampled_from(SESSION_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(NESTED)
def test_any_update_gets_at_worst_an_error(session: Any) -> None:
    client = OpenAiClient()
    (event,) = client.send("session.update", session=session)
    assert event["type"] in ("error", "session.updated")
    client.say()


ACTIONS = st.sampled_from(
    ["say", "cancel", "create", "commit", "clear", "words", "reply", "time", "manual", "vad"]
)


@given(st.lists(ACTIONS, max_size=25))
def test_any_order_of_actions_keeps_the_conversation_consistent(actions: list[str]) -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    events: list[Json] = []
    for action in actions:
        match action:
            case "say":
                events += client.speak([VOICED] * 4 + [SILENT] * 17)
            case "cancel":
                events += client.send("response.cancel")
            case "create":
                events += client.send("response.create")
            case "commit":
                events += client.send("input_audio_buffer.commit")
            case "clear":
                events += client.send("input_audio_buffer.clear")
            case "words":
                client.listens = [listen for listen in client.listens if listen.final]
                events += client.recognise() if client.listens else []
            case "reply":
                events += client.reply() if client.answers else []
            case "time":
                events += client.pass_time(chunks=3)
            case "manual":
                client.manual()
            case _:
                client.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    created = [event["response"]["id"] for event in events if event["type"] == "response.created"]
    ended = [event["response"]["id"] for event in events if event["type"] == "response.done"]
    assert len(set(created)) == len(created)
    assert ended == created[: len(ended)]
    assert len(created) - len(ended) == (client.engine.active is not None)
    started = types(events).count("input_audio_buffer.speech_started")
    assert types(events).count("input_audio_buffer.speech_stopped") <= started


# -- Bounds ---------------------------------------------------------------------------------------------


def item(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_a_message_with_too_many_values_is_refused() -> None:
    client = OpenAiClient()
    (refused,) = client.update(**{f"key{number}": 1 for number in range(30_000)})
    assert refused["error"]["code"] == "message_too_large"
    assert "at most 20000 values, got 30003" in refused["error"]["message"]
    (refused,) = client.text("[" * 30_000)
    assert refused["error"]["code"] == "message_too_large"
    assert client.update(instructions="Be brief.")[0]["type"] == "session.updated"


def test_only_messages_with_audio_may_be_long() -> None:
    client = OpenAiClient()
    (refused,) = client.update(instructions="x" * (1 << 20))
    assert refused["error"]["code"] == "message_too_large"
    assert "characters without audio" in refused["error"]["message"]
    assert client.append(bytes(1 << 20)) == []
    assert client.send("conversation.item.create", item=item("x" * (1 << 20)))[0]["type"].endswith("added")


def test_metadata_are_limited_as_at_openai() -> None:
    (refused,) = OpenAiClient().send(
        "response.create", response={"metadata": {str(n): "" for n in range(17)}}
    )
    assert refused["error"]["param"] == "response.metadata"
