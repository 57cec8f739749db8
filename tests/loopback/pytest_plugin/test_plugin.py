"""The pytest plugin in a user's package: examples/agent-tests, installed outside the tree."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
from filelock import FileLock
from websockets.asyncio.server import ServerConnection, serve

from live_eval.pytest_plugin import ms
from live_eval.pytest_plugin.endpoint_tester import EndpointTester
from live_eval.pytest_plugin.trials import ProbeTrials
from live_eval.recording import RunReader
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from tests.support.documentation import DOCS, blocks
from tests.support.marked_cases import marked_turn, write_manifest
from tests.support.tiny_endpoint import answer

ROOT = Path(__file__).parents[3]
RATE_HZ = 24_000
QUICKLY = (*("-p", "no:cacheprovider", "-p", "no:hydra_pytest"), *("--live-eval-run-file", "run.toml"))
EXAMPLE = ROOT / "examples" / "agent-tests"
METADATA = (
    "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
)
FAILING = """
import asyncio
from live_eval.pytest_plugin import ms

def test_too_slow(live_eval):
    assert live_eval.play("question.flac").voice_to_voice < ms(50)

def test_too_slow_for_most(live_eval):
    assert live_eval.play_all("short.jsonl").meet("voice_to_voice.p50 < 50ms")

def test_no_recording(live_eval):
    live_eval.play("missing.flac")

async def test_in_an_event_loop(live_eval):
    turn = await asyncio.to_thread(live_eval.play, "question.flac")
    assert turn.voice_to_voice < ms(5000)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    """The PYTHONPATH of the example, which the first test process that needs it installs.

    It includes this tree's metadata, so that the plugin is found by its entry point as if installed.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "agent"
    site, metadata = folder / "site", folder / "metadata"
    with FileLock(f"{folder}.lock"):
        if not metadata.exists():
            shutil.copytree(EXAMPLE, folder / "package")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            subprocess.run([*pip, "--target", str(site), str(folder / "package")], check=True)
            metadata.mkdir()
            build = [sys.executable, "-c", METADATA, str(metadata)]
            subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return os.pathsep.join(filter(None, (str(site), str(metadata), os.environ.get("PYTHONPATH"))))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The user's package, outside this tree."""
    folder = tmp_path / "package"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("agent.py"))
    (folder / "run.toml").write_text('[turns]\nword_times = "off"\nreply_timeout = 5.0\n')
    return folder


def write_short_recording(folder: Path) -> None:
    """Replace the recording with a shorter one, which the agent still answers, with a manifest."""
    speech = calibration_speech(800, RATE_HZ)
    soundfile.write(folder / "question.flac", speech.audio.int16(), RATE_HZ)
    ends = {"onset_ms": 0, "voice_end_ms": speech.voice_end_sample * 1000 / RATE_HZ}
    (folder / "short.jsonl").write_text(json.dumps({"audio": "question.flac", **ends}))


