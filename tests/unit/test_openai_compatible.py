"""What the services nearly OpenAI's have of their own; their golden sessions hold the rest."""

import io
import json
from typing import Any

import numpy as np
import pybase64
import pytest
import soundfile

from clients.glm import Glm
from clients.openai_compatible import XAI, AzureOpenAI, SpeechToSpeech, StepFun, VllmOmni
from clients.qwen_omni import QwenOmni
from clients.unmute import Unmute
from live_eval.audio import Codec, CodecName
from live_eval.codecs import OPUS_RATE_HZ, Decoder
from live_eval.dialect import (
    Close,
    Dialect,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    ResponseDone,
    Send,
    SetTimer,
)
from live_eval.errors import FailureKind
from live_eval.timeline import ResponseStatus
from live_eval.types import Secret, TurnMode

BASE = EndpointSettings(base_url="wss://h/v1", model="m", voice="v", key=Secret("k-4711"))
S = 1_000_000_000


def settings(**changes: Any) -> EndpointSettings:
    return EndpointSettings(base_url="wss://h/v1", model="m", voice="v", key=Secret("k-4711"), **changes)


def say(dialect: Dialect, kind: str, **fields: object) -> list[Output]:
    return list(dialect.received(json.dumps({"type": kind, **fields}), 0))


def session_of(dialect: Dialect) -> dict[str, Any]:
    """The session that a dialect asks for."""
    sent = [*dialect.opened(0), *say(dialect, "session.created", session={})]
    (update,) = [json.loads(out.message) for out in sent if isinstance(out, Send)]
    session: dict[str, Any] = update["session"]
    return session


def ready(dialect: Dialect) -> Dialect:
    session_of(dialect)
    say(dialect, "session.updated", session={})
    return dialect


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("0123456789abcdef", {"api-key": "0123456789abcdef"}),
        ("eyJhbGci.eyJzdWIi.c2ln", {"Authorization": "Bearer eyJhbGci.eyJzdWIi.c2ln"}),
    ],
)
def test_azure_takes_keys_and_tokens_apart(key: str, headers: dict[str, str]) -> None:
    address = "https://my.openai.azure.com/openai/v1"
    dial = AzureOpenAI(EndpointSettings(base_url=address, model="dep", key=Secret(key))).dial()
    assert dial.headers == headers
    assert dial.url == "wss://my.openai.azure.com/openai/v1/realtime?model=dep"


def test_xai_has_voice_and_detector_at_the_top() -> None:
    session = session_of(XAI(BASE))
    assert (session["voice"], session["turn_detection"]) == ("v", {"type": "server_vad"})
    assert "voice" not in session["audio"]["output"]
    assert "turn_detection" not in session["audio"]["input"]
    assert session_of(XAI(settings(turn_mode=TurnMode.MANUAL)))["turn_detection"] is None


def test_xais_growing_transcripts_are_told_in_pieces() -> None:
    dialect = ready(XAI(BASE))
    kind = "conversation.item.input_audio_transcription.updated"
    said = ["Hello", "Hello", "Hello wor", "Hullo world", "Hello world"]
    told = [out for text in said for out in say(dialect, kind, item_id="i", transcript=text)]
    assert [out.text for out in told if isinstance(out, InputTranscript)] == ["Hello", " wor", "ld"]


def test_pings_and_heartbeats_say_nothing() -> None:
    assert say(ready(XAI(BASE)), "ping") == []
    assert say(ready(Glm(BASE)), "heartbeat") == []
    assert say(ready(VllmOmni(BASE)), "session.heartbeat_ack") == []


def test_stepfun_is_not_asked_for_openais_beta() -> None:
    assert StepFun(BASE).dial().headers == {"Authorization": "Bearer k-4711"}


def test_a_further_session_with_speech_to_speech_may_be_tried_again() -> None:
    error = {"type": "session_limit_reached", "message": "All 1 session slots are in use."}
    (problem,) = say(SpeechToSpeech(BASE), "error", error=error)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.RATE_LIMITED, True)


def test_glms_frames_are_wav_files() -> None:
    pcm = np.arange(-160, 160, dtype="<i2").tobytes()
    (send,) = Glm(BASE).frame(pcm, 0)
    assert isinstance(send, Send)
    data = pybase64.b64decode(json.loads(send.message)["audio"])
    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="int16")
    assert (samples.tobytes(), rate_hz) == (pcm, 16_000)


def test_glm_says_who_ends_turns() -> None:
    assert session_of(Glm(settings(turn_mode=TurnMode.MANUAL)))["turn_detection"] == {"type": "client_vad"}
    session = session_of(Glm(BASE))
    assert session["turn_detection"] == {"type": "server_vad"}
    assert session["beta_fields"]["chat_mode"] == "audio"


@pytest.mark.parametrize(
    ("code", "kind"),
    [("1000", "authentication"), ("1211", "unknown_model"), ("1302", "rate_limited"), ("1214", "no_session")],
)
def test_glms_codes_are_numbers(code: str, kind: str) -> None:
    (problem,) = say(Glm(BASE), "error", error={"code": code, "message": "…"})
    assert isinstance(problem, EndpointProblem)
    assert problem.kind == kind


def test_qwen_waits_for_its_farewell_and_no_longer_than_a_second() -> None:
    dialect = ready(QwenOmni(BASE))
    farewell, timer = dialect.finish(5 * S)
    assert isinstance(farewell, Send)
    assert json.loads(farewell.message)["type"] == "session.finish"
    assert timer == SetTimer("farewell", 6 * S)
    assert say(dialect, "session.finished") == [SetTimer("farewell", None), Close()]
    other = ready(QwenOmni(BASE))
    other.finish(5 * S)
    assert other.timer("farewell", 6 * S) == (Close(),)


def test_qwen_closes_at_once_where_no_session_was() -> None:
    assert QwenOmni(BASE).finish(0) == (Close(),)


def test_unmutes_frames_are_one_ogg_stream() -> None:
    dialect, ears = Unmute(BASE), Decoder(Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ))
    heard = 0
    for _ in range(10):
        for send in dialect.frame(bytes(960), 0):
            assert isinstance(send, Send)
            heard += len(ears.decode(pybase64.b64decode(json.loads(send.message)["audio"])))
    assert heard == 9_600 - 312


def test_unmute_names_its_responses_and_ends_them() -> None:
    dialect = ready(Unmute(BASE))
    for number in (1, 2):
        say(dialect, "response.created", response={})
        done = say(dialect, "response.audio.done")[-1]
        assert done == ResponseDone(f"reply_{number}", ResponseStatus.COMPLETED)


@pytest.mark.parametrize(
    "reason",
    [
        "Your session hit the maximum duration of 30 minutes.",
        "the session has expired",
        "session exceeded its maximum session duration",
        "会话已超时",
    ],
)
@pytest.mark.parametrize("dialect", [AzureOpenAI, XAI, VllmOmni, StepFun, QwenOmni, Glm])
def test_the_cap_of_a_session_is_known_by_its_words(dialect: type[Dialect], reason: str) -> None:
    open_session = ready(dialect(BASE))  # type: ignore[call-arg]
    (problem,) = open_session.closed(1000, reason, 0)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.SESSION_EXPIRED
