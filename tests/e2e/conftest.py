"""Fixtures that start the reference endpoint and third-party programs, each in its own process.

`make e2e` installs the third-party programs; tests of a missing one are skipped with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pytest
import soundfile

from live_eval.audio import read_audio, resample
from live_eval.recording import RunReader, TurnRecord
from tests.e2e.helpers import SAMPLE, STRANGERS, served

MODULES = STRANGERS / "node_modules"
AIMOCK = MODULES / "@copilotkit/aimock/dist/cli.js"
PYTHONS = Path(__file__).parents[2] / ".venv-strangers"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

Serving: TypeAlias = Callable[..., AbstractContextManager[str]]
Bot: TypeAlias = Callable[[str, int], AbstractContextManager[str]]
Run: TypeAlias = Callable[..., TurnRecord]
Runs: TypeAlias = Callable[..., list[TurnRecord]]
Talk: TypeAlias = Callable[..., Path]


class Aimock(Protocol):
    """Runs `@copilotkit/aimock` with fixtures; the context's value is its base URL."""

    def __call__(
        self, *fixtures: Mapping[str, Any], flags: tuple[str, ...] = (), keys: str | None = None
    ) -> AbstractContextManager[str]: ...


# -- Our endpoint --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The reference endpoint with its models; the value is its host and port."""
    command = [sys.executable, "-m", "live_eval", "endpoint", "--port", "0", "--until-stdin-ends"]
    with served(command, r'"port": (\d+)', tmp_path_factory.mktemp("endpoint")) as port:
        yield f"127.0.0.1:{port}"


# -- Strangers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def strangers_python() -> Path:
    """The Python interpreter of the environment with most third-party packages."""
    return python_of("voice")


@pytest.fixture(scope="session")
def exports_python() -> Path:
    """The Python interpreter of the environment with live-eval and the programs that read its exports."""
    return python_of("exports")


@pytest.fixture(scope="session")
def node() -> str:
    """The Node.js installation with the third-party packages."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no node on this machine")
    if not (MODULES / "ready").exists():
        pytest.skip("the strangers' npm packages are not set up: make strangers")
    return found


@pytest.fixture(scope="session")
def browser() -> str:
    """The path of Chromium."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no Chromium found: install one ({', '.join(BROWSERS)}) or set CHROMIUM to its path")
    return found


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Run a server for a test; see `served`."""

    def serve(
        command: Sequence[str | Path], ready: str, environment: Mapping[str, str] | None = None
    ) -> AbstractContextManager[str]:
        return served(command, ready, tmp_path, environment)

    return serve


@pytest.fixture
def echo_bot(serving: Serving) -> Bot:
    """Run a bot that echoes the user after a delay in milliseconds; the value is its address."""

    @contextmanager
    def run(kind: str, delay_ms: int) -> Iterator[str]:
        command: list[str | Path] = [
            python_of("voice" if kind == "pipecat" else kind),
            STRANGERS / f"{kind}_bot.py",
        ]
        if kind == "pipecat":
            command += ["-t", "webrtc", "--host", "127.0.0.1", "--port", "0"]
        environment = {"ECHO_DELAY_MS": str(delay_ms), "GRADIO_ANALYTICS_ENABLED": "False"}
        with serving(command, r"Uvicorn running on (http://\S+)", environment) as url:
            yield url

    return run


@pytest.fixture
def aimock(node: str, serving: Serving, tmp_path: Path) -> Aimock:
    """Run third-party mocks of vendors' services."""

    @contextmanager
    def run(
        *fixtures: Mapping[str, Any], flags: tuple[str, ...] = (), keys: str | None = None
    ) -> Iterator[str]:
        path = tmp_path / "fixtures.json"
        path.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
        environment = {} if keys is None else {"AIMOCK_API_KEYS": keys}
        command = [node, AIMOCK, "--port", "0", "--validate-on-load", "--fixtures", path, *flags]
        with serving(command, r"listening on (http://\S+)", environment) as address:
            yield f"{address}/v1"

    return run


def python_of(name: str) -> Path:
    """Return the Python of the environment of requirements-NAME.txt; skip the test if it is missing."""
    python = PYTHONS / name / "bin/python"
    if not (PYTHONS / name / "ready").exists():
        pytest.skip(f"the strangers of requirements-{name}.txt are not set up: make strangers")
    return python


# -- Our harness ---------------------------------------------------------------------------------------


@pytest.fixture
def run_turns(tmp_path: Path) -> Runs:
    """Run turns of one case from the command line and return the stored turns.

    Its arguments are flags of ``live-eval run``; `times` sessions run concurrently.
    """

    def run(*flags: str | Path, times: int = 1, folder: str = "run") -> list[TurnRecord]:
        out = tmp_path / folder
        usual = ("--limit", "1", "--word-times", "off", "--judges", "none", "--no-report", "--retries", "0")
        count = ("--repeat", str(times), "--concurrency", str(times))
        command = [sys.executable, "-m", "live_eval", "run", *usual, *count, "--out", out, *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stdout + done.stderr
        with RunReader.open(out) as kept:
            turns = list(kept.turns())
        assert len(turns) == times
        return turns

    return run


@pytest.fixture
def run_turn(run_turns: Runs) -> Run:
    """Run one turn; see `run_turns`."""

    def run(*flags: str | Path, folder: str = "run") -> TurnRecord:
        (turn,) = run_turns(*flags, folder=folder)
        return turn

    return run


# -- Recordings ----------------------------------------------------------------------------------------


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Write recordings and silence to one WAV file, since third-party programs cannot read FLAC.

    Its arguments are the rate, then the names of recordings and seconds of silence in order.
    """

    def write(rate_hz: int, *parts: str | float) -> Path:
        sounds = [
            resample(read_audio(SAMPLE / part).audio, rate_hz).int16()
            if isinstance(part, str)
            else np.zeros(round(rate_hz * part), np.int16)
            for part in parts
        ]
        path = tmp_path / f"talk-{len(list(tmp_path.iterdir()))}.wav"
        soundfile.write(path, np.concatenate(sounds), rate_hz)
        return path

    return write
