"""Measure the delay of the stage's display after the audio, in a conversation with two endpoints in Chromium.

Chromium's microphone is a file with recordings of the sample and pauses; the studio, the built-in endpoint,
its models and the judges run on this machine. The rows are written to a file as they arrive: the levels of
both voices in windows of 10 ms (stamped by the page's audio thread), the values on the page (stamped by the
frame that shows them), the studio's messages, counts of lost audio, and CPU time. ``--read FILE`` evaluates a
file, even an incomplete one.

States are compared with the audio in the page: a voice begins with the first of three windows above -50 dBFS,
and ends with the last. The state of an endpoint that is muted in the room is compared with the stored onset
of its reply.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO
from urllib.parse import urlsplit

import _benchmark
import _processors
import numpy as np
import soundfile
from playwright.sync_api import Page, sync_playwright

from live_eval.audio import read_audio, resample
from live_eval.recording import RunReader
from tests.e2e.helpers import LIVE_EVAL, SAMPLE, served

PROBE = Path(__file__).with_suffix(".js")
RATE_HZ = 48_000
PAUSE_S = 6.0  # the reply has to fit
JUDGES = "dnsmos,prosody,distillmos,wer_spoken"
ENDPOINTS = {"reference": 0, "openai": 300}  # delay in ms
NICE = ("nice", "-n", "10")
POLL_MS = 1_000
SETTLES_MS = 3_000
HEAR_S = 60.0  # then the room hears the other endpoint
AUDIBLE_DB = -50
ONSET_WINDOWS = 3
WINDOW_MS = 10
UTTERANCE_GAP_MS = 1_500  # a longer silence ends a voice's part of a turn
AIM_MS = 100.0


def record(minutes: float, judges: Sequence[str], out: Path, shots: Path | None) -> None:
    """Run a conversation on the stage, and write its rows."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("expected Chromium on this machine")
    with TemporaryDirectory(prefix="live-eval-") as name, out.open("w", encoding="utf-8") as file:
        folder = Path(name)
        logs, runs = folder / "logs", folder / "runs"
        logs.mkdir()
        runs.mkdir()
        # As when live-eval launches it, so that its models do not compete with the page.
        command: list[str | Path] = [*NICE, *LIVE_EVAL, "endpoint", "--port", "0", "--until-stdin-ends"]
        with served(command, r'"port": (\d+)', logs) as port:
            studio: list[str | Path] = [*LIVE_EVAL, "studio", runs, "--port", "0", "--no-browser"]
            for endpoint, delay_ms in ENDPOINTS.items():
                studio += ["--endpoint", f"{endpoint}=ws://127.0.0.1:{port}/v1?delay_ms={delay_ms}"]
            with served(studio, r"studio: (\S+)", logs) as link, sync_playwright() as driver:
                arguments = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
                arguments += ["--autoplay-policy=no-user-gesture-required"]
                arguments += [f"--use-file-for-fake-audio-capture={write_microphone(folder / 'user.wav')}"]
                chromium = driver.chromium.launch(executable_path=browser, args=arguments)
                context = chromium.new_context(bypass_csp=True, viewport={"width": 1920, "height": 1080})
                context.add_init_script(path=PROBE)
                page = context.new_page()
                begin(page, link, judges)
                watch(page, file, minutes)
                if shots is not None:
                    page.screenshot(path=shots)
                page.keyboard.press("Escape")
                page.wait_for_timeout(SETTLES_MS)
                if not page.locator(".stage-summary").count():
                    page.keyboard.press("Escape")  # skip the missing scores
                page.wait_for_selector(".stage-summary", timeout=60_000)
                write(file, take(page))
                chromium.close()
        write(file, stored_onsets(runs))


def write_microphone(path: Path) -> Path:
    """Write recordings of the sample with pauses."""
    parts = [np.zeros(4 * RATE_HZ, np.int16)]
    for recording in sorted(SAMPLE.glob("*/*_neutral.flac")):
        speech = resample(read_audio(recording).audio, RATE_HZ).int16()
        parts += [speech, np.zeros(round(PAUSE_S * RATE_HZ), np.int16)]
    soundfile.write(path, np.concatenate(parts), RATE_HZ)
    return path


def begin(page: Page, link: str, judges: Sequence[str]) -> None:
    """Begin a conversation with both endpoints."""
    page.goto(link)
    page.goto(urlsplit(link)._replace(query="", fragment="/stage").geturl())
    page.get_by_role("button", name="Add an endpoint").click()
    for select, name in zip(page.locator("select[name=endpoint]").all(), ENDPOINTS, strict=True):
        select.select_option(name)
    page.locator("summary:has-text('Judges')").click()
    for judge in judges:
        page.locator(f"input[name=judge][value={judge}]").check()
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("[data-stage=listening]", timeout=60_000)


