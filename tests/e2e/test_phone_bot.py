"""Our telephony clients against a pipecat phone bot with its serialisers, compared with its log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseStatus
from tests.e2e.conftest import Run, Runs, Serving, Talk, python_of
from tests.e2e.helpers import PHONE, PHONE_CASE, STRANGERS

pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

SESSIONS = 3
SENT_WITHIN_MS = 30
REPEATS_MS = 150  # the repeating bot plays 200 ms before the loud part
RUN = ("--endpoint", "twilio", "--case", PHONE_CASE, "--reply-timeout", "5")


@pytest.fixture
def phone_bot(serving: Serving, tmp_path: Path) -> PhoneBot:
    """Run pipecat's phone bot; see `PhoneBot.run`."""
    return PhoneBot(serving, tmp_path / "answers.jsonl")


class PhoneBot:
    """Starts the bot, and reads its log."""

    def __init__(self, serving: Serving, log: Path) -> None:
        self._serving, self._log = serving, log

    @contextmanager
    def run(self, behaviour: str = "tone") -> Iterator[str]:
        """Run the bot; the value is the address of its server, such as ``127.0.0.1:7860``."""
        flags = ["-t", "twilio", "-x", "127.0.0.1:9", "--host", "127.0.0.1", "--port", "0"]
        command: list[str | Path] = [python_of("voice"), STRANGERS / "pipecat_tone_bot.py", *flags]
        environment = {"ANSWERS": str(self._log), "BOT": behaviour}
        with self._serving(command, r"Uvicorn running on http://(\S+)", environment) as address:
            yield address

    def answered_ns(self, call: str | None) -> list[int]:
        """Return the times at which the bot sent the first audio of its answers in a call."""
        lines = map(json.loads, self._log.read_text("utf-8").splitlines())
        return [line["at_ns"] for line in lines if (line["call"], line["event"]) == (call, "audio")]


def heard(turn: TurnRecord) -> tuple[int, int]:
    """Return the start and end of the reply as heard; it is a tone from its first sample."""
    (response,) = turn.responses
    assert response.heard_ns is not None
    return response.heard_ns[0][0], response.heard_ns[-1][1]


def late_ms(turn: TurnRecord) -> float:
    """Return the maximum lateness of a chunk relative to playout: a busy bot sends some chunks late."""
    (response,) = turn.responses
    assert response.rate_hz is not None
    due_ms = (np.cumsum(response.chunk_samples) - response.chunk_samples) * 1_000 / response.rate_hz
    since_first_ms = (response.chunk_arrival_ns - response.chunk_arrival_ns[0]) / 1e6
    return float(np.max(since_first_ms - due_ms))


@pytest.mark.parametrize("provider", ["twilio", "telnyx", "plivo", "exotel"])
def test_a_bot_that_answers(phone_bot: PhoneBot, run_turns: Runs, provider: str) -> None:
    """pipecat recognises the provider by its first messages; its serialiser handles all others."""
    flags = ("--endpoint", provider, *RUN[2:], "--base-url")
    with phone_bot.run() as address:
        turns = run_turns(*flags, f"ws://{address}/ws", times=SESSIONS)
    delays_ms = []
    for turn in turns:
        assert turn.failure is None, turn.failure
        assert turn.warnings == ()
        assert [response.status for response in turn.responses] == [ResponseStatus.COMPLETED]
        (sent_ns,) = phone_bot.answered_ns(turn.session_id)
        start_ns, end_ns = heard(turn)
        delays_ms.append((start_ns - sent_ns) / 1e6)
        assert (end_ns - start_ns) / 1e6 == pytest.approx(1_000 + late_ms(turn), abs=30)
        assert turn.timing.voice_to_voice.ns is not None
    assert min(delays_ms) >= 0
    assert min(delays_ms) < SENT_WITHIN_MS  # a loaded machine delays some of them
    assert len({turn.session_id for turn in turns}) == SESSIONS


def test_a_bot_that_vonage_calls(serving: Serving, run_turn: Run, tmp_path: Path) -> None:
    """pipecat's runner does not support Vonage; this bot serves it at a path, and repeats the user."""
    command = [python_of("voice"), STRANGERS / "pipecat_repeating_bot.py", "0"]
    events = {"EVENTS": str(tmp_path / "events.jsonl")}
    with serving(command, r"Uvicorn running on http://(\S+)", events) as address:
        turn = run_turn("--endpoint", "vonage", *RUN[2:], "--base-url", f"ws://{address}/vonage")
    assert turn.failure is None, turn.failure
    assert turn.warnings == ()
    lines = map(json.loads, Path(events["EVENTS"]).read_text("utf-8").splitlines())
    (answered_ns,) = (line["at_ns"] for line in lines if line["event"] == "answer")
    assert REPEATS_MS < (heard(turn)[0] - answered_ns) / 1e6 < REPEATS_MS + 100


def test_its_webhook_names_its_stream(phone_bot: PhoneBot, run_turn: Run) -> None:
    """pipecat's runner answers with TwiML, whose stream requires TLS, which is not served here."""
    with phone_bot.run() as address:
        turn = run_turn(*RUN, "--base-url", f"http://{address}/")
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.CONNECTION_REFUSED
    assert "wss://127.0.0.1:9/ws" in turn.failure.message


@pytest.mark.parametrize(
    ("behaviour", "kind"), [("mute", FailureKind.NO_RESPONSE), ("hangup", FailureKind.CLOSED)]
)
def test_a_bot_that_does_not_answer(
    phone_bot: PhoneBot, run_turn: Run, behaviour: str, kind: FailureKind
) -> None:
    with phone_bot.run(behaviour) as address:
        turn = run_turn(*RUN, "--base-url", f"ws://{address}/ws")
    assert turn.failure is not None
    assert turn.failure.kind is kind, turn.failure


@pytest.mark.parametrize("cadence", ["burst", "realtime"])
def test_another_simulator_calls_the_built_in_endpoint(reference: str, talk: Talk, cadence: str) -> None:
    """streamdouble checks every message of the built-in phone agent, and echoes its mark."""
    program = python_of("voice").parent / "streamdouble"
    call: list[str | Path] = [
        "call",
        f"ws://{reference}/media-stream?cadence={cadence}",
        "--audio",
        talk(8_000, PHONE, 0.5),
    ]
    done = subprocess.run([program, *call, "--json"], capture_output=True, text=True, check=False)
    heard = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (heard["violations"], heard["unknown_events"]) == ([], [])
    assert heard["audio_received_ms"] > 1_000
    assert (heard["marks_received"], heard["marks_echoed"]) == (1, 1)
    assert heard["clears_received"] == 1
