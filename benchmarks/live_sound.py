"""Audio loss, and the display delay of states, latencies and scores, with a virtual sound card.

Recordings of the sample are played into a virtual microphone (PulseAudio's null sinks), and the built-in
assistant replies; the audio passes through ALSA and PortAudio as with a sound card. The first conversation
has no scores; the second scores each reply during the next turn (``--score``). ``--endpoints`` and
``--judges`` run another one instead. The main metric is the number of audio losses by a device or the
session. Each conversation also reports the lateness of the session (`lag`), the time from the end of a
reply's playback to the display of the turn's waterfall (target: 100 ms), from the audio to the state, and the
machine's load, which affects all of these values. The user's audio ends with the last audible window, which
is 0.5 s after the end of speech in the recording with rain.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import _benchmark
import numpy as np
from _processors import in_words, processor_s
from rich.console import Console

from live_eval.live.audible_voice import LEVEL_RULE, AudibleVoice
from live_eval.live.loopback import measure_delay
from live_eval.live.parties import Parties, Party
from live_eval.live.quick_scores import live_options, quick_judges
from live_eval.live.screen import LiveScreen
from live_eval.live.sound_card import SoundCard, open_sound_card
from live_eval.live.standings import Standing
from live_eval.live.terminal import converse
from live_eval.live.updates import (
    FromEndpoint,
    LatencyMeasured,
    QuickScores,
    StandingChanged,
    State,
    StateChanged,
    Update,
    Xruns,
)
from live_eval.recording import RunReader, TurnRecord
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import Plan, make_live_plan
from live_eval.run.run_file import validate
from live_eval.session.event_loop import run
from tests.support.virtual_sound import VirtualSound, serve_virtual_sound

SAMPLE = _benchmark.ROOT / "live_eval/data/sample/data_synthesis/audio"
PAUSE_S = 0.8  # user's pause after a reply
PATIENCE_S = 15.0
DELAYS_MS = (("reference", 0), ("slower", 300), ("slow", 600), ("slowest", 900))
DELAY_NS = 120_000_000  # from a sample's capture to its time in the session
EARLY_NS = 100_000_000
LOOPS_MS = (100, 300)
WINDOW_NS = 10_000_000
SETTLES_S = 3.0  # latency of a loop


class Watched:
    """A screen that records its output with timestamps.

    Args:
        endpoints: Number of endpoints.
    """

    def __init__(self, screen: LiveScreen, endpoints: int) -> None:
        self._screen = screen
        self._standing = Standing("") if endpoints == 1 else None  # each endpoint reports its own
        self.ready = asyncio.Event()
        self.finished = asyncio.Event()
        self._expected: set[int] = set()
        self.shown_ms: list[float] = []
        self.states: list[list[tuple[int, str]]] = [[] for _ in range(endpoints)]
        self.lost = [Xruns()] * endpoints
        self.scored_s: list[float] = []
        self.late_scores = self.missing_scores = 0
        self.processors = ""
        self._ends_ns: dict[tuple[int, int], int] = {}

    def show(self, update: Update) -> None:
        """See `Screen.show`."""
        begun_ns = time.monotonic_ns()
        self._screen.show(update)
        place, update = (update.place, update.update) if isinstance(update, FromEndpoint) else (0, update)
        if self._standing is not None:
            self._standing.follow(update)
            self._stands(0, self._standing.in_words)
        match update:
            case StateChanged(State.TALKING):
                self.ready.set()
            case StandingChanged():
                self._stands(update.place, update.state)
            case LatencyMeasured():
                now_ns = time.monotonic_ns()
                self.shown_ms.append((update.after_ns + now_ns - begun_ns) / 1e6)
                self._ends_ns.setdefault((place, update.number), begun_ns - update.after_ns)
                self._expected.discard(place)
                if not self._expected:
                    self.finished.set()
            case Xruns():
                print(f"  {len(self.shown_ms)} turns: {update}", flush=True)
                self.lost[place] = update
            case QuickScores():
                self.missing_scores += not update.scores
                self.late_scores += update.late
                if (place, update.number) in self._ends_ns and update.scores:
                    self.scored_s.append((begun_ns - self._ends_ns[place, update.number]) / 1e9)

    def expect(self) -> None:
        """Wait for the next turn of each endpoint."""
        self._expected = set(range(len(self.states)))
        self.finished.clear()

    def _stands(self, place: int, state: str) -> None:
        if not self.states[place] or self.states[place][-1][1] != state:
            self.states[place].append((time.monotonic_ns(), state))

    def late_ms(self, place: int, state: str, at_ns: int) -> float | None:
        """Return the delay until an endpoint's state was shown; None if it exceeds 2 s."""
        shown = (ns - at_ns for ns, new in self.states[place] if new == state)
        found = min((ns for ns in shown if -EARLY_NS <= ns < 2_000_000_000), default=None)
        return None if found is None else found / 1e6


