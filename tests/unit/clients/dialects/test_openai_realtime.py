"""OpenAI Realtime: addresses, responses, interruptions, requests for a response, and the log."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pybase64
import pytest

from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    RateLimit,
    RateLimits,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Secret, TurnMode
from tests.support.dialects import sent
from tests.unit.clients.dialects.openai_endpoint import Endpoint, problem

BASE = "wss://api.openai.com/v1"


KEY = "sk-proj-1a2b3c"


MS = 1_000_000


# -- Dialling -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "model", "url"),
    [
        (BASE, "gpt-realtime-2.1", "wss://api.openai.com/v1/realtime?model=gpt-realtime-2.1"),
        ("http://127.0.0.1:8000/v1", "m", "ws://127.0.0.1:8000/v1/realtime?model=m"),
        ("https://host/openai/v1/", "m", "wss://host/openai/v1/realtime?model=m"),
        ("ws://[::1]:9/v1", None, "ws://[::1]:9/v1/realtime"),
        ("wss://host", "a b&c", "wss://host/realtime?model=a+b%26c"),
        ("wss://host/v1/realtime?tag=x&model=old", "new", "wss://host/v1/realtime?tag=x&model=new"),
        ("wss://host/v1?tag=&model=kept", None, "wss://host/v1/realtime?tag=&model=kept"),
    ],
)
def test_the_url_of_a_session(base_url: str, model: str | None, url: str) -> None:
    dial = OpenAIRealtime(EndpointSettings(base_url=base_url, model=model, key=Secret(KEY))).dial()
    assert dial.url == url
    assert dict(dial.headers) == {"Authorization": f"Bearer {KEY}"}
    assert KEY not in repr(dial)


def test_without_a_key_there_is_no_header() -> None:
    assert not OpenAIRealtime(EndpointSettings(base_url=BASE)).dial().headers


@pytest.mark.parametrize(
    "base_url", ["", "api.openai.com/v1", "ftp://host/v1", "wss:///v1", "ws://[::1", "ws://h:x"]
)
def test_an_invalid_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(UsageError, match=": expected an address") as caught:
        OpenAIRealtime(EndpointSettings(base_url=f"{base_url}?key={KEY}"))
    assert KEY not in str(caught.value)


def test_events_before_the_session_is_ready_are_reported_and_ignored() -> None:
    endpoint = Endpoint(ready=False)
    told = problem(endpoint.create())
    assert (told.kind, told.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert "ignored response.created: it arrived before the session was ready" in told.message


# -- The user's side --------------------------------------------------------------------------------------


def test_a_frame_is_sent_as_text() -> None:
    pcm = bytes(range(256)) * 3 + bytes(192)
    (send,) = Endpoint().dialect.frame(pcm, 0)
    assert isinstance(send, Send)
    assert isinstance(send.message, str)
    event = json.loads(send.message)
    assert event.keys() == {"type", "audio"}
    assert event["type"] == "input_audio_buffer.append"
    assert pybase64.b64decode(event["audio"], validate=True) == pcm


def test_speech_and_transcription() -> None:
    endpoint = Endpoint()
    heard = "conversation.item.input_audio_transcription"
    assert endpoint.say("input_audio_buffer.speech_started", audio_start_ms=120.7, item_id="u1") == [
        SpeechStarted(120, "u1")
    ]
    assert endpoint.say("input_audio_buffer.speech_stopped", audio_end_ms=900) == [SpeechStopped(900, None)]
    assert endpoint.say(f"{heard}.delta", item_id="u1", delta="Hel") == [InputTranscript("Hel", False, "u1")]
    assert endpoint.say(f"{heard}.completed", item_id="u1", transcript="") == [
        InputTranscript("", True, "u1")
    ]
    failed = problem(endpoint.say(f"{heard}.failed", item_id="u1", error={"message": "mumbling"}))
    assert (failed.kind, failed.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert "mumbling" in failed.message


def test_an_event_survives_irrelevant_defects() -> None:
    started, told = Endpoint().say("input_audio_buffer.speech_started", audio_start_ms=True, item_id=["u"])
    assert started == SpeechStarted()
    assert isinstance(told, EndpointProblem)
    assert told.kind is FailureKind.MALFORMED_MESSAGE
    assert "expected a number in 'audio_start_ms', got a boolean" in told.message
    assert "expected a string in 'item_id', got a list" in told.message


# -- The reply --------------------------------------------------------------------------------------------


def test_usage_and_limits() -> None:
    endpoint = Endpoint()
    usage = {
        "total_tokens": 30,
        "input_tokens": 20,
        "output_tokens": 10,
        "input_token_details": {"audio_tokens": 15, "text_tokens": 5, "cached_tokens": 4},
        "output_token_details": {"audio_tokens": 9, "text_tokens": 1},
    }
    started, ended = endpoint.done(usage=usage)
    assert started == ResponseStarted("r1")
    assert ended == ResponseDone("r1", ResponseStatus.COMPLETED, "", Usage(20, 10, 15, 9, 4))
    limits = [
        {"name": "tokens", "limit": 40_000, "remaining": 39_000, "reset_seconds": 1.5},
        {"name": "requests", "limit": None, "remaining": 10, "reset_seconds": 1},
    ]
    assert endpoint.say("rate_limits.updated", rate_limits=limits) == [
        RateLimits((RateLimit("tokens", 40_000, 39_000, 1.5),))
    ]


@pytest.mark.parametrize(
    ("status", "details", "expected", "reason"),
    [
        ("completed", None, ResponseStatus.COMPLETED, ""),
        (None, None, ResponseStatus.COMPLETED, ""),
        ("cancelled", {"reason": "client_cancelled"}, ResponseStatus.CANCELLED, "client_cancelled"),
        ("incomplete", {"reason": "content_filter"}, ResponseStatus.INCOMPLETE, "content_filter"),
        ("failed", {"error": {"type": "t", "code": "c", "message": "m"}}, ResponseStatus.FAILED, "c: m"),
        ("failed", None, ResponseStatus.FAILED, "status 'failed'"),
        ("melted", None, ResponseStatus.FAILED, "status 'melted'"),
    ],
)
def test_how_a_response_ends(status: str | None, details: Any, expected: ResponseStatus, reason: str) -> None:
    outputs = Endpoint().say(
        "response.done", response={"id": "r1", "status": status, "status_details": details}
    )
    assert outputs[-1] == ResponseDone("r1", expected, reason)


def test_a_response_that_ends_twice() -> None:
    endpoint = Endpoint()
    endpoint.done()
    assert problem(endpoint.done()).message == "response r1 ended twice"


def test_the_text_of_response_done_is_used_only_if_no_complete_text_came() -> None:
    output = [
        {"content": [{"type": "output_audio", "transcript": "One."}, {"type": "output_text", "text": "Two."}]}
    ]
    endpoint = Endpoint()
    endpoint.say("response.output_audio_transcript.delta", response_id="r1", delta="On")
    assert ReplyText("r1", "One. Two.", final=True) in endpoint.done(output=output)
    endpoint = Endpoint()
    endpoint.say("response.output_audio_transcript.done", response_id="r1", transcript="One.")
    assert not any(isinstance(told, ReplyText) for told in endpoint.done(output=output))


def test_audio_of_another_part_is_not_late() -> None:
    endpoint = Endpoint()
    endpoint.audio(item="a", part=0)
    endpoint.say("response.output_audio.done", response_id="r1", item_id="a", content_index=0)
    assert len(endpoint.audio(item="a", part=1)) == 1
    assert len(endpoint.audio(item="b", part=0)) == 1
    assert problem(endpoint.audio(item="a", part=0)).kind is FailureKind.AUDIO_AFTER_DONE
    assert len(endpoint.audio(item="a", part=0)) == 1  # reported once


def test_an_audio_event_that_comes_twice_is_reported() -> None:
    endpoint = Endpoint()

    def delta(event_id: Any, data: str = "AAAA") -> list[Output]:
        return endpoint.say("response.output_audio.delta", response_id="r1", event_id=event_id, delta=data)

    delta("event_1")
    assert len(delta("event_2")) == 1
    audio, twice = delta("event_1")
    assert isinstance(audio, ReplyAudio)
    assert isinstance(twice, EndpointProblem)
    assert (twice.kind, twice.fatal) == (FailureKind.AUDIO_REPEATED, False)
    assert "'event_1'" in twice.message
    assert len(delta("event_1", "AQEB")) == 1  # the IDs of such a server are meaningless
    assert [len(delta(None)) for _ in range(2)] == [1, 1]
    assert [len(delta(7)) for _ in range(2)] == [1, 1]


def test_odd_bytes_of_pcm_are_passed_on() -> None:
    (_, audio) = Endpoint().say("response.output_audio.delta", response_id="r1", delta="AAAA")
    assert isinstance(audio, ReplyAudio)
    assert audio.data == bytes(3)


# -- Interruptions ----------------------------------------------------------------------------------------


def test_cancelled_by_the_detector() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    assert not any(
        isinstance(told, Interrupted) for told in endpoint.say("input_audio_buffer.speech_started")
    )
    outputs = endpoint.done("cancelled", status_details={"reason": "turn_detected"})
    assert outputs == [
        Interrupted("r1"),
        ResponseDone("r1", ResponseStatus.CANCELLED, "turn_detected"),
    ]


@pytest.mark.parametrize(("at_ms", "interrupts"), [(109, True), (110, False)])
def test_speech_over_a_complete_response_interrupts_while_it_plays(at_ms: int, interrupts: bool) -> None:
    endpoint = Endpoint()
    endpoint.audio(samples=1_200, at_ms=10)  # 50 ms
    endpoint.audio(samples=1_200, at_ms=20)
    endpoint.done()
    outputs = endpoint.say("input_audio_buffer.speech_started", at_ms)
    assert (Interrupted("r1") in outputs) is interrupts
    assert Interrupted("r1") not in endpoint.say("input_audio_buffer.speech_started", at_ms)


@pytest.mark.parametrize(
    "settings", [{"turn_mode": TurnMode.MANUAL}, {"turn_detection": {"interrupt_response": False}}]
)
def test_a_detector_that_does_not_interrupt(settings: dict[str, Any]) -> None:
    endpoint = Endpoint(**settings)
    endpoint.audio(samples=24_000)
    endpoint.done()
    assert endpoint.say("input_audio_buffer.speech_started", 10) == [SpeechStarted()]


def test_a_truncation_without_our_request_is_an_interruption() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    endpoint.done()
    assert not endpoint.say("conversation.item.truncated", item_id="item_of_somebody", audio_end_ms=1)
    assert endpoint.say("conversation.item.truncated", item_id="item_1", audio_end_ms=1) == [
        Interrupted("r1")
    ]
    assert not endpoint.say("conversation.item.truncated", item_id="item_1", audio_end_ms=1)


@pytest.mark.parametrize(
    ("heard_ms", "done", "cuts"),
    [
        (0, True, [("a", 0), ("b", 0)]),
        (-5, True, [("a", 0), ("b", 0)]),
        (30, True, [("a", 30), ("b", 0)]),
        (40, True, [("b", 0)]),
        (75, True, [("b", 35)]),
        (80, True, []),
        (10_000, True, []),
        (10_000, False, [("a", 40), ("b", 40)]),
    ],
)
def test_truncation_never_goes_beyond_the_audio_that_arrived(
    heard_ms: int, done: bool, cuts: list[tuple[str, int]]
) -> None:
    endpoint = Endpoint()
    endpoint.audio(samples=983, item="a")  # 40.96 ms, rounded down
    endpoint.audio(samples=960, item="b", part=1)
    if done:
        endpoint.done()
    requests = sent(endpoint.dialect.interrupt("r1", heard_ms, 0))
    truncations = [one for one in requests if one["type"] == "conversation.item.truncate"]
    assert [(one["item_id"], one["audio_end_ms"]) for one in truncations] == cuts
    assert all(one["content_index"] == (one["item_id"] == "b") for one in truncations)
    assert [one["response_id"] for one in requests if one["type"] == "response.cancel"] == ["r1"] * (not done)
    for one in truncations:
        assert not endpoint.say("conversation.item.truncated", item_id=one["item_id"], audio_end_ms=1)


# -- Asking for a response --------------------------------------------------------------------------------


def kinds(outputs: Any) -> list[str]:
    return [one["type"] for one in sent(outputs)]


ACTIVE = {
    "type": "invalid_request_error",
    "code": "conversation_already_has_active_response",
    "message": "wait",
}


COMMIT_AND_CREATE = ["input_audio_buffer.commit", "response.create"]


def test_no_response_is_requested_while_another_is_in_progress() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    assert kinds(endpoint.dialect.end_turn(0)) == COMMIT_AND_CREATE
    assert kinds(endpoint.dialect.end_turn(0)) == COMMIT_AND_CREATE[:1]
    endpoint.create()
    assert kinds(endpoint.done()) == ["response.create"]
    endpoint.create("r2")
    assert kinds(endpoint.done(response_id="r2")) == []


def test_a_refused_request_is_repeated_when_the_other_response_has_ended() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.dialect.end_turn(0)
    told = endpoint.error(**ACTIVE)
    assert (problem(told).fatal, kinds(told)) == (False, [])
    assert kinds(endpoint.done(response_id="other")) == ["response.create"]


def test_a_refused_request_is_repeated_at_once_if_the_other_response_has_ended() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.done(response_id="other")
    endpoint.dialect.end_turn(0)
    for _ in range(5):
        told = endpoint.error(**ACTIVE)
        assert (problem(told).fatal, kinds(told)) == (False, ["response.create"])
    told = endpoint.error(**ACTIVE)
    assert (problem(told).kind, problem(told).fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert kinds(told) == []


def test_an_interruption_before_the_response_began() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    assert not endpoint.dialect.interrupt("", 0, 0)
    endpoint.dialect.end_turn(0)
    assert not endpoint.dialect.interrupt("", 0, 0)
    (cancel,) = sent(endpoint.create())
    assert (cancel["type"], cancel["response_id"]) == ("response.cancel", "r1")
    endpoint.done("cancelled")
    endpoint.dialect.end_turn(0)
    assert not sent(endpoint.create("r2"))


def test_an_interruption_of_a_response_that_was_never_created() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.dialect.end_turn(0)
    endpoint.dialect.interrupt("", 0, 0)
    assert not sent(endpoint.error(**ACTIVE))
    assert not sent(endpoint.done(response_id="other"))


def test_an_interruption_of_a_response_that_waits_for_another() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.create("other")
    endpoint.dialect.end_turn(0)
    endpoint.dialect.interrupt("", 0, 0)
    assert not sent(endpoint.done(response_id="other"))


def test_an_unannounced_response_answers_the_request() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.dialect.end_turn(0)
    endpoint.audio()
    endpoint.done()
    again = [event["type"] for event in sent(endpoint.dialect.end_turn(0))]
    assert again == ["input_audio_buffer.commit", "response.create"]


def test_an_interruption_before_an_unannounced_response() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.dialect.end_turn(0)
    endpoint.dialect.interrupt("", 0, 0)
    (cancel,) = sent(endpoint.audio())
    assert (cancel["type"], cancel["response_id"]) == ("response.cancel", "r1")
    assert not sent(endpoint.audio())


# -- Errors -----------------------------------------------------------------------------------------------


def test_missing_audio_is_reported_once() -> None:
    told = problem(Endpoint().say("response.output_audio.delta", response_id="r1"))
    assert told.message == "response.output_audio.delta: expected a string in 'delta', got nothing"


def test_the_end_is_fatal_only_if_a_reply_is_due() -> None:
    def end(*, ready: bool = True, said: tuple[str, ...] = (), status: str | None = None) -> bool:
        endpoint = Endpoint(ready=ready)
        if status is not None:
            endpoint.done(status, status_details={"reason": "turn_detected"})
        for name in said:
            endpoint.say(name, response={"id": "r2"})
        told = problem(list(endpoint.dialect.closed(None, "", 0)))
        assert told.kind is FailureKind.CLOSED
        return told.fatal

    assert end(ready=False)
    assert end()
    assert not end(status="completed")
    assert not end(status="failed")
    assert end(status="cancelled")
    assert end(status="completed", said=("response.created",))
    assert end(status="completed", said=("input_audio_buffer.speech_started",))


def test_the_end_is_not_reported_after_finishing() -> None:
    endpoint = Endpoint()
    assert endpoint.dialect.finish(0) == (Close(),)
    assert not endpoint.dialect.closed(1006, "", 0)


# -- The log --


def test_an_event_named_like_the_key_does_not_reveal_it() -> None:
    assert Endpoint().say(f"session.{KEY}") == [UnknownEvent("session.***")]


def test_the_log_contains_sizes_and_no_secrets() -> None:
    dialect = Endpoint(
        extra={"tools": [{"type": "mcp", "authorization": "t0", "headers": {"X": "t0"}}]}
    ).dialect
    (append,) = dialect.frame(bytes(961), 0)
    assert isinstance(append, Send)
    assert dialect.redact(append.message) == {"type": "input_audio_buffer.append", "audio": {"bytes": 961}}
    delta = {"type": "response.output_audio.delta", "response_id": "r1", "delta": "AAAA"}
    assert dialect.redact(json.dumps(delta)) == {**delta, "delta": {"bytes": 3}}
    words = {"type": "response.output_text.delta", "delta": f"my key is {KEY}", KEY: [KEY]}
    assert dialect.redact(json.dumps(words)) == {
        "type": "response.output_text.delta",
        "delta": "my key is ***",
        "***": ["***"],
    }
    update = {
        "session": {"tools": [{"authorization": "t0", "headers": {"X": "t0"}}], "client_secret": {"value": 1}}
    }
    assert dialect.redact(json.dumps(update)) == {
        "session": {"tools": [{"authorization": "***", "headers": "***"}], "client_secret": "***"}
    }
    part = {
        "type": "conversation.item.retrieved",
        "item": {"content": [{"audio": "AAA=", "transcript": None}]},
    }
    assert dialect.redact(json.dumps(part))["item"]["content"] == [
        {"audio": {"bytes": 2}, "transcript": None}
    ]


def test_the_log_of_unparsable_messages() -> None:
    dialect = Endpoint().dialect
    assert dialect.redact(b"\x00" * 7) == {"raw": {"bytes": 7}}
    cut = '{"type":"response.output_audio.delta","delta":"' + "A" * 900
    assert dialect.redact(cut) == {
        "raw": '{"type":"response.output_audio.delta","delta":"(453 characters of base64)',
        "characters": len(cut),
    }
    assert dialect.redact(f"[{KEY}") == {"raw": "[***", "characters": len(KEY) + 1}
    assert dialect.redact("\ud800")["raw"] == "?"
    deep = '{"a":' * 200 + "1" + "}" * 200
    assert "nested too deeply" in json.dumps(dialect.redact(deep))


def test_keys_do_not_reach_messages() -> None:
    told = problem(
        Endpoint().error(message=f"key {KEY}, once sk-pr*****3c, at https://me:pw@host/ " + "x" * 9_000)
    )
    assert KEY not in told.message
    assert told.message.startswith("key ***, once ***, at https://host/")
    assert len(told.message) < 600


def test_a_message_of_a_million_objects_is_not_parsed() -> None:
    """An object takes hundreds of bytes and is not needed; the session continues."""
    dialect = Endpoint().dialect
    message = '{"type":"strange","of":[' + ",".join(['{"a":1}'] * 1_000_000) + "]}"
    tracemalloc.start()
    try:
        (event,) = dialect.received(message, 0)
        logged = dialect.redact(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert event == UnknownEvent("(more than 100000 values, not read)")
    assert logged == {"type": "(more than 100000 values, not read)", "characters": len(message)}
