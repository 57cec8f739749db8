"""A virtual microphone and output device: null sinks of a PulseAudio server.

Programs use them through ALSA and PortAudio, as with a sound card.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from live_eval.errors import UsageError

__all__ = ["VirtualSound", "serve_virtual_sound"]

_PROGRAMS = ("pulseaudio", "pactl", "paplay", "parec")
_SINKS = {
    "loudspeaker": (
        "module-null-sink sink_name=loudspeaker rate=48000 channels=1",
        "module-remap-source master=loudspeaker.monitor source_name=next_to_loudspeaker",
    ),
    "microphone": (
        "module-null-sink sink_name=microphone rate=48000 channels=1",
        "module-remap-source master=microphone.monitor source_name=into_microphone",
    ),
}
_START_S = 10.0
_REAL_TIME = 3


class VirtualSound:
    """A running server; see `serve_virtual_sound`.

    Args:
        environment: Environment variables that make a program use the virtual devices.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        """Variables with which a program uses the virtual microphone and loudspeaker."""
        self.near_loudspeaker = {**environment, "PULSE_SOURCE": "next_to_loudspeaker"}
        """The same with a microphone that hears the loudspeaker alone."""

    def speak(self, path: Path) -> None:
        """Play a sound file into the microphone, to its end."""
        subprocess.run(["paplay", "--device=microphone", path], env=self._all(), check=True)

    @contextlib.contextmanager
    def echo(self, *, latency_ms: int) -> Iterator[None]:
        """Feed the output back to the microphone with a delay, until the context ends."""
        ends = "source=loudspeaker.monitor", "sink=microphone"
        number = self._pactl("load-module", "module-loopback", *ends, f"latency_msec={latency_ms}")
        try:
            yield
        finally:
            self._pactl("unload-module", number.strip())

    def unplug(self, *sinks: str) -> None:
        """Remove the null sinks with these names, and everything that depends on them."""
        for line in self._pactl("list", "short", "modules").splitlines():
            number, _, arguments = line.partition("\t")
            if any(f"sink_name={sink} " in arguments for sink in sinks):
                self._pactl("unload-module", number)

    def plug_in(self, *sinks: str) -> None:
        """Restore the null sinks that `unplug` removed."""
        for module in (module for sink in sinks for module in _SINKS[sink]):
            self._pactl("load-module", *module.split())

    def end_captures(self) -> None:
        """End the streams that capture from a source, as the loss of the last source does."""
        self._pactl("load-module", "module-cli-protocol-unix")
        for line in self._pactl("list", "short", "source-outputs").splitlines():
            command = ["pacmd", "kill-source-output", line.split()[0]]
            subprocess.run(command, env=self._all(), check=True)

    def _pactl(self, *arguments: str) -> str:
        command = ["pactl", *arguments]
        done = subprocess.run(command, env=self._all(), stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    @contextlib.contextmanager
    def recording(self, path: Path, *, rate_hz: int = 24_000) -> Iterator[None]:
        """Record the output device until the context ends.

        Args:
            path: Output file: int16 little-endian mono, without a header.
            rate_hz: Sample rate.
        """
        command = ["parec", "--device=loudspeaker.monitor", "--latency-msec=20", f"--rate={rate_hz}"]
        command += ["--format=s16le", "--channels=1"]
        with path.open("wb") as file, subprocess.Popen(command, env=self._all(), stdout=file) as running:
            try:
                yield
            finally:
                running.terminate()

    def _all(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


@contextlib.contextmanager
def serve_virtual_sound(folder: Path) -> Iterator[VirtualSound]:
    """Serve a virtual microphone and output device until the context ends.

    Args:
        folder: An empty folder for the server's socket.

    Raises:
        UsageError: PulseAudio is not installed, or does not start.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)}: expected PulseAudio and its tools: "
            "apt-get install pulseaudio pulseaudio-utils libasound2-plugins"
        )
    folder.chmod(0o700)
    sound = VirtualSound(
        {
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_SINK": "loudspeaker",
            "PULSE_SOURCE": "into_microphone",
        }
    )
    environment = {**os.environ, **sound.environment}
    modules = ["module-native-protocol-unix", *(each for sink in _SINKS.values() for each in sink)]
    loaded = [f"--load={module}" for module in modules]
    server = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--high-priority=yes", *loaded]
    with subprocess.Popen(server, env=environment, stderr=subprocess.DEVNULL) as running:
        try:
            deadline = time.monotonic() + _START_S
            while not _answers(environment):
                if running.poll() is not None or time.monotonic() > deadline:
                    raise UsageError("PulseAudio does not start on this machine")
                time.sleep(0.1)
            with contextlib.suppress(AttributeError, OSError):  # a sound card does not wait for a busy CPU
                os.sched_setscheduler(running.pid, os.SCHED_RR, os.sched_param(_REAL_TIME))
            with sound.recording(folder / "keeps-it-awake"):
                yield sound
        finally:
            running.terminate()


def _answers(environment: Mapping[str, str]) -> bool:
    asked = subprocess.run(["pactl", "info"], env=environment, capture_output=True, check=False)
    return asked.returncode == 0
