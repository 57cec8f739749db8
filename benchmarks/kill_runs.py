"""Kill runs at random times, resume them, and count lost, duplicate and leftover data.

Each run has `TURNS` short turns against the reference endpoint, which always replies with the same synthetic
signal. A run is killed (SIGKILL, which cannot be caught) one to four times: at any time, during capture, or
during scoring; resumptions may be killed too. The last resumption completes. Then

- every turn and score committed before a kill still exists, unchanged, with the same audio;
- the numbers of turns and scores, the replies and the scores equal those of an uninterrupted run;
- after ``live-eval runs gc``, the folder contains no file without a turn.

Some runs are repairs (``--retry-failed``) of a completed and scored run in which some turns failed and others
lost their audio; they may also be killed while replacing a turn. Only these turns may change, each once, and
none may keep its score, which is first overwritten with a value that no judge returns.

The runs are forked from a process that has already loaded live-eval: loading would dominate the time of such
short runs.

``python benchmarks/kill_runs.py --kills 200 --seed 1`` kills 200 times, a third of them in repairs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import _benchmark
from _recordings import write_speech

from live_eval.cli import main as main_of_live_eval
from live_eval.errors import StoreError
from live_eval.judging import Scored
from live_eval.recording import RUN_FILE, RunReader, ScoreReader, ScoreStore, cassette_name
from live_eval.reference.server.process import ReferenceProcess
from live_eval.registry import judge
from live_eval.registry import load as load_object
from live_eval.text.wording import counted

TURNS = 12
JUDGES = ("bleu", "prosody")
_MOST_KILLS = 4
_COLLECTED_BETWEEN = 0.3  # share of resumptions after ``runs gc``
_POLL_S = 0.01
_LOADED = (
    "live_eval.cli.run",
    "live_eval.cli.runs",
    "live_eval.campaigns.folders",
    "live_eval.recording.housekeeping",
)
_LONGEST_S = 300.0
_FAULT = "failed_response@share=40%"
_STALE = -987654.0
"""The score of turns that are to be replaced."""
_REPLACING_S = 0.05  # maximum time from writing a new attempt's audio to storing the attempt
_END_S = 60.0  # time limit for a process to exit


class Moment(StrEnum):
    """The phase in which a run is killed."""

    ANY = "any"
    CAPTURING = "capturing"
    SCORING = "scoring"
    REPLACING = "replacing"


class Stored(NamedTuple):
    """The content of a run folder.

    Args:
        turns: Digests of the turns (record and audio) by ID.
        replies: Digests of the replies alone, which are equal in all runs.
        scores: Scores by judge and turn, each with the turn's ID.
        to_replace: Turns that failed or lost their audio.
        attempts: Number of replaced attempts and failures.
        state: State of the run.
    """

    turns: dict[str, str]
    replies: dict[str, str]
    scores: dict[str, tuple[str, str]]
    to_replace: frozenset[str]
    attempts: int
    state: str


NOTHING = Stored({}, {}, {}, frozenset(), 0, "")


@dataclass(slots=True)
class Findings:
    """The results."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Moment, 0))
    runs: int = 0
    resumptions: int = 0
    kills_of_repairs: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    collected: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """All detected problems."""
        return [*self.lost, *self.doubled, *self.different, *self.orphans, *self.broken]


