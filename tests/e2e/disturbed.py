"""Helpers for tests of disturbed runs: an endpoint that can be killed, a running command, short speech."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.audio import write_flac
from live_eval.errors import StoreError
from live_eval.recording import RunReader, ScoreReader
from live_eval.reference.engine.signals import calibration_speech
from tests.e2e.helpers import LIVE_EVAL

__all__ = ["Command", "Endpoint", "commanding", "endpoint", "recorded", "run_arguments", "speech", "until"]

_RATE_HZ = 24_000
_LONGEST_S = 180.0


def speech(folder: Path, number: int, *, turns: int = 1) -> Path:
    """Write dialogues whose turns are 0.3 s of speech each; return their manifest."""
    signal = calibration_speech(300, _RATE_HZ)
    end_ms = 1000 * signal.voice_end_sample / _RATE_HZ
    rows = []
    for case in range(number):
        write_flac(folder / f"{case}.flac", signal.audio.int16(), _RATE_HZ)
        row: dict[str, Any] = {
            "id": f"case-{case:02}",
            "audio": f"{case}.flac",
            "text": "ahem",
            "cue": "happy",
        }
        row["reference_text"] = "ahem"
        if turns > 1:
            row |= {"dialogue": f"dialogue-{case // turns}", "turn": case % turns}
        rows.append({**row, "onset_ms": 0, "voice_end_ms": end_ms, "words_end_ms": end_ms})
    path = folder / "speech.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def run_arguments(base_url: str, data: Path, out: Path, *judges: str) -> list[str | Path]:
    """Return the arguments of a run with one session at a time, by default with one fast judge."""
    where = ("--base-url", base_url, "--data", data, "--out", out)
    how = ("--concurrency", "1", "--turn-mode", "manual", "--word-times", "off", "--no-report")
    return ["run", "--endpoint", "reference", *where, *how, *(judges or ("--judges", "bleu"))]


@dataclass
class Endpoint:
    """The reference endpoint in a separate process, in calibration mode: all replies are equal."""

    log: Path
    arguments: Sequence[str]
    base_url: str = ""
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the endpoint on the same port as before."""
        port = self.base_url.rpartition(":")[2].partition("/")[0] or "0"
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*LIVE_EVAL, "endpoint", "--calibrate", "--port", port, *self.arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        self.base_url = json.loads(line)["base_url"]

    def kill(self) -> None:
        """Kill the endpoint if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def suspend(self) -> None:
        """Stop the process, so that connections are accepted but not served until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the stopped process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def endpoint(folder: Path, *arguments: str) -> Iterator[Endpoint]:
    """Serve the reference endpoint inside a ``with`` block, which may stop and start it."""
    one = Endpoint(folder / "endpoint.log", ("--delay-ms", "20", "--reply-ms", "300", *arguments))
    one.start()
    try:
        yield one
    finally:
        one.kill()


@dataclass
class Command:
    """A running live-eval command."""

    process: subprocess.Popen[str]

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self, timeout_s: float = _LONGEST_S) -> tuple[int, str]:
        """Wait until the command exits; return its exit status and output."""
        said, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, said


@contextmanager
def commanding(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Iterator[Command]:
    """Run a live-eval command for the duration of a ``with`` block."""
    process = subprocess.Popen(
        [*LIVE_EVAL, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
        preexec_fn=before,
    )
    try:
        yield Command(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def recorded(out: Path) -> tuple[int, int]:
    """Return the numbers of captured and scored turns of a run."""
    try:
        with RunReader.open(out) as run, ScoreReader.open(out) as scores:
            return len(run) - run.failed_turns, sum(row.status == "scored" for row in scores.read())
    except StoreError:  # the run does not exist yet
        return 0, 0


def until(happened: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline_s = time.monotonic() + _LONGEST_S
    while not happened():
        assert time.monotonic() < deadline_s, "it has not happened"
        time.sleep(0.05)
