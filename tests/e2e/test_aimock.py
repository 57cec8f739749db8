"""Our harness against `@copilotkit/aimock`, a third-party mock of vendors' services."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.errors import FailureKind
from live_eval.registry import load
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.timing import ResponseStatus
from tests.e2e.conftest import Aimock, Run
from tests.e2e.helpers import PHONE, PHONE_CASE, PHONE_REPLY, PHONE_RESPONSE, PHONE_SAYS, SAMPLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REPLY = PHONE_REPLY


# -- Realtime GA ---------------------------------------------------------------------------------------

TEXT = (
    "--endpoint",
    "openai",
    "--modality",
    "text",
    "--turn-mode",
    "manual",
    "--transcription-model",
    "none",
)


def says(response: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the fixture that answers every `response.create`."""
    return {"match": {"endpoint": "realtime"}, "response": response, **more}


def test_a_text_reply_over_realtime_ga(aimock: Aimock, run_turn: Run) -> None:
    """aimock accepts our GA session, commit and `response.create`, and we read its events.

    Its peculiarities: `session.updated` without output modalities, `committed` without an item, zero usage.
    """
    with aimock(says({"content": REPLY}, chunkSize=8, latency=20)) as url:
        turn = run_turn(*TEXT, "--base-url", url)
    assert turn.failure is None
    assert turn.warnings == ()
    assert turn.reply_text == REPLY
    (response,) = turn.responses
    assert response.status is ResponseStatus.COMPLETED
    assert turn.timing.transcript.ns is not None
    assert turn.trace.committed_ns is not None


ERROR = {"error": {"message": "Overloaded.", "type": "server_error"}, "status": 500}
FAILURES = {
    "an error": (says(ERROR), FailureKind.RESPONSE_FAILED),
    "a torn connection": (says({"content": REPLY}, chunkSize=4, truncateAfterChunks=3), FailureKind.CLOSED),
    "no answer known": (
        says({"content": REPLY}) | {"match": {"model": "other"}},
        FailureKind.RESPONSE_FAILED,
    ),
}


@pytest.mark.parametrize("what", FAILURES)
def test_failures_get_their_kind(aimock: Aimock, run_turn: Run, what: str) -> None:
    """A failed response, and a TCP connection that ends during a reply without a close frame."""
    fixture, kind = FAILURES[what]
    with aimock(fixture) as url:
        turn = run_turn(*TEXT, "--base-url", url)
    assert turn.failure is not None
    assert turn.failure.kind is kind, turn.failure


