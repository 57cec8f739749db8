"""Every dialect passes the conformance suite; golden sessions have the shapes of the vendors' own types."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import orjson
import pybase64
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.beta import realtime as beta_types
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from openai.types.realtime import realtime_server_event as ga_events
from pydantic import TypeAdapter, ValidationError

from live_eval.cassettes import Cassette, Closed, Expected, Received, Sent, read_cassette
from live_eval.cassettes.player import Player
from live_eval.clients.dialects._pipecat_frames import audio_of, read_frame
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.dialect import (
    Close,
    Dial,
    Dialect,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    PlaybackStarted,
    RateLimit,
    RateLimits,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SdpBody,
    Send,
    SessionReady,
    SetTimer,
    Signalling,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import DataError, FailureKind
from live_eval.testing.dialects import ConformanceError, check_dialect
from live_eval.timing import ResponseStatus
from tests.support.bundled import CASSETTES, DIALECTS, GOLDEN, SPECS, frame_samples

SERVER_TYPES: dict[str, TypeAdapter[Any]] = {
    "openai": TypeAdapter(RealtimeServerEvent),
    "openai_beta": TypeAdapter(beta_types.RealtimeServerEvent),
}
CLIENT_TYPES: dict[str, TypeAdapter[Any]] = {
    "openai": TypeAdapter(RealtimeClientEvent),
    "openai_beta": TypeAdapter(beta_types.RealtimeClientEvent),
}
NOT_OF_THE_VENDOR = {"malformed_message", "unknown_event"}


def each_cassette(*names: str) -> pytest.MarkDecorator:
    """Run a test with each golden session, or with those of the named dialects."""
    chosen = [(name, path) for name, path in CASSETTES if not names or name in names]
    ids = [f"{name}-{path.stem}" for name, path in chosen]
    return pytest.mark.parametrize(("name", "path"), chosen, ids=ids)


def sent_audio(message: Message) -> bytes:
    return pybase64.b64decode(orjson.loads(message)["audio"], validate=True)


def sent_raw(message: Message) -> bytes:
    assert isinstance(message, bytes)
    return message


def sent_to_elevenlabs(message: Message) -> bytes:
    return pybase64.b64decode(orjson.loads(message)["user_audio_chunk"], validate=True)


def sent_by_gemini(message: Message) -> bytes:
    return pybase64.b64decode(orjson.loads(message)["realtimeInput"].get("audio", {}).get("data", ""))


def sent_by_glm(message: Message) -> bytes:
    samples, rate_hz = soundfile.read(io.BytesIO(sent_audio(message)), dtype="int16")
    assert rate_hz == 16_000
    return bytes(samples.astype("<i2").tobytes())


def sent_to_pipecat(message: Message) -> bytes:
    assert isinstance(message, bytes)
    return audio_of(read_frame(message).body).pcm


def sent_to_nova_sonic(message: Message) -> bytes:
    return pybase64.b64decode(orjson.loads(message)["event"].get("audioInput", {}).get("content", ""))


FRAMES_OF: dict[str, Callable[[Message], bytes] | None] = {
    "gemini_live": sent_by_gemini,
    "glm": sent_by_glm,
    "pipecat_websocket": sent_to_pipecat,
    "nova_sonic": sent_to_nova_sonic,
    "deepgram": sent_raw,
    "ultravox": sent_raw,
    "assemblyai": lambda message: pybase64.b64decode(orjson.loads(message)["audio"], validate=True),
    "elevenlabs": sent_to_elevenlabs,
    "vonage": sent_raw,
    "hume": lambda message: pybase64.b64decode(orjson.loads(message)["data"], validate=True),
    # A lossy codec, or frames that are not sent in separate messages.
    **dict.fromkeys(
        (
            "elevenlabs_webrtc",
            "exotel",
            "fastrtc_webrtc",
            "livekit",
            "moshi",
            "openai_chat_audio",
            "opens2s",
            "openai_webrtc",
            "pipecat_webrtc",
            "plivo",
            "telnyx",
            "twilio",
            "ultravox_webrtc",
            "unmute",
        )
    ),
}


def check(name: str, *paths: Path) -> None:
    check_dialect(
        DIALECTS[name],
        map(read_cassette, paths),
        sent_audio=FRAMES_OF.get(name, sent_audio),
        frame_samples=frame_samples(name),
    )


def is_derived(name: str) -> bool:
    """Whether a dialect is a subclass of another one, which is checked in its place except in slow tests."""
    classes = {key: found for key, found in DIALECTS.items() if isinstance(found, type)}
    return any(issubclass(classes[name], other) for key, other in classes.items() if key != name)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if is_derived(name) else ()) for name in sorted(DIALECTS)],
)
def test_conforms(name: str) -> None:
    check(name, *(path for owner, path in CASSETTES if owner == name))


@pytest.mark.slow
@each_cassette()
def test_conforms_with_every_wrong_value_in_every_session(name: str, path: Path) -> None:
    check(name, path)


@each_cassette(*SERVER_TYPES)
def test_golden_messages_have_the_vendors_shapes(name: str, path: Path) -> None:
    for step in read_cassette(path).steps:
        if isinstance(step, Received) and path.stem not in NOT_OF_THE_VENDOR:
            SERVER_TYPES[name].validate_json(step.message, strict=True)
        elif isinstance(step, Sent):
            CLIENT_TYPES[name].validate_json(step.message, strict=True)


def test_ga_and_beta_have_the_same_golden_sessions() -> None:
    ga, beta = ({path.stem for path in (GOLDEN / name).glob("*.jsonl")} for name in SERVER_TYPES)
    assert beta - ga == {"beta_refused"}
    assert not ga - beta


@pytest.mark.parametrize("name", SERVER_TYPES)
def test_every_vendor_event_is_known(name: str) -> None:
    module = ga_events if name == "openai" else beta_types.realtime_server_event
    union = get_args(module.RealtimeServerEvent)[0]
    dialect = DIALECTS[name](EndpointSettings(base_url="ws://127.0.0.1:9"))
    for model in get_args(union):
        event_type = get_args(model.model_fields["type"].annotation)[0]
        if event_type.startswith(("output_audio_buffer.", "transcription_session.")):
            continue  # of WebRTC, and of sessions that only transcribe
        outputs = dialect.received(json.dumps({"type": event_type}), 0)
        assert not any(isinstance(output, UnknownEvent) for output in outputs), event_type


# -- The suite finds defects ---------------------------------------------------------------------------

TURN = read_cassette(GOLDEN / "openai" / "ordinary_turn.jsonl")


class Wrapped(OpenAIRealtime):
    """A dialect with a bug: `change` alters its outputs."""

    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return outputs

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        return self.change(super().received(message, at_ns))


class Raises(Wrapped):
    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        orjson.loads(message)
        return super().received(message, at_ns)


class EndsTwice(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [copy for output in outputs for copy in [output] * (1 + isinstance(output, ResponseDone))]


class NeverBegins(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [output for output in outputs if not isinstance(output, ResponseStarted)]


class ReadyTooLate(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [output for output in outputs if not isinstance(output, SessionReady)]


class GivesStrangeThings(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [*outputs, "ready"]  # type: ignore[list-item]


class LosesAudio(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [output for output in outputs if not isinstance(output, ReplyAudio)]


class LogsAudio(Wrapped):
    def redact(self, message: Message) -> dict[str, Any]:
        return {"raw": message if isinstance(message, str) else message.hex()}


class LogsBytes(Wrapped):
    def redact(self, message: Message) -> dict[str, Any]:
        return {"raw": message.encode(errors="replace") if isinstance(message, str) else message}


class NeverLeaves(Wrapped):
    def finish(self, at_ns: int) -> Sequence[Output]:
        super().finish(at_ns)
        return ()


class CallsTheEndAFailure(Wrapped):
    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return (EndpointProblem(FailureKind.CLOSED, "closed", fatal=True),)


class ActsAfterTheEnd(Wrapped):
    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return (Close(),)


class TellsTheKey(Wrapped):
    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        key = self.settings.key
        assert key is not None
        return (EndpointProblem(FailureKind.CLOSED, key.reveal(), fatal=False),)


class SetsTimersBack(Wrapped):
    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        return [*super().received(message, at_ns), SetTimer("watchdog", at_ns - 1)]


class SwapsBytes(Wrapped):
    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return super().frame(pcm[::-1], at_ns)


class CountsWithoutEnd(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        endless = RateLimits((RateLimit("tokens", 1, 1, math.inf),))
        return [endless if isinstance(output, RateLimits) else output for output in outputs]


class Streams(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [StreamText("Hm.") if isinstance(output, ReplyText) else output for output in outputs]


class PlaysOnNoTrack(Wrapped):
    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [
            PlaybackStarted(output.response_id) if isinstance(output, ReplyAudio) else output
            for output in outputs
        ]


class TellsResponsesApart(Wrapped):
    continuous_media = True


class SendsIntoNothing(Wrapped):
    def dial(self) -> Dial:
        return Dial("https://127.0.0.1:9", signalling=Signalling(SdpBody.SDP, SdpBody.SDP))


class Remembers(Wrapped):
    sessions = 0

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        type(self).sessions += 1

    def change(self, outputs: Sequence[Output]) -> Sequence[Output]:
        return [
            dataclasses.replace(output, usage=None, reason=str(self.sessions))
            if isinstance(output, ResponseDone)
            else output
            for output in outputs
        ]


@pytest.mark.parametrize(
    ("defective", "words"),
    [
        (Raises, "raised"),
        (EndsTwice, "ended twice"),
        (NeverBegins, "has not begun"),
        (ReadyTooLate, "before SessionReady"),
        (GivesStrangeThings, "expected actions and events"),
        (LosesAudio, "expected ReplyAudio"),
        (LogsAudio, "audio in the log"),
        (LogsBytes, "cannot be logged"),
        (NeverLeaves, "did not lead to Close"),
        (CallsTheEndAFailure, "reported as a failure"),
        (ActsAfterTheEnd, "expected no action after the end"),
        (TellsTheKey, "the key"),
        (SetsTimersBack, "in the past"),
        (SwapsBytes, "samples"),
        (CountsWithoutEnd, "expected RateLimits.limits to be"),
        (Streams, "media are not continuous"),
        (PlaysOnNoTrack, "audio travels in messages"),
        (TellsResponsesApart, "without response boundaries"),
        (SendsIntoNothing, "opens no channel"),
        (Remembers, "the dialect is not pure"),
    ],
)
def test_the_suite_finds_each_defect(defective: type[Wrapped], words: str) -> None:
    by_contract = defective in (NeverBegins, ReadyTooLate)
    steps = tuple(step for step in TURN.steps if not (by_contract and isinstance(step, Expected)))
    if defective is CallsTheEndAFailure:
        steps = tuple(step for step in steps if not isinstance(step, Closed))
    with pytest.raises(ConformanceError, match=words):
        check_dialect(defective, [dataclasses.replace(TURN, steps=steps)], sent_audio=sent_audio)


def test_a_suite_without_cassettes_fails() -> None:
    with pytest.raises(ConformanceError, match="at least one cassette"):
        check_dialect(OpenAIRealtime, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1"),
        ("{}", "header"),
        ('{"cassette": 2}', "header"),
        ('{"cassette": 1}\n[]', "line 2: expected a JSON object"),
        ('{"cassette": 1}\n{', "line 2: expected JSON"),
        ('{"cassette": 1}\n{"at_ms": 1}', "line 2: expected a cassette step"),
        (
            '{"cassette": 1}\n{"at_ms": 1, "direction": "up", "message": ""}',
            "line 2: expected a cassette step",
        ),
        ('{"cassette": 1}\n{"at_ms": 1, "call": "dance"}', "unknown call 'dance'"),
        (
            '{"cassette": 1}\n{"at_ms": 1, "direction": "in", "binary": "?"}',
            "line 2: expected a cassette step",
        ),
    ],
)
def test_a_file_that_is_not_a_cassette_is_reported(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_cassette(path)


# -- Fuzzing: any input yields only documented outputs -------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=5), json_values, max_size=4).map(json.dumps)
BEGINNINGS: dict[str, list[Message]] = {}
"""The messages of an endpoint in a turn, by dialect."""
SAID: dict[str, list[Message]] = {}
"""All messages of endpoints in the golden sessions, by dialect."""
for folder, file in CASSETTES:
    heard = [step.message for step in read_cassette(file).steps if isinstance(step, Received)]
    SAID.setdefault(folder, []).extend(heard)
    if file.stem in ("ordinary_turn", "manual_turn"):
        BEGINNINGS.setdefault(folder, heard)


def mutate(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Replace a random value."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: mutate(value[name], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [mutate(value[0], draw), *value[1:]]
    return draw(json_values)


def damaged(message: Message, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Message:
    """Return a slightly damaged message, or a different one."""
    match draw(st.integers(0, 6)):
        case 0:
            try:
                return json.dumps(mutate(orjson.loads(message), draw))
            except orjson.JSONDecodeError:
                return message[::-1]
        case 1:
            return message[: draw(st.integers(0, len(message)))]
        case 2:
            return json.dumps(draw(json_values))
        case 3:
            other: Message = draw(st.binary(max_size=40) | st.text(max_size=40))
            return other
        case 4:  # binary instead of text, and vice versa
            return message.encode(errors="replace") if isinstance(message, str) else message.decode("latin-1")
        case _:
            return message


@st.composite
def disorder(draw: Callable[[st.SearchStrategy[Any]], Any], name: str) -> list[Message]:
    """Messages of a dialect's golden sessions: reordered, duplicated, dropped and damaged."""
    begin = BEGINNINGS[name][: draw(st.integers(0, len(BEGINNINGS[name])))]
    rest = draw(st.lists(st.sampled_from(SAID[name]), max_size=12)) if SAID[name] else []
    return [*begin, *(damaged(message, draw) for message in rest)]


