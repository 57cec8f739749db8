"""Measure time, memory and size of the report and of the studio's pages, by number of turns.

Runs of several sizes are written with synthetic turns in three styles of a script, two repeats each, and with
the scores of the default judges. All turns share the audio of a few recordings of usual length. The benchmark
measures `report`, and the requests that the browser sends for a turn and a run to a studio that has just
started. Time and memory should grow no faster than the turns.

``--keep FOLDER`` keeps the runs and reuses them, for example with another version of live-eval.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import _benchmark
import aiohttp
import numpy as np
from _peak_memory import measured, peak_mb

from live_eval.audio import write_flac
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.registry import default_judges, installed_judges
from live_eval.session.event_loop import run
from live_eval.types import Case, CoarseDimension, Cue, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn, tone

TURNS = (300, 3_000, 30_000)
REPORT_S, REPORT_MB, COLD_S, TURN_S, MEMORY_MB = 10.0, 12.0, 2.0, 0.3, 400.0  # aims for 3,364 turns
WITHIN_S = 3_600.0
RECORDINGS = 16
CUES = ("sigh", "breath", "sob", "laughter", "whisper", "shouting", "sad", "angry", "happy", "old", "child")
REPLIES = (
    "Oh no. Is there another one?",
    "That sounds hard. Do you want to talk about it?",
    "Great news, congratulations!",
    "I see. The bus leaves at nine.",
    "Let us look at the options together.",
)
REPEATS = 2


def write_run(folder: Path, turns: int) -> None:
    """Write a run of this many turns, with scores."""
    random = np.random.default_rng(turns)
    manifest = {
        "endpoint": {"name": "synthetic", "model": "model"},
        "turns": turns,
        "data": {"name": "EchoMind", "fingerprint": "f" * 64},
    }
    user, reply = tone(300), tone(300, hz=330)
    turn_ids = []
    with RunWriter.create(folder, manifest) as writer:
        for number in range(turns):
            case, repeat = case_of(number // REPEATS), number % REPEATS
            failure = Failure(FailureKind.NO_RESPONSE, "no response") if random.random() < 0.02 else None
            plan = TurnPlan(
                first_byte_ms=None if failure else float(random.gamma(4, 150)),
                reply_ms=300,
                reply_text=REPLIES[int(random.integers(len(REPLIES)))],
                failure=failure,
            )
            turn = spoken_turn(case, plan, user=user, reply=reply, repeat=repeat)
            writer.commit(turn)
            turn_ids.append(turn.turn_id)
        writer.end(finished=True)
    wanted = default_judges()
    with ScoreStore.open(folder) as scores:
        for spec in installed_judges():
            if spec.name in wanted:
                outputs = [output.name for output in spec.outputs]
                detail = {"reason": "The reply considers how the speaker sounds, and offers help."}
                values = random.uniform(1, 5, (turns, len(outputs))).round(3).tolist()
                judgements = {
                    turn_id: Scored(dict(zip(outputs, row, strict=True)), detail)
                    for turn_id, row in zip(turn_ids, values, strict=True)
                }
                scores.put_all(spec.name, spec.version, judgements)
    share_audio(folder, random)


def case_of(number: int) -> Case:
    """Return the case with this number; each script has three styles."""
    script, style = divmod(number, 3)
    variant = (Variant.TARGET, Variant.NEUTRAL, Variant.ALTERNATIVE)[style]
    name = CUES[script % len(CUES)]
    cue = Cue(name, name, "voice", CoarseDimension.PARALINGUISTIC)
    return Case(
        case_id=f"id_{script:05}/{variant.value}",
        script_id=f"id_{script:05}",
        variant=variant,
        audio_path=Path("a.wav"),
        text=f"I missed bus number {script} again today, and the next one leaves in an hour.",
        cue=cue if variant is Variant.TARGET else Cue("neutral", "neutral"),
        topic=f"topic {script % 17}",
    )


def share_audio(folder: Path, random: np.random.Generator) -> None:
    """Replace the audio of both sides by hard links to a few recordings of 8 to 16 s."""
    shared = []
    for number in range(RECORDINGS):
        length = int(24_000 * random.uniform(8, 16))
        levels = np.repeat(random.uniform(0, 0.3, length // 2_400 + 1), 2_400)[:length]
        sides = (random.normal(0, levels * 32_767 / 3, (2, length)) * [[1], [0.5]]).astype(np.int16)
        file = folder / f"shared-{number}.flac"
        write_flac(file, sides.T, 24_000)
        shared.append(file)
    for number, file in enumerate(sorted((folder / "audio").glob("*both*.flac"))):
        file.unlink()
        os.link(shared[number % RECORDINGS], file)
    for file in shared:
        file.unlink()


@dataclass(frozen=True, slots=True)
class Page:
    """The requests for a page: those that fill it, and those that load values in the background."""

    name: str
    first: Sequence[str]
    then: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PageCost:
    """The duration of a page's requests in seconds, and the size of their responses in megabytes."""

    seconds: float
    mb: float


