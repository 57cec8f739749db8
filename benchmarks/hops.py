"""Measure the cost of each hop to one pipecat bot: WebSocket, WebRTC, LiveKit and two phone lines.

The bot (`tests/e2e/strangers/pipecat_repeating_bot.py`) repeats each utterance 1 s after its end, so that the
conversation is the same over every hop. The bot's own log splits the latency: ``to bot`` is from the end of
the user's speech to the bot's detection of it (0.9 s of silence included), ``from bot`` is from handing the
answer to pipecat's transport to its first audible sample here (0.2 s of lead included). Word errors and
DNSMOS are given for what the bot heard (one way) and for its answer (both ways). ``longer`` is the audible
length of the answer here, minus that at the bot: silence that was inserted on the way.

LiveKit's server cannot be installed here: `tests/support/livekit_server.py` forwards packets between our
client and pipecat's LiveKit transport. ``--runs N`` measures each hop N times, each time with a new bot.
Differences are paired by recording and run, to WebSocket. Their 95 % intervals draw recordings and runs (the
pigeonhole bootstrap: A. B. Owen, Annals of Applied Statistics 1(2), 2007), so that they contain the variance
between runs. ``--busy N`` adds N processes that compute without pause.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import _benchmark
import aiohttp
import jiwer
import numpy as np
from _replies import turns_of
from numpy.typing import NDArray
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.audio import Audio, read_audio
from live_eval.audio.audible import loud_windows
from live_eval.errors import UsageError
from live_eval.judges.dnsmos import Dnsmos
from live_eval.judging import Scored
from live_eval.recording import RunReader, TurnRecord
from live_eval.speech.recognition import Recogniser
from tests.support.livekit_server import KEYS, agent_token, livekit_server

BOT = _benchmark.ROOT / "tests/e2e/strangers/pipecat_repeating_bot.py"
BASE = "websocket"
HOPS = {
    BASE: ("pipecat-websocket", "ws", "/websocket"),
    "webrtc": ("pipecat-webrtc", "http", ""),
    "livekit": ("livekit", "", ""),
    "twilio": ("twilio", "ws", "/twilio"),
    "vonage": ("vonage", "ws", "/vonage"),
}
"""The client of each hop, and the scheme and path of its base URL."""
READY = re.compile(r"Uvicorn running on http://(\S+)")
RUN = ("--word-times", "off", "--judges", "none", "--no-report", "--retries", "0", "--greeting", "ignore")
TIMES = ("voice_to_voice", "to_bot", "from_bot", "longer")
SOUND = ("wer_to_bot", "wer", "ovrl_to_bot", "ovrl", "p808_to_bot", "p808")
STOP_S = 10
DRAWS = 4_000


@asynccontextmanager
async def bot(python: Path, folder: Path) -> AsyncIterator[str]:
    """Start the bot; yield its host and port."""
    (folder / "heard").mkdir(parents=True, exist_ok=True)
    log = folder / "bot.log"
    variables = {"EVENTS": str(folder / "events.jsonl"), "HEARD": str(folder / "heard")}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            python, BOT, "0", stdout=output, stderr=output, env={**os.environ, **variables}
        )
    try:
        while (found := READY.search(log.read_text("utf-8", "replace"))) is None:
            if process.returncode is not None:
                raise SystemExit(f"the bot ended: see {log}")
            await asyncio.sleep(0.1)
        yield found[1]
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()


async def dispatch(url: list[str], address: str, room: str) -> None:
    """Let the bot join a LiveKit room."""
    body = {"url": url[0], "token": agent_token(room), "room": room}
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}/livekit", json=body):
        pass


async def measure(hop: str, python: Path, folder: Path, flags: Sequence[str]) -> None:
    """Run the recordings over one hop."""
    endpoint, scheme, path = HOPS[hop]
    url: list[str] = []
    async with bot(python, folder) as address:
        rooms = livekit_server(partial(dispatch, url, address)) if hop == "livekit" else nullcontext("")
        async with rooms as relay:
            url.append(relay)
            base = relay or f"{scheme}://{address}{path}"
            command = ["-m", "live_eval", "run", endpoint, "--base-url", base, *RUN, *flags]
            begin = os.getloadavg()[0]
            with (folder / "run.log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *command,
                    "--out",
                    folder / "run",
                    env={**os.environ, **KEYS},
                    stdout=log,
                    stderr=log,
                )
                await process.wait()
    loads = f"{begin:.1f} to {os.getloadavg()[0]:.1f}"
    (folder / "load.txt").write_text(loads, "utf-8")
    print(f"{folder.parent.name}, {hop}: measured at load {loads}", flush=True)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the CPU busy."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_compute, daemon=True) for _ in range(processes)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()


def _compute() -> None:
    while True:
        pass


@dataclass(frozen=True, slots=True)
class Heard:
    """A turn over one hop: times in ms, word error rates as shares, and scores."""

    values: Mapping[str, float]
    lag_ms: float


def read(folder: Path, score: Scores) -> tuple[dict[str, Heard], int]:
    """Return the answered turns of a hop by case, and the number of all turns."""
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]
    with RunReader.open(folder / "run") as run:
        turns = list(run.turns())
    found = {turn.case.case_id: heard for turn in turns if (heard := _heard(turn, lines, folder, score))}
    return found, len(turns)


def _heard(turn: TurnRecord, lines: Sequence[Mapping[str, Any]], folder: Path, score: Scores) -> Heard | None:
    latency, trace = turn.timing.voice_to_voice.ns, turn.trace
    if turn.failure is not None or latency is None or turn.reply_file is None:
        return None
    if trace.t0_ns is None or trace.voice_end_ns is None:
        return None
    onset_ns = trace.voice_end_ns + latency
    during = [line for line in lines if trace.t0_ns < line["at_ns"] < onset_ns]
    ends = [line["at_ns"] for line in during if line["event"] == "end"]
    answers = [line for line in during if line["event"] == "answer"]
    if len(answers) != 1 or len(ends) != 1:
        return None
    text = turn.case.text or ""
    sounds = (read_audio(folder / "heard" / answers[0]["wav"]).audio, read_audio(turn.reply_file).audio)
    lengths_ms = [audible_ms(sound) for sound in sounds]
    (wer_to_bot, ovrl_to_bot, p808_to_bot), (wer, ovrl, p808) = (score(sound, text) for sound in sounds)
    return Heard(
        {
            "voice_to_voice": latency / 1e6,
            "to_bot": (ends[0] - trace.voice_end_ns) / 1e6,
            "from_bot": (onset_ns - answers[0]["at_ns"]) / 1e6,
            "longer": lengths_ms[1] - lengths_ms[0],
            "wer_to_bot": wer_to_bot,
            "wer": wer,
            "ovrl_to_bot": ovrl_to_bot,
            "ovrl": ovrl,
            "p808_to_bot": p808_to_bot,
            "p808": p808,
        },
        turn.timing.lag_ns / 1e6,
    )


def audible_ms(sound: Audio) -> float:
    """Return the time from the first to the last window of 10 ms above −50 dBFS."""
    loud = np.flatnonzero(loud_windows(sound.int16(), sound.rate_hz))
    return 10.0 * (loud[-1] - loud[0] + 1) if len(loud) else 0.0


class Scores:
    """Rates and recognises recordings."""

    def __init__(self) -> None:
        self._recogniser, self._dnsmos, self._words = Recogniser(), Dnsmos(), EnglishTextNormalizer()

    def __call__(self, sound: Audio, said: str) -> tuple[float, float, float]:
        """Return the word error rate, and DNSMOS overall and P.808."""
        heard = self._recogniser.transcribe(sound).text
        (scored,) = self._dnsmos.score(turns_of([sound]))
        assert isinstance(scored, Scored), scored
        wer = jiwer.wer(self._words(said), self._words(heard) or "(nothing)")
        return float(wer), float(scored.values["ovrl"]), float(scored.values["p808"])


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference from the base, and its interval."""

    mean: float
    low: float
    high: float

    def shown(self, digits: int) -> str:
        """Return the mean and the interval as text."""
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def difference(pairs: NDArray[np.float64]) -> Difference:
    """Return the mean of differences and its 95 % interval.

    Args:
        pairs: Shape (runs, recordings); NaN if a recording has no single answer.
    """
    runs, recordings = pairs.shape
    draw = np.random.default_rng(0)
    rows, columns = (draw.integers(0, n, (DRAWS, n)) for n in (runs, recordings))
    means = np.nanmean(pairs[rows[:, :, None], columns[:, None, :]], axis=(1, 2))
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(float(np.nanmean(pairs)), float(low), float(high))


