import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.analysis.audit.rated import audit_ratings, sampled
from live_eval.cli import FAILED, cli
from live_eval.data.benchmarks import BENCHMARKS, FOLDER_VARIABLE
from live_eval.data.benchmarks.vstyle import rated_replies
from live_eval.errors import UsageError
from tests.support.benchmarks import vstyle
from tests.support.fake_model import PAIRWISE, FakeEndpoint
from tests.unit.analysis.audit.test_auditor import LLM, OPTIONS, SPECS, toys

__all__ = ["toys"]


def test_a_judge_is_compared_with_people_and_with_the_publishers_judge(tmp_path: Path) -> None:
    SPECS["toy"] = LLM
    FakeEndpoint.answer = staticmethod(lambda content: content)
    replies = rated_replies(vstyle(tmp_path, items=30))
    report = audit_ratings("toy", replies, tmp_path, options=OPTIONS)
    (found,) = report["agreement"]["outputs"].values()
    assert (found["n"], report["asked"], report["skipped"]) == (30, 30, {})
    assert found["spearman"]["value"] == pytest.approx(1)
    assert found["alpha_interval"]["value"] == pytest.approx(1)
    assert found["between_raters"]["raters"] == 2
    assert report["published_judge"]["spearman"]["value"] == pytest.approx(-1)
    assert len(sampled(replies, 7, 0)) == 7


def test_what_cannot_be_judged_is_counted(tmp_path: Path) -> None:
    SPECS["toy"] = PAIRWISE
    replies = rated_replies(vstyle(tmp_path, items=8))
    with pytest.raises(UsageError, match="compares replies"):
        audit_ratings("toy", replies, tmp_path, options=OPTIONS)
    SPECS["toy"] = LLM
    FakeEndpoint.answer = staticmethod(lambda content: "5" if "1" in content else "no")
    report = audit_ratings("toy", replies, tmp_path, options=OPTIONS)
    assert (report["skipped"], report["n_failed"], sum(report["reasons"].values())) == ({}, 6, 6)


def test_the_command_needs_the_data_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SPECS["toy"] = LLM
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    FakeEndpoint.answer = staticmethod(lambda content: content)

    def run(*arguments: str) -> object:
        return CliRunner().invoke(cli, ["audit", "toy", *arguments]).exception

    assert "is not on this machine" in str(run("--data", "vstyle"))
    assert "expected replies with human ratings: vstyle" in str(run("--data", "voicebench"))
    assert "expected a RUN, or --data NAME" in str(run())
    root = vstyle(tmp_path / "vs", items=30)
    added = CliRunner().invoke(cli, ["data", "add", "vstyle", "--path", str(root)])
    assert added.exit_code == 0, added.output
    FakeEndpoint.answer = staticmethod(lambda content: "no")
    failed = CliRunner().invoke(cli, ["audit", "toy", "--data", "vstyle/en", "--limit", "3"])
    assert failed.exit_code == FAILED, failed.output
    assert "3 judgements missing: " in failed.stdout
    FakeEndpoint.answer = staticmethod(lambda content: content)
    shown = CliRunner().invoke(cli, ["audit", "toy", "--data", "vstyle", "--limit", "0"])
    assert shown.exit_code == 0, shown.output
    assert "vstyle, 30 replies" in shown.output
    assert shown.stdout.splitlines()[-1] == BENCHMARKS["vstyle"].licence_note()
    as_json = CliRunner().invoke(cli, ["audit", "toy", "--data", "vstyle", "--json"])
    told = json.loads(as_json.stdout)
    assert (told["replies"], told["licences"]) == (30, [BENCHMARKS["vstyle"].licence_note()])
    assert "expected replies in VStyle-responses/zh/metadata.jsonl" in str(run("--data", "vstyle/zh"))
    unable = {"toy": "API key (set OPENAI_API_KEY)"}
    monkeypatch.setattr("live_eval.scoring.judge_runner.unable_judges", lambda *_, **__: unable)
    without = CliRunner().invoke(cli, ["audit", "toy", "--data", "vstyle"])
    assert re.match(r"the publisher's judge, Spearman, n 30 +-?\d\.\d\d", without.stdout)
    assert isinstance(without.exception, UsageError)
    for named in ("toy: API key (set OPENAI_API_KEY)", "(--llm-base-url URL)", "(live-eval judges)"):
        assert named in str(without.exception)