def run_pytest(installed: str, package: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *QUICKLY, *arguments],
        cwd=package,
        env=os.environ | {"PYTHONPATH": installed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_example_tests_its_agent(installed: str, package: Path) -> None:
    status, said = run_pytest(installed, package, "tests/test_agent.py", "--live-eval-out", "runs")
    assert status == 0, said
    assert "live-eval: openai" in said
    assert "3 passed" in said
    runs = sorted((package / "runs").glob("*/run.sqlite"))
    assert len(runs) == 3
    for run in runs:
        with RunReader.open(run.parent) as reader:
            assert reader.ended
            assert all(turn.captured for turn in reader.turns())
            assert reader.manifest["config"]["turns"]["word_times"] == "off"


@pytest.mark.slow
def test_a_failed_test_shows_what_was_measured(installed: str, package: Path) -> None:
    (package / "tests" / "test_agent.py").write_text(FAILING)
    write_short_recording(package / "tests")
    status, said = run_pytest(installed, package, "tests/test_agent.py", "-o", "asyncio_mode=auto")
    assert status == 1, said
    assert "3 failed, 1 passed" in said
    assert re.search(r"assert \d+\.\d ms \(error bar \d+\.\d ms\) < 50\.0 ms", said), said
    assert re.search(
        r"<turn .question.( \(the end of speech is uncertain\))? recorded in .+>\.voice_to_voice", said
    ), said
    assert re.search(r"voice_to_voice\.p50 is \d+\.\d ms \(.*n 1, error bar \d+\.\d ms", said), said
    assert "missing.flac does not exist" in said


async def test_a_probe_passes_with_an_endpoint_that_stops_and_fails_with_one_that_does_not(
    tmp_path: Path,
) -> None:
    spoken = marked_turn(tmp_path, "speech")
    rows = [{"id": "d", "turns": [spoken, {**spoken, "anchor": "reply_audible+150ms"}]}]
    manifest = write_manifest(tmp_path, rows)

    async with ReferenceProcess(calibrate=True, log_folder=tmp_path) as process:

        async def played(name: str, query: str) -> ProbeTrials:
            tester = EndpointTester(
                endpoint="reference",
                base_url=f"{process.base_url}?{query}",
                folder=tmp_path / "runs",
                name=name,
                base_folder=tmp_path,
                settings={
                    "data": {"path": str(manifest)},
                    "turns": {"word_times": "off", "reply_timeout": 0.5, "retries": 2},
                },
            )
            return await asyncio.to_thread(tester.play_probe, "own")

        good, bad = await asyncio.gather(
            played("good", "stop_ms=100&reply_ms=2000"), played("bad", "stop_ms=never&reply_ms=2600")
        )
    assert good.meet("own.passed >= 90%")
    assert good[0].passed
    assert ms(0) < good[0].barge_in_stop < ms(400)
    failed = bad.meet("own.passed >= 90%")
    assert (bool(failed), failed.value, failed.n) == (False, 0, 1)
    assert not bad[0].barge_in_stop < ms(10_000)
    assert repr(bad[0].barge_in_stop).startswith("missing (kept_talking: the reply remained audible for ")
    assert "own: interruption, reply_audible+150ms kept_talking 1, recorded in" in repr(bad)


@pytest.mark.slow
async def test_unanswered_turns_fail_and_are_not_retried(tmp_path: Path) -> None:
    sessions = 0

    async def silent_at_first(socket: ServerConnection) -> None:
        nonlocal sessions
        sessions += 1
        if sessions > 3:
            await answer(socket)
            return
        await socket.send(json.dumps({"type": "session.created", "session": {"id": "s"}}))
        await socket.send(json.dumps({"type": "session.updated", "session": {"id": "s"}}))
        await socket.wait_closed()

    write_short_recording(tmp_path)
    async with serve(silent_at_first, "127.0.0.1", 0) as server:
        tester = EndpointTester(
            endpoint="reference",
            base_url=f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1",
            folder=tmp_path / "runs",
            name="silent",
            base_folder=tmp_path,
            settings={"turns": {"mode": "manual", "word_times": "off", "reply_timeout": 0.5, "retries": 2}},
        )
        turns = await asyncio.to_thread(tester.play_all, "short.jsonl", repeat=8)
    assert sessions == len(turns) == 8
    assert sorted(turns.failed) == ["question", "question#2", "question#3"]
    for bound in ("first_byte.max < 60s", "first_byte.mean < 60s"):
        result = turns.meet(bound)
        assert not result
        assert result.reason == "3 turns failed or had no answer, which counts as beyond the bound"
    assert turns.meet("connect.max < 60s")


@pytest.mark.slow
def test_without_an_endpoint_the_tests_are_skipped(installed: str, package: Path) -> None:
    status, said = run_pytest(installed, package, "-o", "addopts=", "-rs")
    assert status == 0, said
    assert "6 skipped" in said
    assert "requires --live-eval-endpoint" in said


@pytest.mark.slow
def test_an_unknown_endpoint_is_wrong_usage(installed: str, package: Path) -> None:
    status, said = run_pytest(installed, package, "--live-eval-endpoint", "nobody", "-k", "repeats")
    assert status == 1, said
    assert "UsageError: unknown endpoint 'nobody'; expected one of assemblyai, azure, " in said
    assert "registry.py" not in said


@pytest.mark.slow
def test_the_example_tests_the_turn_taking_of_its_agent(installed: str, package: Path) -> None:
    status, said = run_pytest(installed, package, "tests/test_turn_taking.py", "--junitxml", "junit.xml")
    assert status == 0, said
    assert 'tests="3"' in (package / "junit.xml").read_text("utf-8")


@pytest.mark.slow
def test_the_tests_of_the_documentation_pass(installed: str, package: Path) -> None:
    """The 95th percentile requires 30 turns."""
    one, agent, most, taking_turns = [block.text for block in blocks(DOCS / "how-to/pytest.md", "python")]
    taking_turns = taking_turns.replace("ms(1000)", "ms(2000)")  # this machine may be busy
    tests = package / "tests"
    (tests / "test_agent.py").write_text(f"{one}\n\n{most}\n\n{taking_turns}")
    (tests / "conftest.py").write_text(agent)
    (tests / "recordings").mkdir()
    for number in range(3):
        shutil.copy(tests / "question.flac", tests / "recordings" / f"{number}.flac")
    status, said = run_pytest(installed, package, "tests/test_agent.py")
    assert status == 0, said
    assert "4 passed" in said


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / "agent.py").read_text("utf-8").splitlines()) <= 80