def show(folder: Path, runs: int) -> None:
    """Print the table and the result line."""
    score = Scores()
    results: dict[str, list[dict[str, Heard]]] = {}
    for hop in HOPS:
        for run in range(1, runs + 1):
            place = folder / f"run_{run}" / hop
            if not (place / "run").exists():
                continue
            turns, count = read(place, score)
            results.setdefault(hop, []).append(turns)
            lags = [turn.lag_ms for turn in turns.values()]
            load = (place / "load.txt").read_text("utf-8")
            print(
                f"{hop}, run {run}: {len(lags)} of {count} turns answered once; load {load}; "
                f"lag p50 {np.median(lags):.1f}, max {max(lags):.1f} ms"
            )
    costs: dict[str, dict[str, Difference]] = {}
    cases = sorted({case for turns in results[BASE] for case in turns})
    for hop, repeated in results.items():
        both = list(zip(repeated, results[BASE], strict=False))
        pairs = sum(len(here.keys() & there.keys()) for here, there in both)
        print(f"\n{hop}, {pairs} pairs in {len(both)} runs")
        costs[hop] = {}
        for name in (*TIMES, *SOUND):
            digits = 0 if name in TIMES else 2
            here, there = (
                np.array([[value(turns, case, name) for case in cases] for turns in each])
                for each in zip(*both, strict=True)
            )
            costs[hop][name] = difference(here - there)
            of_runs = ", ".join(f"{each:+.{digits}f}" for each in np.nanmean(here - there, axis=1))
            cost = "" if hop == BASE else f"  difference {costs[hop][name].shown(digits)}, by run {of_runs}"
            print(
                f"  {name:15} mean {np.nanmean(here):8.{digits}f}  p50 {np.nanmedian(here):8.{digits}f}{cost}"
            )
    values = "; ".join(
        f"{hop} {cost['voice_to_voice'].shown(0)} ms, DNSMOS {cost['ovrl'].shown(2)}"
        for hop, cost in costs.items()
        if hop != BASE
    )
    print(f"\nhops: {values}, against {BASE} (aim: none, the bots' transports decide)")


