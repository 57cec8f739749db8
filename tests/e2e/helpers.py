"""Run third-party programs and live-eval as a user does, and compare transcripts."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.audio import Audio, frames_of, int16_to_float, read_audio, resample

__all__ = [
    "LIVE_EVAL",
    "MEETING",
    "MEETING_REPLY",
    "MEETING_SAYS",
    "PHONE",
    "PHONE_CASE",
    "PHONE_REPLY",
    "PHONE_RESPONSE",
    "PHONE_SAYS",
    "SAMPLE",
    "STRANGERS",
    "frames",
    "live_eval",
    "pace",
    "recognised",
    "served",
    "shown",
    "told",
    "two_turns",
    "words",
]

STRANGERS = Path(__file__).parent / "strangers"
SAMPLE = Path(__file__).parents[2] / "live_eval/data/sample/data_synthesis/audio"

PHONE = "whisper/le_103_whisper_technology_neutral.flac"
PHONE_CASE = "le_103/neutral"
PHONE_SAYS = "My new phone arrived in the mail this afternoon."
PHONE_RESPONSE = "whisper/le_103_whisper_technology_neutral_response.flac"
PHONE_REPLY = "Nice. Do you want help setting it up?"
MEETING = "fast/le_101_fast_work_neutral.flac"
MEETING_SAYS = "The meeting has been moved to the small room upstairs."
MEETING_REPLY = "Thanks, I will note the new room."

LIVE_EVAL = (sys.executable, "-m", "live_eval")
_START_S = 60.0


def live_eval(*arguments: str | Path, status: int = 0) -> str:
    """Run a live-eval command, check its exit status, and return its output."""
    command = [*LIVE_EVAL, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def shown(run: Path) -> dict[str, Any]:
    """Return the JSON summary of a run."""
    summary: dict[str, Any] = json.loads(live_eval("show", run, "--json"))
    return summary


@contextmanager
def served(
    command: Sequence[str | Path], ready: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server until the context ends.

    Args:
        command: The command.
        ready: A log pattern that indicates readiness; the context's value is its first group.
        folder: The folder for its log.
        environment: Extra environment variables.
    """
    log = folder / f"{len(list(folder.iterdir()))}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _START_S
            while (found := re.search(ready, log.read_text("utf-8", errors="replace"))) is None:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(
                        f"{command} was not ready: {log.read_text('utf-8', errors='replace')[-3000:]}"
                    )
                time.sleep(0.05)
            yield found[1]
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def frames(name: str) -> list[bytes]:
    """Return a recording of the sample in frames of 20 ms: int16 mono at 24 000 Hz."""
    return frames_of(resample(read_audio(SAMPLE / name).audio, 24_000).int16(), 480)


async def pace(name: str, *, speed: float = 1.0) -> AsyncIterator[str]:
    """Yield a recording of the sample in frames as base64, `speed` times as fast as speech, then silence."""
    recording = await asyncio.to_thread(frames, name)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number in itertools.count():
        yield base64.b64encode(recording[number] if number < len(recording) else bytes(960)).decode()
        await asyncio.sleep(begin + 0.02 / speed * (number + 1) - loop.time())


def words(text: str | None) -> str:
    """Return the text, normalised as for the word error rate."""
    normalised: str = EnglishTextNormalizer()(text or "")
    return normalised


def recognised(pcm: NDArray[np.int16], rate_hz: int) -> str:
    """Return our recogniser's transcript."""
    from live_eval.speech.recognition import Recogniser

    return Recogniser().transcribe(Audio(int16_to_float(pcm), rate_hz)).text


def told(
    command: Sequence[str | Path], timeout_s: float = 90.0, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run a program, check that it succeeds, and return the JSON lines that it printed."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


async def two_turns(
    client: Sequence[str | Path],
    talk: Callable[..., Path],
    rate_hz: int,
    *,
    reply_hz: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Run a client that streams two recordings; check both sides' words, and return the client's turns.

    Args:
        client: Command of the client, without the recordings.
        talk: The fixture `talk`.
        reply_hz: Sample rate of the replies; `rate_hz` by default.
    """
    recordings = [await asyncio.to_thread(talk, rate_hz, name) for name in (PHONE, MEETING)]
    turns = await asyncio.to_thread(told, [*client, *recordings], environment=environment)
    expected = ((PHONE_SAYS, PHONE_REPLY), (MEETING_SAYS, MEETING_REPLY))
    for turn, (user, reply) in zip(turns, expected, strict=True):
        assert words(turn["heard"]) == words(user)
        assert words(turn["said"]) == words(reply)
        pcm = np.frombuffer(base64.b64decode(turn["audio"]), "<i2")
        spoken = await asyncio.to_thread(recognised, pcm, reply_hz or rate_hz)
        assert jiwer.wer(words(reply), words(spoken)) <= 0.2
    return turns
