"""OpenAI over WebRTC: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.realtime import RealtimeServerEvent, SessionUpdateEvent
from pydantic import TypeAdapter

from live_eval.cassettes import Received, read_cassette
from live_eval.clients.dialects.openai_webrtc import OpenAIWebRtc
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Interrupted,
    Output,
    PlaybackStarted,
    PlaybackStopped,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SdpBody,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import sent

BASE = "https://api.openai.com/v1"
KEY = "sk-proj-1a2b3c"
GOLDEN = sorted((Path(__file__).parents[3] / "conformance" / "golden" / "openai_webrtc").glob("*.jsonl"))
SERVER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
MS = 1_000_000


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, **settings: Any) -> None:
        self.dialect = OpenAIWebRtc(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        self.say("session.created", session={"id": "sess_1", "model": "m-1"})
        self.say("session.updated", session={"id": "sess_1", "model": "m-1"})

    def say(self, name: str, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": name, **fields}), 0))

    def create(self, response_id: str = "r1") -> list[Output]:
        return self.say("response.created", response={"id": response_id})

    def buffer(self, event: str, response_id: str | None = "r1") -> list[Output]:
        fields = {} if response_id is None else {"response_id": response_id}
        return self.say(f"output_audio_buffer.{event}", **fields)

    def done(self, status: str = "completed", reason: str | None = None) -> list[Output]:
        details = {"type": status, "reason": reason}
        return self.say("response.done", response={"id": "r1", "status": status, "status_details": details})


def kinds(outputs: list[Output]) -> list[str]:
    return [type(output).__name__ for output in outputs]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_messages_have_the_vendors_shapes(path: Path) -> None:
    if path.stem in ("malformed_message", "unknown_event"):
        pytest.skip("its messages are deliberately not the vendor's")
    for step in read_cassette(path).steps:
        if isinstance(step, Received):
            SERVER.validate_json(step.message, strict=True)


def test_the_offer_with_a_standard_key() -> None:
    settings = EndpointSettings(base_url=BASE, model="gpt-realtime-2.1", voice="marin", key=Secret(KEY))
    dial = OpenAIWebRtc(settings).dial()
    assert dial.url == "https://api.openai.com/v1/realtime/calls"
    assert dial.headers == {"Authorization": f"Bearer {KEY}"}
    assert dial.signalling is not None
    assert (dial.signalling.offer, dial.signalling.answer) == (SdpBody.FORM, SdpBody.SDP)
    assert dial.signalling.channel == "oai-events"
    session = dial.signalling.fields["session"]
    assert session["model"] == "gpt-realtime-2.1"
    assert session["audio"] == {
        "input": {"turn_detection": {"type": "server_vad"}},
        "output": {"voice": "marin"},
    }


def test_the_offer_with_an_ephemeral_key() -> None:
    settings = EndpointSettings(
        base_url=BASE, model="m 1", key=Secret("ek_68af"), ice_servers=["stun:h:3478"]
    )
    dial = OpenAIWebRtc(settings).dial()
    assert dial.url == "https://api.openai.com/v1/realtime/calls?model=m+1"
    assert dial.signalling is not None
    assert (dial.signalling.offer, dial.signalling.fields) == (SdpBody.SDP, {})
    assert list(dial.signalling.ice_servers) == ["stun:h:3478"]


def test_a_websocket_url_becomes_an_http_url() -> None:
    assert OpenAIWebRtc(EndpointSettings(base_url="ws://127.0.0.1:8/v1")).dial().url == (
        "http://127.0.0.1:8/v1/realtime/calls"
    )
    with pytest.raises(UsageError, match="base_url"):
        OpenAIWebRtc(EndpointSettings(base_url="openai"))


@pytest.mark.parametrize("modality", list(Modality))
@pytest.mark.parametrize("turn_mode", [TurnMode.SERVER_VAD, TurnMode.MANUAL])
def test_the_session_has_the_vendors_types(modality: Modality, turn_mode: TurnMode) -> None:
    settings = EndpointSettings(base_url=BASE, modality=modality, turn_mode=turn_mode, voice="cedar")
    update = sent(OpenAIWebRtc(settings).received('{"type":"session.created","session":{"id":"s"}}', 0))[0]
    SessionUpdateEvent.model_validate(update, strict=True)
    assert "format" not in json.dumps(update)


def test_formats_that_the_endpoint_names_do_not_matter() -> None:
    dialect = OpenAIWebRtc(EndpointSettings(base_url=BASE))
    dialect.received('{"type":"session.created","session":{"id":"s"}}', 0)
    audio = {
        "input": {"format": {"type": "audio/opus"}},
        "output": {"format": {"type": "audio/pcm", "rate": 1}},
    }
    outputs = dialect.received(json.dumps({"type": "session.updated", "session": {"audio": audio}}), 0)
    assert kinds(list(outputs)) == ["SessionReady"]


def test_audio_travels_on_the_track() -> None:
    endpoint = Endpoint()
    endpoint.create()
    assert endpoint.dialect.frame(bytes(1920), 0) == ()
    delta = {"response_id": "r1", "item_id": "i1", "content_index": 0, "delta": "AAAA"}
    assert not any(
        isinstance(output, ReplyAudio) for output in endpoint.say("response.output_audio.delta", **delta)
    )
    assert endpoint.dialect.needs_continuous_input
    assert not endpoint.dialect.continuous_media


def test_buffer_events_mark_what_the_track_carries() -> None:
    endpoint = Endpoint()
    assert endpoint.create() == [ResponseStarted("r1")]
    assert endpoint.buffer("started") == [PlaybackStarted("r1")]
    assert kinds(endpoint.done()) == ["ResponseDone"]
    assert endpoint.buffer("stopped") == [PlaybackStopped("r1")]


def test_a_buffer_event_without_a_response() -> None:
    endpoint = Endpoint()
    assert kinds(endpoint.buffer("started", None)) == ["EndpointProblem"]
    endpoint.create()
    assert endpoint.buffer("started", None) == [PlaybackStarted("r1")]
    assert endpoint.buffer("cleared", None) == [PlaybackStopped("r1"), Interrupted("r1")]


def test_a_playing_reply_is_interrupted_when_its_buffer_is_cleared() -> None:
    endpoint = Endpoint()
    endpoint.create()
    endpoint.buffer("started")
    assert kinds(endpoint.done("cancelled", "turn_detected")) == ["ResponseDone"]
    assert endpoint.buffer("cleared") == [PlaybackStopped("r1"), Interrupted("r1")]
    assert not endpoint.dialect.interrupt("r1", 400, 0)


def test_cleared_before_done_interrupts_once() -> None:
    endpoint = Endpoint()
    endpoint.create()
    endpoint.buffer("started")
    assert endpoint.buffer("cleared") == [PlaybackStopped("r1"), Interrupted("r1")]
    assert kinds(endpoint.done("cancelled", "turn_detected")) == ["ResponseDone"]
    assert endpoint.say("conversation.item.truncated", item_id="i1", content_index=0, audio_end_ms=5) == []


def test_a_reply_that_never_played_is_interrupted_when_it_is_cancelled() -> None:
    endpoint = Endpoint()
    endpoint.create()
    outputs = endpoint.done("cancelled", "turn_detected")
    assert outputs[0] == Interrupted("r1")
    assert isinstance(outputs[1], ResponseDone)


def test_we_interrupt() -> None:
    endpoint = Endpoint()
    endpoint.create()
    endpoint.buffer("started")
    requests = sent(endpoint.dialect.interrupt("r1", 400, 0))
    assert [request["type"] for request in requests] == ["response.cancel", "output_audio_buffer.clear"]
    assert requests[0]["response_id"] == "r1"
    assert [request["type"] for request in sent(endpoint.dialect.interrupt("r1", 400, 0))] == [
        "response.cancel"
    ]
    endpoint.done("cancelled", "client_cancelled")
    assert endpoint.buffer("cleared") == [PlaybackStopped("r1")]  # as requested


def test_we_interrupt_a_reply_that_does_not_play_yet() -> None:
    endpoint = Endpoint()
    endpoint.create()
    assert [request["type"] for request in sent(endpoint.dialect.interrupt("r1", 0, 0))] == [
        "response.cancel"
    ]


def test_text_events_work_as_over_websocket() -> None:
    endpoint = Endpoint()
    endpoint.create()
    outputs = endpoint.say("response.output_audio_transcript.delta", response_id="r1", delta="It is")
    assert outputs == [ReplyText("r1", "It is")]


@pytest.mark.parametrize("sounding", [True, False])
def test_an_end_while_a_reply_plays_is_too_early(sounding: bool) -> None:
    endpoint = Endpoint()
    endpoint.create()
    endpoint.buffer("started")
    endpoint.done()
    if not sounding:
        endpoint.buffer("stopped")
    problem = next(iter(endpoint.dialect.closed(None, "", 0)))
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.CLOSED, sounding)