def test_handshakes_refused(aimock: Aimock, run_turn: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handshake fails with a wrong key or a rate limit, and succeeds with the right key."""
    with aimock(says({"content": REPLY}), keys="sk-right") as url:
        for key, kind in (("sk-wrong", FailureKind.AUTHENTICATION), ("sk-right", None)):
            monkeypatch.setenv("OPENAI_API_KEY", key)
            turn = run_turn(*TEXT, "--base-url", url, folder=key)
            assert (turn.failure.kind if turn.failure else None) is kind, turn.failure
            assert key not in str(turn.failure)


def test_the_beta_dialect_is_refused_by_name(aimock: Aimock, run_turn: Run) -> None:
    """OpenAI refuses the beta dialect, as observed in 2026, with an error event and close code 4000."""
    with aimock(says({"content": REPLY})) as url:
        turn = run_turn("--endpoint", "openai-beta", "--base-url", url)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.SESSION_REFUSED
    assert "beta_api_shape_disabled" in turn.failure.message
    assert "--endpoint openai" in turn.failure.message, "it says what to do next"


# -- GPT-Live ------------------------------------------------------------------------------------------

# The script expects the user's audio from the first sample on, without waiting for a greeting.
LIVE = (
    *("--endpoint", "openai-live", "--model", "gpt-live-1", "--voice", "marin"),
    *("--case", PHONE_CASE, "--greeting", "ignore"),
)
RATE = 24_000
CHUNK = 960  # 40 ms
SILENCE_S = 20


class Tape:
    """A session script for aimock: each server event is sent when the client's audio reaches its position.

    The client's bytes are part of the script: any other message or sample stops it.
    """

    def __init__(self, url: str = "ws://127.0.0.1/v1") -> None:
        endpoint = {"name": "openai-live", "base_url": url, "model": "gpt-live-1", "voice": "marin"}
        plan = make_plan(validate({"endpoint": endpoint}))
        (start,) = load(plan.spec.dialect)(plan.settings(url)).opened(0)
        begun = json.loads(start.message)
        self.config: dict[str, Any] = begun["session"]
        self.session = self.config | {"id": "live-1", "expires_at": 2_000_000_000, "status": "active"}
        self._entries: list[dict[str, Any]] = []
        self._bindings: list[dict[str, Any]] = []
        self._commands = 0
        self.client(begun)
        self.server("session.started", 0, session=self.session)

    def client(self, event: Mapping[str, Any]) -> None:
        self._bind("/event_id", f"client-{len(self._entries)}", "define", "client", event)
        self._entries.append({"direction": "client", "atMs": 0, "event": event})
        self._commands += event["type"] != "session.input_audio.append"

    def hears(self, pcm: NDArray[np.int16]) -> None:
        for at in range(0, len(pcm), 5 * RATE):
            audio = base64.b64encode(pcm[at : at + 5 * RATE].tobytes()).decode()
            self.client({"type": "session.input_audio.append", "audio": audio})

    def server(self, kind: str, heard: int, **fields: Any) -> None:
        """Send an event once `heard` samples have arrived since the last command."""
        event = {"type": kind, **fields}
        if kind != "session.output_audio.delta":
            event["event_id"] = f"server-{len(self._entries)}"
        self._bind("/event_id", f"server-{len(self._entries)}", "define", "server", event)
        if "session" in event:
            action = "define" if kind == "session.started" else "reference"
            self._bind("/session/id", "session", action, "server", event)
        barrier = {"command": self._commands, "audioBytes": 2 * heard}
        self._entries.append({"direction": "server", "atMs": 0, "event": event, "barrier": barrier})

    def _bind(self, pointer: str, name: str, action: str, owner: str, event: Mapping[str, Any]) -> None:
        if pointer != "/event_id" or "event_id" in event:
            binding = {"pointer": pointer, "name": name, "action": action, "owner": owner}
            self._bindings.append({"entry": len(self._entries), **binding})

    def ends(self, heard: int, reason: str) -> dict[str, Any]:
        """Return the script as an aimock fixture."""
        self.server("session.closed", heard, session=self.session, usage={"seconds": 9}, reason=reason)
        live = {
            "version": 1,
            "model": "gpt-live-1",
            "mode": "client",
            "audio": {"encoding": "pcm16le", "sampleRateHz": RATE, "channels": 1},
            "configuration": self.config,
            "entries": self._entries,
            "bindings": self._bindings,
            "capture": {
                "complete": True,
                "source": "authored",
                "terminalEntry": len(self._entries) - 1,
            },
        }
        response = {"live": live, "liveTiming": "immediate"}
        return {"match": {"endpoint": "openai-live", "model": "gpt-live-1"}, "response": response}


def pcm_of(name: str) -> NDArray[np.int16]:
    return resample(read_audio(SAMPLE / name).audio, RATE).int16()


def conversation(*, hangs_up: bool) -> tuple[dict[str, Any], NDArray[np.int16]]:
    """Return a session script and the audio that the server streams in it."""
    user, reply = pcm_of(PHONE), pcm_of(PHONE_RESPONSE)
    user = np.concatenate([user, np.zeros(-len(user) % 480, np.int16)])
    begins = (len(user) + RATE // 2) // CHUNK * CHUNK
    reply = np.concatenate([reply, np.zeros(-len(reply) % CHUNK, np.int16)])
    spoken = np.concatenate([np.zeros(begins, np.int16), reply, np.zeros(SILENCE_S * RATE // 2, np.int16)])
    tape = Tape()
    tape.hears(user)
    tape.hears(np.zeros(SILENCE_S * RATE, np.int16))
    for at in range(0, begins + len(reply) // 2 if hangs_up else len(spoken), CHUNK):
        if at == begins // 2 // CHUNK * CHUNK:
            said = {"start_ms": 0, "end_ms": 3_000}
            tape.server("session.input_transcript.delta", at, delta=PHONE_SAYS, **said)
        if at == begins:
            said = {"start_ms": at // 24, "end_ms": at // 24 + 2_000}
            for piece in REPLY.split(" "):
                tape.server("session.output_transcript.delta", at, delta=f" {piece}", **said)
        pcm = base64.b64encode(spoken[at : at + CHUNK].tobytes()).decode()
        tape.server("session.output_audio.delta", at, delta=pcm)
    if hangs_up:
        return tape.ends(begins + len(reply) // 2, "remote_hangup"), spoken
    tape.client({"type": "session.close", "event_id": "session.close#1"})
    return tape.ends(0, "close_requested"), spoken


def test_recorded_speech_over_gpt_live(aimock: Aimock, run_turn: Run) -> None:
    """aimock accepts our `session.start` and every audio sample; its stream becomes a turn.

    Its peculiarities: a continuous stream without response ids, and transcript parts without an end event.
    """
    fixture, stream = conversation(hangs_up=False)
    with aimock(fixture) as url:
        turn = run_turn(*LIVE, "--base-url", url)
    assert turn.failure is None, turn.failure
    assert turn.heard_text == PHONE_SAYS
    assert turn.reply_text is not None
    assert turn.reply_text.strip() == PHONE_REPLY
    (response,) = turn.responses
    assert response.status is ResponseStatus.COMPLETED
    assert turn.reply_file is not None
    heard, rate_hz = soundfile.read(turn.reply_file, dtype="int16")
    assert rate_hz == RATE
    at = _place(heard, stream)
    assert (stream[at : at + len(heard)] == heard).all(), "every sample of the reply is kept as it was sent"
    first, last = _audible(stream)
    assert at <= first < last <= at + len(heard)
    # A chunk is sent once the user's audio has reached its position in the stream.
    trace, begins = turn.trace, first // CHUNK * CHUNK
    assert trace.t0_ns is not None
    assert trace.voice_end_ns is not None
    assert turn.timing.voice_to_voice.ns is not None
    leaves_ns = trace.t0_ns + begins * 1_000_000_000 // RATE - trace.voice_end_ns
    late_ms = (turn.timing.voice_to_voice.ns - leaves_ns) / 1e6 - (first - begins) * 1_000 / RATE
    assert -1 < late_ms < 50, "the reply's first audible sound is timed as the tape has it"


def _place(needle: NDArray[np.int16], hay: NDArray[np.int16]) -> int:
    """Return the offset of one audio clip in another, found by cross-correlation."""
    from scipy.signal import correlate

    return int(np.argmax(correlate(hay.astype(float), needle.astype(float), "valid", "fft")))


def _audible(pcm: NDArray[np.int16]) -> tuple[int, int]:
    """Return the starts of the first and the last 10 ms windows louder than -50 dBFS."""
    windows = pcm[: len(pcm) // 240 * 240].reshape(-1, 240).astype(float)
    loud = np.flatnonzero(np.sqrt((windows**2).mean(axis=1)) > 32_768 * 10 ** (-50 / 20))
    return 240 * int(loud[0]), 240 * int(loud[-1])


def test_gpt_live_closes_during_a_reply(aimock: Aimock, run_turn: Run) -> None:
    """A close message during the reply is a failure; audio received before it is kept."""
    fixture, _ = conversation(hangs_up=True)
    with aimock(fixture) as url:
        turn = run_turn(*LIVE, "--base-url", url)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.CLOSED
    assert "remote_hangup" in turn.warnings[-1].message
    assert turn.has_reply


def test_gpt_live_refuses_an_unknown_model(aimock: Aimock, run_turn: Run) -> None:
    """The server refuses a session by closing the connection, without an error event."""
    with aimock(says({"content": REPLY})) as url:
        turn = run_turn(*LIVE, "--base-url", url, "--model", "gpt-live-9")
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.CLOSED
    assert "before the session was ready: code 1008" in turn.failure.message
