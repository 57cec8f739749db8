"""Judges in worker processes: scores equal those of one process, even if a worker fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.cli._stored_settings import judges_table
from live_eval.judging import Failed, JudgedTurn, Scored
from live_eval.recording import RunWriter, ScoreReader
from live_eval.registry import judge
from live_eval.scoring.judge_pool import JudgePool
from live_eval.scoring.judge_processes import judge_processes
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.scoring_run import score_run
from tests.support.records import TurnPlan, spoken_turn
from tests.support.waiting import until
from tests.unit.scoring.test_scoring_run import a_case

JUDGES = ("wer_heard", "rouge_l")
SPEC = judge("wer_heard")
TURN = JudgedTurn(turn_id="a", case=a_case("a"), heard_text="Hello there.")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes") / "run"
    with RunWriter.create(path, {"config": {"judges": {"names": list(JUDGES), "jobs": 1000}}}) as writer:
        for number in range(40):
            case = replace(a_case(f"{number:02}"), reference_text=f"Hello you, for the time number {number}.")
            plan = TurnPlan(reply_text=f"Hello {number}.", heard_text="Hello here.", reply_ms=40)
            writer.commit(spoken_turn(case, plan))
        writer.end(finished=True)
    return path


def scores(run: Path) -> dict[tuple[str, str], object]:
    with ScoreReader.open(run) as stored:
        return {(row.judge, row.turn_id): (row.status, row.values, row.detail) for row in stored.read()}


def children(parent: int | None = None) -> list[int]:
    """Return the judge processes of a process, by default this one."""
    of = str(os.getpid() if parent is None else parent)
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", of]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "judge_process" in line]


@contextmanager
def one_process(hung_s: float = 60.0) -> Iterator[JudgePool]:
    with judge_processes(1, JudgeOptions(), print, hung_s=hung_s) as pool:
        [answer] = pool.submit(SPEC, [TURN]).result(60).judgements
        assert isinstance(answer, Scored)
        yield pool
    assert not children()


@pytest.mark.slow  # judges 40 turns twice
def test_two_processes_give_the_scores_of_one(run: Path) -> None:
    score_run(run, JUDGES)
    alone = scores(run)
    seen: list[tuple[str, int, int]] = []
    with judge_processes(2, JudgeOptions(), print) as pool:
        summary = score_run(run, JUDGES, again=True, pool=pool, progress=lambda *told: seen.append(told))
        assert len(children()) == 2
    assert scores(run) == alone
    assert [one.judged for one in summary.judges] == [40, 40]
    assert seen[-1][1:] == (40, 40)
    assert not children()


def test_a_killed_process_is_replaced_and_its_batch_judged() -> None:
    with one_process() as pool:
        [before] = children()
        os.kill(before, signal.SIGKILL)
        [answer] = pool.submit(SPEC, [TURN]).result(60).judgements
        assert isinstance(answer, Scored)
        assert children() != [before]


def test_the_reason_of_a_lost_process_has_its_last_lines_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python imports this module when a process starts.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "print('\\n'.join(['early'] * 9) + '\\n' + 'x' * 5000, file=sys.stderr)\n"
        "print('no kernel for sk-canary4711canary4711canary', file=sys.stderr, flush=True)\n"
        "os._exit(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with judge_processes(1, JudgeOptions(), print) as pool:
        [answer] = pool.submit(SPEC, [TURN]).result(60).judgements
    assert isinstance(answer, Failed)
    assert re.fullmatch(
        r"lost 2 workers while judging it: a judge process ended with status 3: "
        r"x{300} \| x{200} \| no kernel for \*+",
        answer.reason,
    )


@pytest.mark.slow
def test_a_process_that_hangs_is_replaced() -> None:
    with one_process(hung_s=5.0) as pool:
        [before] = children()
        os.kill(before, signal.SIGSTOP)
        [answer] = pool.submit(SPEC, [TURN]).result(60).judgements
        assert isinstance(answer, Scored)
        assert children() != [before]


def test_leaving_the_block_kills_a_hanging_process() -> None:
    with ExitStack() as stack:
        pool = stack.enter_context(one_process())
        [process] = children()
        os.kill(process, signal.SIGSTOP)
        pool.submit(SPEC, [TURN])
        began = time.monotonic()
        stack.close()
        assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_ends_a_scoring_and_its_processes(run: Path) -> None:
    command = [sys.executable, "-m", "live_eval", "score", str(run), "--again", "--jobs", "2"]
    scoring = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: children(scoring.pid))
    stopped = children(scoring.pid)
    for worker in stopped:
        os.kill(worker, signal.SIGSTOP)  # no worker responds
    scoring.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = scoring.communicate(timeout=30)
    assert scoring.returncode not in (0, None), said
    assert time.monotonic() - began < 10
    assert not any(Path(f"/proc/{worker}").exists() for worker in stopped)


def test_the_number_of_processes_of_a_stored_run_is_not_used(run: Path) -> None:
    assert judges_table(run, {}).jobs is None
    assert judges_table(run, {"judges__jobs": "3"}).jobs == 3
