"""Runs that recorded their messages over every kind of transport, and their replay without a transport."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import soundfile
from click.testing import CliRunner

from live_eval.cassettes import Call, Received, Sent, read_cassette
from live_eval.cassettes.replay import Replayed, replay_run
from live_eval.cli.replay import command
from live_eval.errors import StoreError
from live_eval.recording import RunReader, RunWriter
from live_eval.reference.emulation import address
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import run_plan
from tests.loopback.run.test_runner import Silent

RATE_HZ = 24_000
KEY = "live-eval-key-do-not-tell"
COMPLETION = Path(__file__).parents[2] / "conformance" / "golden" / "openai_chat_audio" / "manual_turn.jsonl"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    folder = tmp_path_factory.mktemp("endpoint")
    async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
        yield urlsplit(process.base_url).port or 0


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """A folder with two recordings of marked speech."""
    folder = tmp_path / "speech"
    folder.mkdir()
    for number, length_ms in enumerate((300, 420)):
        sound = calibration_speech(length_ms, RATE_HZ).audio.int16()
        soundfile.write(folder / f"speech {number}.wav", sound, RATE_HZ)
    return folder


def run(endpoint: int, name: str, mode: str, data: Path, out: Path, query: str = "") -> None:
    hold(f"{address(name, '127.0.0.1', endpoint)}{query}", name, mode, data, out)


def hold(address: str, name: str, mode: str, data: Path, out: Path, history: str = "own") -> None:
    config = validate(
        {
            "endpoint": {"name": name, "base_url": address, "key_variable": "TEST_KEY"},
            "data": {"path": str(data)},
            "turns": {
                "mode": mode,
                "history": history,
                "retries": 0,
                "reply_silence": 0.3,
                "word_times": "off",
                "stall_timeout": 2,
            },
            "output": {"record_wire": True},
        }
    )
    plan = make_plan(config)
    with RunWriter.create(out, plan.manifest()) as writer:
        asyncio.run(run_plan(plan, writer, out, Silent()))
        writer.end(finished=True)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("openai", "server_vad"),
        ("openai", "manual"),
        ("openai-beta", "manual"),
        ("openai-webrtc", "manual"),
        ("openai-live", "full_duplex"),
        ("gemini-live", "manual"),
        ("moshi", "full_duplex"),
        ("pipecat-webrtc", "full_duplex"),
    ],
)
def test_a_replay_gives_the_same_events_and_latencies(
    endpoint: int,
    monkeypatch: pytest.MonkeyPatch,
    speech: Path,
    tmp_path: Path,
    name: str,
    mode: str,
) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    out = tmp_path / "run"
    run(endpoint, name, mode, speech, out)
    with RunReader.open(out) as reader:
        assert [turn.failure for turn in reader.turns()] == [None, None]
    outcomes = list(replay_run(out))
    assert [outcome.differences for outcome in outcomes] == [(), ()]
    assert all(outcome.events > 0 for outcome in outcomes)
    for cassette in (out / "wire").iterdir():
        text = cassette.read_text("utf-8")
        assert KEY not in text
        assert "127.0.0.1" not in text


def test_recordings_of_an_injected_history_are_replayed(endpoint: int, speech: Path, tmp_path: Path) -> None:
    turns = [{"audio": f"speech {number}.wav", "reference_text": "Yes."} for number in range(2)]
    data = speech / "data.jsonl"
    data.write_text(json.dumps({"id": "d", "turns": turns}))
    hold(address("openai", "127.0.0.1", endpoint), "openai", "manual", data, tmp_path / "run", "inject-audio")
    assert [outcome.differences for outcome in replay_run(tmp_path / "run")] == [(), ()]


async def test_a_session_that_moves_to_another_connection_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    folder, out = tmp_path / "speech", tmp_path / "run"
    folder.mkdir()
    sound = calibration_speech(3_500, RATE_HZ).audio.int16()
    await asyncio.to_thread(soundfile.write, folder / "long.wav", sound, RATE_HZ)
    arguments = ("--session-limit-s", "8", "--notice-s", "7")
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path, arguments=arguments) as process:
        port = urlsplit(process.base_url).port or 0
        base_url = address("gemini-live", "127.0.0.1", port)
        await asyncio.to_thread(hold, base_url, "gemini-live", "manual", folder, out)
    (outcome,) = await asyncio.to_thread(lambda: list(replay_run(out)))
    assert outcome.differences == ()
    assert outcome.latencies_ns["voice_to_voice"] is not None
    (path,) = (out / "wire").iterdir()
    steps = (await asyncio.to_thread(read_cassette, path)).steps
    assert sum(isinstance(step, Call) and step.name == "opened" for step in steps) == 2
    told = [json.loads(step.message) for step in steps if isinstance(step, Received | Sent)]
    updates = [one["sessionResumptionUpdate"] for one in told if "sessionResumptionUpdate" in one]
    handles = [update["newHandle"] for update in updates if "newHandle" in update]
    setups = [one["setup"]["sessionResumption"] for one in told if "setup" in one]
    resumed = [setup["handle"] for setup in setups if "handle" in setup]
    assert handles
    assert len(resumed) == 1
    assert {*handles, *resumed} == {"***"}


class Completions(BaseHTTPRequestHandler):
    """Answers every request with the events of the golden session."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for step in read_cassette(COMPLETION).steps:
            if isinstance(step, Received):
                self.wfile.write(f"data: {step.message!s}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def test_a_request_over_http_is_replayed(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/v1"
        hold(address, "openai-chat-audio", "manual", speech, tmp_path / "run")
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    outcomes = list(replay_run(tmp_path / "run"))
    assert [outcome.differences for outcome in outcomes] == [(), ()]
    assert all((outcome.latencies_ns["first_byte"] or 0) > 0 for outcome in outcomes)
    assert all(KEY not in path.read_text("utf-8") for path in (tmp_path / "run" / "wire").iterdir())


@pytest.mark.parametrize("fault", ["close", "failed_response", "malformed", "stall"])
def test_failed_turns_are_replayed(endpoint: int, speech: Path, tmp_path: Path, fault: str) -> None:
    out = tmp_path / "run"
    run(endpoint, "openai", "manual", speech, out, f"?fault={fault}")
    with RunReader.open(out) as reader:
        assert all(turn.failure is not None for turn in reader.turns())
    outcomes = list(replay_run(out))  # also those of a session that was dialled again to test for an outage
    assert not any(outcome.differences for outcome in outcomes)
    assert sum(outcome.kept for outcome in outcomes) == 2


def doctor(cassette: Path) -> None:
    """Delay the first audio of the reply by 5 ms."""
    lines = [json.loads(line) for line in cassette.read_text("utf-8").splitlines()]
    done = False
    for line in lines:
        if "audio.delta" in str(line.get("message")) and not done:
            line["at_ms"] += 5
            done = True
    assert done
    cassette.write_text("\n".join(map(json.dumps, lines)), "utf-8")


def test_an_altered_cassette_is_detected(endpoint: int, speech: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(endpoint, "openai", "manual", speech, out)
    doctor(min((out / "wire").iterdir()))
    altered, kept = list(replay_run(out))
    assert kept.differences == ()
    assert any(difference.startswith("first_byte: now ") for difference in altered.differences)
    assert any("the dialect now reports ReplyAudio at" in difference for difference in altered.differences)
    result = CliRunner().invoke(command, [str(out)])
    assert result.exit_code == 3
    assert f"{altered.turn_id}: differs\n  " in result.output
    assert f"{kept.turn_id}: equal: {kept.events} events and the latencies\n" in result.output
    assert "1 of 2 sessions match the stored turns" in result.output
    whole = CliRunner().invoke(command, [str(out), "--turn", kept.turn_id, "--json"])
    assert whole.exit_code == 0
    (row,) = json.loads(whole.output)
    assert row.pop("equal") is True
    assert Replayed(**row | {"differences": ()}) == kept
    assert row["latencies_ns"]["first_byte"] > 0
    alone = CliRunner().invoke(command, [str(max((out / "wire").iterdir()))])
    assert alone.exit_code == 0
    assert alone.output.startswith(f"{kept.turn_id}: equal: {kept.events} events\n")


def test_a_run_without_cassettes_explains_how_to_record_them(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}):
        pass
    with pytest.raises(StoreError, match="--record-wire"):
        list(replay_run(tmp_path / "run"))


def test_a_run_ends_if_messages_cannot_be_written(endpoint: int, speech: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "wire").write_text("in the way")
    with pytest.raises(ExceptionGroup) as raised:
        run(endpoint, "openai", "manual", speech, out)
    assert raised.group_contains(StoreError, match="cannot write the messages")
