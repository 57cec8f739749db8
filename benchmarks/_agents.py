"""Compare live-eval's times with the logs of third-party agents that answer each utterance with a tone.

An agent logs when it hands the first frame of an answer to its socket (pipecat, as a phone agent) or to its
track (livekit-agents). The difference to the first audible sample here is split at the arrival of the packet
with that sample, and in a LiveKit room at the server (`tests/support/livekit_server.py`) too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio import read_audio
from live_eval.audio.codecs import Decoder
from live_eval.audio.rtp import RtpPacket
from live_eval.calibrate import timer_lateness
from live_eval.clock import SystemClock
from live_eval.errors import AudioError
from live_eval.recording import RunReader, TurnRecord
from tests.e2e.helpers import LIVE_EVAL, PHONE, SAMPLE, STRANGERS, served
from tests.support.livekit_server import KEYS, livekit_server

__all__ = ["AGENTS", "PARTS", "measure"]

AGENTS = ("twilio", "livekit")
PARTS = ("whole", "agent", "server", "stamp", "sample")
"""The parts of the difference: total; agent to server; inside the server; from the server (or the agent) to
here; from the packet's arrival to the sample within it.
"""
_SPEECH_S, _REPLY_S, _SILENCE_S, _CONNECT_S = 0.6, 0.4, 0.5, 60
_LOUD = 2_000
_TURNS = 10  # of a session
_WAKES = 200
_RUN = ("--greeting", "ignore", "--word-times", "off", "--judges", "none", "--no-report", "--retries", "0")


class _Crossings:
    """The times at which the agent's audible packets reached and left the server, by room."""

    def __init__(self) -> None:
        self._packets: dict[str, list[tuple[RtpPacket, int]]] = defaultdict(list)

    def add(self, room: str, packet: RtpPacket, left_ns: int) -> None:
        self._packets[room].append((packet, left_ns))

    @cache  # noqa: B019 (there are few)
    def audible(self, room: str) -> Sequence[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        decoder: Decoder | None = None
        for packet, left_ns in self._packets[room]:
            decoder = decoder or Decoder(packet.codec)
            with contextlib.suppress(AudioError):  # an empty packet
                if np.abs(decoder.decode(packet.payload).astype(np.int32)).max() > _LOUD:
                    found.append((packet.at_ns, left_ns))
        return found


async def measure(
    endpoint: str, sessions: int, turns: int, pythons: Path
) -> tuple[Mapping[str, NDArray[np.float64]], NDArray[np.int64], Counter[str]]:
    """Return the parts of the difference in ms, a bare timer's lateness in ns, and failed turns by kind.

    Args:
        endpoint: One of `AGENTS`.
        pythons: The folder of the environments that `make strangers` sets up.
    """
    clock, crossings = SystemClock(), _Crossings()
    floor = [await timer_lateness(clock, _WAKES)]
    folder = await asyncio.to_thread(TemporaryDirectory, prefix="live-eval-agents-")
    try:
        run = (endpoint, sessions, turns, pythons, Path(folder.name))
        if endpoint == "livekit":
            async with livekit_server(forwarded=crossings.add) as url:
                kept = await asyncio.to_thread(_talk, url, *run)
        else:
            kept = await asyncio.to_thread(_talk, "", *run)
        sent = _logged(Path(folder.name) / "answers.jsonl")
    finally:
        await asyncio.to_thread(folder.cleanup)
    floor.append(await timer_lateness(clock, _WAKES))
    rows = [_parts(turn, sent.get(turn.session_id or "", ()), crossings, endpoint) for turn in kept]
    values = {part: np.array([row[part] for row in rows if part in row]) for part in PARTS}
    failed = Counter(
        turn.failure.kind.value if turn.failure else "not answered once"
        for turn, row in zip(kept, rows, strict=True)
        if not row
    )
    return values, np.concatenate(floor), failed


def _talk(
    url: str, endpoint: str, sessions: int, turns: int, pythons: Path, folder: Path
) -> list[TurnRecord]:
    """Run an agent and turns with it; return the turns."""
    spoken = read_audio(SAMPLE / PHONE).audio
    soundfile.write(folder / "hello.wav", spoken.samples[: round(_SPEECH_S * spoken.rate_hz)], spoken.rate_hz)
    dialogue = {"id": "hello", "turns": [{"audio": "hello.wav"}] * _TURNS}
    (folder / "hello.jsonl").write_text(json.dumps(dialogue), "utf-8")
    command: list[str | Path]
    if endpoint == "livekit":
        command = [pythons / "livekit/bin/python", STRANGERS / "livekit_worker.py", "start"]
        ready = "(registered worker)"
    else:
        command = [pythons / "voice/bin/python", STRANGERS / "pipecat_tone_bot.py", "-t", endpoint]
        command += ["-x", "127.0.0.1:9", "--host", "127.0.0.1", "--port", "0"]
        ready = r"Uvicorn running on http://(\S+)"
    log = folder / "answers.jsonl"
    os.environ |= KEYS
    environment = {"LIVEKIT_URL": url, "ANSWERS": str(log), "REPLY_S": str(_REPLY_S)}
    with served(command, ready, folder, environment) as address:
        flags: list[object] = ["--base-url", url or f"ws://{address}/ws", "--data", folder / "hello.jsonl"]
        flags += ["--repeat", turns // _TURNS, "--concurrency", sessions, "--reply-silence", _SILENCE_S]
        flags += ["--connect-timeout", _CONNECT_S]
        flags += ["--extra", "agent_name=tone"] if url else []
        run_command = [*LIVE_EVAL, "run", endpoint, *map(str, flags), *_RUN, "--out", str(folder / "run")]
        done = subprocess.run(run_command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 3), done.stderr  # 3: a turn failed
    with RunReader.open(folder / "run") as run:
        return list(run.turns())


def _logged(log: Path) -> Mapping[str, Sequence[int]]:
    """Return the times of the answers in each call."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in map(json.loads, log.read_text("utf-8").splitlines()):
        found[line["call"]].append(line["at_ns"])
    return found


def _parts(turn: TurnRecord, sent: Sequence[int], crossings: _Crossings, endpoint: str) -> dict[str, float]:
    """Return the parts of a turn's difference in ms; empty if the turn failed or has no single answer."""
    latency, voice_end_ns, t0_ns = turn.timing.voice_to_voice.ns, turn.trace.voice_end_ns, turn.trace.t0_ns
    if turn.failure is not None or latency is None or voice_end_ns is None or t0_ns is None:
        return {}
    onset_ns = voice_end_ns + latency
    sent = [at_ns for at_ns in sent if t0_ns < at_ns < onset_ns]
    if len(sent) != 1 or len(turn.responses) != 1:
        return {}
    (response,) = turn.responses
    times, left_ns = {"whole": onset_ns - sent[0]}, sent[0]
    if endpoint == "livekit":
        at_ns, left_ns = next(each for each in crossings.audible(turn.session_id or "") if each[0] > sent[0])
        times |= {"agent": at_ns - sent[0], "server": left_ns - at_ns}
    arrivals = response.chunk_arrival_ns
    arrival_ns = int(arrivals[min(int(np.searchsorted(arrivals, left_ns)), len(arrivals) - 1)])
    times |= {"stamp": arrival_ns - left_ns, "sample": onset_ns - arrival_ns}
    return {name: ns / 1e6 for name, ns in times.items()}
