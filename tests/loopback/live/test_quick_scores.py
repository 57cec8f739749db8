"""Scores of a conversation's turns in their own process: limits, and judges that hang or end the process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from live_eval.errors import UsageError
from live_eval.live.lines import main_scores
from live_eval.live.quick_scores import QuickScorer, _JudgeProcess, live_judges, live_options
from live_eval.live.updates import QuickScores
from live_eval.recording import RunWriter
from live_eval.redaction import SECRETS
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import Expense, LlmOptions
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


async def quick_scorer(
    judges: Sequence[str], options: JudgeOptions | None = None, **limits: float
) -> QuickScorer:
    return await asyncio.to_thread(lambda: QuickScorer(judges, options, **limits))


async def scored(scorer: QuickScorer, run: Path, turn_id: str = "turn-0001") -> list[QuickScores]:
    seen: list[QuickScores] = []
    await scorer.score(run, turn_id, 1, seen.append)
    return seen


@pytest.mark.slow
async def test_each_judge_reports_its_scores_and_its_time(run: Path) -> None:
    scorer = await quick_scorer(["dnsmos", "prosody"], limit_s=200)
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
    scorer = await quick_scorer(["prosody", "dnsmos"], limit_s=200, patience_s=200)
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


async def test_a_judge_that_hangs_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = asyncio.Event()

    async def judged(_: QuickScorer, name: str, run: Path, turn_id: str) -> QuickScores:
        if name == "prosody":
            await ends.wait()
        return QuickScores(turn_id, {}, {}, name)

    monkeypatch.setattr(QuickScorer, "_judged", judged)
    scorer, seen = await quick_scorer(["prosody", "dnsmos", "ves"], patience_s=0.01), list[QuickScores]()

    def tell(scores: QuickScores) -> None:
        seen.append(scores)
        if len(seen) == 4:
            ends.set()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for turn in (1, 2):
            group.create_task(scorer.score(Path("run"), f"{turn}", turn, tell))
    assert sorted(f"{each.judge} {each.turn_id}" for each in seen[:4]) == [
        "dnsmos 1",
        "dnsmos 2",
        "ves 1",
        "ves 2",
    ]
    assert [each.judge for each in seen[4:]] == ["prosody"] * 2


async def test_scores_of_a_replaced_turn_are_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, run, seen = await quick_scorer(["dnsmos"]), Path("run"), list[QuickScores]()

    async def call(_: _JudgeProcess, function: object, *given: object) -> object:
        if not given:
            return QuickScores("1", {}, {}, "dnsmos")
        if not seen:
            async with scorer.paused(run):  # while it is judged
                scorer.replaced(run, "1")
        return Expense()

    monkeypatch.setattr(_JudgeProcess, "run", call)
    await scorer.score(run, "1", 1, seen.append)
    assert not seen
    seen.append(QuickScores("", {}, {}))
    await scorer.score(run, "1", 1, seen.append)
    assert len(seen) == 2


async def test_a_judge_that_hangs_is_not_run_again_and_the_others_continue(run: Path) -> None:
    scorer = await quick_scorer(["dnsmos"], limit_s=0.05)
    (hung,) = await scored(scorer, run)
    assert "no score after 0.05 s" in hung.problems["dnsmos"]
    assert await scored(scorer, run) == [hung]
    async with asyncio.timeout(20):
        await asyncio.to_thread(scorer.close)


async def test_a_cancelled_score_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    scorer = await quick_scorer(["dnsmos"])
    monkeypatch.setattr(_JudgeProcess, "_submit", lambda *_: Future())
    monkeypatch.setattr(_JudgeProcess, "end", lambda _: ended.append("dnsmos"))
    scoring = asyncio.create_task(scored(scorer, Path("run")))
    await asyncio.sleep(0.05)
    scoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scoring
    assert ended == ["dnsmos"]


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
    scorer = await quick_scorer(["rubric"], JudgeOptions(llm=llm))
    (spent,) = await scored(scorer, run)
    await asyncio.to_thread(scorer.close)
    assert spent.problems == {"rubric": "the budget is spent: 0 calls"}


def masked(text: str) -> str:
    return SECRETS.text(text)


@pytest.mark.slow
async def test_a_judge_process_knows_the_secrets() -> None:
    SECRETS.learn("sk-of-the-endpoint")
    process = _JudgeProcess("dnsmos", live_options(scripted=True))
    answer = await process.run(masked, "401: sk-of-the-endpoint has expired")
    await asyncio.to_thread(process.end)
    assert answer == "401: *** has expired"


async def test_a_turn_that_is_not_stored_has_no_scores(run: Path) -> None:
    scorer = await quick_scorer(["dnsmos"])
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
        ("EmoAlign", "0 %"),
    ]
