"""GPT-Live: what it sends and reports, and whole sessions in memory whose replies are found by energy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import orjson
import pybase64
import pytest
from openai.types.live import ServerEvent, SessionStartEvent

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.openai_live import OpenAILive
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    Send,
    SessionReady,
    SetTimer,
    StreamAudio,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import FailureKind, TransportClosedError, UsageError
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.testing import FakeClock, MemoryPeer, memory_pair
from live_eval.timing import ResponseStatus, measure
from live_eval.types import Modality, Secret, SpeechBoundaries, TurnMode

BASE = "wss://api.openai.com/v1"
KEY = "sk-proj-1a2b3c"
MS = 1_000_000
SAMPLES = 480
PCM = Codec(CodecName.PCM16, 24_000)
STARTED = {"id": "live_sess_1", "expires_at": 1_795_003_600, "model": "gpt-live-1", "status": "active"}


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        self.dialect = OpenAILive(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        (self.start,) = self.dialect.opened(0)
        if ready:
            self.say("session.started", session=STARTED)

    def say(self, name: str, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": name, "event_id": "e", **fields}), 0))

    def error(self, **error: Any) -> list[Output]:
        return self.say("error", error=error)


def problem(outputs: Sequence[Output]) -> EndpointProblem:
    (output,) = outputs
    assert isinstance(output, EndpointProblem)
    return output


# -- Requests --


def test_the_url_has_no_query_and_the_key_is_a_header() -> None:
    dial = Endpoint().dialect.dial()
    assert dial.url == "wss://api.openai.com/v1/live/sessions"
    assert dial.headers == {"Authorization": f"Bearer {KEY}"}
    assert OpenAILive(EndpointSettings(base_url="ws://127.0.0.1:1")).dial().headers == {}


def test_the_session_request_has_the_sdks_types() -> None:
    start = Endpoint(
        model="gpt-live-1",
        voice="marin",
        instructions="Be brief.",
        extra={"store": True, "delegation": {"type": "responses", "responses": {"model": "gpt-5.5"}}},
    ).start
    assert isinstance(start, Send)
    SessionStartEvent.model_validate_json(start.message, strict=True)
    assert orjson.loads(start.message)["session"] == {
        "model": "gpt-live-1",
        "instructions": "Be brief.",
        "audio": {"format": {"type": "audio/pcm", "rate": 24_000}, "output": {"voice": "marin"}},
        "delegation": {"type": "responses", "responses": {"model": "gpt-5.5"}},
        "store": True,
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modality": Modality.TEXT}, "audio only"),
        ({"turn_detection": {"threshold": 0.5}}, "no detector"),
        ({"max_output_tokens": 100}, "no reply length limit"),
        ({"extra": {"audio": {"format": {"type": "audio/pcm", "rate": 16_000}}}}, "24000"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


def test_input_always_flows_and_nothing_stops_the_model() -> None:
    dialect = Endpoint().dialect
    assert dialect.needs_continuous_input
    assert dialect.continuous_media
    (said,) = dialect.frame(b"\x01\x02", 0)
    assert said == Send('{"type":"session.input_audio.append","audio":"AQI="}')
    assert dialect.end_turn(0) == ()
    assert dialect.interrupt("reply_1", 20, 0) == ()


# -- Events --


def test_the_stream_is_reported_as_it_arrives() -> None:
    endpoint = Endpoint(ready=False)
    assert endpoint.say("session.started", session=STARTED) == [SessionReady("live_sess_1", "gpt-live-1")]
    assert endpoint.say("session.output_audio.delta", delta="AQI=") == [StreamAudio(b"\x01\x02", PCM)]
    said = endpoint.say("session.output_transcript.delta", delta="Hi", start_ms=0, end_ms=80)
    assert said == [StreamText("Hi")]
    heard = endpoint.say("session.input_transcript.delta", delta="Hi", start_ms=0, end_ms=80)
    assert heard == [InputTranscript("Hi", final=False)]


def test_no_event_of_the_vendor_is_unknown() -> None:
    for model in get_args(get_args(ServerEvent)[0]):
        name = get_args(model.model_fields["type"].annotation)[0]
        outputs = Endpoint().say(name, delta="")
        assert not any(isinstance(output, UnknownEvent) for output in outputs), name


@pytest.mark.parametrize(
    ("reason", "kind", "fatal"),
    [
        ("expired", FailureKind.SESSION_EXPIRED, True),
        ("content", FailureKind.ENDPOINT_ERROR, True),
        ("remote_hangup", FailureKind.CLOSED, False),
        ("connection_lost", FailureKind.CLOSED, False),
    ],
)
def test_the_reason_of_a_sessions_end_is_reported(reason: str, kind: FailureKind, fatal: bool) -> None:
    endpoint = Endpoint()
    told = problem(endpoint.say("session.closed", reason=reason))
    assert (told.kind, told.fatal) == (kind, fatal)
    assert reason in told.message
    assert endpoint.dialect.closed(None, "", 0) == ()
    assert endpoint.dialect.finish(0) == (Close(),)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "model_not_found", "type": "invalid_request_error"}, FailureKind.UNKNOWN_MODEL),
        ({"code": "invalid_api_key", "type": "invalid_request_error"}, FailureKind.AUTHENTICATION),
        ({"code": "x", "type": "rate_limit_error", "message": "Try again in 2s"}, FailureKind.RATE_LIMITED),
        ({"code": "unknown_parameter", "type": "invalid_request_error"}, FailureKind.SESSION_REFUSED),
        ({}, FailureKind.NO_SESSION),
    ],
)
def test_a_refused_session_is_a_named_failure(error: dict[str, Any], kind: FailureKind) -> None:
    told = problem(Endpoint(ready=False).error(**error))
    assert (told.kind, told.fatal) == (kind, True)
    assert "refused" in told.message
    assert told.retry_after_s == (2.0 if kind is FailureKind.RATE_LIMITED else None)


def test_most_errors_do_not_end_the_session() -> None:
    told = problem(Endpoint().error(code="unknown_parameter", message="No."))
    assert (told.kind, told.fatal, told.code) == (FailureKind.NOT_FATAL_ERROR, False, "unknown_parameter")


def test_finishing_waits_for_the_endpoints_answer() -> None:
    endpoint = Endpoint()
    close, timer = endpoint.dialect.finish(1_000 * MS)
    assert isinstance(close, Send)
    assert orjson.loads(close.message)["type"] == "session.close"
    assert timer == SetTimer("farewell", 3_000 * MS)
    assert endpoint.say("session.closed", reason="close_requested") == [SetTimer("farewell", None), Close()]
    assert endpoint.dialect.closed(None, "", 0) == ()


def test_finishing_waits_no_longer_than_two_seconds() -> None:
    endpoint = Endpoint()
    assert endpoint.dialect.timer("farewell", 0) == ()
    endpoint.dialect.finish(0)
    assert endpoint.dialect.timer("farewell", 2_000 * MS) == (Close(),)


def test_the_log_contains_no_key_and_no_audio() -> None:
    dialect = Endpoint().dialect
    said = {"type": "session.output_audio.delta", "delta": pybase64.b64encode_as_string(bytes(960))}
    assert dialect.redact(json.dumps(said)) == {"type": said["type"], "delta": {"bytes": 960}}
    told = {"type": "session.output_transcript.delta", "delta": f"It is {KEY}."}
    assert dialect.redact(json.dumps(told))["delta"] == "It is ***."


# -- Whole sessions --

TONE = (8_000 * np.sin(np.arange(SAMPLES) * 2 * np.pi * 10 / SAMPLES)).astype("<i2").tobytes()
FRAME = bytes(2 * SAMPLES)
SPOKEN_FRAMES = 50
TURN = Utterance(
    frames=[TONE] * SPOKEN_FRAMES,
    frame_ns=20 * MS,
    boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=SPOKEN_FRAMES * 20 * MS),
)
LIMITS = SessionLimits(ready_s=2, reply_s=4, stall_s=3, max_reply_s=20, linger_s=0.2, silence_s=1.0)


class FullDuplex:
    """An endpoint that sends a frame, possibly silent, for each frame that it receives.

    Args:
        replies: Ranges of received frames during which it speaks.
        ends: Number of received frames after which the session ends, and the reason.
    """

    def __init__(self, replies: Sequence[tuple[int, int]], ends: tuple[int, str] | None = None) -> None:
        self._replies = replies
        self._ends = ends
        self.heard: list[dict[str, Any]] = []

    async def __call__(self, peer: MemoryPeer) -> None:
        count = 0
        while True:
            try:
                arrival = await peer.receive()
            except TransportClosedError:
                return
            event = orjson.loads(arrival.message)
            self.heard.append(event)
            if event["type"] == "session.start":
                self._say(peer, "session.started", session=STARTED)
            elif event["type"] == "session.close":
                self._say(peer, "session.closed", reason="close_requested")
            else:
                count += 1
                self._answer(peer, count)

    def _answer(self, peer: MemoryPeer, count: int) -> None:
        if self._ends is not None and count >= self._ends[0]:
            if count == self._ends[0]:
                self._say(peer, "session.closed", reason=self._ends[1])
            return
        if count == 10:
            self._say(peer, "session.input_transcript.delta", delta="Hello?", start_ms=0, end_ms=200)
        speaks = any(begin <= count < end for begin, end in self._replies)
        if any(count == begin for begin, _ in self._replies):
            self._say(peer, "session.output_transcript.delta", delta="Yes.", start_ms=0, end_ms=200)
        said = pybase64.b64encode_as_string(TONE if speaks else FRAME)
        self._say(peer, "session.output_audio.delta", delta=said)

    def _say(self, peer: MemoryPeer, name: str, **fields: Any) -> None:
        peer.send(orjson.dumps({"type": name, **fields}).decode())


async def hold(endpoint: FullDuplex) -> TurnCapture:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    dialect = OpenAILive(EndpointSettings(base_url=BASE, model="gpt-live-1"))
    session = Session(dialect, lambda _: transport, clock, turn_mode=TurnMode.FULL_DUPLEX, limits=LIMITS)
    answering = asyncio.create_task(endpoint(peer))
    try:
        return (await session.converse([TURN]))[0]
    finally:
        answering.cancel()


async def test_a_reply_is_found_by_its_energy_and_timed() -> None:
    endpoint = FullDuplex([(65, 90)])
    capture = await hold(endpoint)
    assert capture.failure is None
    assert capture.warnings == ()
    (response,) = capture.wire
    assert response.record.status is ResponseStatus.COMPLETED
    assert response.record.text == "Yes."
    assert capture.heard_text == "Hello?"
    pcm = np.concatenate([np.frombuffer(chunk, "<i2") for chunk in response.chunks])
    loud = np.flatnonzero(pcm)
    assert np.array_equal(pcm[loud[0] - 1 : loud[-1] + 1], np.frombuffer(TONE * 25, "<i2"))
    timing = measure(replace(capture.trace, responses=(response.record,)), [pcm])
    # The voice ends with the 50th frame; the 65th is answered with audio, whose first sample is zero.
    assert timing.voice_to_voice.ns is not None
    assert 300 * MS <= timing.voice_to_voice.ns < 301 * MS
    assert timing.first_byte.ns is None
    assert timing.first_byte.reason == "continuous media has no first byte"
    assert endpoint.heard[-1]["type"] == "session.close"


async def test_audio_while_the_user_speaks_is_cut_off_and_the_answer_follows() -> None:
    capture = await hold(FullDuplex([(20, 30), (65, 90)]))
    assert capture.failure is None
    first, second = capture.wire
    assert first.record.status is ResponseStatus.CANCELLED
    assert second.record.status is ResponseStatus.COMPLETED


async def test_an_endpoint_that_stays_silent_gives_no_response() -> None:
    capture = await hold(FullDuplex([]))
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.NO_RESPONSE
    assert capture.wire == ()


async def test_an_expired_session_is_a_named_failure() -> None:
    capture = await hold(FullDuplex([(65, 90)], ends=(70, "expired")))
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.SESSION_EXPIRED
    assert len(capture.wire) == 1  # audio received before it is kept
