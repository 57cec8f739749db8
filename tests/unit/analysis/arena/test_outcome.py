"""Arenas of synthetic runs, with judges of known preference and human votes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval import registry
from live_eval.analysis.arena.outcome import run_arena, write_verdicts
from live_eval.analysis.arena.verdicts import ArenaPlan, judge_pairs
from live_eval.analysis.arena.vote_file import read_votes
from live_eval.analysis.comparison.series import read_runs
from live_eval.cli import cli
from live_eval.errors import AudioError, DataError, FailureKind, JudgeError, UsageError
from live_eval.judging import (
    Need,
    OptionSpec,
)
from live_eval.recording import RunWriter
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import LlmOptions
from live_eval.types import Case, Failure, Variant
from tests.support.fake_model import PAIRWISE, FakeEndpoint, PairwiseJudge
from tests.support.records import TurnPlan, spoken_turn, tone

SCRIPTS = 10
VARIANTS = (Variant.TARGET, Variant.NEUTRAL)


OPTIONS = JudgeOptions(llm=LlmOptions(base_url="http://127.0.0.1:9/v1"))
PLAN = ArenaPlan(judge="toy", limit=0)


def longer(content: str) -> str:
    """A judge that prefers long replies."""
    first, _, second = content.partition("|")
    return str(float(len(first) > len(second)) - float(len(second) > len(first)))


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEndpoint.answer, FakeEndpoint.calls = staticmethod(longer), []
    known = registry.judge
    monkeypatch.setattr(registry, "judge", lambda name: PAIRWISE if name == "toy" else known(name))
    monkeypatch.setattr("live_eval.scoring.llm.driver.ChatEndpoint", FakeEndpoint)


def write_run(path: Path, reply: Callable[[int], str], *, failed: int | None = None) -> Path:
    with RunWriter.create(path, {"data": {"fingerprint": "f" * 64, "licence": "Under L."}}) as run:
        for number in range(SCRIPTS * len(VARIANTS)):
            script, variant = divmod(number, len(VARIANTS))
            case = Case(
                case_id=f"{script}/{VARIANTS[variant]}",
                script_id=str(script),
                variant=VARIANTS[variant],
                audio_path=Path("a.wav"),
            )
            failure = Failure(FailureKind.CLOSED, "gone") if number == failed else None
            plan = TurnPlan(reply_text=reply(number), reply_ms=40, failure=failure)
            run.commit(spoken_turn(case, plan, user=tone(40)))
        run.end(finished=True)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs: one has longer replies than another in 15 of 20 turns, the third mostly the longest."""
    folder = tmp_path_factory.mktemp("arena")
    return [
        write_run(folder / "short", lambda number: "a" * 4 + str(number)),
        write_run(folder / "long", lambda number: "b" * (6 if number % 4 else 2) + str(number)),
        write_run(folder / "longest", lambda number: "c" * (9 if number % 10 else 1) + str(number), failed=7),
    ]


def test_a_judge_rates_runs_without_its_order_effect(runs: list[Path]) -> None:
    arena = run_arena(read_runs(runs), PLAN, OPTIONS)
    assert arena.judge is not None
    assert [run.name for run in arena.judge.ratings.runs] == ["longest", "long", "short"]
    [pair] = [p for p in arena.judge.ratings.pairs if (p.first, p.second) == ("short", "long")]
    assert (pair.wins, pair.ties, pair.losses) == (5, 0, 15)
    assert arena.judge.order["flipped"]["value"] == 0
    assert arena.judge.judged.skipped == {"the turn failed: closed": 2}
    assert arena.judge.ratings.matches == 20 + 19 + 19
    assert len(FakeEndpoint.calls) == 2 * 58
    # A second run uses stored answers only.
    again = run_arena(read_runs(runs), PLAN, OPTIONS)
    assert len(FakeEndpoint.calls) == 2 * 58
    assert again.judge is not None
    assert again.judge.judged.usage.cached == 2 * 58
    assert again.judge.ratings == arena.judge.ratings


