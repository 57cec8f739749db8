"""Audio loss, and the display delay of a turn's latencies, in conversations with a virtual sound card.

Recordings of the sample are played into a virtual microphone (PulseAudio's null sinks) and the built-in
assistant replies, through ALSA and PortAudio as with a sound card. The first conversation has no scores; the
second scores each reply during the next turn (``--score``). The main metric is the number of audio losses by
a device or the session. Each conversation also reports the lateness of the session (`lag`), the time from
the end of a reply's playback to the display of the turn's waterfall (target: 100 ms), and the machine's load,
which affects all of these values.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from live_eval.live.conversation import LiveConversation
from live_eval.live.loopback import measure_delay
from live_eval.live.quick_scores import QuickScorer, quick_judges
from live_eval.live.screen import LiveScreen
from live_eval.live.sound_card import SoundCard, open_sound_card
from live_eval.live.terminal import converse
from live_eval.live.updates import LatencyMeasured, QuickScores, State, StateChanged, Update, Xruns
from live_eval.recording import RunReader, RunWriter
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import validate
from live_eval.session.event_loop import run
from tests.support.virtual_sound import VirtualSound, serve_virtual_sound

SAMPLE = Path(__file__).parents[1] / "live_eval/data/sample/data_synthesis/audio"
PAUSE_S = 0.8  # user's pause after a reply
PATIENCE_S = 15.0
AIM_MS = 100
LOOPS_MS = (100, 300)
SETTLES_S = 3.0  # latency of a loop


class Watched:
    """A screen that records its output with timestamps."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self.ready = asyncio.Event()
        self.finished = asyncio.Event()
        self.shown_ms: list[float] = []
        self.lost = Xruns()
        self.scored = 0

    def show(self, update: Update) -> None:
        """As `Screen.show`."""
        begun_ns = time.monotonic_ns()
        self._screen.show(update)
        match update:
            case StateChanged(State.TALKING):
                self.ready.set()
            case LatencyMeasured():
                self.shown_ms.append((update.after_ns + time.monotonic_ns() - begun_ns) / 1e6)
                self.finished.set()
            case Xruns():
                print(f"  {len(self.shown_ms)} turns: {update}", flush=True)
                self.lost = update
            case QuickScores():
                self.scored += bool(update.scores)


async def speak(watched: Watched, minutes: float) -> None:
    """Play recordings into the microphone, each after the reply to the previous recording."""
    await watched.ready.wait()
    end = time.monotonic() + 60 * minutes
    for path in itertools.cycle(sorted(SAMPLE.glob("*/*[!e].flac"))):
        if time.monotonic() > end:
            return
        await asyncio.sleep(PAUSE_S)
        watched.finished.clear()
        process = await asyncio.create_subprocess_exec("paplay", "--device=microphone", str(path))
        await process.wait()
        try:
            await asyncio.wait_for(watched.finished.wait(), PATIENCE_S)
        except TimeoutError:
            print(f"  no reply to {path.name}", flush=True)


async def talk(conversation: LiveConversation, card: SoundCard, watched: Watched, minutes: float) -> None:
    """Run a conversation with the recordings."""
    async with asyncio.TaskGroup() as tasks:
        talking = tasks.create_task(converse(conversation, card, watched))
        await speak(watched, minutes)
        conversation.stop()
        await talking


def hold(folder: Path, minutes: float, *, scores: bool) -> Watched:
    """Run a conversation and print its measurements."""
    plan = make_live_plan(validate({"endpoint": {"name": "reference"}}))
    with (
        open_sound_card() as card,
        RunWriter.create(folder, plan.manifest()) as writer,
        LiveScreen(
            "reference", "", Console(file=(folder / "screen").open("w"), force_terminal=True)
        ) as screen,
    ):
        watched = Watched(screen)
        scorer = QuickScorer(quick_judges()) if scores else None
        conversation = LiveConversation(plan, writer, card, device_hz=card.rate_hz, scorer=scorer)
        try:
            run(talk(conversation, card, watched, minutes))
        finally:
            writer.end()
            if scorer is not None:
                scorer.close()
    with RunReader.open(folder) as reader:
        turns = list(reader.turns())
    lag_ms = [turn.timing.lag_ns / 1e6 for turn in turns]
    failed = sum(turn.failure is not None for turn in turns)
    print(
        f"{'with' if scores else 'without'} scores: {minutes:g} min, {len(turns)} turns, {failed} failed, "
        f"{watched.scored} scored; load {os.getloadavg()[0]:.1f}\n"
        f"  lost: {watched.lost}\n"
        f"  lag of a turn p50 {np.median(lag_ms):.1f}, p99 {np.percentile(lag_ms, 99):.1f} ms\n"
        f"  waterfall after the reply p50 {np.median(watched.shown_ms):.0f}, "
        f"p99 {np.percentile(watched.shown_ms, 99):.0f}, longest {max(watched.shown_ms):.0f} ms",
        flush=True,
    )
    return watched


def loop_error_ms(sound: VirtualSound) -> float:
    """Return the difference of two loops' measured delays minus that of their configured latencies."""
    delays_ms = []
    for latency_ms in LOOPS_MS:
        with sound.echo(latency_ms=latency_ms):
            time.sleep(SETTLES_S)
            with open_sound_card() as card:
                delay = run(measure_delay(card))
        print(f"  loop of {latency_ms} ms: {delay.delay_ms:.1f} ms ± {delay.spread_ms:.1f}", flush=True)
        delays_ms.append(delay.delay_ms)
    return float(np.diff(delays_ms)[0] - np.diff(LOOPS_MS)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="of each of the two conversations")
    minutes = parser.parse_args().minutes
    with (
        TemporaryDirectory(prefix="live-eval-") as folder,
        TemporaryDirectory(prefix="pulse-") as server,
        serve_virtual_sound(Path(server)) as sound,
    ):
        os.environ.update(sound.environment)
        both = [hold(Path(folder, f"run-{scores}"), minutes, scores=scores) for scores in (False, True)]
        error_ms = loop_error_ms(sound)
    lost = sum(sum(dataclasses.astuple(each.lost)) for each in both)
    print(f"live_sound: {lost} under- and overruns in {2 * minutes:g} minutes (aim 0)")
    print(
        f"device delay: {error_ms:+.1f} ms off a known difference of {LOOPS_MS[1] - LOOPS_MS[0]} ms (aim 5)"
    )


if __name__ == "__main__":
    main()