def watch(page: Page, file: TextIO, minutes: float) -> None:
    """Write the page's rows and CPU times every second; change the audible endpoint every minute."""
    begun = time.monotonic()
    heard = 0
    while (passed := time.monotonic() - begun) < 60 * minutes:
        page.wait_for_timeout(POLL_MS)
        write(
            file,
            [*take(page), {"row": "processors", "at": time.time() * 1000, "s": _processors.processor_s()}],
        )
        if int(passed / HEAR_S) % len(ENDPOINTS) != heard:
            heard = 1 - heard
            page.keyboard.press(str(heard + 1))


def take(page: Page) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = page.evaluate("window.takeStageRows()")
    return rows


def write(file: TextIO, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        file.write(json.dumps(row) + "\n")
    file.flush()


def stored_onsets(runs: Path) -> Iterator[dict[str, Any]]:
    """Yield the onset of each stored reply, and the lost audio."""
    for folder in (each for each in runs.iterdir() if each.is_dir()):
        place = next(place for place, name in enumerate(ENDPOINTS) if f"Z-{name}-" in folder.name)
        with RunReader.open(folder) as run:
            for turn in run.turns():
                trace, heard_ns = turn.trace, turn.timing.voice_to_voice.ns
                if trace.voice_end_ns is not None and heard_ns is not None:
                    onset_ns = turn.wall_ns + trace.voice_end_ns + heard_ns - trace.dial_ns
                    yield {"row": "onset", "run": folder.name, "at": onset_ns / 1e6, "place": place}


# -- Evaluation ---------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """The rows of a file, by kind."""

    windows: list[tuple[float, int, int]] = field(default_factory=list)
    shown: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    onsets: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    processors: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Rows:
        """Read a file; its last line may be incomplete."""
        rows = cls()
        for line in path.read_text("utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            match row["row"]:
                case "levels":
                    rows.windows += map(tuple, row["windows"])
                case "shown":
                    rows.shown[row["name"]].append((row["at"], row["value"]))
                case "message":
                    rows.messages.append((row["at"], row["message"]))
                case "onset":
                    rows.onsets.append(row)
                case "counts":
                    rows.counts.append(row)
                case "processors":
                    rows.processors.append(row)
        return rows

    def parts(self, voice: int) -> list[tuple[float, float]]:
        """Return the start and end of each part of a voice (0: user, 1: reply), in ms."""
        found: list[list[float]] = []
        run = 0
        for window in self.windows:
            run = run + 1 if window[1 + voice] > AUDIBLE_DB else 0
            if run < ONSET_WINDOWS:
                continue
            begin = window[0] - run * WINDOW_MS
            if not found or begin - found[-1][1] > UTTERANCE_GAP_MS:
                found.append([begin, window[0]])
            found[-1][1] = window[0]
        return [(begin, end) for begin, end in found]

    def late_ms(self, name: str, value: str, at: Iterable[float], early_ms: float = 0) -> list[float]:
        """Return the delay from each moment until a value is shown; infinite above 3 s.

        The delay is negative if the value was shown up to `early_ms` before the moment.
        """
        changes = self.shown[name]
        late = []
        for moment in at:
            next_ms = [change - moment for change, new in changes if new == value]
            late.append(min((ms for ms in next_ms if -early_ms <= ms < 3_000), default=np.inf))
        return late


def report(path: Path) -> None:
    """Print the evaluation of a file."""
    rows = Rows.read(path)
    user, reply = rows.parts(0), rows.parts(1)
    last = rows.windows[-1][0] if rows.windows else 0
    user = [each for each in user if last - each[1] > 4_000]
    reply = [each for each in reply if last - each[1] > 1_000]
    answered = [(end, next((begin for begin, _ in reply if begin > end), None)) for _, end in user]
    ends = [end for end, begin in answered if begin is not None and begin - end > 200]
    onsets, silences = [begin for begin, _ in reply], [end for _, end in reply]
    minutes = (last - rows.windows[0][0]) / 60_000
    print(f"{path.name}: {minutes:.1f} min, {len(user)} utterances, {len(reply)} audible replies")
    states = {
        "stage, thinking after the user's end": rows.late_ms("stage", "thinking", ends),
        "stage, speaking after the reply's onset": rows.late_ms("stage", "speaking", onsets, 60),
        "stage, listening after the reply's end": rows.late_ms("stage", "listening", silences, 100),
    }
    heard = changes_of_hearing(rows)
    for place in range(len(ENDPOINTS)):
        card = f"card {place}"
        states[f"{card}, thinking after the user's end"] = rows.late_ms(card, "thinking", ends)
        now = [begin for begin in onsets if heard(begin) == place]
        states[f"{card}, speaking after its audible onset"] = rows.late_ms(card, "speaking", now, 200)
        gone = [end for end in silences if heard(end) == place]
        states[f"{card}, listening after its audible end"] = rows.late_ms(card, "listening", gone, 100)
        hidden = [each["at"] for each in rows.onsets if each["place"] == place and heard(each["at"]) != place]
        states[f"{card}, speaking after its onset, not audible"] = rows.late_ms(card, "speaking", hidden, 200)
    for name, late in states.items():
        print(f"  {name}: {in_words(late)}")
    report_figures(rows)
    report_scores(rows)
    report_losses(rows)
    worst = [ms for name, late in states.items() if name.startswith("stage") for ms in late]
    p99 = np.percentile(worst, 99) if worst else np.nan
    print(f"stage: {p99:.0f} ms from the sound to the state, p99 (aim {AIM_MS:.0f})")


def changes_of_hearing(rows: Rows) -> Any:
    """Return a function that maps a time to the index of the audible endpoint."""
    changes = [(at, message["endpoint"]) for at, message in rows.messages if message["type"] == "heard"]
    return lambda moment: next((place for at, place in reversed(changes) if at < moment), 0)


def report_figures(rows: Rows) -> None:
    """Print the delay from the end of a reply's audio until the turn's voice-to-voice latency was shown."""
    late = []
    for at, message in rows.messages:
        if message["type"] == "turn" and message["failure"] is None:
            shown = rows.shown[f"figure {message['endpoint']}"]
            on_page = min(
                (moment - at for moment, text in shown if " ms" in text and moment >= at), default=np.inf
            )
            late.append(message["after_ms"] + on_page if on_page < UTTERANCE_GAP_MS else np.inf)
    print(f"  voice to voice on the page after the end of the reply's audio: {in_words(late)}")


def report_scores(rows: Rows) -> None:
    """Print the delay until a turn's scores arrived."""
    ends: dict[tuple[int, int], float] = {}
    for at, message in rows.messages:
        if message["type"] == "turn":
            ends.setdefault((message["endpoint"], message["number"]), at - message["after_ms"])
    by_judge: dict[str, list[float]] = defaultdict(list)
    late: dict[str, int] = defaultdict(int)
    missing: dict[str, int] = defaultdict(int)
    for at, message in rows.messages:
        if message["type"] != "scores":
            continue
        end = ends.get((message["endpoint"], message["number"]))
        if not message["scores"] or end is None:
            missing[message["judge"]] += 1
            continue
        by_judge[message["judge"]].append(at - end)
        late[message["judge"]] += message["late"]
    for judge, delays in by_judge.items():
        p50, p99 = np.percentile(delays, [50, 99]) / 1000
        print(
            f"  {judge}: {len(delays)} of {len(ends)} turns scored, p50 {p50:.1f}, p99 {p99:.1f} s after the "
            f"reply; {late[judge]} after the end of the next reply; {missing[judge]} without a score"
        )


def report_losses(rows: Rows) -> None:
    """Print lost audio and CPU use."""
    lost = [message["text"] for _, message in rows.messages if message.get("about") == "lost"]
    counts: dict[str, Any] = next((each for each in reversed(rows.counts) if "received_samples" in each), {})
    print(f"  lost, by the studio: {lost[-1] if lost else 'nothing'}; by the page: {counts}")
    first, final = (rows.processors[0], rows.processors[-1]) if rows.processors else ({}, {})
    if len(rows.processors) > 1:
        seconds = (final["at"] - first["at"]) / 1000
        use = {name: (s - first["s"].get(name, 0)) / seconds for name, s in final["s"].items()}
        print(
            f"  processors: {', '.join(f'{name} {100 * share:.0f} %' for name, share in sorted(use.items()))}"
        )


def in_words(late: Sequence[float]) -> str:
    """Return the distribution of delays."""
    seen = [ms for ms in late if np.isfinite(ms)]
    if not seen:
        return f"none of {len(late)}"
    p50, p95, p99 = np.percentile(seen, [50, 95, 99])
    missed = f", {len(late) - len(seen)} missed" if len(seen) < len(late) else ""
    return f"p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f}, max {max(seen):.0f} ms (n {len(seen)}{missed})"


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--judges", default=JUDGES)
    parser.add_argument("--out", type=Path, default=Path("stage.jsonl"), help="file for the rows")
    parser.add_argument("--shot", type=Path, help="file for a screenshot before the end")
    parser.add_argument("--read", type=Path, help="evaluate this file instead")
    given = parser.parse_args()
    if given.read is None:
        record(given.minutes, [each for each in given.judges.split(",") if each], given.out, given.shot)
    report(given.read or given.out)


if __name__ == "__main__":
    main()
