"""Time and memory of scoring: every available local judge, on 200 spoken replies.

The run consists of replies spoken by the offline voice (requires the `local` extra). Each judge scores the
run in a separate process, then all judges score it in one pass: alternately in one process and in one process
per core (`score --jobs`), ``--pairs`` times. The real-time factor is the judge's time, including loading,
divided by the duration of the replies; CPU seconds are the sum over all processes, memory is the maximum of
any process. The target for all judges on two cores is a real-time factor of 0.2 for replies of 2 to 10 s, and
equal scores: the output contains the maximum difference of any score. The judges' own benchmarks compare each
judge with its bare network and its package's own loop.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import _benchmark

from live_eval.audio import write_flac
from live_eval.errors import JudgeError
from live_eval.judging import JudgeKind, JudgeSpec
from live_eval.recording import RunWriter, ScoreReader
from live_eval.registry import JUDGES, find_plugins, missing_requirements
from live_eval.run.spread import core_count
from live_eval.scoring.judge_processes import judge_processes
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.scoring_run import score_run
from live_eval.speech.synthesis import Voice
from live_eval.types import Case, CoarseDimension, Cue, Variant
from live_eval.weights import FOLDER_VARIABLE, add_weights
from tests.support.records import TurnPlan, spoken_turn

WEIGHTS = _benchmark.ROOT.parent / "shared/weights"

OPENINGS = (
    "Oh no, that sounds really hard.",
    "That is wonderful news, congratulations!",
    "Hmm, let me think about that for a moment.",
    "You sound a little tired today.",
    "I can hear the rain behind you.",
    "Wow, I did not expect that at all.",
    "Take a deep breath, there is no hurry.",
    "Sure, I would be happy to help.",
)
MIDDLES = (
    "You have worked for this for such a long time.",
    "Maybe a short walk would do you good.",
    "Do you want to tell me what happened?",
    "I would start with the easiest part and see how it goes.",
    "It is all right to feel that way.",
    "",
)
ENDINGS = (
    "What would make this evening a bit better for you?",
    "Let us find a quiet place first, and then we talk it through step by step.",
    "And do not forget to drink something warm!",
    "I am here if you need me.",
    "",
)


def make_run(folder: Path, replies: int) -> float:
    """Write a run of `replies` turns; return the duration of the replies in seconds."""
    voice = Voice()
    cue = Cue("sad expressive voice", "sad", "emotion", CoarseDimension.PARALINGUISTIC)
    user = voice.speak("I did not get the job after all.")
    folder.mkdir(parents=True)
    asked, answer = folder / "asked.flac", folder / "answer.flac"
    write_flac(asked, user.int16(), user.rate_hz)
    reference = "Oh no, I am so sorry. Do you want to talk about it?"
    spoken = voice.speak(reference)
    write_flac(answer, spoken.int16(), spoken.rate_hz)
    seconds = 0.0
    texts = itertools.cycle(
        " ".join(parts).strip() for parts in itertools.product(OPENINGS, MIDDLES, ENDINGS)
    )
    with RunWriter.create(folder / "run", {}) as run:
        for number, text in zip(range(replies), texts, strict=False):
            reply = voice.speak(text, speed=0.8 + 0.05 * (number % 9))
            seconds += reply.duration_ns / 1e9
            case = Case(
                case_id=f"{number:04}",
                script_id=f"{number:04}",
                variant=Variant.TARGET,
                audio_path=asked,
                text="I did not get the job after all.",
                cue=cue,
                script_cue=cue,
                reference_text=reference,
                reference_audio_path=answer,
            )
            plan = TurnPlan(reply_text=text, heard_text="I did not get the job after all")
            run.commit(spoken_turn(case, plan, user=user, reply=reply))
        run.end(finished=True)
    return seconds


def score(run: Path, judges: list[str], jobs: int) -> None:
    """Score the run in a separate process and print its time and memory."""
    began = time.perf_counter()
    options = JudgeOptions()
    with ExitStack() as stack:
        pool = stack.enter_context(judge_processes(jobs, options, print)) if jobs else None
        summary = score_run(run, judges, again=True, options=options, pool=pool)
    took = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    peak = max(each.ru_maxrss for each in used) * (1 if sys.platform == "darwin" else 1024)
    print(
        json.dumps(
            {
                "seconds": took,
                "cpu_s": sum(each.ru_utime + each.ru_stime for each in used),
                "peak_gib": peak / 2**30,
                "judges": {
                    judge.name: {"n": judge.n, "seconds": judge.seconds, "reasons": dict(judge.reasons)}
                    for judge in summary.judges
                },
            }
        )
    )


def numbers(run: Path) -> dict[tuple[str, str, str], float]:
    """Return every score of the run by judge, turn and output."""
    with ScoreReader.open(run) as scores:
        return {
            (row.judge, row.turn_id, output): value
            for row in scores.read()
            for output, value in row.values.items()
        }


def runnable() -> list[str]:
    """Return the local judges that can run here."""
    found = []
    for plugin in find_plugins(JUDGES):
        spec = plugin.spec
        if (
            isinstance(spec, JudgeSpec)
            and spec.kind is JudgeKind.LOCAL
            and missing_requirements(spec) is None
        ):
            found.append(spec.name)
    return found


def bring_weights() -> None:
    """Use the weights stored next to the project."""
    for plugin in find_plugins(JUDGES):
        options = plugin.spec.options if isinstance(plugin.spec, JudgeSpec) else ()
        for weights in (weights for option in options for weights in option.weights):
            beside = WEIGHTS / weights.files[0].name
            if beside.is_file():
                try:
                    add_weights(weights, beside)
                except JudgeError as error:
                    print(error)


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--replies", type=int, default=200)
    parser.add_argument("--judges", help="A,B,… instead of all local judges that run here")
    parser.add_argument("--together", action="store_true", help="only all judges in one pass")
    parser.add_argument("--pairs", type=int, default=1, help="passes in one process and in several")
    parser.add_argument("--jobs", type=int, default=core_count(), help="processes of the second kind of pass")
    parser.add_argument("--score", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.score is not None:
        score(arguments.score, arguments.judges.split(","), arguments.jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = f"{folder}/weights"
        bring_weights()
        judges = arguments.judges.split(",") if arguments.judges else runnable()
        audio_s = make_run(Path(folder) / "made", arguments.replies)
        run = Path(folder) / "made/run"
        print(f"{arguments.replies} replies, {audio_s:.0f} s of audio, {os.cpu_count()} cores")
        print(f"{'judge':<22}{'scored':>7}{'seconds':>9}{'real-time factor':>18}{'cpu s':>8}{'peak GiB':>10}")
        for name in judges if not arguments.together else ():
            measured(run, name, [name], 0, audio_s)
        factors: list[float] = []
        largest = 0.0
        for _ in range(arguments.pairs):
            measured(run, "all in one process", judges, 0, audio_s)
            alone = numbers(run)
            factors.append(
                measured(run, f"all in {arguments.jobs} processes", judges, arguments.jobs, audio_s)
            )
            together = numbers(run)
            assert alone.keys() == together.keys()
            differing = {key: abs(alone[key] - together[key]) for key in alone if alone[key] != together[key]}
            largest = max(largest, *differing.values(), 0.0)
            whose = ", ".join(sorted({key[0] for key in differing}))
            print(f"scores that differ: {len(differing)} of {len(alone)}{': ' if whose else ''}{whose}")
        print(
            f"scoring: real-time factor {min(factors):.3f} (aim 0.2 on two cores), {len(judges)} judges, "
            f"{arguments.jobs} processes, largest difference of a score {largest:.2g}"
        )


def measured(run: Path, label: str, judges: list[str], jobs: int, audio_s: float) -> float:
    """Score the run in a separate process, print a row, and return the real-time factor."""
    command = [
        *(sys.executable, __file__, "--score", str(run)),
        *("--judges", ",".join(judges), "--jobs", str(jobs)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{label} broke: {done.stderr.strip().splitlines()[-1:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    n = max(judge["n"] for judge in found["judges"].values())
    print(
        f"{label:<22}{n:>7}{found['seconds']:>9.1f}{found['seconds'] / audio_s:>18.4f}"
        f"{found['cpu_s']:>8.1f}{found['peak_gib']:>10.2f}",
        flush=True,
    )
    return float(found["seconds"] / audio_s)


if __name__ == "__main__":
    main()