def value(turns: Mapping[str, Heard], case: str, name: str) -> float:
    return turns[case].values[name] if case in turns else np.nan


async def measure_all(asked: argparse.Namespace) -> None:
    flags = ["--data", asked.data, "--concurrency", "1"]
    flags += ["--limit", str(asked.limit)] if asked.limit else []
    places = [
        (hop, asked.folder / f"run_{run}" / hop) for run in range(1, asked.runs + 1) for hop in asked.hops
    ]
    missing = [(hop, place) for hop, place in places if not (place / "run").exists()]
    if missing and not asked.python.is_file():
        raise UsageError(f"{asked.python}: not found: `make strangers` installs pipecat")
    with busy(asked.busy):
        for first in range(0, len(missing), asked.at_once):
            now = missing[first : first + asked.at_once]
            await asyncio.gather(*(measure(hop, asked.python, place, flags) for hop, place in now))


def main() -> None:
    parser = _benchmark.parser(__doc__)
    where = "where runs are written; existing ones are only shown (default: build/hops)"
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/hops"), help=where)
    parser.add_argument("--python", type=Path, default=Path(".venv-strangers/voice/bin/python"))
    parser.add_argument("--data", default="sample", help="recordings to play")
    parser.add_argument("--limit", type=int, help="how many of them")
    parser.add_argument("--hops", nargs="*", default=list(HOPS), choices=list(HOPS))
    parser.add_argument("--runs", type=int, default=1, help="how often each hop is measured")
    parser.add_argument("--at-once", type=int, default=1, help="hops that are measured simultaneously")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute without pause")
    parser.add_argument("--measure-only", action="store_true", help="do not rate the replies")
    asked = parser.parse_args()
    asyncio.run(measure_all(asked))
    if not asked.measure_only:
        show(asked.folder, asked.runs)


if __name__ == "__main__":
    main()