class Choosy(PairwiseJudge):
    """A judge that also accepts the user's audio."""

    def __init__(self, *, speaker_audio: str) -> None:
        pass


@pytest.mark.parametrize(("choice", "read"), [("no", False), ("yes", True)])
def test_audio_that_an_option_excludes_is_not_read(
    choice: str, read: bool, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Path] = []

    def read_audio(path: Path, *, max_s: float) -> None:
        heard.append(path)
        raise AudioError(FailureKind.AUDIO_MISSING, "it is gone")

    monkeypatch.setattr("live_eval.scoring.scoring_run.read_audio", read_audio)
    spares = {"no": frozenset({Need.SPEAKER_AUDIO})}
    choosy = replace(
        PAIRWISE,
        implementation=f"{__name__}:Choosy",
        uses=frozenset({Need.SPEAKER_AUDIO}),
        options=(OptionSpec(name="speaker_audio", help="", default="no", spares=spares),),
    )
    monkeypatch.setattr(registry, "judge", lambda _: choosy)
    options = replace(OPTIONS, choices={"toy": {"speaker_audio": choice}})
    assert len(judge_pairs({run.name: run for run in runs[:2]}, PLAN, options).pairs) == 20
    assert bool(heard) is read


def test_a_judge_that_prefers_the_first_position_rates_all_runs_equally(runs: list[Path]) -> None:
    FakeEndpoint.answer = staticmethod(lambda content: "1")
    options = JudgeOptions(llm=LlmOptions(base_url="http://127.0.0.1:9/v2"))
    arena = run_arena(read_runs(runs[:2]), PLAN, options)
    assert arena.judge is not None
    assert arena.judge.order["position"]["value"] == 1.0
    assert arena.judge.order["flipped"]["value"] == 1.0
    assert [run.rating.value for run in arena.judge.ratings.runs] == [1000.0, 1000.0]
    assert [run.ties for run in arena.judge.ratings.runs] == [20, 20]


def test_pairs_without_a_verdict_are_counted(runs: list[Path]) -> None:
    FakeEndpoint.answer = staticmethod(lambda content: "" if "a" * 4 + "13" in content else "0")
    options = JudgeOptions(llm=LlmOptions(base_url="http://127.0.0.1:9/v3"))
    judged = judge_pairs({"short": runs[0], "long": runs[1]}, PLAN, options)
    assert (judged.asked, len(judged.pairs), judged.n_failed) == (20, 19, 1)
    [reason] = judged.skipped
    assert "no answer" in reason
    some = judge_pairs({"short": runs[0], "long": runs[1]}, ArenaPlan(judge="toy", limit=10), options)
    assert some.asked == 10
    assert len({pair.script_id for pair in some.pairs}) == 10 - some.n_failed, "evenly by script"


