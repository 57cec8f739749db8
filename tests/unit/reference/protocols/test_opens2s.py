"""The server's side of OpenS2S's model worker. No sockets, no clock."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.opens2s import OPENS2S_CONFIG, OpenS2SProtocol
from live_eval.reference.settings import ReferenceSettings


def worker() -> OpenS2SProtocol:
    return OpenS2SProtocol(Engine("sess_1", ReferenceSettings(), OPENS2S_CONFIG))


def wav(seconds: float = 0.5) -> str:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(int(16_000 * seconds), np.int16), 16_000, format="WAV")
    return base64.b64encode(file.getvalue()).decode()


def request(*content: dict[str, Any]) -> str:
    return json.dumps({"messages": [{"role": "user", "content": list(content)}]})


def test_a_request_is_a_turn() -> None:
    outputs = worker().received(request({"text": "Listen."}, {"audio": wav()}), 0)
    assert any(isinstance(output, events.ResponseCreated) for output in outputs)


@pytest.mark.parametrize(
    "body", ["", "{}", request({"text": "Hi."}), request({"audio": "*"}), request({"audio": "AAAA"})]
)
def test_a_request_that_cannot_be_answered_fails_as_in_the_worker(body: str) -> None:
    said, closed = worker().received(body, 0)
    assert isinstance(said, events.SendMessage)
    assert json.loads(said.message)["error_code"] == 1
    assert isinstance(closed, events.CloseConnection)


def test_audio_is_a_wav_file_of_floats() -> None:
    pcm = (np.arange(441) * 50).astype("<i2")
    decoded, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(OpenS2SProtocol.encode(pcm.tobytes()))))
    assert rate_hz == 22_050
    assert np.allclose(decoded * 32_768, pcm)


def test_faults_are_objects_that_no_worker_sends() -> None:
    faults = [*parse_faults("malformed"), *parse_faults("unknown_event"), *parse_faults("error_event")]
    (malformed,), (unknown,), (failed, closed) = (worker().render(fault) for fault in faults)
    assert (malformed, unknown) == (b'{"text":', b'{"type":"pirouette"}')
    assert isinstance(failed, bytes)
    assert json.loads(failed)["error_code"] == 1
    assert isinstance(closed, events.CloseConnection)
