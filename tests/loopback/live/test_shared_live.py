"""`live-eval live A B` with a simulated sound card."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.cli import cli
from live_eval.errors import LiveEvalError, UsageError
from live_eval.live.updates import AudioSide
from live_eval.recording import RunReader

SPEECH = Path("live_eval/data/sample/data_human/audio/fast/le_101_fast_work_target.flac").resolve()
RATE_HZ = 16_000
BLOCK = RATE_HZ // 100


class Card:
    """A sound card whose user speaks once; it loses its microphone, then its output."""

    rate_hz = RATE_HZ
    microphone = loudspeaker = SimpleNamespace(name="simulated")
    input_xruns = output_xruns = 0
    stalled = False

    def __init__(self) -> None:
        speech = resample(read_audio(SPEECH).audio, RATE_HZ).int16()
        self._pcm = np.concatenate((np.zeros(3 * RATE_HZ, np.int16), speech))
        self._began_s = time.monotonic()
        self._at = 0

    def begin(self) -> None:
        pass

    def problem(self, side: AudioSide) -> str:
        lost_s = 1 if side is AudioSide.USER else 1.5
        return "it is lost." if lost_s < time.monotonic() - self._began_s < lost_s + 1 else ""

    def blocks(self) -> Iterator[tuple[NDArray[np.int16], int]]:
        while self._at < (time.monotonic() - self._began_s) * RATE_HZ:
            piece = self._pcm[self._at : self._at + BLOCK]
            self._at += BLOCK
            if not self.problem(AudioSide.USER):
                yield np.pad(piece, (0, BLOCK - len(piece))), time.monotonic_ns()

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        pass

    def drop(self) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of an endpoint that answers any speech."""
    command = [sys.executable, "-m", "live_eval", "endpoint", "--port", "0", "--until-stdin-ends"]
    log = tmp_path_factory.mktemp("endpoint") / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "--reply-audio", str(SPEECH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"ws://127.0.0.1:{json.loads(process.stdout.readline())['port']}/v1"
        process.stdin.close()


def talk(*arguments: str, stops: Callable[[], bool]) -> Result:
    """Run the command until a condition holds; then interrupt it."""

    def interrupt() -> None:
        deadline = time.monotonic() + 40
        while not stops() and time.monotonic() < deadline:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = CliRunner().invoke(cli, ["live", *arguments])
    thread.join()
    return done


def stored(name: str, turns: int) -> bool:
    """Return whether a run has this many turns."""
    try:
        with RunReader.open(Path(name)) as run:
            return len(run) >= turns
    except LiveEvalError:
        return False


@pytest.fixture(autouse=True)
def _simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVE_EVAL_DEVICES", str(tmp_path / "devices.json"))
    monkeypatch.setattr(
        "live_eval.cli._shared_live.open_sound_card", lambda *_, **__: contextlib.nullcontext(Card())
    )


def run_file(name: str, base_url: str) -> str:
    Path(f"{name}.toml").write_text(f'[endpoint]\nname = "reference"\nbase_url = "{base_url}"\n')
    return f"{name}.toml"


@pytest.mark.slow
def test_one_person_talks_to_two_endpoints_and_one_that_is_dead(endpoint: str) -> None:
    quick = run_file("quick", endpoint)
    slow = run_file("slow", f"{endpoint}?delay_ms=1500")
    dead = run_file("dead", "ws://127.0.0.1:9/v1")
    done = talk(
        *(quick, slow, dead, "--out", "talk"),
        stops=lambda: stored("talk-quick", 1) and stored("talk-slow", 1),
    )
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    news = (
        "it is lost. The endpoint hears silence",
        "it is lost. Replies are not audible",
        "the microphone works again",
        "the output device works again",
        "you speak",
    )
    assert sorted(news, key=lines.index) == list(news)
    assert lines.count("you speak") == 1
    assert any(line.startswith("quick: turn 1: voice to voice") for line in lines)
    assert any(line.startswith("slow: turn 1: voice to voice") for line in lines)
    assert any(line.startswith("dead: disconnected: connection_refused") for line in lines)
    assert "differences: live-eval compare talk-quick talk-slow --common" in lines
    assert any(line.split()[:1] == ["dead"] and "–" in line for line in lines)
    with RunReader.open(Path("talk-slow")) as run:
        assert run.manifest["simultaneous_with"] == ["quick", "dead"]
        assert run.manifest["source"] == "live"


@pytest.mark.slow
def test_recordings_stand_in_for_the_person(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.cli._shared_live.find_device", lambda *_: None)
    monkeypatch.setattr("live_eval.cli._shared_live.list_devices", list)
    quick = run_file("quick", endpoint)
    slow = run_file("slow", f"{endpoint}?delay_ms=1500")
    done = CliRunner().invoke(
        cli, ["live", quick, slow, "--from", "sample", "--limit", "2", "--plain", "--out", "talk"]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines().count("you speak") == 2
    for name in ("talk-quick", "talk-slow"):
        with RunReader.open(Path(name)) as run:
            assert [turn.failure for turn in run.turns()] == [None] * 2


def test_names_are_hidden_until_the_end(endpoint: str) -> None:
    files = [run_file(name, endpoint) for name in ("left", "right")]
    files.append(run_file("gone", "ws://127.0.0.1:9/v1"))
    done = talk(*files, "--blind", "--out", "talk", stops=lambda: stored("talk-left", 1))
    assert done.exit_code == 0, done.output
    during, _, after = done.stdout.partition("\n\n")
    assert sum(f"{letter}: ready: speak" in during for letter in "ABC") == 2
    assert "left" not in during
    assert "connection_refused: the message is shown at the end" in during
    assert "127.0.0.1:9" not in during
    assert "127.0.0.1:9" in after
    assert "left" in after
    assert "right" in after


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reference", "openai", "--perform", "sample"], "--perform requires a single endpoint"),
        (["reference", "--blind"], "--blind requires several endpoints"),
        (["reference", "reference"], "endpoints or run files with different names, got reference, reference"),
        (["reference", "openai", "--model", "m"], "write a run file for each endpoint, without --model"),
        ([*"abcde"], "expected at most 4 endpoints, got 5"),
    ],
)
def test_what_several_endpoints_do_not_support_is_refused(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["live", *arguments])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)


def test_endpoints_that_end_turns_in_different_ways_are_refused() -> None:
    Path("manual.toml").write_text('[endpoint]\nname = "reference"\n[turns]\nmode = "manual"\n')
    done = CliRunner().invoke(cli, ["live", "reference", "manual.toml"])
    assert "end turns in different ways: pass --turn-mode" in str(done.exception)
