"""`live-eval live` with virtual audio devices: PulseAudio's null sinks, PortAudio, the command line."""

import contextlib
import json
import os
import re
import select
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
from tests.support.virtual_sound import VirtualSound, serve_virtual_sound

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
pytest.importorskip("faster_whisper", reason="needs the extra `local`")
pytest.importorskip("hibari", reason="needs the extra `local`")
pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

RATE = 24_000


@contextlib.contextmanager
def virtual_sound(folder: Path) -> Iterator[VirtualSound]:
    """Provide a virtual microphone and output device; skip the tests where that is impossible."""
    try:
        import sounddevice  # noqa: F401  # loads PortAudio
    except (ImportError, OSError) as error:
        pytest.skip(f"needs the extra `mic` and PortAudio: {error}")
    try:
        with serve_virtual_sound(folder) as served_sound, pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIVE_EVAL_DEVICES", str(folder / "devices.json"))
            for name, value in served_sound.environment.items():
                patch.setenv(name, value)
            yield served_sound
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualSound]:
    with virtual_sound(tmp_path_factory.mktemp("pulse")) as served_sound:
        yield served_sound


class Talk:
    """A running ``live-eval live``."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [*LIVE_EVAL, "live", *map(str, arguments), "--plain"]
        self._running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []

    def until(self, pattern: str) -> str:
        """Return the next line that matches."""
        assert self._running.stdout is not None
        for line in self._running.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        pytest.fail(f"{pattern!r} did not come:\n{''.join(self.lines)}")

    def end(self) -> int:
        """End the conversation as Ctrl-C does."""
        self._running.send_signal(signal.SIGINT)
        self._running.communicate(timeout=60)
        return self._running.returncode


class Keyboard:
    """A running ``live-eval live`` in its own terminal."""

    def __init__(self, *arguments: str | Path) -> None:
        self._terminal, theirs = pty.openpty()
        command = [*LIVE_EVAL, "live", *map(str, arguments)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self._running = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def until(self, pattern: str, *, timeout_s: float = 60) -> None:
        """Read the screen until new output matches."""
        screen, deadline = "", time.monotonic() + timeout_s
        while re.search(pattern, screen) is None:
            if time.monotonic() > deadline:
                self._running.kill()
                pytest.fail(f"{pattern!r} did not come:\n{screen[-3000:]}")
            if select.select([self._terminal], [], [], 0.1)[0]:
                screen += os.read(self._terminal, 65_536).decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._terminal, keys.encode())

    def ended(self) -> int:
        """Wait for the exit and return the exit status."""
        with contextlib.suppress(OSError):  # our end of the terminal fails once the other end is closed
            while select.select([self._terminal], [], [], 20)[0] and os.read(self._terminal, 65_536):
                pass
        os.close(self._terminal)
        return self._running.wait(20)


def heard(path: Path) -> NDArray[np.int16]:
    """Return the played audio from its first audible sample: recognisers hallucinate in silence."""
    return np.trim_zeros(np.fromfile(path, "<i2"))


def test_speech_at_the_microphone_is_answered_on_the_output_device(
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


def test_speaking_over_the_reply_stops_it(sound: VirtualSound, tmp_path: Path) -> None:
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
        talk.until("you interrupt the reply")
        talk.until("^turn 1: .*stopped")
        assert talk.end() == 0
    with RunReader.open(run) as reader:
        first = next(iter(reader.turns()))
    assert first.timing.barge_in_stop.ns is not None


def test_the_measured_device_delay_is_stored_with_the_run(sound: VirtualSound, tmp_path: Path) -> None:
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


def test_a_microphone_that_hears_the_reply_is_reported(sound: VirtualSound, tmp_path: Path) -> None:
    reply = tmp_path / "reply.flac"
    write_flac(reply, np.tile(read_audio(SAMPLE / MEETING).audio.int16(), 3), 24_000)
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--reply-audio", str(reply)]
    with served(command, r"(ws://[\d.:]+/v1)", tmp_path) as url, sound.echo(latency_ms=100):
        talk = Talk("reference", "--base-url", url, "--out", tmp_path / "run")
        talk.until("ready")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        talk.until("^echo: the microphone picks up the reply .*half-duplex")
        assert talk.end() == 0


def test_keys_mute_commit_reconnect_and_quit(sound: VirtualSound, tmp_path: Path) -> None:
    run = tmp_path / "run"
    endpoint = [*LIVE_EVAL, "endpoint", "--port"]
    with served([*endpoint, "0"], r"(ws://[\d.:]+/v1)", tmp_path) as url:
        keys = Keyboard("reference", "--base-url", url, "--turn-mode", "manual", "--out", run)
        keys.until("listening")
        keys.press("m")
        keys.until("muted")
        keys.press("mh")
        keys.until("you  ")
        sound.speak(SAMPLE / MEETING)
        keys.press(" ")
        keys.until("voice to voice")
    keys.until("disconnected")
    port = url.rpartition(":")[2].partition("/")[0]
    with served([*endpoint, port], r"(ws://[\d.:]+/v1)", tmp_path):
        keys.press("r")
        keys.until("listening")
        sound.speak(SAMPLE / PHONE)
        keys.press("\r")
        keys.until("turn 2")
        keys.press("hq")
        assert keys.ended() == 0
    with RunReader.open(run) as reader:
        turns = list(reader.turns())
    assert [turn.case.dialogue_id for turn in turns if turn.failure is None] == ["session-1", "session-2"]


def test_a_conversation_follows_its_output_device_and_continues_without_one(tmp_path: Path) -> None:
    run, server = tmp_path / "run", tmp_path / "server"
    server.mkdir()
    with virtual_sound(server) as sound:
        talk = Talk("reference", "--out", run)
        talk.until("ready")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        talk.until("^turn 1: voice to voice")
        sound.unplug("loudspeaker")  # the sound server moves its streams to another one
        sound.speak(SAMPLE / PHONE)
        talk.until("^turn 2: voice to voice")
        assert sum(line.startswith("turn ") for line in talk.lines) == 2
        sound.unplug("microphone")
        talk.until("has stopped: was it unplugged\\? Replies are not audible")
        sound.plug_in("loudspeaker", "microphone")
        talk.until("the output device works again")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        talk.until("^turn 3: voice to voice")
        assert talk.end() == 0
    with RunReader.open(run) as reader:
        assert len(list(reader.turns())) >= 3


def test_the_conversation_continues_while_the_microphone_is_unplugged(
    sound: VirtualSound, tmp_path: Path
) -> None:
    talk = Talk("reference", "--out", tmp_path / "run")
    talk.until("ready")
    sound.unplug("microphone")
    sound.end_captures()
    talk.until("has stopped: was it unplugged\\? The endpoint hears silence")
    time.sleep(3)
    sound.plug_in("microphone")
    talk.until("the microphone works again")
    time.sleep(1)
    sound.speak(SAMPLE / MEETING)
    talk.until("^turn 1: voice to voice")
    assert talk.end() == 0


def test_one_microphone_reaches_two_endpoints(sound: VirtualSound, tmp_path: Path) -> None:
    command = [*LIVE_EVAL, "endpoint", "--port", "0", "--reply-audio", str(SAMPLE / PHONE)]
    with served(command, r"(ws://[\d.:]+/v1)", tmp_path) as url:
        for name in ("one", "two"):
            text = f'[endpoint]\nname = "reference"\nbase_url = "{url}"\n'
            (tmp_path / f"{name}.toml").write_text(text, "utf-8")
        keyboard = Keyboard(tmp_path / "one.toml", tmp_path / "two.toml", "--out", tmp_path / "talk")
        keyboard.until("listening(.|\n)*listening")
        time.sleep(1)
        sound.speak(SAMPLE / MEETING)
        keyboard.until(r"turn 1(.|\n)*\d ms(.|\n)*\d ms")
        keyboard.press("v2")
        keyboard.until("★")
        keyboard.press("2")
        keyboard.until("you hear two")
        keyboard.press("q")
        assert keyboard.ended() == 0
    for name in ("one", "two"):
        with RunReader.open(tmp_path / f"talk-{name}") as reader:
            (turn,) = reader.turns()
            assert turn.case.case_id == "turn-0001"
            assert turn.timing.voice_to_voice.ns is not None
    votes = (tmp_path / "talk-votes.csv").read_text("utf-8").splitlines()
    assert votes == ["case_id,first,second,winner", "turn-0001,talk-one,talk-two,talk-two"]
