"""Time of the statistics for a full-size run: 3,356 turns of 1,137 scripts, with simulated scores.

Two runs of EchoMind's size are written, with random scores for all reply judges and a question of each task
for each script, so that levels can be related; a third run contains each recording twice, for cue
sensitivity. Each command that computes statistics then runs on them in a separate process. The target is 30 s
in total on two cores. ``--keep FOLDER`` keeps the runs there and reuses them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import _benchmark
import numpy as np

from live_eval.data import QUESTION_TYPES
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.registry import judge
from live_eval.types import Case, CoarseDimension, Cue, Failure, Question, Task, Variant
from tests.support.records import TurnPlan, spoken_turn, tone

SCRIPTS = 1_137
WITHOUT_NEUTRAL = 55
ATTRIBUTES = 39
FAILED = 0.01
FINE = ("emotion", "volume", "speed", "weather", "location", "music")
JUDGES = (
    "dnsmos",
    "nisqa",
    "utmos",
    "emoalign",
    "rubric",
    "ves",
    "bleu",
    "rouge_l",
    "meteor",
    "bertscore",
    "semsim",
    "prosody",
    "mcq",
)
COMMANDS = {
    "show": ("show", "{a}", "--json"),
    "compare": ("compare", "{a}", "{b}", "--json"),
    "plan": ("plan", "--detect", "0.2", "--metric", "C4", "--from", "{a}", "--and", "{b}", "--json"),
    "leaderboard": ("leaderboard", "{a}", "{b}", "--format", "md"),
    "report": ("report", "{a}", "--format", "md"),
    "cue-sensitivity": ("cue-sensitivity", "{twice}", "--words", "--json"),
}


def cases() -> Iterator[Case]:
    """Yield conversations for every recording, and a question of each task for each script."""
    for script in range(SCRIPTS):
        attribute = f"attribute {script % ATTRIBUTES}"
        cue = Cue(attribute, attribute, FINE[script % len(FINE)], list(CoarseDimension)[script % 3])
        for variant in Variant:
            if variant is Variant.NEUTRAL and script < WITHOUT_NEUTRAL:
                continue
            conversation = Case(
                case_id=f"id_{script}/{variant}",
                script_id=f"id_{script}",
                variant=variant,
                audio_path=Path("a.wav"),
                cue=cue,
                script_cue=cue,
            )
            yield conversation
            for task in (Task.UNDERSTANDING, Task.REASONING) if variant is Variant.TARGET else ():
                kinds = list(QUESTION_TYPES[task])
                question = Question(
                    question_id="q",
                    text="What?",
                    options=(("A", "this"), ("B", "that")),
                    answer="A",
                    kind=kinds[script % len(kinds)],
                )
                yield replace(conversation, case_id=f"{task}/{script}", task=task, question=question)


def write_turns(path: Path, *, conversations: int) -> None:
    """Write a run without scores, whose replies are tones of a few milliseconds.

    Args:
        path: Folder of the run.
        conversations: Number of repetitions of each conversation; questions are included only for one.
    """
    random = np.random.default_rng(0)
    user = tone(40)
    manifest = {
        "endpoint": {"name": "reference", "model": "simulated", "turn_mode": "server_vad"},
        "data": {"name": "simulated", "fingerprint": "0" * 64},
        "prompt": {"name": "no", "sha256": "0" * 64},
        "config": {"judges": {"names": list(JUDGES)}},
    }
    with RunWriter.create(path, manifest) as run:
        for repeat in range(conversations):
            for case in cases():
                if case.task.asks and conversations > 1:
                    continue
                failure = Failure(FailureKind.CLOSED, "simulated") if random.random() < FAILED else None
                plan = TurnPlan(first_byte_ms=400 + 200 * random.random(), reply_ms=20, failure=failure)
                run.commit(spoken_turn(case, plan, user=user, repeat=repeat))
        run.end(finished=True)


def score(path: Path, seed: int) -> int:
    """Write random scores for a run; return the number of scores per turn."""
    random = np.random.default_rng(seed)
    with RunReader.open(path) as run:
        captured = [(turn.turn_id, turn.case.task) for turn in run.turns() if turn.captured]
    specs = [judge(name) for name in JUDGES]
    with ScoreStore.open(path) as scores:
        for spec in specs:
            names = [output.name for output in spec.outputs]
            turns = [turn_id for turn_id, task in captured if task in spec.tasks]
            drawn = random.normal(3, 1, size=(len(turns), len(names))).clip(1, 5)
            if spec.name == "mcq":
                drawn = 100.0 * (drawn > 3)
            verdicts = {
                turn: Scored(dict(zip(names, map(float, row), strict=True)))
                for turn, row in zip(turns, drawn, strict=True)
            }
            scores.put_all(spec.name, spec.version, verdicts)
    return sum(len(spec.outputs) for spec in specs)


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = asked.keep or Path(made)
        runs = {name: folder / name for name in ("a", "b", "twice")}
        if not runs["twice"].exists():
            write_turns(runs["a"], conversations=1)
            shutil.copytree(runs["a"], runs["b"])
            write_turns(runs["twice"], conversations=2)
        numbers, *_ = [score(path, seed) for seed, path in enumerate(runs.values())]
        with RunReader.open(runs["a"]) as run:
            print(f"{len(run)} turns, {numbers} numbers of {len(JUDGES)} judges", flush=True)
        total = 0.0
        for name, words in COMMANDS.items():
            began = time.perf_counter()
            arguments = [word.format(**runs) for word in words]
            subprocess.run(
                [sys.executable, "-m", "live_eval", *arguments], check=True, stdout=subprocess.DEVNULL
            )
            took = time.perf_counter() - began
            total += took
            print(f"live-eval {name:<16} {took:6.1f} s", flush=True)
        print(f"statistics_time: {total:.1f} s (aim 30)")


if __name__ == "__main__":
    main()
