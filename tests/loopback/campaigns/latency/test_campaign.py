"""Campaigns over real sockets against the reference endpoint, in its own process and without models."""

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import pytest_asyncio
import soundfile
from click.testing import CliRunner
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from live_eval.analysis.licences import licence_of
from live_eval.campaigns.campaign import CampaignOutcome
from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.campaigns.latency.campaign import LatencyCampaign
from live_eval.campaigns.latency.campaign_file import CAMPAIGN_FILE, read_campaign
from live_eval.campaigns.latency.points import CampaignPlan, SessionKind
from live_eval.campaigns.latency.summary import campaign_summary, summary_schema
from live_eval.cli import FAILED
from live_eval.cli.latency import command
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.errors import FailureKind, StoreError, UsageError
from live_eval.recording import RunReader, TurnRecord
from live_eval.recording.calibrations import FILE_VARIABLE, KeptCalibration, keep
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.endpoint_health import MISSES_OF_OUTAGE
from live_eval.run.run_file import RunConfig, validate
from live_eval.run.runner import Observer, RunOutcome, run_plan
from live_eval.run.stop_signals import StopSignals
from tests.support.benchmarks import SETS
from tests.support.marked_cases import marked_cases
from tests.support.tiny_endpoint import answer

RATE = 24_000
CALIBRATION = KeptCalibration(
    date="2026-11-01T12:00:00+00:00",
    transport="websocket",
    sessions=2,
    noise=False,
    stamps="kernel",
    errors_p99_ms={"first_byte": 0.2},
    floor_p99_ms=0.2,
)


class Silent(Observer):
    """An observer that stores the measured conditions."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def note(self, text: str) -> None:
        if found := re.match(r"(\d+) of (\d+): (\S+) \(", text):
            self.steps.append(f"{found[1]}/{found[2]} {found[3]}")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("endpoint")
    async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
        yield process.base_url


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two cases of marked speech, of 0.2 s each."""
    return marked_cases(tmp_path, [200, 200])


def config(base_url: str, manifest: Path, **turns: Any) -> RunConfig:
    return validate(
        {
            "endpoint": {"name": "reference", "base_url": base_url},
            "data": {"path": str(manifest)},
            "turns": {"word_times": "off", "reply_timeout": 0.3, "pause": 0.05} | turns,
        }
    )


async def held(
    folder: Path, observer: Silent | None = None, *, resume: bool = False, **plan: Any
) -> CampaignOutcome:
    asked = CampaignPlan(**{"sentinel_turns": 0, **plan})
    campaign = await asyncio.to_thread(LatencyCampaign, asked, folder, resume=resume)
    with StopSignals() as stop:
        return await campaign.run(observer or Silent(), stop)


async def turns_of(run: Path) -> list[TurnRecord]:
    def read() -> list[TurnRecord]:
        with RunReader.open(run) as reader:
            assert reader.ended
            return list(reader.turns())

    return await asyncio.to_thread(read)


