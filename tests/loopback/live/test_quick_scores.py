"""Scores of a conversation's turns in their own process: limits, and judges that hang or end the process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from live_eval.errors import UsageError
from live_eval.live.lines import main_scores
from live_eval.live.quick_scores import QuickScorer, _JudgeQueue, live_judges, live_options
from live_eval.live.updates import QuickScores
from live_eval.recording import RunWriter
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import LlmOptions
from live_eval.types import Case, Cue, Variant
from tests.support.records import spoken_turn
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

# The scoring process imports this program too. PyDLL keeps the interpreter's lock, so no thread can run.
PARENT = """
import asyncio, ctypes, os, sys
from pathlib import Path
from live_eval.live.quick_scores import QuickScorer
from live_eval.scoring.judge_runner import LoadedJudges

def hang(*_):
    print(os.getpid(), flush=True)
    ctypes.PyDLL(None).pause()

LoadedJudges.judge = hang
if __name__ == "__main__":
    asyncio.run(QuickScorer(["dnsmos"]).score(Path(sys.argv[1]), "turn-0001", 1, print))
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    case = Case(
        case_id="turn-0001",
        script_id="turn-0001",
        variant=Variant.TARGET,
        audio_path=Path("a.flac"),
        text="The phone is here.",
        cue=Cue("laughter"),
    )
    with RunWriter.create(tmp_path / "run", {}) as writer:
        writer.commit(spoken_turn(case))
        writer.end()
    return tmp_path / "run"


async def scored(scorer: QuickScorer, run: Path, turn_id: str = "turn-0001") -> list[QuickScores]:
    seen: list[QuickScores] = []
    await scorer.score(run, turn_id, 1, seen.append)
    return seen


@pytest.mark.slow
async def test_each_judge_reports_its_scores_and_its_time(run: Path) -> None:
    scorer = QuickScorer(["dnsmos", "prosody"], limit_s=200)
    first = await scored(scorer, run)
    again = await scored(scorer, run)
    await asyncio.to_thread(scorer.close)
    assert [each.judge for each in first] == ["dnsmos", "prosody"]
    assert all(each.scores and each.seconds for each in first)
    assert [each.scores for each in again] == [each.scores for each in first]


@pytest.mark.slow
async def test_turns_of_several_runs_alternate(run: Path) -> None:
    other = run.with_name("other")
    await asyncio.to_thread(shutil.copytree, run, other)
    scorer = QuickScorer(["prosody", "dnsmos"], limit_s=200)
    seen: list[tuple[str, QuickScores]] = []

    async def score(name: str, path: Path) -> None:
        await scorer.score(path, "turn-0001", 1, lambda scores: seen.append((name, scores)))

    await asyncio.gather(score("a", run), score("b", other))
    await asyncio.to_thread(scorer.close)
    assert [(name, each.judge) for name, each in seen] == [
        ("a", "prosody"),
        ("b", "prosody"),
        ("a", "dnsmos"),
        ("b", "dnsmos"),
    ]
    assert all(each.scores for _, each in seen)