async def studio_costs(recordings: Path, pages: Sequence[Page]) -> tuple[list[PageCost], float]:
    """Start a studio; return the cost of each page, and the studio's peak memory in megabytes."""
    studio = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "live_eval", "studio", str(recordings), "--port", "0", "--no-browser"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert studio.stdout is not None
    found = re.search(r"studio: (http://\S+?)/\?(\S+)", (await studio.stdout.readline()).decode())
    assert found is not None
    try:
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(found[1], cookie_jar=jar, timeout=timeout) as browser:
            async with browser.get(f"/?{found[2]}"):
                pass
            costs = []
            for page in pages:
                began_s = time.monotonic()
                size = sum(await asyncio.gather(*(get(browser, path) for path in page.first)))
                for path in page.then:
                    size += await get(browser, path)
                costs.append(PageCost(time.monotonic() - began_s, size / 1e6))
        return costs, peak_mb(studio.pid)
    finally:
        studio.terminate()
        await studio.wait()


async def get(browser: aiohttp.ClientSession, path: str) -> int:
    """Request a path, and return the size of the response in bytes."""
    async with browser.get(path) as answer:
        body = await answer.read()
        assert answer.status in (200, 206), (path, answer.status, body[:200])
        return len(body)


def pages_of(run_id: str, turn_id: str) -> list[Page]:
    """Return the pages to measure, in the order of a first visit."""
    at = f"/api/runs/{run_id}"
    turn = f"{at}/turns/{quote(turn_id, safe='')}"
    spectra = [f"{turn}/spectrogram?side={side}&columns=1000" for side in ("user", "reply")]
    return [
        Page("turn", [turn], [f"{turn}/waveform?bins=1000", *spectra, f"{turn}/audio/both"]),
        Page("turns", [f"{at}/turns"]),
        Page("values", [f"{at}?cues=0"]),
        Page("cues", [f"{at}/cues"]),
        Page("paper", [f"{at}/paper"]),
        Page("report page", [f"/pages/report.html?run={run_id}"]),
    ]


async def measure(folder: Path, name: str, turns: int) -> None:
    """Print the seconds and megabytes of a run's report and of the studio."""
    from live_eval.studio.library import Library

    page = folder / f"{name}.html"
    report = await measured(
        [sys.executable, "-m", "live_eval", "report", str(folder / name), "--out", str(page)],
        within_s=WITHIN_S,
    )
    assert report.status == 0, report.output
    size_mb = page.stat().st_size / 1e6
    page.unlink()
    run_id = next(each.id for each in Library([folder / name]).folders())
    pages = pages_of(run_id, f"{case_of(0).case_id}")
    costs, studio_mb = await studio_costs(folder / name, pages)
    cold_s = sum(cost.seconds for cost in costs[1:3])
    print(
        f"{turns} turns: report {report.seconds:.1f} s, {report.peak_mb:.0f} MB of memory, {size_mb:.1f} MB; "
        f"studio cold: "
        + ", ".join(
            f"{page.name} {cost.seconds:.2f} s ({cost.mb:.1f} MB)"
            for page, cost in zip(pages, costs, strict=True)
        )
        + f" (turns and values {cold_s:.2f} s), {studio_mb:.0f} MB of memory",
        flush=True,
    )


async def main(sizes: Sequence[int], keep: Path | None) -> None:
    with TemporaryDirectory(prefix="live-eval-pages-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for turns in sizes:
            if not (folder / f"run-{turns}").exists():
                write_run(folder / f"run-{turns}", turns)
            await measure(folder, f"run-{turns}", turns)
    print(
        f"pages: aims for 3,364 turns: report <= {REPORT_S:g} s and {REPORT_MB:g} MB, cold <= {COLD_S:g} s, "
        f"a turn <= {TURN_S:g} s; memory < {MEMORY_MB:g} MB at any size"
    )


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=TURNS)
    parser.add_argument("--keep", type=Path, help="Folder for the runs, which are used again.")
    arguments = parser.parse_args()
    run(main(arguments.turns, arguments.keep))