def speak_on(manifest: Path, ms: int) -> None:
    """Extend the speech of the first case beyond its mark, which the endpoint treats as the end."""
    row = json.loads(manifest.read_text().splitlines()[0])
    audio, _ = soundfile.read(manifest.with_name(row["audio"]), dtype="int16")
    going_on = np.concatenate((audio, np.resize(audio // 2, ms * RATE // 1000)))
    soundfile.write(manifest.with_name(row["audio"]), going_on, RATE)
    row["voice_end_ms"] = row["words_end_ms"] = 1000 * len(going_on) / RATE
    manifest.write_text(json.dumps(row), "utf-8")


@pytest.mark.asyncio(loop_scope="module")
async def test_every_condition_is_an_ordinary_run(endpoint: str, manifest: Path, tmp_path: Path) -> None:
    observer = Silent()
    folder = tmp_path / "campaign"
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    outcome = await held(folder, observer, config=settings, turns=3, concurrency=(2, 3))
    assert outcome == CampaignOutcome(failed=0, interrupted=False, stopped="")
    assert observer.steps == ["1/2 c2", "2/2 c3"]
    document = json.loads((folder / CAMPAIGN_FILE).read_text())
    assert (document["schema"], document["endpoint"], document["complete"]) == (1, "reference", True)
    assert document["machine"]["priority"] in ("real-time", "raised", "normal")
    assert document["points"][1] == {
        "name": "c3",
        "run": "c3",
        "role": "sweep",
        "concurrency": 3,
        "arrivals": "closed",
        "input_s": None,
        "turn_detection": {},
        "turn_mode": "server_vad",
        "sessions": "cold",
    }
    for point in document["points"]:
        turns = await turns_of(folder / point["run"])
        assert [turn.turn_id for turn in sorted(turns, key=lambda turn: turn.turn_id)] == [
            *("case-0", "case-0#2", "case-1")
        ]
        assert all(turn.captured and turn.trace.intended_ns is None for turn in turns)
    with pytest.raises(StoreError, match="already contains a campaign"):
        await held(folder, config=settings)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_open_loop_stores_when_each_session_was_due(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100&delay_ms=100", manifest)
    arrivals = Arrivals.parse("constant:10")
    folder = tmp_path / "c"
    await held(folder, config=settings, turns=3, concurrency=(1,), arrivals=arrivals)
    traces = sorted(
        (turn.trace for turn in await turns_of(tmp_path / "c" / "c1")), key=lambda each: each.dial_ns
    )
    intended = [trace.intended_ns or 0 for trace in traces]
    assert np.diff(intended).tolist() == [100_000_000] * 2
    delays = [trace.dial_ns - due for trace, due in zip(traces, intended, strict=True)]
    assert 0 <= delays[0] < 50_000_000
    # A turn takes over 0.3 s and only one runs at a time, so each start is 0.2 s later than the previous one.
    assert min(np.diff(delays)) > 199_000_000
    summary = await asyncio.to_thread(
        lambda: campaign_summary(read_campaign(folder), definitions=False).as_json()
    )
    assert "c1: sessions were queued: they began" in summary["notes"][-1]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.slow
@pytest.mark.parametrize("arrivals", ["constant:20", pytest.param("closed", marks=pytest.mark.slow)])
async def test_refused_turns_fail_and_delay_no_later_start(
    manifest: Path, tmp_path: Path, arrivals: str
) -> None:
    dialled = itertools.count()
    busy = 0

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        next(dialled)
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded") if busy else None

    async def one_at_a_time(socket: ServerConnection) -> None:
        nonlocal busy
        busy += 1
        try:
            await answer(socket)
        finally:
            busy -= 1

    async with serve(one_at_a_time, "127.0.0.1", 0, process_request=admit) as server:
        address = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1"
        settings = await asyncio.to_thread(config, address, manifest, mode="manual", reply_timeout=5)
        plan: dict[str, Any] = {
            "turns": 16,
            "concurrency": (8,),
            "sentinel_turns": 1,
            "arrivals": Arrivals.parse(arrivals),
        }
        outcome = await held(tmp_path / "c", config=settings, **plan)
    assert outcome.failed > 3
    # Each turn is dialled once. If no other session can show that the endpoint is up, a refused turn is
    # dialled again only as a test: the refusal counts.
    assert next(dialled) <= 2 + 16 + MISSES_OF_OUTAGE
    turns = await turns_of(tmp_path / "c" / "c8")
    assert len(turns) == 16
    points = (await asyncio.to_thread(read_campaign, tmp_path / "c")).points
    assert [point.outages for point in points] == ["", "", ""]
    kinds = {turn.failure.kind for turn in turns if turn.failure is not None}
    assert kinds == {FailureKind.UNAVAILABLE}
    if arrivals != "closed":
        due_ns = sorted(turn.trace.intended_ns or 0 for turn in turns)
        assert np.diff(due_ns).tolist() == [50_000_000] * 15
        delays_ns = [turn.trace.dial_ns - (turn.trace.intended_ns or 0) for turn in turns]
        assert min(delays_ns) >= 0
        assert max(delays_ns) < 500_000_000


@pytest.mark.asyncio(loop_scope="module")
async def test_warm_sessions_run_several_turns(endpoint: str, manifest: Path, tmp_path: Path) -> None:
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    kinds = (SessionKind.COLD, SessionKind.WARM)
    await held(tmp_path / "c", config=settings, turns=2, concurrency=(1,), sessions=kinds)
    cold, warm = [await turns_of(tmp_path / "c" / name) for name in ("c1-cold", "c1-warm")]
    assert [len({turn.session_id for turn in turns}) for turns in (cold, warm)] == [2, 1]
    assert sum(turn.timing.connect.ns is not None for turn in warm) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_an_endpoint_that_never_replies_ends_the_campaign(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = await asyncio.to_thread(config, f"{endpoint}?fault=silent", manifest)
    outcome = await held(tmp_path / "c", config=settings, turns=2, concurrency=(2, 1))
    assert outcome.failed == 2
    assert outcome.stopped.startswith(
        "no turn of c2 was captured (2 × no_response: no response within 0.3 s after the user's turn; the "
        "endpoint heard speech"
    )
    assert outcome.stopped.endswith("); the campaign stopped")
    document = json.loads((tmp_path / "c" / CAMPAIGN_FILE).read_text())
    assert (document["complete"], document["notes"][-1]) == (False, outcome.stopped)
    assert [point["name"] for point in document["points"]] == ["c2"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reply_before_the_user_ends_keeps_its_negative_latency(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(speak_on, manifest, 400)
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    goes_on = {"type": "server_vad", "interrupt_response": False}
    outcome = await held(tmp_path / "c", config=settings, turns=1, detections=(goes_on,))
    assert outcome.failed == 0
    (turn,) = await turns_of(tmp_path / "c" / "c1")
    assert turn.timing.voice_to_voice.ns is not None
    assert turn.timing.voice_to_voice.ns < -300_000_000
    summary = await asyncio.to_thread(
        lambda: campaign_summary(read_campaign(tmp_path / "c"), definitions=False).as_json()
    )
    assert summary["points"][0]["turns"]["early"] == 1
    assert summary["points"][0]["latencies"]["voice_to_voice"]["max_ms"] < -300


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reply_of_ten_minutes_fails_at_the_limit(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    url = f"{endpoint}?reply_ms=600000&cadence=realtime"
    settings = await asyncio.to_thread(config, url, manifest, max_reply=0.5)
    outcome = await held(tmp_path / "c", config=settings, turns=1)
    assert "no turn of c1 was captured (1 × endless: " in outcome.stopped


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_an_endpoint_that_sends_only_silence_has_no_audible_reply(
    manifest: Path, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "silence.wav", np.zeros(RATE // 2, np.int16), RATE)
    arguments = ("--reply-audio", str(tmp_path / "silence.wav"))
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path, arguments=arguments) as silent:
        settings = await asyncio.to_thread(config, silent.base_url, manifest)
        outcome = await held(tmp_path / "c", config=settings, turns=2)
    assert (outcome.failed, outcome.stopped) == (0, "")
    summary = await asyncio.to_thread(
        lambda: campaign_summary(read_campaign(tmp_path / "c"), definitions=False).as_json()
    )
    latencies = summary["points"][0]["latencies"]
    assert (latencies["first_byte"]["n"], latencies["voice_to_voice"]["n"]) == (2, 0)
    assert latencies["voice_to_voice"]["missing"] == {"no audible sample": 2}


@pytest.mark.parametrize(("bound", "status"), [("< 60s", 0), ("< 5ms", 4)])
def test_the_command_prints_metrics_and_checks_assertions(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, status: int
) -> None:
    monkeypatch.setattr("live_eval.campaigns.latency.summary.available", lambda: "no recogniser in this test")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "calibrations.json"))
    for processes in range(3):
        keep(CALIBRATION.model_copy(update={"processes": processes}))
    common = [
        "--base-url",
        f"{endpoint}?reply_ms=100&delay_ms=20",
        "--data",
        str(manifest),
        "--word-times",
        "off",
    ]
    arguments = ["reference", "--turns", "2", "--concurrency", "2", "--sentinel-turns", "0", *common]
    asserted = f"voice_to_voice.max {bound}"
    out = ["--out", str(tmp_path / "c"), "--price", "input=4,output=64,audio_input=32"]
    result = CliRunner().invoke(command, [*arguments, *out, "--json", "--assert", asserted])
    assert result.exit_code == status, result.output
    summary = json.loads(result.stdout)
    jsonschema.validate(summary, summary_schema(), jsonschema.Draft202012Validator)
    assert summary["error_bar"]["calibration"]["errors_p99_ms"] == CALIBRATION.errors_p99_ms
    assert summary["points"][0]["latencies"]["voice_to_voice"]["n"] == 2
    assert summary["points"][0]["cost_per_minute"]["reason"] != "the price of the model is unknown"
    (checked,) = summary["asserts"]
    assert (checked["expression"], checked["holds"], checked["point"]) == (asserted, status == 0, "c2")
    assert ("holds at c2" if status == 0 else "FAILS at c2") in result.stderr
    page = tmp_path / "c" / "latency.html"
    assert f"report: {page}" in result.stderr
    assert "c2/report.html#turn=case-0" in page.read_text("utf-8")
    assert "case-0" in (tmp_path / "c" / "c2" / "report.html").read_text("utf-8")
    resumed = CliRunner().invoke(command, [*arguments, *out, "--resume"])
    assert resumed.exit_code == status, resumed.output
    assert f"{asserted}: " in resumed.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--assert", "mos.p95 < 1ms"], "unknown metric 'mos'"),
        (["--concurrency", "2,x"], "--concurrency: expected whole numbers of 1 to 1000, got 'x'"),
        (["--concurrency", "0"], "got '0'"),
        (["--concurrency", ","], "--concurrency: expected a list"),
        (["--input-s", "-1"], "--input-s: expected 0.1 to 300 s, got '-1'"),
        (["--sessions", "tepid"], "--sessions: expected cold or warm, got 'tepid'"),
        (["--arrivals", "poisson:0"], "expected closed, poisson:RATE or constant:RATE"),
        (["--turn-detection", "fast"], "--turn-detection fast: expected KEY=VALUE"),
        (["--price", "input=4"], "--price 'input=4': missing output"),
        (["--price", "input=-1,output=2"], "input: expected US dollars per million tokens, 0 or"),
        (["--price", "input=abc"], "0 or more, got 'abc'"),
        (["--price", "input=1,output=2,cached=1"], "got 'cached'"),
        (["--resume"], "--resume requires --out"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    out = () if "--resume" in arguments else ("--out", str(tmp_path / "c"))
    result = CliRunner().invoke(command, ["reference", *out, *arguments])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert not (tmp_path / "c").exists()


def test_secrets_in_the_settings_of_a_detector_are_stored_nowhere(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.campaigns.latency.summary.available", lambda: "no recogniser in this test")
    secrets = ("canary-4711-abcdef-9", "hunter2")  # the second is redacted only in its place
    detection = f"type=server_vad,api_key={secrets[0]},password={secrets[1]}"
    few = ["--turns", "1", "--sentinel-turns", "0", "--processes", "0", "--word-times", "off"]
    out = tmp_path / "c"
    server = ["reference", "--base-url", endpoint]
    command_line = [*server, *few, "--turn-detection", detection, "--out", str(out), "--json"]
    result = CliRunner().invoke(command, command_line)
    assert result.exit_code == FAILED, result.output
    document = json.loads((out / CAMPAIGN_FILE).read_text())
    hidden = {"type": "server_vad", "api_key": "***", "password": "***"}
    assert document["points"][0]["turn_detection"] == hidden
    assert document["plan"]["points"]["turn_detection"] == [hidden]
    for path in filter(Path.is_file, out.rglob("*")):
        assert not any(secret.encode() in path.read_bytes() for secret in secrets), path
    assert not any(secret in result.output for secret in secrets)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unsustainable_load_stops_the_campaign(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.campaigns.latency.watch.LAG_BOUND_NS", -1)
    monkeypatch.setattr("live_eval.campaigns.latency.watch._LEAST_TURNS", 2)
    monkeypatch.setattr("live_eval.campaigns.latency.watch._LEAST_LATE_SECONDS", 1)
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    outcome = await held(tmp_path / "c", config=settings, turns=50, concurrency=(1, 2))
    assert "this machine cannot sustain 1 concurrent session" in outcome.stopped
    document = await asyncio.to_thread(lambda: json.loads((tmp_path / "c" / CAMPAIGN_FILE).read_text()))
    assert (document["complete"], document["notes"]) == (False, [outcome.stopped])
    assert [point["name"] for point in document["points"]] == ["c1"]

    def kept() -> tuple[str, int]:
        with RunReader.open(tmp_path / "c" / "c1") as run:
            return run.state, len(run)

    assert await asyncio.to_thread(kept) == ("interrupted", 2)


class Impatient(Silent):
    """An observer that asks the campaign to stop when a step begins: between two conditions."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self._at = at

    def note(self, text: str) -> None:
        super().note(text)
        if f": {self._at} (" in text:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_campaign_stopped_between_conditions_resumes(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    folder = tmp_path / "c"
    plan: dict[str, Any] = {"config": settings, "turns": 3, "concurrency": (1, 2, 3)}
    outcome = await held(folder, Impatient("c2"), **plan)
    assert outcome == CampaignOutcome(failed=0, interrupted=True, stopped="")
    first = json.loads((folder / CAMPAIGN_FILE).read_text())
    assert not first["complete"]
    with pytest.raises(StoreError, match=r"its turns was 3, but is now 4"):
        await held(folder, resume=True, **{**plan, "turns": 4})
    observer = Silent()
    assert not (await held(folder, observer, resume=True, **plan)).interrupted
    assert observer.steps == ["2/3 c2", "3/3 c3"]
    whole = json.loads((folder / CAMPAIGN_FILE).read_text())
    assert (whole["complete"], whole["created"]) == (True, first["created"])
    assert [point["name"] for point in whole["points"]] == ["c1", "c2", "c3"]
    assert re.search(r"resumed at .*, after 1 of 3 conditions", whole["notes"][-1])
    assert [len(await turns_of(folder / point["run"])) for point in whole["points"]] == [3, 3, 3]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_of_a_resumed_campaign_is_not_written_through_a_link(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    plan: dict[str, Any] = {"config": settings, "turns": 2, "concurrency": (1, 2)}
    await held(tmp_path / "c", Impatient("c1"), **plan)
    (tmp_path / "empty").mkdir()
    (tmp_path / "c" / "c2").symlink_to(tmp_path / "empty")
    with pytest.raises(StoreError, match="c2 points outside the run folder"):
        await held(tmp_path / "c", resume=True, **plan)


def test_two_signals_at_once_stop_a_command_with_its_summary(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    """As GNU `timeout` does: one to its child, and one to the child's group at the same time."""
    common = ("--base-url", f"{endpoint}?reply_ms=100&delay_ms=300", "--data", str(manifest))
    command = ("reference", "--turns", "40", "--sentinel-turns", "0", "--out", str(tmp_path / "c"), *common)
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([sys.executable, "-m", "live_eval", "latency", *command], **options) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "c" / "c1" / "run.sqlite").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "report: " in said
    assert f"To continue, rerun with --out {tmp_path / 'c'} --resume" in said


def test_unsupported_settings_are_refused(manifest: Path, tmp_path: Path) -> None:
    chat = {"name": "openai-chat-audio", "base_url": "http://127.0.0.1:1/v1", "model": "x"}
    settings = validate({"endpoint": chat, "data": {"path": str(manifest)}})
    with pytest.raises(UsageError, match="has no warm sessions"):
        LatencyCampaign(CampaignPlan(config=settings, sessions=(SessionKind.WARM,)), tmp_path / "c")
    with pytest.raises(UsageError, match="endpointing requires the turn modes server_vad and manual"):
        LatencyCampaign(CampaignPlan(config=settings, endpointing=True), tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_campaign_killed_before_its_first_turn_starts_again(manifest: Path, tmp_path: Path) -> None:
    settings = config("ws://127.0.0.1:9/v1", manifest)
    LatencyCampaign(CampaignPlan(config=settings, turns=2, concurrency=(2,), inputs_s=(0.5,)), tmp_path / "c")
    assert {path.name for path in (tmp_path / "c" / "inputs").iterdir()} == {"0.5s", "sentinel"}
    LatencyCampaign(CampaignPlan(config=settings, turns=2, concurrency=(1,)), tmp_path / "c")
    (tmp_path / "c" / "inputs" / "notes.txt").touch()
    with pytest.raises(StoreError, match="found inputs/; choose another folder"):
        LatencyCampaign(CampaignPlan(config=settings, turns=2, concurrency=(1,)), tmp_path / "c")


def test_inputs_cut_from_a_benchmark_keep_its_licence(tmp_path: Path) -> None:
    settings = config("ws://127.0.0.1:9/v1", SETS["sd-eval"](tmp_path / "sd-eval", 1))
    plan = CampaignPlan(config=settings, turns=1, inputs_s=(0.5,), uncertain=True)
    campaign = LatencyCampaign(plan, tmp_path / "c")
    licence = BENCHMARKS["sd-eval"].licence_note()
    found = {name: licence_of(plan.manifest()) for name, plan in campaign._plans.items()}
    assert found == {name: "" if name.startswith("sentinel") else licence for name in found}
    assert licence in found.values()
    assert licence in campaign.notes


@pytest.mark.asyncio(loop_scope="module")
async def test_a_condition_with_missing_turns_is_not_finished(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgetful(*args: Any, **kwargs: Any) -> RunOutcome:
        return replace(await run_plan(*args, **kwargs), missing=1)

    settings = await asyncio.to_thread(config, f"{endpoint}?reply_ms=100", manifest)
    plan: dict[str, Any] = {"config": settings, "turns": 2, "concurrency": (1, 2)}
    with monkeypatch.context() as patch:
        patch.setattr("live_eval.campaigns.campaign.run_plan", forgetful)
        outcome = await held(tmp_path / "c", **plan)
    assert outcome.stopped == "1 turn of c1 not recorded; the campaign stopped"
    assert not json.loads((tmp_path / "c" / CAMPAIGN_FILE).read_text())["complete"]
    assert not (await held(tmp_path / "c", resume=True, **plan)).stopped
    assert json.loads((tmp_path / "c" / CAMPAIGN_FILE).read_text())["complete"]


@pytest.mark.slow  # a recogniser transcribes every recording
def test_recordings_with_an_uncertain_end_are_left_out(manifest: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 2 * RATE).astype(np.float32)
    soundfile.write(manifest.parent / "noise.wav", noise, RATE)
    with manifest.open("a") as file:
        file.write("\n" + json.dumps({"id": "noise", "audio": "noise.wav"}))
    measured = len(manifest.read_text().splitlines()) - 1
    plan = CampaignPlan(config=config("ws://127.0.0.1:1", manifest), turns=measured + 1, sentinel_turns=0)
    campaign = LatencyCampaign(plan, tmp_path / "certain")
    assert any(note.startswith(f"1 of {measured + 1} recordings excluded") for note in campaign.notes)
    assert {job.case.case_id for job in campaign._plans["c1"].jobs}.isdisjoint({"noise"})
    assert len(campaign._plans["c1"].jobs) == measured + 1
    everything = LatencyCampaign(replace(plan, uncertain=True), tmp_path / "everything")
    assert "noise" in {job.case.case_id for job in everything._plans["c1"].jobs}
