"""A person at a virtual microphone and loudspeaker: PulseAudio's null sinks, PortAudio, the command line."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, write_flac
from live_eval.recording import RunReader
from tests.e2e.helpers import (
    LIVE_EVAL,
    MEETING,
    MEETING_REPLY,
    PHONE,
    SAMPLE,
    recognised,
    served,
    shown,
    words,
)

pytest.importorskip("faster_whisper", reason="needs the extra `local`")
pytest.importorskip("hibari", reason="needs the extra `local`")
pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("pulseaudio") is None or shutil.which("parec") is None,
        reason="needs PulseAudio: apt-get install pulseaudio pulseaudio-utils libasound2-plugins",
    ),
]

RATE = 24_000
MODULES = (
    "module-native-protocol-unix",
    "module-null-sink sink_name=loudspeaker rate=48000 channels=1",
    "module-null-sink sink_name=microphone rate=48000 channels=1",
    "module-remap-source master=microphone.monitor source_name=into_microphone",
    "module-remap-source master=loudspeaker.monitor source_name=next_to_loudspeaker",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Serve a virtual microphone and loudspeaker; the value is the environment in which programs use them."""
    try:
        import sounddevice  # noqa: F401  # loads PortAudio
    except (ImportError, OSError) as error:
        pytest.skip(f"needs the extra `mic` and PortAudio: {error}")
    folder = tmp_path_factory.mktemp("pulse")
    folder.chmod(0o700)
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(folder),
        "PULSE_LATENCY_MSEC": "80",
        "PULSE_SINK": "loudspeaker",
        "PULSE_SOURCE": "into_microphone",
        "LIVE_EVAL_DEVICES": str(folder / "devices.json"),
    }
    loaded = [f"--load={module}" for module in MODULES]
    server = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--high-priority=yes", *loaded]
    with subprocess.Popen(server, env=environment, stderr=subprocess.DEVNULL) as running:
        try:
            for _ in range(100):
                asked = subprocess.run(["pactl", "info"], env=environment, capture_output=True, check=False)
                if asked.returncode == 0:
                    break
                time.sleep(0.1)
            else:
                pytest.skip("PulseAudio does not start here")
            with recording(environment, folder / "keeps-it-awake"):
                yield environment
        finally:
            running.terminate()


@contextmanager
def recording(environment: Mapping[str, str], path: Path) -> Iterator[None]:
    """Record the loudspeaker."""
    command = ["parec", "--device=loudspeaker.monitor", "--latency-msec=20", f"--rate={RATE}"]
    command += ["--format=s16le", "--channels=1"]
    with path.open("wb") as file, subprocess.Popen(command, env=environment, stdout=file) as running:
        try:
            yield
        finally:
            running.terminate()


def speak(environment: Mapping[str, str], name: str) -> None:
    """Say a recording of the sample into the microphone."""
    subprocess.run(["paplay", "--device=microphone", SAMPLE / name], env=environment, check=True)


class Talk:
    """``live-eval live`` under way."""

    def __init__(self, arguments: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        command = [*LIVE_EVAL, "live", *map(str, arguments), "--plain"]
        self._running = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> str:
        """Return the first further line that matches."""
        assert self._running.stdout is not None
        for line in self._running.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        pytest.fail(f"{pattern!r} did not come:\n{''.join(self.lines)}")

    def end(self) -> int:
        """Leave, as with Ctrl-C."""
        self._running.send_signal(signal.SIGINT)
        self._running.communicate(timeout=60)
        return self._running.returncode


def heard(path: Path) -> NDArray[np.int16]:
    """Return what the loudspeaker played, from its first sound on: recognisers dream in silence."""
    return np.trim_zeros(np.fromfile(path, "<i2"))


def test_what_is_said_into_the_microphone_is_answered_by_the_loudspeaker(
    sound: Mapping[str, str], tmp_path: Path
) -> None:
    run, loudspeaker = tmp_path / "run", tmp_path / "loudspeaker.raw"
    with recording(sound, loudspeaker):
        talk = Talk(["reference", "--out", run], sound)
        talk.until("ready")
        time.sleep(1)
        speak(sound, MEETING)
        talk.until("^turn 1: voice to voice")
        time.sleep(1)  # the devices' delay
        assert talk.end() == 0
    assert words(recognised(heard(loudspeaker), RATE)) == words(MEETING_REPLY)
    summary = shown(run)
    assert summary["turns"].items() >= {"total": 1, "captured": 1, "failed": 0}.items()
    with RunReader.open(run) as reader:
        (turn,) = reader.turns()
        assert reader.both_sides(turn.turn_id) is not None


def test_a_voice_over_the_reply_stops_it(sound: Mapping[str, str], tmp_path: Path) -> None:
    run, loudspeaker = tmp_path / "run", tmp_path / "loudspeaker.raw"
    reply = tmp_path / "reply.flac"
    write_flac(reply, np.tile(read_audio(SAMPLE / MEETING).audio.int16(), 5), 24_000)
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--reply-audio", str(reply)]
    with served(command, r"(ws://[\d.:]+/v1)", tmp_path) as url, recording(sound, loudspeaker):
        talk = Talk(["reference", "--base-url", url, "--out", run], sound)
        talk.until("ready")
        time.sleep(1)
        speak(sound, MEETING)
        talk.until("^reply: ")
        time.sleep(1)
        speak(sound, PHONE)
        talk.until("you speak over the reply")
        talk.until("^turn 1: .*stopped")
        assert talk.end() == 0
    with RunReader.open(run) as reader:
        first = next(iter(reader.turns()))
    assert first.timing.barge_in_stop.ns is not None


def test_the_delay_of_the_devices_is_measured_and_enters_the_run(
    sound: Mapping[str, str], tmp_path: Path
) -> None:
    nearby = {**sound, "PULSE_SOURCE": "next_to_loudspeaker"}
    command = [*LIVE_EVAL, "live", "--loopback-test"]
    done = subprocess.run(command, env=nearby, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (kept,) = json.loads(Path(sound["LIVE_EVAL_DEVICES"]).read_text("utf-8"))
    assert kept["repeats"] >= 4
    assert 0 < kept["delay_ms"] < 1_000
    talk = Talk(["reference", "--out", tmp_path / "run"], sound)
    talk.until("ready")
    assert talk.end() == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert reader.manifest["devices"]["delay_ms"] == kept["delay_ms"]