def _serve() -> None:
    """Fork a run for each line of arguments on standard input, and respond to queries about its exit."""
    for module in _LOADED:
        importlib.import_module(module)
    for name in JUDGES:
        load_object(judge(name).implementation)
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            pid, status = os.waitpid(request["pid"], 0 if request["waits"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                _run_forked(request["arguments"], request["log"])
        print(json.dumps(answer), flush=True)


def _run_forked(arguments: Sequence[str], log: str) -> NoReturn:
    """Run ``live-eval`` with these arguments in the fork."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code: object = 1
    try:
        main_of_live_eval(arguments)
    except SystemExit as ending:
        code = ending.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


class Forks:
    """A process that forks the runs."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--serve"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def start(self, arguments: Sequence[str], log: Path) -> Fork:
        """Start ``live-eval`` with these arguments."""
        return Fork(self, self.ask({"arguments": list(arguments), "log": str(log)}))

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the response to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_S)


class Fork:
    """A run."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self._pid = pid
        self.status: int | None = None

    def ended(self) -> bool:
        """Return whether the run has ended; if so, `status` is set."""
        if self.status is None:
            self.status = self._forks.ask({"pid": self._pid, "waits": False})
        return self.status is not None

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the run up to a limit; return whether it has ended."""
        until_s = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < until_s:
            time.sleep(min(_POLL_S, max(0.0, until_s - time.monotonic())))
        return self.ended()

    def kill(self) -> None:
        """Kill the run."""
        os.kill(self._pid, signal.SIGKILL)
        self.status = self._forks.ask({"pid": self._pid, "waits": True})


class Harness:
    """Run, kill, resume and compare.

    Args:
        folder: Output folder for the runs.
        base_url: Base URL of the reference endpoint.
        seed: Seed for the kill times.
        repairs: Share of repairs among the runs.
    """

    def __init__(self, folder: Path, base_url: str, seed: int, repairs: float) -> None:
        self._folder = folder
        self._base_url = base_url
        self._repairs = repairs
        self._random = random.Random(seed)
        data = folder / "data"
        data.mkdir(parents=True)
        self._manifest = write_speech(data, [200 + 20 * number for number in range(TURNS)])
        self._forks = Forks()
        self._capture_s = self._score_s = self._whole_s = 0.0
        self._expected = NOTHING
        self.findings = Findings()

    def with_failures(self) -> int:
        """Run against a faulty endpoint, for later repairs; return the number of failed turns."""
        out = self._folder / "with-failures"
        process = self._start(out, "--retries", "0")
        assert process.wait(_LONGEST_S), "the run hangs"
        failed = len(stored(out).to_replace)
        assert 0 < failed < TURNS, failed
        return failed

    def undisturbed(self) -> float:
        """Run without interruption, for comparison; return the duration."""
        out = self._folder / "undisturbed"
        began_s = time.monotonic()
        process = self._start(out)
        captured_s = self._when(process, lambda: _state(out) == "finished")
        begun_s = self._first_turn_s(out)
        self._finish(process)
        ended_s = time.monotonic()
        self._whole_s, self._score_s = ended_s - began_s, ended_s - captured_s
        self._capture_s = captured_s - begun_s if begun_s else captured_s - began_s
        self._expected = stored(out)
        assert len(self._expected.turns) == TURNS, self._expected
        assert len(self._expected.scores) == TURNS * len(JUDGES), self._expected.scores
        return self._whole_s

    def kill_one(self, most: int) -> int:
        """Kill a run up to `most` times, complete and compare it; return the number of kills."""
        number = self.findings.runs
        out = self._folder / f"run-{number}"
        kills = self._random.randint(1, min(most, _MOST_KILLS))
        is_repair = self._random.random() < self._repairs
        attempts = self._damaged(out) if is_repair else 0
        moments = tuple(Moment) if is_repair else (Moment.ANY, Moment.CAPTURING, Moment.SCORING)
        before = stored(out)
        done = 0
        options = self._random.choice(((), (), ("--record-wire",), ("--processes", "1")))
        for _ in range(kills):
            process = self._start(out, *options, *_going_on(before, is_repair))
            moment = self._random.choice(moments)
            killed = self._kill(process, out, moment, is_repair=is_repair)
            before = self._compare(f"run {number}, kill {done + 1} ({moment})", before, stored(out))
            if not killed:
                break
            done += 1
            self.findings.kills[moment] += 1
            self.findings.kills_of_repairs += is_repair
            if before.state and self._random.random() < _COLLECTED_BETWEEN:
                self._collect(f"run {number}, after kill {done}", out)
        process = self._start(out, *options, *_going_on(before, is_repair))
        self.findings.resumptions += done
        self._finish(process)
        after = self._compare(f"run {number}, at its end", before, stored(out))
        self._compare_with_undisturbed(f"run {number}", after, attempts)
        self._collect(f"run {number}", out)
        self.findings.orphans += [
            f"run {number}: {path}" for path in sorted(_files(out) - _expected_files(out))
        ]
        if not self.findings.problems:
            shutil.rmtree(out)
        self.findings.runs += 1
        return done

    def _damaged(self, out: Path) -> int:
        """Copy the run with failed turns, damage other turns; return the attempt count after a repair."""
        shutil.copytree(self._folder / "with-failures", out)
        with RunReader.open(out) as run:
            turns = list(run.turns())
        captured = [turn for turn in turns if turn.captured]
        lost = self._random.sample(captured, self._random.randint(1, len(captured) // 2))
        for turn in lost:
            file = self._random.choice((turn.reply_file, turn.both_file))
            assert file is not None
            file.unlink()
        failed = [turn for turn in turns if not turn.captured]
        to_replace = {turn.turn_id for turn in (*failed, *lost)}
        with ScoreStore.open(out) as scores:
            for row in list(scores.read()):
                if row.turn_id in to_replace:
                    scores.put(row.judge, row.version, row.turn_id, Scored({"": _STALE}))
        return 2 * len(failed) + len(lost)  # a failure is also an attempt

    # -- Processes --------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the process that forks the runs."""
        self._forks.close()

    def _start(self, out: Path, *options: str) -> Fork:
        arguments = [
            *("run", "--endpoint", "reference"),
            *("--base-url", self._base_url, "--data", str(self._manifest), "--out", str(out)),
            *("--word-times", "off", "--judges", ",".join(JUDGES)),
            *options,
        ]
        return self._forks.start(arguments, self._folder / "log")

    def _kill(self, process: Fork, out: Path, moment: Moment, *, is_repair: bool) -> bool:
        """Kill a run in the given phase; return False if it had already ended."""
        audio = set((out / "audio").glob("*"))
        if moment is Moment.CAPTURING or (is_repair and moment is not Moment.ANY):
            self._when(process, lambda: (out / RUN_FILE).exists() and _state(out) != "finished")
        if moment is Moment.CAPTURING:
            self._when(process, lambda: any((out / "audio").glob("*")))
            process.wait(self._random.uniform(0, self._capture_s))
        elif moment is Moment.REPLACING:
            self._when(process, lambda: not audio.issuperset((out / "audio").glob("*")))
            process.wait(self._random.uniform(0, _REPLACING_S))
        elif moment is Moment.SCORING:
            self._when(process, lambda: _state(out) == "finished")
            process.wait(self._random.uniform(0, self._score_s))
        else:
            process.wait(self._random.uniform(0, self._whole_s))
        if process.ended():
            self._check_status(process)
            return False
        process.kill()
        return True

    def _finish(self, process: Fork) -> None:
        assert process.wait(_LONGEST_S), "the run hangs"
        self._check_status(process)

    def _check_status(self, process: Fork) -> None:
        if process.status:
            said = (self._folder / "log").read_text(errors="replace")[-600:]
            self.findings.broken.append(f"run {self.findings.runs}: status {process.status}: {said}")

    def _when(self, process: Fork, happened: Callable[[], bool]) -> float:
        """Wait for a condition, or the end of the process."""
        deadline_s = time.monotonic() + _LONGEST_S
        while not happened() and not process.ended():
            assert time.monotonic() < deadline_s, "the run hangs"
            time.sleep(_POLL_S)
        return time.monotonic()

    def _first_turn_s(self, out: Path) -> float:
        """Return the time since the first audio of a run was written, on the monotonic clock."""
        first = min((path.stat().st_mtime for path in (out / "audio").iterdir()), default=None)
        return 0.0 if first is None else time.monotonic() - (time.time() - first)

    # -- Comparisons ------------------------------------------------------------------------------------

    def _compare(self, where: str, before: Stored, after: Stored) -> Stored:
        lost = self.findings.lost
        replaced = before.to_replace - after.to_replace
        for turn_id, then in before.turns.items():
            if after.turns.get(turn_id) != then and turn_id not in replaced:
                lost.append(f"{where}: turn {turn_id} is another or gone")
        for key, (turn_id, score) in before.scores.items():
            now = after.scores.get(key)
            if now is None and turn_id not in before.to_replace:
                lost.append(f"{where}: score {key} is gone")
            if now is not None and now[1] != score and turn_id not in replaced:
                lost.append(f"{where}: score {key} is another")
        self.findings.different += [
            f"{where}: score {key} is of the attempt before"
            for key, (turn_id, score) in after.scores.items()
            if str(_STALE) in score and turn_id not in after.to_replace
        ]
        return after

    def _compare_with_undisturbed(self, where: str, after: Stored, attempts: int) -> None:
        expected = self._expected
        findings = self.findings
        if after.state != "finished":
            findings.broken.append(f"{where}: the run is {after.state or 'not there'}")
        if after.turns.keys() != expected.turns.keys():
            findings.lost.append(f"{where}: turns {sorted(expected.turns.keys() ^ after.turns.keys())}")
        if after.attempts != attempts:
            further = counted(after.attempts, "further attempt")
            findings.doubled.append(f"{where}: {further}, expected {attempts}")
        if len(after.scores) != len(expected.scores):
            findings.doubled.append(f"{where}: {len(after.scores)} scores")
        for key, value in {**expected.replies, **expected.scores}.items():
            found = {**after.replies, **after.scores}.get(key)
            if found != value:
                findings.different.append(f"{where}: {key}: {found} is not {value}")

    def _collect(self, where: str, out: Path) -> None:
        """Run ``runs gc``."""
        said = self._folder / "gc.json"
        said.unlink(missing_ok=True)
        process = self._forks.start(["runs", "gc", str(out), "--json"], said)
        assert process.wait(_LONGEST_S), "runs gc hangs"
        if process.status:
            self.findings.broken.append(f"{where}: runs gc: {said.read_text()[-300:]}")
            return
        self.findings.collected += sum(
            len(each["removed"]) for each in json.loads(said.read_text())["folders"]
        )


def stored(out: Path) -> Stored:
    """Return the content of a run folder."""
    if not _state(out):
        return NOTHING
    turns: dict[str, str] = {}
    replies: dict[str, str] = {}
    with RunReader.open(out) as run:
        lost = run.lost_audio()
        attempts = len(run.failures())
        to_replace = set(lost)
        for turn in run.turns():
            attempts += len(run.replaced(turn.turn_id))
            if turn.failure is not None:
                to_replace.add(turn.turn_id)
            sound = hashlib.sha256()
            if turn.turn_id not in lost:
                for pcm in run.audio(turn):
                    sound.update(pcm.tobytes())
                replies[f"reply of {turn.turn_id}"] = sound.hexdigest()
                both = run.both_sides(turn.turn_id)
                sound.update(both[0].tobytes() if both is not None else b"")
            facts = (turn.attempt, turn.wall_ns, str(turn.failure), len(run.log(turn.turn_id)))
            turns[turn.turn_id] = f"{facts} {sound.hexdigest()}"
        state = run.state
    with ScoreReader.open(out) as reader:
        scores: dict[str, tuple[str, str]] = {}
        for row in reader.read():
            key = f"{row.judge} {row.version} of {row.turn_id}"
            assert key not in scores
            scores[key] = row.turn_id, f"{row.status} {sorted(row.values.items())} {row.reason}"
    return Stored(turns, replies, scores, frozenset(to_replace), attempts, state)


def _going_on(before: Stored, is_repair: bool) -> tuple[str, ...]:
    """Return the flag that resumes a run."""
    if is_repair:
        return ("--retry-failed",)
    return ("--resume",) if before.state else ()


def _state(out: Path) -> str:
    """Return the state of a run; empty if there is none yet."""
    with contextlib.suppress(StoreError), RunReader.open(out) as run:
        return run.state
    return ""


def _files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def _expected_files(out: Path) -> set[str]:
    """Return the files that a completed run may have."""
    with RunReader.open(out) as run:
        turns = [each for turn in run.turns() for each in (turn, *run.replaced(turn.turn_id))]
    audio = {turn.both_file for turn in turns} | {
        each.audio_file for turn in turns for each in turn.responses
    }
    wire = {f"wire/{cassette_name(turn.turn_id, turn.attempt)}" for turn in turns}
    own = {"run.sqlite", "scores.sqlite", "report.html"}
    return own | wire | {f"audio/{path.name}" for path in audio if path is not None}


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


async def kill_runs(folder: Path, kills: int, seed: int, repairs: float) -> Findings:
    """Kill runs this many times, and return the result."""
    usual = ("--delay-ms", "20", "--reply-ms", "1200")
    faulty = (*usual, "--fault", _FAULT, "--fault-seed", str(seed))
    async with ReferenceProcess(log_folder=folder, calibrate=True, arguments=faulty) as endpoint:
        harness = await asyncio.to_thread(Harness, folder, endpoint.base_url, seed, repairs)
        failed = await asyncio.to_thread(harness.with_failures)
        print(f"to be repaired: {failed} of {TURNS} turns failed", flush=True)
    arguments = (*usual, "--port", str(urlsplit(endpoint.base_url).port))
    async with ReferenceProcess(log_folder=folder, calibrate=True, arguments=arguments):
        whole_s = await asyncio.to_thread(harness.undisturbed)
        print(f"undisturbed: {whole_s:.1f} s", flush=True)
        done = 0
        while done < kills:
            done += await asyncio.to_thread(harness.kill_one, kills - done)
            findings = harness.findings
            print(f"{done} kills, {len(findings.problems)} problems", *findings.problems[-1:], flush=True)
        harness.close()
    return harness.findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill runs according to the command-line options; return 0 if there are no problems."""
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repairs", type=float, default=1 / 3, help="share of the runs that are repairs")
    parser.add_argument("--folder", type=Path, default=None, help="keep the runs in this new folder")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        _serve()
        return 0
    began_s = time.monotonic()
    with _folder(chosen.folder) as folder:
        findings = asyncio.run(kill_runs(folder, chosen.kills, chosen.seed, chosen.repairs))
    for problem in findings.problems:
        print(problem)
    moments = ", ".join(f"{count} {moment}" for moment, count in findings.kills.items())
    print(
        f"kills {sum(findings.kills.values())} ({moments}), {findings.kills_of_repairs} of them in repairs, "
        f"runs {findings.runs}, seed {chosen.seed}, "
        f"{time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}: lost {len(findings.lost)}, "
        f"doubled {len(findings.doubled)}, different {len(findings.different)}, orphans "
        f"{len(findings.orphans)} (gc removed {findings.collected}), broken {len(findings.broken)}; aim: 0"
    )
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
