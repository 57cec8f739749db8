"""Qwen-Omni Realtime: what differs from its base class. Golden sessions cover the rest."""

import json
from dataclasses import replace
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.qwen_omni import QwenOmni
from live_eval.dialect import (
    Close,
    EndpointProblem,
    ReplyAudio,
    Send,
    SetTimer,
)
from live_eval.errors import FailureKind
from live_eval.types import Modality
from tests.support.openai_relatives import BASE, ready, say, session_of

S = 1_000_000_000


def test_finishing_waits_for_an_answer_no_longer_than_a_second() -> None:
    dialect = ready(QwenOmni(BASE))
    farewell, timer = dialect.finish(5 * S)
    assert isinstance(farewell, Send)
    assert json.loads(farewell.message)["type"] == "session.finish"
    assert timer == SetTimer("farewell", 6 * S)
    assert say(dialect, "session.finished") == [SetTimer("farewell", None), Close()]
    other = ready(QwenOmni(BASE))
    other.finish(5 * S)
    assert other.timer("farewell", 6 * S) == (Close(),)


def test_finishing_closes_at_once_without_a_session() -> None:
    assert QwenOmni(BASE).finish(0) == (Close(),)


def test_models_from_3_8_on_have_nested_formats() -> None:
    session = session_of(QwenOmni(replace(BASE, model="qwen3.8-omni-flash-realtime")))
    assert session["audio"] == {
        "input": {"format": {"type": "pcm", "sample_rate": 16_000}},
        "output": {"format": {"type": "pcm", "sample_rate": 24_000}},
    }
    assert not {"input_audio_format", "output_audio_format"} & set(session)


def test_older_models_have_formats_at_the_top_level() -> None:
    session = session_of(QwenOmni(replace(BASE, model="qwen3-omni-flash-realtime", max_output_tokens=9)))
    assert (session["input_audio_format"], session["output_audio_format"]) == ("pcm16", "pcm16")
    assert "audio" not in session
    assert session["max_tokens"] == 9


def test_text_replies_need_no_audio_format() -> None:
    settings = replace(BASE, model="qwen3.8-omni-flash-realtime", modality=Modality.TEXT)
    assert set(session_of(QwenOmni(settings))["audio"]) == {"input"}


@pytest.mark.parametrize(
    ("told", "rate_hz"),
    [
        ({"output_audio_format": "pcm24"}, 24_000),
        ({"audio": {"output": {"format": {"type": "pcm", "sample_rate": 48_000}}}}, 48_000),
    ],
)
def test_the_rate_of_replies_is_the_reported_one(told: dict[str, Any], rate_hz: int) -> None:
    dialect = QwenOmni(BASE)
    session_of(dialect)
    say(dialect, "session.updated", session=told)
    *_, audio = say(dialect, "response.audio.delta", response_id="r", delta="AAAA")
    assert isinstance(audio, ReplyAudio)
    assert audio.codec == Codec(CodecName.PCM16, rate_hz)


def test_a_session_at_another_rate_is_a_named_failure() -> None:
    dialect = QwenOmni(BASE)
    session_of(dialect)
    told = {"audio": {"input": {"format": {"type": "pcm", "sample_rate": 48_000}}}}
    (problem,) = say(dialect, "session.updated", session=told)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.WRONG_RATE


def test_an_interruption_cancels_and_does_not_truncate() -> None:
    dialect = ready(QwenOmni(BASE))
    say(dialect, "response.audio.delta", response_id="r", item_id="i", delta="AAAA")
    (send,) = dialect.interrupt("r", 0, 0)
    assert isinstance(send, Send)
    assert json.loads(send.message)["type"] == "response.cancel"
