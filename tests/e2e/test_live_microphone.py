"""A person at a virtual microphone and loudspeaker: PulseAudio's null sinks, PortAudio, the command line."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, write_flac
from live_eval.errors import UsageError
from live_eval.recording import RunReader
from live_eval.testing.virtual_sound import VirtualSound, serve_virtual_sound
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
pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

RATE = 24_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualSound]:
    """A virtual microphone and loudspeaker, which the tests' programs use."""
    try:
        import sounddevice  # noqa: F401  # loads PortAudio
    except (ImportError, OSError) as error:
        pytest.skip(f"needs the extra `mic` and PortAudio: {error}")
    folder = tmp_path_factory.mktemp("pulse")
    try:
        with serve_virtual_sound(folder) as served_sound, pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIVE_EVAL_DEVICES", str(folder / "devices.json"))
            for name, value in served_sound.environment.items():
                patch.setenv(name, value)
            yield served_sound
    except UsageError as error:
        pytest.skip(str(error))


class Talk:
    """``live-eval live`` under way."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [*LIVE_EVAL, "live", *map(str, arguments), "--plain"]
        self._running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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
    sound: VirtualSound, tmp_path: Path
) -> None:
    run, loudspeaker = tmp_path / "run", tmp_path / "loudspeaker.raw"
    with sound.recording(loudspeaker):
        talk = Talk("reference", "--out", run)
        talk.until("ready")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        talk.until("^turn 1: voice to voice")
        time.sleep(1)  # the devices' delay
        assert talk.end() == 0
    assert words(recognised(heard(loudspeaker), RATE)) == words(MEETING_REPLY)
    summary = shown(run)
    assert summary["turns"].items() >= {"total": 1, "captured": 1, "failed": 0}.items()
    with RunReader.open(run) as reader:
        (turn,) = reader.turns()
        assert reader.both_sides(turn.turn_id) is not None


def test_a_voice_over_the_reply_stops_it(sound: VirtualSound, tmp_path: Path) -> None:
    run, loudspeaker = tmp_path / "run", tmp_path / "loudspeaker.raw"
    reply = tmp_path / "reply.flac"
    write_flac(reply, np.tile(read_audio(SAMPLE / MEETING).audio.int16(), 5), 24_000)
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--reply-audio", str(reply)]
    with served(command, r"(ws://[\d.:]+/v1)", tmp_path) as url, sound.recording(loudspeaker):
        talk = Talk("reference", "--base-url", url, "--out", run)
        talk.until("ready")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        talk.until("^reply: ")
        time.sleep(1)
        sound.speak(SAMPLE / PHONE)
        talk.until("you speak over the reply")
        talk.until("^turn 1: .*stopped")
        assert talk.end() == 0
    with RunReader.open(run) as reader:
        first = next(iter(reader.turns()))
    assert first.timing.barge_in_stop.ns is not None


def test_the_delay_of_the_devices_is_measured_and_enters_the_run(sound: VirtualSound, tmp_path: Path) -> None:
    command = [*LIVE_EVAL, "live", "--loopback-test"]
    nearby = {**os.environ, **sound.near_loudspeaker}
    done = subprocess.run(command, env=nearby, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (kept,) = json.loads(Path(os.environ["LIVE_EVAL_DEVICES"]).read_text("utf-8"))
    assert kept["repeats"] >= 4
    assert 0 < kept["delay_ms"] < 1_000
    talk = Talk("reference", "--out", tmp_path / "run")
    talk.until("ready")
    assert talk.end() == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert reader.manifest["devices"]["delay_ms"] == kept["delay_ms"]
