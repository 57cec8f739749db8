"""The server's side of the GA dialect, held against the official SDK's own types. No sockets, no clock."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine import conversation
from live_eval.reference.engine.conversation import ItemContent, Role
from live_eval.reference.engine.endpointer import WINDOW_MS
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.reply_plan import WireChunk, WireReply
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.faults.script import parse_faults
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.protocols.openai_schema import CLIENT_EVENTS, EAGERNESS_SILENCE_MS
from live_eval.reference.protocols.openai_session import MODEL
from live_eval.reference.settings import Cadence, ReferenceSettings
from tests.support.protocol_client import ProtocolClient

SERVER_EVENT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
MS = 1_000_000
VOICED, SILENT = 0.9, 0.0
HALF_SECOND = bytes(24_000)

Json = dict[str, Any]


def wire_reply(text: str = "Hello there, how are you?", chunks: int = 10) -> WireReply:
    payload = base64.b64encode(bytes(4_800))
    return WireReply(text, tuple(WireChunk(payload, 2_400) for _ in range(chunks)), 24_000, 0, "constructed")


class Client(ProtocolClient[OpenAiProtocol]):
    """Every message must be an event that the official SDK knows."""

    def __init__(self, *, waits_for_words: bool = True, model: str = "some-model", **settings: Any) -> None:
        engine = Engine(
            "sess_0123456789abcdef", ReferenceSettings(**settings), waits_for_words=waits_for_words
        )
        self.raw: list[bytes] = []
        super().__init__(OpenAiProtocol(engine, model, expires_at=2_000_000_000))

    def parsed(self, message: bytes) -> Json:
        self.raw.append(message)
        try:
            event: Json = json.loads(message)
        except json.JSONDecodeError:
            return {}
        if event["type"] != "response.interpretive_dance.delta":
            SERVER_EVENT.validate_python(event)
        return event

    def send(self, kind: str, **fields: Any) -> list[Json]:
        return self.text(json.dumps({"type": kind, **fields}))

    def text(self, message: str | bytes) -> list[Json]:
        return self.take(self.protocol.received(message, self.at_ns))

    def append(self, pcm: bytes) -> list[Json]:
        return self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    def speak(self, pattern: list[float]) -> list[Json]:
        """Append audio window by window and have the detector judge it so."""
        events: list[Json] = []
        for probability in pattern:
            self.at_ns += WINDOW_MS * MS
            events += self.append(bytes(48 * WINDOW_MS))
            events += self.take(self.engine.heard(self.epoch, [probability], self.at_ns))
        return events

    def say(self) -> list[Json]:
        """Speak for 640 ms, until the detector ends the turn."""
        return self.speak([SILENT] * 20 + [VOICED] * 20 + [SILENT] * 16)

    def recognise(self, text: str | None = "hello", reason: str = "") -> list[Json]:
        work = self.listens.pop()
        assert work.final
        return self.take(self.engine.recognised(work.item_id, work.part, text, reason))

    def reply(self, reply: WireReply | None = None) -> list[Json]:
        work = self.answers.pop()
        return self.take(self.engine.reply(work.response_id, reply or wire_reply(), self.at_ns))

    def pass_time(self, until_ns: int | None = None, chunks: int | None = None) -> list[Json]:
        """Let what is due happen, at most `chunks` times."""
        events: list[Json] = []
        while (wake_ns := self.engine.wake_ns) is not None and chunks != 0:
            if until_ns is not None and wake_ns > until_ns:
                break
            self.at_ns = max(self.at_ns, wake_ns)
            events += self.take(self.engine.due(self.at_ns))
            chunks = None if chunks is None else chunks - 1
        return events

    def update(self, **session: Any) -> list[Json]:
        return self.send("session.update", session={"type": "realtime", **session})

    def manual(self) -> None:
        assert types(self.update(audio={"input": {"turn_detection": None}})) == ["session.updated"]


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def only(events: list[Json], kind: str) -> Json:
    (found,) = [event for event in events if event["type"] == kind]
    return found


def error_of(events: list[Json]) -> Json:
    (event,) = events
    assert event["type"] == "error"
    error: Json = event["error"]
    return error


# -- The session ---------------------------------------------------------------------------------------


def test_the_server_speaks_first() -> None:
    client = Client()
    (created,) = client.greeting
    session = created["session"]
    assert created["type"] == "session.created"
    assert session["id"] == "sess_0123456789abcdef"
    assert session["model"] == "some-model"
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert session["expires_at"] == 2_000_000_000


def test_a_model_that_the_url_did_not_name_is_named_by_the_first_update() -> None:
    client = Client(model=MODEL)
    (updated,) = client.update(model="gpt-realtime")
    assert updated["session"]["model"] == "gpt-realtime"
    (refused,) = client.update(model="another")
    assert refused["error"]["param"] == "session.model"


def test_an_update_changes_what_it_names_and_keeps_the_rest() -> None:
    client = Client()
    client.update(instructions="Be brief.", audio={"output": {"voice": "cedar"}})
    (updated,) = client.update(
        audio={
            "input": {
                "transcription": {"model": "whisper-1"},
                "turn_detection": {"type": "server_vad", "threshold": 0.7},
            },
            "output": {"format": {"type": "audio/pcmu"}},
        }
    )
    session = updated["session"]
    assert session["instructions"] == "Be brief."
    assert session["audio"]["output"] == {"format": {"type": "audio/pcmu"}, "voice": "cedar", "speed": 1.0}
    assert session["audio"]["input"]["transcription"]["model"] == "whisper-1"
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.7,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    config = client.engine.config
    assert config.output_codec == Codec(CodecName.PCMU, 8_000)
    assert config.input_codec == Codec(CodecName.PCM16, 24_000)
    assert config.detection is not None
    assert config.detection.threshold == 0.7
    (updated,) = client.update(audio={"input": {"turn_detection": None, "transcription": None}})
    assert updated["session"]["audio"]["input"]["turn_detection"] is None
    assert client.engine.config.detection is None
    assert not client.engine.config.transcribe


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({}, "missing_required_parameter", "session.type"),
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"type": "realtime", "modalities": ["audio"]}, "unknown_parameter", "session.modalities"),
        (
            {"type": "realtime", "output_modalities": ["smell"]},
            "invalid_value",
            "session.output_modalities[0]",
        ),
        (
            {"type": "realtime", "output_modalities": ["text", "audio"]},
            "invalid_value",
            "session.output_modalities",
        ),
        ({"type": "realtime", "model": "another"}, "invalid_value", "session.model"),
        ({"type": "realtime", "instructions": 5}, "invalid_type", "session.instructions"),
        (
            {"type": "realtime", "audio": {"input": {"format": {"type": "audio/opus"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"type": "realtime", "audio": {"input": {"format": None}}},
            "invalid_value",
            "session.audio.input.format",
        ),
        (
            {"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        (
            {
                "type": "realtime",
                "audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 2}}},
            },
            "invalid_value",
            "session.audio.input.turn_detection.threshold",
        ),
        ("everything", "invalid_type", "session"),
    ],
)
def test_a_wrong_update_is_named_and_changes_nothing(session: Any, code: str, param: str) -> None:
    client = Client()
    before = json.dumps(client.greeting[0]["session"])
    error = error_of(client.send("session.update", session=session, event_id="mine"))
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")
    assert error["type"] == "invalid_request_error"
    (updated,) = client.update()
    assert json.dumps(updated["session"]) == before


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_semantic_detection_waits_by_its_eagerness(eagerness: str) -> None:
    client = Client()
    client.update(audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}})
    assert client.engine.config.detection is not None
    assert client.engine.config.detection.silence_ms == EAGERNESS_SILENCE_MS[eagerness]
    events = client.speak([VOICED] * 20 + [SILENT] * 60)
    assert types(events)[:2] == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]


def test_an_expired_session_takes_leave() -> None:
    client = Client()
    assert error_of(client.take(client.protocol.expired()))["code"] == "session_expired"
    assert client.closed is not None
    assert client.closed.code == 1001


# -- A turn --------------------------------------------------------------------------------------------


def test_a_turn_by_the_servers_own_detector() -> None:
    client = Client()
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
    assert client.answers == []  # first what was said must be known

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


def test_every_event_has_a_name_of_its_own() -> None:
    client = Client()
    client.say()
    client.recognise()
    client.reply()
    client.pass_time()
    names = [json.loads(message)["event_id"] for message in client.raw]
    assert len(set(names)) == len(names) > 20


def test_a_manual_turn() -> None:
    client = Client()
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
    client = Client()
    client.manual()
    client.append(bytes(48 * 99))
    assert error_of(client.send("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
    client.append(bytes(48))
    assert types(client.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"


def test_cleared_audio_is_gone() -> None:
    client = Client()
    client.manual()
    client.append(HALF_SECOND)
    assert types(client.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert error_of(client.send("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"


def test_recognition_may_fail_and_says_why() -> None:
    client = Client()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    client.say()
    (failed,) = client.recognise(None, "no recogniser is installed")
    assert failed["type"] == "conversation.item.input_audio_transcription.failed"
    assert failed["error"]["message"] == "no recogniser is installed"
    assert client.answers[-1].said == (ItemContent(Role.USER, None),)


def test_recognition_begins_at_a_pause() -> None:
    client = Client()
    client.speak([VOICED] * 20 + [SILENT] * 6)
    (guess,) = client.listens
    assert not guess.final
    client.speak([SILENT] * 10)
    assert client.listens[-1].final
    assert client.listens[-1].speech_ms == guess.speech_ms == 20 * WINDOW_MS
    assert client.listens[-1].item_id == guess.item_id


def test_words_only() -> None:
    client = Client()
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
    client = Client(delay_ms=2_000)
    client.say()
    client.recognise()
    client.reply()
    voice_end_ns = 40 * WINDOW_MS * MS  # arrival of the last voiced window
    assert client.pass_time(voice_end_ns + 2_000 * MS - 1) == []
    assert client.pass_time(voice_end_ns + 2_000 * MS) != []


# -- Interruption --------------------------------------------------------------------------------------


def replying(client: Client, chunks: int = 3) -> str:
    """Bring a response to its middle; return its name."""
    created = only(client.say(), "response.created")
    client.recognise()
    client.reply()
    client.pass_time(chunks=chunks)
    name: str = created["response"]["id"]
    return name


def test_speech_over_the_reply_cuts_it_off() -> None:
    client = Client(cadence=Cadence.REALTIME)
    response_id = replying(client)
    events = client.speak([VOICED] * 3)
    assert types(events)[0] == "input_audio_buffer.speech_started"
    done = only(events, "response.done")["response"]
    assert (done["id"], done["status"]) == (response_id, "cancelled")
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert done["output"][0]["status"] == "incomplete"
    assert client.pass_time() == []


def test_speech_over_the_reply_is_let_be_where_that_was_asked_for() -> None:
    client = Client(cadence=Cadence.REALTIME)
    turn_detection = {"type": "server_vad", "interrupt_response": False}
    client.update(audio={"input": {"turn_detection": turn_detection}})
    replying(client)
    events = client.speak([VOICED] * 20 + [SILENT] * 16)
    assert types(events)[-1] == "error"
    assert events[-1]["error"]["code"] == "conversation_already_has_active_response"
    assert only(client.pass_time(), "response.done")["response"]["status"] == "completed"


def test_the_detector_may_leave_the_asking_to_the_client() -> None:
    client = Client()
    turn_detection = {"type": "server_vad", "create_response": False}
    client.update(audio={"input": {"turn_detection": turn_detection}})
    assert "response.created" not in types(client.say())
    assert types(client.send("response.create")) == ["response.created"]


@pytest.mark.parametrize("wait_ms", [0, 1_500])
def test_a_reply_that_left_in_a_burst_can_still_be_talked_over(wait_ms: int) -> None:
    client = Client()
    replying(client, chunks=100)
    assert client.engine.active is None
    client.at_ns += wait_ms * MS
    client.speak([VOICED] * 20 + [SILENT] * 16)
    client.recognise("wait")
    assert client.answers[-1].said[1].cut_off is (wait_ms == 0)  # the reply lasts a second


def test_a_client_cancels() -> None:
    client = Client(cadence=Cadence.REALTIME)
    response_id = replying(client)
    assert error_of(client.send("response.cancel", response_id="resp_other"))["code"] == (
        "response_cancel_not_active"
    )
    done = only(client.send("response.cancel", response_id=response_id), "response.done")["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert error_of(client.send("response.cancel"))["code"] == "response_cancel_not_active"
    assert client.pass_time() == []


def test_a_response_is_cancelled_before_its_reply_is_there() -> None:
    client = Client()
    client.say()
    client.recognise()
    events = client.send("response.cancel")
    assert types(events) == ["response.done", "rate_limits.updated"]
    assert events[0]["response"]["output"] == []
    assert client.reply() == []
    assert client.pass_time() == []


def test_one_response_at_a_time() -> None:
    client = Client(cadence=Cadence.REALTIME)
    response_id = replying(client)
    error = error_of(client.send("response.create", event_id="again"))
    assert error["code"] == "conversation_already_has_active_response"
    assert response_id in error["message"]
    assert error["event_id"] == "again"


def test_truncation_forgets_what_was_not_heard_and_refuses_more_than_was_sent() -> None:
    client = Client(cadence=Cadence.REALTIME)
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
    error = error_of(Client().send(f"conversation.item.{kind}", item_id="item_none", **extra))
    assert (error["code"], error["param"]) == (f"item_{kind}_invalid_item_id", "item_id")


def test_only_replies_can_be_truncated() -> None:
    client = Client()
    item_id = client.say()[0]["item_id"]
    events = client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0)
    assert error_of(events)["code"] == "unsupported_content_type"


# -- The conversation ----------------------------------------------------------------------------------


def test_items_join_the_conversation_where_they_are_put() -> None:
    client = Client()

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


def test_audio_can_be_put_and_is_recognised_and_retrieved() -> None:
    client = Client()
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


def test_a_response_of_its_own_input_stays_outside_the_conversation() -> None:
    client = Client()
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
    client = Client()
    client.say()
    client.recognise()
    work = client.answers.pop()
    events = client.take(client.engine.reply_failed(work.response_id, "llm_failed", "it is down"))
    details = only(events, "response.done")["response"]["status_details"]
    assert details["error"] == {"type": "server_error", "code": "llm_failed", "message": "it is down"}


# -- Formats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_telephone_formats(name: str) -> None:
    client = Client()
    client.update(audio={"input": {"format": {"type": name}}, "output": {"format": {"type": name}}})
    events: list[Json] = []
    for probability in [VOICED] * 20 + [SILENT] * 16:
        events += client.append(bytes(8 * WINDOW_MS))
        events += client.take(client.engine.heard(client.epoch, [probability], 0))
    assert events[1]["audio_end_ms"] == 36 * WINDOW_MS
    assert client.listens[-1].codec.rate_hz == 8_000
    client.recognise()
    assert client.answers[-1].codec.rate_hz == 8_000


def test_the_axis_goes_on_when_the_format_changes() -> None:
    client = Client()
    client.speak([SILENT] * 10)
    client.update(audio={"input": {"format": {"type": "audio/pcmu"}}})
    client.append(bytes(8 * WINDOW_MS))
    events: list[Json] = []
    for probability in [VOICED] * 3:
        client.append(bytes(8 * WINDOW_MS))
        events += client.take(client.engine.heard(client.epoch, [probability], 0))
    assert events[0]["audio_start_ms"] == 10 * WINDOW_MS  # no padding is left from before


def test_what_the_detector_says_of_an_earlier_stream_is_ignored() -> None:
    client = Client()
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
def test_wrong_audio_is_named(fields: Json, code: str) -> None:
    error = error_of(Client().send("input_audio_buffer.append", event_id="e1", **fields))
    assert (error["code"], error["param"], error["event_id"]) == (code, "audio", "e1")


# -- Calibration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("manual", [False, True])
def test_the_mark_is_the_end_of_speech(manual: bool) -> None:
    client = Client(calibrate=True, delay_ms=50, waits_for_words=False)
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


def test_calibration_refuses_formats_that_lose_the_mark() -> None:
    client = Client(calibrate=True)
    error = error_of(client.update(audio={"input": {"format": {"type": "audio/pcmu"}}}))
    assert error["param"] == "session.audio.input.format"


# -- Faults --------------------------------------------------------------------------------------------


def faulty(fault: str) -> tuple[Client, list[Json]]:
    client = Client(faults=parse_faults(fault))
    client.say()
    client.recognise()
    return client, client.reply() + client.pass_time()


def test_silence() -> None:
    client = Client(faults=parse_faults("silent"))
    assert types(client.say())[-1] == "conversation.item.done"
    client.recognise()
    assert client.answers == []


def test_something_that_is_not_json() -> None:
    client, events = faulty("malformed")
    assert b'{"type":"response.output_audio.delta","delta":' in client.raw
    assert only(events, "response.done")["response"]["status"] == "completed"


def test_something_that_nobody_knows() -> None:
    _, events = faulty("unknown_event")
    assert "response.interpretive_dance.delta" in types(events)
    assert types(events)[-2] == "response.done"


def test_an_error_that_is_not_fatal() -> None:
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
def test_responses_that_end_badly(fault: str, status: str) -> None:
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
    client = Client(faults=parse_faults("endless"))
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
def test_any_message_is_answered_by_an_error_at_worst(message: str | bytes) -> None:
    assert error_of(Client().text(message))["type"] == "invalid_request_error"


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_any_event_of_a_known_type_is_answered_by_an_error_at_worst(kind: str, fields: Json) -> None:
    Client().send(kind, **fields)


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
def test_any_update_is_answered_by_an_error_at_worst(session: Any) -> None:
    client = Client()
    (event,) = client.send("session.update", session=session)
    assert event["type"] in ("error", "session.updated")
    client.say()


ACTIONS = st.sampled_from(
    ["say", "cancel", "create", "commit", "clear", "words", "reply", "time", "manual", "vad"]
)


@given(st.lists(ACTIONS, max_size=25))
def test_any_order_of_doing_keeps_the_conversation_sound(actions: list[str]) -> None:
    client = Client(cadence=Cadence.REALTIME)
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


def test_a_message_of_too_many_values_is_refused_before_it_is_read() -> None:
    client = Client()
    (refused,) = client.update(**{f"key{number}": 1 for number in range(30_000)})
    assert refused["error"]["code"] == "message_too_large"
    assert "at most 20000 values, but it has 30003" in refused["error"]["message"]
    (refused,) = client.text("[" * 30_000)
    assert refused["error"]["code"] == "message_too_large"
    assert client.update(instructions="Be brief.")[0]["type"] == "session.updated"


def test_only_what_may_hold_audio_may_be_long() -> None:
    client = Client()
    (refused,) = client.update(instructions="x" * (1 << 20))
    assert refused["error"]["code"] == "message_too_large"
    assert "characters without audio" in refused["error"]["message"]
    assert client.append(bytes(1 << 20)) == []
    assert client.send("conversation.item.create", item=item("x" * (1 << 20)))[0]["type"].endswith("added")


def test_a_response_takes_as_many_notes_as_openai_does() -> None:
    (refused,) = Client().send("response.create", response={"metadata": {str(n): "" for n in range(17)}})
    assert refused["error"]["param"] == "response.metadata"


def test_a_conversation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MOST_ITEMS", 3)
    client = Client(calibrate=True)
    names = [client.send("conversation.item.create", item=item(text))[0]["item"]["id"] for text in "abc"]
    (refused,) = client.send("conversation.item.create", item=item("d"))
    assert refused["error"]["code"] == "conversation_full"
    assert "delete items first" in refused["error"]["message"]
    client.send("conversation.item.delete", item_id=names[1])
    assert client.send("conversation.item.create", item=item("d"))[0]["type"] == "conversation.item.added"
    client.manual()
    client.append(HALF_SECOND)
    client.send("input_audio_buffer.commit")
    assert len(client.engine.conversation) == 3
    assert client.engine.conversation.get(names[0]) is None, "what is said aloud displaces the oldest item"


def test_what_is_said_in_a_conversation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MOST_BYTES", 40_000)
    client = Client(calibrate=True)
    client.manual()
    for _ in range(3):
        client.append(HALF_SECOND)
        client.send("input_audio_buffer.commit")
    assert len(client.engine.conversation) == 1
    (refused,) = client.send("conversation.item.create", item=item("x" * 20_000))
    assert refused["error"]["code"] == "conversation_full"