async def speak(watched: Watched, minutes: float) -> None:
    """Play recordings into the microphone, each after the reply to the previous recording."""
    await watched.ready.wait()
    end = time.monotonic() + 60 * minutes
    for path in itertools.cycle(sorted(SAMPLE.glob("*/*[!e].flac"))):
        if time.monotonic() > end:
            return
        await asyncio.sleep(PAUSE_S)
        watched.expect()
        process = await asyncio.create_subprocess_exec("paplay", "--device=microphone", str(path))
        await process.wait()
        try:
            await asyncio.wait_for(watched.finished.wait(), PATIENCE_S)
        except TimeoutError:
            print(f"  no reply to {path.name}", flush=True)


async def talk(
    folder: Path, card: SoundCard, minutes: float, endpoints: int, judges: Sequence[str]
) -> tuple[Watched, Parties]:
    """Run a conversation with the recordings."""
    async with ReferenceProcess(log_folder=folder) as process:
        parties = Parties(
            [
                Party(
                    name,
                    live_plan(f"{process.base_url}?delay_ms={delay_ms}"),
                    folder / name,
                    judges,
                    live_options(),
                )
                for name, delay_ms in DELAYS_MS[:endpoints]
            ]
        )
        console = Console(file=(folder / "screen").open("w"), force_terminal=True)
        with (
            parties.conversation(card, {}, device_hz=card.rate_hz) as conversation,
            LiveScreen(parties.standings, "", console) as screen,
        ):
            watched = Watched(screen, endpoints)
            async with asyncio.TaskGroup() as tasks:
                talking = tasks.create_task(converse(conversation, card, watched))
                before = processor_s()
                await speak(watched, minutes)
                watched.processors = in_words(before, processor_s(), 60 * minutes)
                conversation.stop()
                await asyncio.sleep(SETTLES_S)
                conversation.stop()  # skip the missing scores
                await talking
    return watched, parties


def live_plan(base_url: str) -> Plan:
    """Return the plan of a conversation with an endpoint."""
    return make_live_plan(validate({"endpoint": {"name": "reference", "base_url": base_url}}))