@pytest.mark.parametrize("name", sorted(DIALECTS))
@settings(max_examples=10)
@given(data=st.data())
def test_arbitrary_messages_are_survived(name: str, data: st.DataObject) -> None:
    came = data.draw(disorder(name))
    steps = tuple(Received(number * 1_000_000, message) for number, message in enumerate(came))
    mode = data.draw(st.sampled_from(SPECS[name].turn_modes))
    told = replay(DIALECTS[name], Cassette("fuzz", "", steps, {"turn_mode": mode}))
    for output in told:
        assert isinstance(output, get_args(Output))
        if isinstance(output, Send) and name in CLIENT_TYPES:
            CLIENT_TYPES[name].validate_json(output.message)
        if isinstance(output, ResponseDone):
            assert output.status is not ResponseStatus.OPEN


def replay(factory: Callable[[EndpointSettings], Dialect], cassette: Cassette) -> list[Output]:
    """Replay a cassette without expectations, with the suite's own player."""
    player = Player(factory, cassette)
    for number, step in enumerate(cassette.steps):
        player.play(number, step)
    player.call("interrupt", response_id="resp_001", heard_ms=10)
    player.call("end_turn")
    player.close(None, "")
    return player.outputs


@pytest.mark.parametrize("name", sorted(DIALECTS))
@given(
    message=st.dictionaries(st.text(max_size=5), json_values, max_size=4).map(json.dumps)
    | st.binary(max_size=60)
)
@settings(max_examples=10)
def test_the_log_of_anything_is_json(name: str, message: Message) -> None:
    mode = SPECS[name].turn_modes[0]
    dialect = DIALECTS[name](EndpointSettings(base_url="ws://127.0.0.1:9", turn_mode=mode))
    assert isinstance(json.dumps(dialect.redact(message), allow_nan=False), str)


def test_the_vendors_types_reject_bad_messages() -> None:
    """The types that golden sessions are compared with reject wrong messages."""
    with pytest.raises(ValidationError):
        SERVER_TYPES["openai"].validate_json('{"type":"response.output_audio.delta"}', strict=True)