async def test_the_newest_turns_are_scored_first(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    async def judged(_: QuickScorer, name: str, run: Path, turn_id: str) -> QuickScores:
        order.append(f"{run}{turn_id}{name}")
        await asyncio.sleep(0.01)
        return QuickScores(turn_id, {}, {}, name)

    monkeypatch.setattr(QuickScorer, "_judged", judged)
    scorer = QuickScorer("xy")
    tasks = [
        asyncio.create_task(scorer.score(Path(run), turn, int(turn), lambda _: None))
        for turn in "123"
        for run in "ab"
    ]
    await asyncio.sleep(0)
    tasks[2].cancel()  # a2 waits
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.to_thread(scorer.close)
    assert " ".join(order) == "a1x b1x a1y b1y a3x b3x a3y b3y b2x b2y"


async def test_a_judge_that_hangs_is_not_run_again_and_the_others_continue(run: Path) -> None:
    scorer = QuickScorer(["dnsmos"], limit_s=0.05)
    (hung,) = await scored(scorer, run)
    assert "no score after 0.05 s" in hung.problems["dnsmos"]
    assert await scored(scorer, run) == [hung]
    async with asyncio.timeout(20):
        await asyncio.to_thread(scorer.close)


async def test_a_cancelled_score_ends_its_process_while_the_run_is_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarted: list[bool] = []
    scorer, run = QuickScorer(["x"]), Path("run")
    monkeypatch.setattr(QuickScorer, "_submit", lambda *_: Future())
    monkeypatch.setattr(QuickScorer, "_restart", lambda _: restarted.append(scorer._locks[run].locked()))
    scoring = asyncio.create_task(scored(scorer, run))
    await asyncio.sleep(0.05)
    scoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scoring
    assert restarted == [True]
    await asyncio.to_thread(scorer.close)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_scoring_process_ends_when_its_parent_is_killed_even_if_a_judge_hangs(
    run: Path, tmp_path: Path
) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    command = [sys.executable, str(program), str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip() / "cmdline"
        assert child.read_bytes()
        parent.kill()
    until(lambda: not child.exists() or not child.read_bytes(), within_s=5)  # it has ended or is a zombie


@pytest.mark.slow
async def test_a_judge_reports_a_spent_budget(run: Path) -> None:
    llm = LlmOptions(base_url="http://127.0.0.1:9/v1", max_calls=0)
    scorer = QuickScorer(["rubric"], JudgeOptions(llm=llm))
    (spent,) = await scored(scorer, run)
    await asyncio.to_thread(scorer.close)
    assert spent.problems == {"rubric": "the budget is spent: 0 calls"}


async def test_a_turn_that_is_not_stored_has_no_scores(run: Path) -> None:
    scorer = QuickScorer(["dnsmos"])
    (none,) = await scored(scorer, run, "turn-0002")
    await asyncio.to_thread(scorer.close)
    assert (none.scores, none.problems) == ({}, {})


def test_models_are_limited_in_a_conversation() -> None:
    usual = live_options().llm
    assert (usual.timeout_s, usual.attempts, usual.max_calls) == (20, 2, 200)
    given = live_options(JudgeOptions(llm=LlmOptions(timeout_s=5, max_cost=0.5))).llm
    assert (given.timeout_s, given.attempts, given.max_calls) == (5, 2, None)


def test_judges_that_call_a_model_run_last() -> None:
    assert [spec.name for spec in live_judges(["ves", "dnsmos"], live_options())] == ["dnsmos", "ves"]
    with pytest.raises(UsageError, match="cannot score a single turn"):
        live_judges(["arena"], live_options())


def test_options_depend_on_whether_the_speech_is_scripted() -> None:
    assert live_options().choices["emoalign"] == {"reference": "speaker"}
    assert live_options(scripted=True).choices == {}
    given = {"emoalign": {"reference": "cue"}}
    assert live_options(JudgeOptions(choices=given)).choices == given
    scores: dict[str, float | str] = {
        "emoalign.top1": 0.0,
        "emoalign:speaker": "sad, 71 %",
        "emoalign:reply": "happy, 55 %",
    }
    shown = [(each.title, each.text) for each in main_scores(scores)]
    assert shown == [  # both emotions come first, since the stage shows two values
        ("emotion of the user's voice", "sad, 71 %"),
        ("emotion of the reply", "happy, 55 %"),
        ("emotion of the reply matches the reference's", "0 %"),
    ]


async def test_a_wait_cancelled_when_due_does_not_block_others() -> None:
    queue, order = _JudgeQueue(), []

    async def wait(number: int) -> None:
        async with queue.held(number, "x"):
            order.append(number)

    async with queue.held(9, "x"):
        tasks = [asyncio.create_task(wait(number)) for number in (1, 2)]
        await asyncio.sleep(0)
    tasks[1].cancel()  # before the lock is passed on
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [1]