def test_only_judges_of_pairs_judge_pairs(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {"short": runs[0], "long": runs[1]}
    with pytest.raises(UsageError, match="judge 'bleu' judges single turns"):
        judge_pairs(folders, ArenaPlan(judge="bleu"), OPTIONS)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(JudgeError, match="judge 'arena' cannot run here: missing"):
        judge_pairs(folders, ArenaPlan(judge="arena"), JudgeOptions())


# -- votes -------------------------------------------------------------------------------------------------


def votes_file(path: Path, *rows: str, heading: str = "case_id,first,second,winner,rater") -> Path:
    path.write_text("\n".join([heading, *rows]) + "\n", "utf-8")
    return path


def test_people_rate_with_or_without_the_judge(runs: list[Path], tmp_path: Path) -> None:
    rows = [
        row
        for script in range(SCRIPTS)
        for row in (
            f"{script}/target,short,long,second,ann",
            f"{script}/target,long,short,{'long' if script else 'short'},bob",
            f"{script}/neutral,short,long,tie,ann",
        )
    ]
    others = ["0/target,short,elsewhere,tie,ann", "no such case,short,long,tie,ann"]
    file = votes_file(tmp_path / "votes.csv", *rows, *others)
    alone = run_arena(read_runs(runs[:2]), None, OPTIONS, votes=file)
    assert alone.judge is None
    assert alone.people is not None
    votes = alone.people.votes
    assert (votes.rows, len(votes.votes), votes.n_other, votes.n_unknown, votes.raters) == (32, 30, 1, 1, 2)
    [pair] = alone.people.ratings.pairs
    assert (pair.first, pair.wins, pair.ties, pair.losses) == ("short", 0, 11, 9)
    assert alone.people.position.value == pytest.approx((-10 + 9 - 1) / 30)
    beside = run_arena(read_runs(runs[:2]), PLAN, OPTIONS, votes=file)
    assert beside.agreement is not None
    # The judge likes the longer reply, which is the short run's in turns 0, 4, 8, …: targets of even scripts.
    assert beside.agreement.value == pytest.approx(5 / 20)


def test_votes_that_are_all_ties_have_no_interval(runs: list[Path], tmp_path: Path) -> None:
    ties = [f"{number}/target,short,long,tie,x" for number in range(SCRIPTS)]
    file = votes_file(tmp_path / "votes.csv", *ties)
    command = ["arena", *map(str, runs[:2]), "--votes", str(file), "--no-judge", "--out", str(tmp_path / "o")]
    told = CliRunner().invoke(cli, command, catch_exceptions=False).stdout
    assert "win rate 0.500\n" in told
    assert "ratings: no interval: all resamples are equal" in told


def test_verdicts_are_written_to_the_target_of_a_link(runs: list[Path], tmp_path: Path) -> None:
    file = votes_file(tmp_path / "votes.csv", "0/target,short,long,tie,x")
    link = tmp_path / "link"
    link.symlink_to("verdicts")
    write_verdicts(run_arena(read_runs(runs[:2]), None, OPTIONS, votes=file), link, links=True)
    assert link.is_symlink()
    assert len((tmp_path / "verdicts").read_text().splitlines()) == 2


def test_invalid_votes_are_reported_by_line(tmp_path: Path) -> None:
    file = votes_file(
        tmp_path / "votes.csv",
        "0/target,short,long,neither,ann",
        "0/target,short,short,tie,ann",
        ",short,long,tie,ann",
        "0/target,short,long,first,ann",
        "0/target,long,short,first,ann",
    )
    with pytest.raises(DataError) as raised:
        read_votes(file, ["short", "long"], {"0/target": "0"})
    told = str(raised.value).splitlines()
    assert [line.split(":")[1] for line in told] == ["2", "3", "4", "6"]
    assert "expected first, second, tie, 'short' or 'long'" in told[0]
    assert "a second vote by 'ann' on this pair; the first is on line 5" in told[3]
    with pytest.raises(DataError, match=r":2: expected 5 cells \(.*\), got 2"):
        read_votes(votes_file(file, "0/target,short"), ["short", "long"], {})
    with pytest.raises(DataError, match=r":1: expected the columns .*winner.*; found case_id, first, second"):
        read_votes(votes_file(file, heading="case_id,first,second"), ["short", "long"], {})
    with pytest.raises(DataError, match="no votes match these runs"):
        read_votes(votes_file(file), ["short", "long"], {})
    with pytest.raises(DataError, match=r"cannot read .*none\.csv"):
        read_votes(tmp_path / "none.csv", ["short", "long"], {})


def test_a_run_may_be_called_second(tmp_path: Path) -> None:
    file = votes_file(tmp_path / "votes.csv", "c,second,first,second,")
    [vote] = read_votes(file, ["first", "second"], {"c": "s"}).votes
    assert vote.verdict == 1.0, "the run's name counts, and it stood first"


# -- the command -------------------------------------------------------------------------------------------


def test_verdicts_are_kept_and_printed(runs: list[Path], tmp_path: Path) -> None:
    file = votes_file(tmp_path / "votes.csv", *(f"{n}/target,short,long,second,ann" for n in range(SCRIPTS)))
    out = tmp_path / "made" / "arena.jsonl"
    asked = ["arena", str(runs[0]), str(runs[1]), "--judge", "toy", "--votes", str(file), "--out", str(out)]
    asked += ["--llm-base-url", "http://judge.example/v1", "--limit", "0"]
    done = CliRunner().invoke(cli, [*asked, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["judge"]["ratings"]["n"] == 20
    assert told["people"]["ratings"]["runs"][0]["name"] == "long"
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert lines[0] == {
        "arena": 1,
        "runs": ["short", "long"],
        "seed": 0,
        "judge": "toy",
        "version": told["judge"]["version"],
    }
    assert len(lines) == 1 + 20 + SCRIPTS
    assert {line["forward"] for line in lines if "forward" in line} == {1.0, -1.0}
    printed = CliRunner().invoke(cli, asked, catch_exceptions=False)
    text = printed.stdout
    assert printed.stderr.splitlines().count("Under L") == 1
    for words in (
        "short against long: won 5, tied 0, lost 15; win rate 0.250",
        "order: swapping the replies changed the verdict for 0 % of 20 pairs",
        "by people: 10 votes from 1 raters",
        "ratings: no finite rating",
        "judge and people agree on 50 % of the 10 pairs with both verdicts",
    ):
        assert words in text, text


def test_verdicts_are_lines_of_json(runs: list[Path], tmp_path: Path) -> None:
    file = votes_file(tmp_path / "votes.csv", "0/target,short,long,tie,x")
    command = ["arena", *map(str, runs[:2]), "--votes", str(file), "--no-judge"]
    with pytest.raises(UsageError, match=r"v\.csv: unknown suffix \.csv, expected one of \.jsonl, \.ndjson"):
        CliRunner().invoke(cli, [*command, "--output", str(tmp_path / "v.csv")], catch_exceptions=False)
    done = CliRunner().invoke(cli, [*command, "-o", "-"], catch_exceptions=False)
    assert [json.loads(line).get("vote", False) for line in done.stdout.splitlines()] == [False, True]
    with pytest.raises(UsageError, match="--json and --out - both write to standard output"):
        CliRunner().invoke(cli, [*command, "-o", "-", "--json"], catch_exceptions=False)


def test_votes_can_be_rated_without_the_judge(runs: list[Path], tmp_path: Path) -> None:
    file = votes_file(tmp_path / "votes.csv", "0/target,short,long,tie,x")
    plan = replace(PLAN, judge="arena")
    with pytest.raises(JudgeError, match=r"missing .*; to compute ratings from the votes alone, pass"):
        run_arena(read_runs(runs[:2]), plan, JudgeOptions(), votes=file)
    with pytest.raises(JudgeError) as raised:
        run_arena(read_runs(runs[:2]), plan, JudgeOptions())
    assert "--no-judge" not in str(raised.value)


@pytest.mark.parametrize("command", ["arena", "audit"])
def test_a_command_about_one_judge_has_no_flag_for_several(command: str, runs: list[Path]) -> None:
    done = CliRunner().invoke(cli, [command, *map(str, runs[:2]), "--judges", "toy"])
    assert done.exit_code == 2
    assert "No such option" in done.output
    told = CliRunner().invoke(cli, [command, "--help-all"]).output
    assert "--judges" not in told
    assert "--llm-model" in told


def test_an_arena_needs_two_runs_and_a_judge_or_votes(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least two"):
        run_arena(read_runs(runs[:1]), PLAN, OPTIONS)
    with pytest.raises(UsageError, match="expected a judge or votes"):
        run_arena(read_runs(runs), None, OPTIONS)
    arena = run_arena(read_runs(runs[:2]), PLAN, OPTIONS)
    write_verdicts(arena, tmp_path / "verdicts.jsonl")
    assert not list(tmp_path.glob("*.part"))
