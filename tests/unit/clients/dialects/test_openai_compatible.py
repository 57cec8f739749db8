"""Services that resemble OpenAI: what differs from the base class. Golden sessions cover the rest."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from live_eval.clients.dialects.glm import Glm
from live_eval.clients.dialects.openai_compatible import XAI, AzureOpenAI, SpeechToSpeech, StepFun, VllmOmni
from live_eval.clients.dialects.qwen_omni import QwenOmni
from live_eval.dialect import (
    Dialect,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    ReplyAudio,
    ResponseDone,
    ResponseStarted,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from live_eval.types import Secret, TurnMode
from tests.support.openai_relatives import BASE, ready, say, session_of


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("0123456789abcdef", {"api-key": "0123456789abcdef"}),
        ("eyJhbGci.eyJzdWIi.c2ln", {"Authorization": "Bearer eyJhbGci.eyJzdWIi.c2ln"}),
    ],
)
def test_azure_gets_keys_and_tokens_in_different_headers(key: str, headers: dict[str, str]) -> None:
    address = "https://my.openai.azure.com/openai/v1"
    dial = AzureOpenAI(EndpointSettings(base_url=address, model="dep", key=Secret(key))).dial()
    assert dial.headers == headers
    assert dial.url == "wss://my.openai.azure.com/openai/v1/realtime?model=dep"


def test_xai_has_voice_and_detector_at_the_top_level() -> None:
    session = session_of(XAI(BASE))
    assert (session["voice"], session["turn_detection"]) == ("v", {"type": "server_vad"})
    assert "voice" not in session["audio"]["output"]
    assert "turn_detection" not in session["audio"]["input"]
    assert session_of(XAI(replace(BASE, turn_mode=TurnMode.MANUAL)))["turn_detection"] is None


def test_xais_growing_transcripts_are_reported_in_pieces() -> None:
    dialect = ready(XAI(BASE))
    kind = "conversation.item.input_audio_transcription.updated"
    said = ["Hello", "Hello", "Hello wor", "Hullo world", "Hello world"]
    told = [out for text in said for out in say(dialect, kind, item_id="i", transcript=text)]
    assert [out.text for out in told if isinstance(out, InputTranscript)] == ["Hello", " wor", "ld"]


def test_an_xai_transcript_in_progress_is_not_final() -> None:
    dialect = ready(XAI(BASE))
    kind = "conversation.item.input_audio_transcription.completed"
    told = say(dialect, kind, item_id="i", transcript="Hello", status="in_progress")
    told += say(dialect, kind, item_id="i", transcript="Hello world", status="completed")
    assert told == [InputTranscript("Hello", False, "i"), InputTranscript("Hello world", True, "i")]


def test_a_silent_xai_response_ends_when_another_begins() -> None:
    dialect = ready(XAI(BASE))
    say(dialect, "response.created", response={"id": "a"})
    told = say(dialect, "response.created", response={"id": "b"})
    reason = "another response began"
    assert told == [ResponseDone("a", ResponseStatus.CANCELLED, reason), ResponseStarted("b")]
    assert say(dialect, "response.done", response={"id": "a", "status": "cancelled"}) == []


def test_an_xai_response_with_audio_ends_by_its_own_event() -> None:
    dialect = ready(XAI(BASE))
    say(dialect, "response.created", response={"id": "a"})
    say(dialect, "response.output_audio.delta", response_id="a", item_id="i", delta="AAAA")
    assert say(dialect, "response.created", response={"id": "b"}) == [ResponseStarted("b")]
    done = say(dialect, "response.done", response={"id": "a", "status": "completed"})
    assert done == [ResponseDone("a", ResponseStatus.COMPLETED)]


@pytest.mark.parametrize("model", ["m", None])
def test_vllm_omni_waits_for_our_first_message(model: str | None) -> None:
    dialect = VllmOmni(replace(BASE, model=model))
    asks = parse_qs(urlsplit(dialect.dial().url).query)
    assert (asks["duplex"], asks["autostart"], asks.get("model", [None])[0]) == (["1"], ["0"], model)
    assert session_of(dialect).get("model") == model


def test_each_piece_of_vllm_omni_audio_has_its_rate() -> None:
    dialect = ready(VllmOmni(BASE))
    where = {"response_id": "r", "item_id": "i", "delta": "AAAA"}
    kind = "response.output_audio.delta"
    told = [*say(dialect, kind, **where, sample_rate_hz=16_000), *say(dialect, kind, **where)]
    rates = [out.codec.rate_hz for out in told if isinstance(out, ReplyAudio)]
    assert rates == [16_000, 16_000]


@pytest.mark.parametrize("rate_hz", [0, -1, 96, 10**9])
def test_an_impossible_vllm_omni_rate_is_malformed(rate_hz: int) -> None:
    dialect = ready(VllmOmni(BASE))
    kind = "response.output_audio.delta"
    (problem,) = say(dialect, kind, response_id="r", delta="AAAA", sample_rate_hz=rate_hz)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.MALFORMED_MESSAGE


def test_vllm_omni_reports_a_model_that_is_not_duplex() -> None:
    dialect = VllmOmni(BASE)
    dialect.opened(0)
    (problem,) = say(dialect, "error", code="unsupported", error="VAD realtime is not enabled")
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal, problem.code) == (FailureKind.SESSION_REFUSED, True, "unsupported")
    assert "VAD realtime is not enabled; check that the server runs" in problem.message


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [(XAI, "ping"), (VllmOmni, "session.heartbeat_ack"), (VllmOmni, "duplex.audio.ready")],
)
def test_pings_and_the_like_are_ignored(dialect: type[XAI | VllmOmni], kind: str) -> None:
    assert say(ready(dialect(BASE)), kind) == []


def test_stepfun_gets_no_header_for_openais_beta() -> None:
    assert StepFun(BASE).dial().headers == {"Authorization": "Bearer k-4711"}


def test_a_further_session_with_speech_to_speech_waits_for_a_free_one() -> None:
    error = {"type": "session_limit_reached", "message": "All 1 session slots are in use."}
    (problem,) = say(SpeechToSpeech(BASE), "error", error=error)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.BUSY, True)


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
def test_the_cap_of_a_session_is_recognised_by_its_text(dialect: type[Dialect], reason: str) -> None:
    open_session = ready(dialect(BASE))  # type: ignore[call-arg]
    (problem,) = open_session.closed(1000, reason, 0)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.SESSION_EXPIRED
