"""fastrtc's dialect: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.clients.dialects.fastrtc_webrtc import FastRtcWebRtc
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Output,
    SdpBody,
    Send,
    SessionReady,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
)
from live_eval.errors import FailureKind


def dialect(**settings: Any) -> FastRtcWebRtc:
    return FastRtcWebRtc(EndpointSettings(base_url="http://127.0.0.1:7860/", **settings))


def say(stream: FastRtcWebRtc, kind: str, **fields: object) -> list[Output]:
    return list(stream.received(json.dumps({"type": kind, **fields}), 0))


def ready() -> FastRtcWebRtc:
    stream = dialect()
    stream.opened(0)
    say(stream, "log", data="Server received: handshake")
    return stream


def test_the_offer_names_its_connection() -> None:
    dials = [dialect(extra={"mode": "x"}).dial() for _ in range(2)]
    assert dials[0].url == "http://127.0.0.1:7860/webrtc/offer"
    signalling = dials[0].signalling
    assert signalling is not None
    assert (signalling.offer, signalling.answer) == (SdpBody.JSON, SdpBody.JSON)
    assert signalling.channel == "text"
    assert not signalling.patch_candidates
    assert signalling.fields["mode"] == "x"
    names = {dial.signalling.fields["webrtc_id"] for dial in dials if dial.signalling is not None}
    assert len(names) == 2


def test_the_answer_to_the_handshake_says_that_it_is_ready() -> None:
    stream = dialect()
    assert next(iter(stream.opened(0))) == Send("handshake")
    assert say(stream, "log", data="Server received: handshake") == [SetTimer("ready", None), SessionReady()]
    assert say(stream, "log", data="Server received: handshake") == []


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("log", {"data": "started_talking"}, SpeechStarted()),
        ("log", {"data": "pause_detected"}, SpeechStopped()),
        (
            "error",
            {"message": "CUDA out of memory"},
            EndpointProblem(FailureKind.ENDPOINT_ERROR, "CUDA out of memory", fatal=True),
        ),
        (
            "error",
            {},
            EndpointProblem(FailureKind.ENDPOINT_ERROR, "the stream failed without a message", fatal=True),
        ),
        (
            "warning",
            {"message": "slow"},
            EndpointProblem(FailureKind.NOT_FATAL_ERROR, "slow", fatal=False),
        ),
        (
            "end_stream",
            {"data": "Goodbye."},
            EndpointProblem(FailureKind.NOT_FATAL_ERROR, "the stream ended: Goodbye.", fatal=False),
        ),
        (
            "send_input",
            {"data": []},
            EndpointProblem(
                FailureKind.NOT_FATAL_ERROR,
                "the stream expects inputs besides audio, which this client cannot send",
                fatal=False,
            ),
        ),
        ("joke", {}, UnknownEvent("joke")),
    ],
)
def test_messages_of_fastrtc(kind: str, fields: dict[str, Any], expected: Output) -> None:
    assert say(ready(), kind, **fields) == [expected]


@pytest.mark.parametrize("kind", ["fetch_output", "stopword", "update_connection"])
def test_ignored_messages(kind: str) -> None:
    assert say(ready(), kind, data=[]) == []


def test_replies_are_found_by_energy() -> None:
    assert ready().continuous_media
    assert ready().needs_continuous_input
