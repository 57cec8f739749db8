"""GLM-Realtime: what differs from its base class. Golden sessions cover the rest."""

import io
import json
from dataclasses import replace

import numpy as np
import pybase64
import pytest
import soundfile

from live_eval.clients.dialects.glm import Glm
from live_eval.dialect import (
    EndpointProblem,
    ReplyText,
    ResponseDone,
    Send,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from live_eval.types import TurnMode
from tests.support.openai_relatives import BASE, ready, say, session_of


def test_glms_frames_are_wav_files() -> None:
    pcm = np.arange(-160, 160, dtype="<i2").tobytes()
    (send,) = Glm(BASE).frame(pcm, 0)
    assert isinstance(send, Send)
    data = pybase64.b64decode(json.loads(send.message)["audio"])
    samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="int16")
    assert (samples.tobytes(), rate_hz) == (pcm, 16_000)


def test_glm_sets_who_ends_turns() -> None:
    assert session_of(Glm(replace(BASE, turn_mode=TurnMode.MANUAL)))["turn_detection"] == {
        "type": "client_vad"
    }
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


def test_a_heartbeat_is_ignored() -> None:
    assert say(ready(Glm(BASE)), "heartbeat") == []


def test_events_without_a_response_belong_to_the_one_in_progress() -> None:
    dialect = ready(Glm(BASE))
    say(dialect, "response.created", response={"id": "r"})
    assert say(dialect, "response.audio_transcript.delta", delta="好") == [ReplyText("r", "好")]
    assert say(dialect, "response.done") == [ResponseDone("r", ResponseStatus.COMPLETED)]


def test_an_end_without_a_response_is_malformed() -> None:
    (problem,) = say(ready(Glm(BASE)), "response.done")
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.MALFORMED_MESSAGE


def test_an_interruption_cancels_and_does_not_truncate() -> None:
    dialect = ready(Glm(BASE))
    say(dialect, "response.audio.delta", response_id="r", item_id="i", delta="AAAA")
    (send,) = dialect.interrupt("r", 0, 0)
    assert isinstance(send, Send)
    assert json.loads(send.message)["type"] == "response.cancel"