def hold(folder: Path, minutes: float, endpoints: int, judges: Sequence[str]) -> Watched:
    """Run a conversation and print its measurements."""
    folder.mkdir()
    with open_sound_card() as card:
        watched, parties = run(talk(folder, card, minutes, endpoints, judges))
    thinking: list[float | None] = []
    speaking: list[float | None] = []
    soft_ms: list[float] = []
    lag_ms: list[float] = []
    failed = 0
    for place, party in enumerate(parties.all):
        with RunReader.open(party.folder) as reader:
            for turn in reader.turns():
                lag_ms.append(turn.timing.lag_ns / 1e6)
                failed += turn.failure is not None
                end_ns, heard_ns = turn.trace.voice_end_ns, turn.timing.voice_to_voice.ns
                if end_ns is not None and heard_ns is not None:
                    sound_end_ns = max(end_ns, audible_end_ns(reader, turn))
                    soft_ms.append((sound_end_ns - end_ns) / 1e6)
                    thinking.append(watched.late_ms(place, "thinking", sound_end_ns - DELAY_NS))
                    speaking.append(watched.late_ms(place, "speaking", end_ns + heard_ns))
    print(
        f"{endpoints} endpoints, {len(judges)} judges: {minutes:g} min, {len(lag_ms)} turns, "
        f"{failed} failed; load {os.getloadavg()[0]:.1f}\n"
        f"  lost: {watched.lost}\n"
        f"  lag of a turn {percentiles(lag_ms)} ms\n"
        f"  waterfall after the reply {percentiles(watched.shown_ms)} ms\n"
        f'  "thinking" after the end of the user\'s sound {percentiles(thinking)} ms\n'
        f"  sound after the stored end of speech {percentiles(soft_ms)} ms\n"
        f'  "speaking" after the reply\'s onset {percentiles(speaking)} ms\n'
        f"  processors: {watched.processors}",
        flush=True,
    )
    if judges:
        print(
            f"  scores after the reply {percentiles(watched.scored_s)} s; {watched.late_scores} after the "
            f"end of the next reply, {watched.missing_scores} missing",
            flush=True,
        )
    return watched


def audible_end_ns(reader: RunReader, turn: TurnRecord) -> int:
    """Return the end of the audible user's voice in a stored turn; 0 if it is never audible."""
    sides = reader.both_sides(turn.turn_id)
    assert sides is not None
    assert turn.trace.t0_ns is not None
    both, rate_hz = sides
    voice, step, end = AudibleVoice(), rate_hz // 100, 0
    for number, start in enumerate(range(0, len(both), step)):
        voice.push(both[start : start + step, 0], rate_hz)
        if voice.audible:
            end = number + 2 - LEVEL_RULE.release_windows  # it counts as audible until the detector's release
    return turn.trace.t0_ns + end * WINDOW_NS if end else 0


def percentiles(values: Sequence[float | None]) -> str:
    """Return the distribution of the known values."""
    known = [value for value in values if value is not None]
    if not known:
        return f"of none of {len(values)}"
    p50, p99 = np.percentile(known, [50, 99])
    return f"p50 {p50:.1f}, p99 {p99:.1f}, max {max(known):.1f} ({len(known)} of {len(values)})"


def loop_error_ms(sound: VirtualSound) -> float:
    """Return the difference between two loops' measured delays minus the configured difference."""
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
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of each conversation")
    parser.add_argument("--endpoints", type=int, help="one conversation with so many endpoints")
    parser.add_argument("--judges", help="that score the conversation of --endpoints, separated by commas")
    given = parser.parse_args()
    conversations: list[tuple[int, Sequence[str]]] = [(1, ()), (1, quick_judges())]
    if given.endpoints is not None:
        conversations = [(given.endpoints, given.judges.split(",") if given.judges else ())]
    with (
        TemporaryDirectory(prefix="live-eval-") as folder,
        TemporaryDirectory(prefix="pulse-") as server,
        serve_virtual_sound(Path(server)) as sound,
    ):
        os.environ.update(sound.environment)
        held = [
            hold(Path(folder, f"run-{number}"), given.minutes, *each)
            for number, each in enumerate(conversations)
        ]
        error_ms = loop_error_ms(sound)
    # All endpoints of a conversation share its devices.
    lost = sum(max(sum(dataclasses.astuple(xruns)) for xruns in each.lost) for each in held)
    print(f"live_sound: {lost} under- and overruns in {len(held) * given.minutes:g} minutes (aim 0)")
    print(
        f"device delay: {error_ms:+.1f} ms off a known difference of {LOOPS_MS[1] - LOOPS_MS[0]} ms (aim 5)"
    )


if __name__ == "__main__":
    main()
