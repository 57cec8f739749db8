"""Turns, responses and items of the GA dialect, checked against the official SDK's types."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.endpointer import WINDOW_MS
from live_eval.reference.engine.reply_plan import WireReply
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.settings import Cadence
from tests.support.openai_client import (
    HALF_SECOND,
    MS,
    SILENT,
    VOICED,
    Json,
    OpenAiClient,
    error_of,
    only,
    replying,
    types,
    wire_reply,
)

# -- A turn --------------------------------------------------------------------------------------------


def test_a_turn_that_the_server_detects() -> None:
    client = OpenAiClient()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    heard = client.say()
    assert types(heard) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    item_id = heard[0]["item_id"]
    assert {event["item_id"] for event in heard[:3]} == {item_id}
    # Speech from 640 to 1280 ms: 300 ms of padding before, 16 windows of silence after.
    assert heard[0]["audio_start_ms"] == 340
    assert heard[1]["audio_end_ms"] == 1280 + 16 * WINDOW_MS
    assert heard[3]["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert heard[5]["response"]["status"] == "in_progress"
    assert client.answers == []  # the speech must be recognised first

    listen = client.listens[-1]
    assert len(listen.audio) == (1280 + 16 * WINDOW_MS - 340) * 48
    transcript = client.recognise("good morning")
    assert types(transcript) == [
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
    ]
    assert transcript[1]["transcript"] == "good morning"
    assert transcript[1]["item_id"] == item_id
    assert client.answers[-1].said == (ItemContent(Role.USER, "good morning"),)

    reply = client.reply() + client.pass_time()
    kinds = list(dict.fromkeys(types(reply)))
    assert kinds == [
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]
    deltas = [event for event in reply if event["type"] == "response.output_audio.delta"]
    assert b"".join(base64.b64decode(delta["delta"]) for delta in deltas) == bytes(48_000)
    said = "".join(e["delta"] for e in reply if e["type"] == "response.output_audio_transcript.delta")
    assert said == only(reply, "response.output_audio_transcript.done")["transcript"] == wire_reply().text
    response_id = heard[5]["response"]["id"]
    belonging = [event for event in reply if "response_id" in event]
    assert {event["response_id"] for event in belonging} == {response_id}
    done = only(reply, "response.done")["response"]
    assert (done["id"], done["status"], done["status_details"]) == (response_id, "completed", None)
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": wire_reply().text}]
    usage = done["usage"]
    assert usage["input_token_details"]["audio_tokens"] == -(-(1280 + 16 * WINDOW_MS - 340) // 100)
    assert usage["output_token_details"]["audio_tokens"] == 20  # a second of audio
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_event_ids_are_unique() -> None:
    client = OpenAiClient()
    client.say()
    client.recognise()
    client.reply()
    client.pass_time()
    names = [json.loads(message)["event_id"] for message in client.raw]
    assert len(set(names)) == len(names) > 20


def test_a_manual_turn() -> None:
    client = OpenAiClient()
    client.manual()
    assert client.append(HALF_SECOND) == []
    committed = client.send("input_audio_buffer.commit")
    assert types(committed) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert types(client.send("response.create")) == ["response.created"]
    assert client.recognise() == []  # no transcription was asked for
    assert types(client.reply() + client.pass_time())[-2] == "response.done"


def test_too_little_audio_cannot_be_committed() -> None:
    client = OpenAiClient()
    client.manual()
    client.append(bytes(48 * 99))
    assert error_of(client.send("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
    client.append(bytes(48))
    assert types(client.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"


def test_cleared_audio_is_dropped() -> None:
    client = OpenAiClient()
    client.manual()
    client.append(HALF_SECOND)
    assert types(client.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert error_of(client.send("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"


def test_failed_recognition_reports_the_reason() -> None:
    client = OpenAiClient()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    client.say()
    (failed,) = client.recognise(None, "no recogniser is installed")
    assert failed["type"] == "conversation.item.input_audio_transcription.failed"
    assert failed["error"]["message"] == "no recogniser is installed"
    assert client.answers[-1].said == (ItemContent(Role.USER, None),)


def test_recognition_begins_at_a_pause() -> None:
    client = OpenAiClient()
    client.speak([VOICED] * 20 + [SILENT] * 6)
    (guess,) = client.listens
    assert not guess.final
    client.speak([SILENT] * 10)
    assert client.listens[-1].final
    assert client.listens[-1].speech_ms == guess.speech_ms == 20 * WINDOW_MS
    assert client.listens[-1].item_id == guess.item_id


def test_a_text_response() -> None:
    client = OpenAiClient()
    client.update(output_modalities=["text"])
    client.say()
    client.recognise()
    assert not client.answers[-1].wants_audio
    events = client.reply(WireReply("Only words.", (), 24_000, None, "none")) + client.pass_time()
    assert list(dict.fromkeys(types(events)))[2:7] == [
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
    ]
    assert only(events, "response.output_text.done")["text"] == "Only words."


def test_the_delay_counts_from_the_end_of_speech() -> None:
    client = OpenAiClient(delay_ms=2_000)
    client.say()
    client.recognise()
    client.reply()
    voice_end_ns = 40 * WINDOW_MS * MS  # arrival of the last voiced window
    assert client.pass_time(voice_end_ns + 2_000 * MS - 1) == []
    assert client.pass_time(voice_end_ns + 2_000 * MS) != []


# -- Interruption --------------------------------------------------------------------------------------


def test_speech_over_a_reply_cancels_it() -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    response_id = replying(client)
    events = client.speak([VOICED] * 3)
    assert types(events)[0] == "input_audio_buffer.speech_started"
    done = only(events, "response.done")["response"]
    assert (done["id"], done["status"]) == (response_id, "cancelled")
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert done["output"][0]["status"] == "incomplete"
    assert client.pass_time() == []


def test_interruption_can_be_disabled() -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    turn_detection = {"type": "server_vad", "interrupt_response": False}
    client.update(audio={"input": {"turn_detection": turn_detection}})
    replying(client)
    events = client.speak([VOICED] * 20 + [SILENT] * 16)
    assert types(events)[-1] == "error"
    assert events[-1]["error"]["code"] == "conversation_already_has_active_response"
    assert only(client.pass_time(), "response.done")["response"]["status"] == "completed"


def test_detection_without_automatic_responses() -> None:
    client = OpenAiClient()
    turn_detection = {"type": "server_vad", "create_response": False}
    client.update(audio={"input": {"turn_detection": turn_detection}})
    assert "response.created" not in types(client.say())
    assert types(client.send("response.create")) == ["response.created"]


@pytest.mark.parametrize("wait_ms", [0, 1_500])
def test_a_burst_reply_can_be_interrupted(wait_ms: int) -> None:
    client = OpenAiClient()
    replying(client, chunks=100)
    assert client.engine.active is None
    client.at_ns += wait_ms * MS
    client.speak([VOICED] * 20 + [SILENT] * 16)
    client.recognise("wait")
    assert client.answers[-1].said[1].cut_off is (wait_ms == 0)  # the reply lasts a second


def test_a_client_cancels() -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    response_id = replying(client)
    assert error_of(client.send("response.cancel", response_id="resp_other"))["code"] == (
        "response_cancel_not_active"
    )
    done = only(client.send("response.cancel", response_id=response_id), "response.done")["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert error_of(client.send("response.cancel"))["code"] == "response_cancel_not_active"
    assert client.pass_time() == []


def test_a_response_can_be_cancelled_before_its_reply() -> None:
    client = OpenAiClient()
    client.say()
    client.recognise()
    events = client.send("response.cancel")
    assert types(events) == ["response.done", "rate_limits.updated"]
    assert events[0]["response"]["output"] == []
    assert client.reply() == []
    assert client.pass_time() == []


def test_one_response_at_a_time() -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    response_id = replying(client)
    error = error_of(client.send("response.create", event_id="again"))
    assert error["code"] == "conversation_already_has_active_response"
    assert response_id in error["message"]
    assert error["event_id"] == "again"


def test_truncation_drops_unheard_text_and_checks_the_length() -> None:
    client = OpenAiClient(cadence=Cadence.REALTIME)
    replying(client, chunks=4)
    cancelled = only(client.send("response.cancel"), "response.done")
    item_id = cancelled["response"]["output"][0]["id"]
    place = {"item_id": item_id, "content_index": 0}
    error = error_of(client.send("conversation.item.truncate", **place, audio_end_ms=401))
    assert (error["code"], error["param"]) == ("invalid_value", "audio_end_ms")
    assert "400ms is already shorter than 401ms" in error["message"]
    (truncated,) = client.send("conversation.item.truncate", **place, audio_end_ms=200)
    assert truncated["type"] == "conversation.item.truncated"
    assert truncated["audio_end_ms"] == 200
    assert error_of(client.send("conversation.item.truncate", **place, audio_end_ms=201))["code"] == (
        "invalid_value"
    )
    client.say()
    client.recognise("go on")
    said = client.answers[-1].said
    assert said[1].role is Role.ASSISTANT
    assert said[1].cut_off
    assert wire_reply().text.startswith(said[1].text or "?")
    assert len(said[1].text or "") < len(wire_reply().text) / 2


@pytest.mark.parametrize("kind", ["truncate", "delete", "retrieve"])
def test_a_missing_item_is_an_error(kind: str) -> None:
    extra = {"content_index": 0, "audio_end_ms": 0} if kind == "truncate" else {}
    error = error_of(OpenAiClient().send(f"conversation.item.{kind}", item_id="item_none", **extra))
    assert (error["code"], error["param"]) == (f"item_{kind}_invalid_item_id", "item_id")


def test_only_replies_can_be_truncated() -> None:
    client = OpenAiClient()
    item_id = client.say()[0]["item_id"]
    events = client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0)
    assert error_of(events)["code"] == "unsupported_content_type"


# -- The conversation ----------------------------------------------------------------------------------


def test_items_are_inserted_at_the_given_position() -> None:
    client = OpenAiClient()

    def put(name: str, role: str = "user", kind: str = "input_text", **fields: Any) -> list[Json]:
        content = [{"type": kind, "text": name}]
        item = {"type": "message", "role": role, "id": name, "content": content}
        return client.send("conversation.item.create", item=item, **fields)

    assert types(put("b")) == ["conversation.item.added", "conversation.item.done"]
    put("d", "assistant", "output_text")
    put("a", "system", previous_item_id="root")
    (added, _) = put("c", previous_item_id="b")
    assert added["previous_item_id"] == "b"
    assert error_of(put("c"))["code"] == "item_already_exists"
    assert error_of(put("e", previous_item_id="z"))["param"] == "previous_item_id"
    assert error_of(put("e", "assistant"))["param"] == "item.content[0].type"
    assert types(client.send("conversation.item.delete", item_id="d")) == ["conversation.item.deleted"]
    client.send("response.create")
    assert [(words.role, words.text) for words in client.answers[-1].said] == [
        (Role.SYSTEM, "a"),
        (Role.USER, "b"),
        (Role.USER, "c"),
    ]


def test_audio_items_are_recognised_and_retrieved() -> None:
    client = OpenAiClient()
    pcm = np.arange(2_400, dtype="<i2").tobytes()
    content = [{"type": "input_audio", "audio": base64.b64encode(pcm).decode()}]
    item = {"type": "message", "role": "user", "content": content}
    added = client.send("conversation.item.create", item=item)[0]
    client.send("response.create")
    assert client.answers == []
    assert client.listens[-1].audio == pcm
    client.recognise("a sound")
    assert client.answers[-1].said == (ItemContent(Role.USER, "a sound"),)
    (retrieved,) = client.send("conversation.item.retrieve", item_id=added["item"]["id"])
    assert base64.b64decode(retrieved["item"]["content"][0]["audio"]) == pcm


def test_a_response_to_its_own_input_stays_outside_the_conversation() -> None:
    client = OpenAiClient()
    client.update(instructions="Of the session.")
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "apart"}]}
    events = client.send(
        "response.create",
        response={
            "conversation": "none",
            "input": [asked],
            "instructions": "Of the response.",
            "output_modalities": ["text"],
            "metadata": {"purpose": "test"},
            "max_output_tokens": 1,
        },
    )
    created = only(events, "response.created")["response"]
    assert created["metadata"] == {"purpose": "test"}
    assert created["conversation_id"] is None
    answer = client.answers[-1]
    assert answer.instructions == "Of the response."
    assert answer.said == (ItemContent(Role.USER, "apart"),)
    events = client.reply(WireReply("More words than one token.", (), 24_000, None, "none"))
    events += client.pass_time()
    assert "conversation.item.added" not in types(events)
    done = only(events, "response.done")["response"]
    assert done["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert len(client.engine.conversation) == 0


def test_a_failed_reply_fails_the_response() -> None:
    client = OpenAiClient()
    client.say()
    client.recognise()
    work = client.answers.pop()
    events = client.take(client.engine.reply_failed(work.response_id, "llm_failed", "it is down"))
    details = only(events, "response.done")["response"]["status_details"]
    assert details["error"] == {"type": "server_error", "code": "llm_failed", "message": "it is down"}


# -- Formats -------------------------------------------------------------------------------------------


def test_the_input_axis_continues_after_a_format_change() -> None:
    client = OpenAiClient()
    client.speak([SILENT] * 10)
    client.update(audio={"input": {"format": {"type": "audio/pcmu"}}})
    client.append(bytes(8 * WINDOW_MS))
    events: list[Json] = []
    for probability in [VOICED] * 3:
        client.append(bytes(8 * WINDOW_MS))
        events += client.take(client.engine.heard(client.epoch, [probability], 0))
    assert events[0]["audio_start_ms"] == 10 * WINDOW_MS  # no padding is available before it


def test_results_for_an_earlier_stream_are_ignored() -> None:
    client = OpenAiClient()
    client.append(HALF_SECOND)
    earlier = client.epoch
    client.send("input_audio_buffer.clear")
    client.append(HALF_SECOND)
    assert client.take(client.engine.heard(earlier, [VOICED] * 10, 0)) == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "missing_required_parameter"),
        ({"audio": None}, "invalid_type"),
        ({"audio": [1]}, "invalid_type"),
        ({"audio": "@@@@"}, "invalid_value"),
        ({"audio": "AAA"}, "invalid_value"),
        ({"audio": "é"}, "invalid_value"),
        ({"audio": base64.b64encode(bytes(3)).decode()}, "invalid_value"),
    ],
)
def test_invalid_audio_is_refused(fields: Json, code: str) -> None:
    error = error_of(OpenAiClient().send("input_audio_buffer.append", event_id="e1", **fields))
    assert (error["code"], error["param"], error["event_id"]) == (code, "audio", "e1")


# -- Calibration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("manual", [False, True])
def test_the_mark_is_the_end_of_speech(manual: bool) -> None:
    client = OpenAiClient(calibrate=True, delay_ms=50, waits_for_words=False)
    if manual:
        client.manual()
    speech = calibration_speech(200).audio.int16().astype("<i2").tobytes()
    events: list[Json] = []
    for number in range(20):
        client.at_ns = (number + 1) * 20 * MS
        frame = speech[number * 960 : (number + 1) * 960]
        events += client.append(frame or bytes(960))
    if manual:
        assert events == []
        events += client.send("input_audio_buffer.commit") + client.send("response.create")
    else:
        assert events[0]["audio_start_ms"] == 0
        assert events[1]["audio_end_ms"] == 200
    assert only(events, "response.created")
    voice_end = client.engine.active.voice_end if client.engine.active else None
    assert voice_end is not None
    assert (voice_end.at_ns, voice_end.by) == (200 * MS, "mark")
    client.at_ns = 220 * MS
    client.reply()
    assert client.pass_time(250 * MS - 1) == []
    assert client.pass_time(250 * MS) != []
