"""Setting the wall clock during runs and scoring changes no result, since durations are monotonic.

The programs under test, endpoint included, get a false clock from a preloaded library (``wall_clock.c``).
"""

import ctypes
import itertools
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_eval.recording import RunReader
from tests.e2e.disturbed import commanding, endpoint, recorded, run_arguments, speech, until
from tests.e2e.helpers import live_eval

COMPILER = shutil.which("cc") or shutil.which("gcc")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps and LD_PRELOAD are Linux's"),
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"),
]

TURNS = 6
HOUR_NS = 3600 * 10**9
EVERY_S = 0.3  # shorter than a session


@pytest.fixture
def restless_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Repeatedly set the programs' wall clock one hour ahead, two hours back, and to the correct time."""
    library, file = tmp_path / "wall_clock.so", tmp_path / "ahead"
    source = Path(__file__).with_name("wall_clock.c")
    compiled = subprocess.run(
        [str(COMPILER), "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode != 0:
        pytest.skip(f"needs glibc and its headers: {compiled.stderr}")
    file.write_bytes(bytes(8))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("WALL_CLOCK_AHEAD", str(file))
    over = threading.Event()

    def step() -> None:
        for ahead_ns in itertools.cycle((HOUR_NS, -HOUR_NS, 0)):
            if over.wait(EVERY_S):
                return
            with file.open("r+b", buffering=0) as memory:
                memory.write(ctypes.c_int64(ahead_ns))

    thread = threading.Thread(target=step)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("restless_wall_clock")
def test_setting_the_wall_clock_changes_no_result(tmp_path: Path) -> None:
    """The run is interrupted, resumed, and paused by an outage."""
    out = tmp_path / "run"
    began_s = time.monotonic()
    with endpoint(tmp_path) as one:
        arguments = (*run_arguments(one.base_url, speech(tmp_path, TURNS), out), "--record-wire")
        with commanding(*arguments) as run:
            until(lambda: recorded(out)[0] >= 2)
            run.signal(signal.SIGINT)
            status, said = run.end()
        assert status == 130, said
        with commanding(*arguments, "--resume") as run:
            until(lambda: recorded(out)[0] >= 4)
            one.kill()
            time.sleep(5)
            one.start()
            status, said = run.end()
        assert status == 0, said
    took_s = time.monotonic() - began_s
    assert recorded(out) == (TURNS, TURNS)
    live_eval("replay", out)
    live_eval("score", out, "--judges", "rouge_l")
    assert recorded(out) == (TURNS, 2 * TURNS)
    collected = json.loads(live_eval("runs", "gc", out, "--json"))
    assert collected["folders"][0]["removed"] == []

    with RunReader.open(out) as reader:
        (outage,) = reader.manifest["outages"]
        turns = list(reader.turns())
    assert 3 < outage["seconds"] < took_s
    assert len({turn.case.case_id for turn in turns}) == TURNS
    dialled = [turn.trace.dial_ns for turn in turns]
    assert dialled == sorted(dialled)
    assert dialled[-1] - dialled[0] < took_s * 1e9
    assert any(turn.trace.clock_steps for turn in turns)
    for turn in turns:
        latencies = [turn.timing.connect.ns, turn.timing.first_byte.ns, turn.timing.voice_to_voice.ns]
        assert all(ns is not None and 0 <= ns < 5e9 for ns in latencies), turn.timing
