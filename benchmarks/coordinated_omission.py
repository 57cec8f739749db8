"""Open and closed loop compared on a stalling endpoint: the effect of coordinated omission.

The reference endpoint replies 200 ms after the end of speech, but starts no reply in the first 5 s of every
20 s. A quarter of users who speak at independent times encounter the stall and wait for its remainder: their
latency distribution follows from these settings and is printed first. The same number of turns is then run
with at most four sessions, in a closed loop and in an open loop (2 turns per second, Poisson), with latency
from the end of speech and from the scheduled session start; and in an open loop with enough sessions that
none queue.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import _benchmark
import numpy as np
from _recordings import write_speech
from numpy.typing import NDArray

from live_eval.analysis.latency.campaign_latencies import latency_of
from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.campaigns.latency.campaign import LatencyCampaign
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.points import CampaignPlan
from live_eval.cli._progress import RunProgress
from live_eval.recording import TurnRecord
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.run_file import validate
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import run

TURNS = 200
SESSIONS = 4
DELAY_MS, STALL_MS, EVERY_MS = 200, 5_000, 20_000
OPEN = "poisson:2"


async def campaign(folder: Path, plan: CampaignPlan) -> list[TurnRecord]:
    arguments = ("--delay-ms", DELAY_MS, "--stall-ms", STALL_MS, "--stall-every-ms", EVERY_MS)
    flags = tuple(map(str, (*arguments, "--reply-ms", 200)))
    async with ReferenceProcess(calibrate=True, log_folder=folder, arguments=flags) as endpoint:
        where = {"name": "reference", "base_url": endpoint.base_url}
        values = {
            "endpoint": where,
            "data": {"path": str(folder / "speech.jsonl")},
            "turns": {"word_times": "off"},
        }
        plan = replace(plan, config=validate(values))
        name = f"{plan.arrivals.kind}-{plan.concurrency[0]}"
        played = LatencyCampaign(plan, folder / name)
        with RunProgress() as progress, StopSignals() as stop:
            outcome = await played.run(progress, stop)
    if outcome.stopped or outcome.interrupted:
        raise SystemExit(outcome.stopped or "Interrupted.")
    return [turn for point in read_campaign(folder / name).points for turn in point.turns]


def what_users_see() -> NDArray[np.float64]:
    """Return the latencies in ms of turns whose speech ends at uniform times, computed from the settings."""
    ends_ms = np.arange(0, EVERY_MS, 0.5)
    heard_ms = np.maximum(ends_ms + DELAY_MS, np.where(ends_ms + DELAY_MS < STALL_MS, STALL_MS, 0))
    return np.asarray(heard_ms - ends_ms, np.float64)


def line(name: str, values_ms: NDArray[np.float64]) -> str:
    shares = (50, 75, 90, 95, 99)
    figures = "".join(f"{np.percentile(values_ms, share):8.0f}" for share in shares)
    stalled = 100 * float(np.mean(values_ms > 2 * DELAY_MS))
    return f"{name:44}{len(values_ms):5}{stalled:9.1f} %{figures}{values_ms.max():8.0f}"


def values(turns: list[TurnRecord], name: str) -> NDArray[np.float64]:
    found = [latency_of(turn, name).ns for turn in turns if turn.captured]
    return np.array([ns / 1e6 for ns in found if ns is not None])


def main() -> None:
    _benchmark.parser(__doc__).parse_args()
    closed, opened = Arrivals(), Arrivals.parse(OPEN)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_speech(folder, [400] * 10)
        shared = CampaignPlan(turns=TURNS, sentinel_turns=0, config=validate({}))
        in_turn = run(campaign(folder, replace(shared, concurrency=(SESSIONS,), arrivals=closed)))
        due = run(campaign(folder, replace(shared, concurrency=(SESSIONS,), arrivals=opened)))
        spare = run(campaign(folder, replace(shared, concurrency=(100,), arrivals=opened)))
    print(f"{'voice to voice, ms':44}{'n':>5}{'stalled':>11}{'p50':>8}{'p75':>8}{'p90':>8}{'p95':>8}", end="")
    print(f"{'p99':>8}{'max':>8}")
    print(line("users who speak when they like (settings)", what_users_see()))
    heard, from_due = "voice_to_voice", "voice_to_voice_from_intended"
    print(line(f"closed loop, {SESSIONS} sessions", values(in_turn, heard)))
    print(line(f"open loop, at most {SESSIONS}, from end of speech", values(due, heard)))
    print(line(f"open loop, at most {SESSIONS}, from when due", values(due, from_due)))
    print(line("open loop, sessions to spare, from when due", values(spare, from_due)))
    begins = values(spare, "start_delay")
    print(f"start delay with sessions to spare: p50 {np.median(begins):.2f} ms, p99 ", end="")
    print(f"{np.percentile(begins, 99):.2f} ms")


if __name__ == "__main__":
    main()
