"""``live-eval run``: the judges that it can use, its argument, and resumed runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval import registry
from live_eval.cli import cli
from live_eval.cli._resumed_run import check_same
from live_eval.cli._run_command import (
    _prompt_configs,
    _run_file,
    _simultaneous_folders,
    _unable_judges,
    _without_judges,
)
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunWriter
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import RunConfig, read_run_file, validate
from live_eval.scoring.scoring_run import JudgeSummary, ScoringSummary
from tests.support.records import spoken_turn
from tests.unit.cli.test_json_output import validated


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


def test_a_named_judge_without_its_key_stops_the_run_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["run", "reference", "--judges", "bleu,ves"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).splitlines()[1:] == ["  ves: API key (set GEMINI_API_KEY)"]
    assert not (tmp_path / "recordings").exists()


def test_a_default_judge_without_its_key_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    config = validate({"judges": {"names": ["bleu", "ves"]}})
    specs = [registry.judge(name) for name in config.judges.names]
    left_out = _unable_judges(config, specs, named=False)
    assert _without_judges(config, left_out).judges.names == ("bleu",)
    assert capsys.readouterr().err == "note: judge skipped: ves: API key (set GEMINI_API_KEY)\n"


def test_the_judges_of_a_preset_that_cannot_run_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the manifest matters here, so the run is replaced."""
    manifests = []

    def open_writer(plan: Plan, *_: object) -> None:
        manifests.append(plan.manifest())
        raise UsageError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("live_eval.cli._run_command.open_writer", open_writer)
    monkeypatch.setattr(
        "live_eval.cli._run_command.read_preset", lambda _: {"judges": {"names": ["bleu", "ves"]}}
    )
    done = CliRunner().invoke(cli, ["run", "reference", "--preset", "echomind"])
    assert str(done.exception) == "enough"
    assert "note: judge skipped: ves: API key (set GEMINI_API_KEY)" in done.stderr
    [manifest] = manifests
    assert manifest["preset"] == "echomind"
    assert manifest["judges_left_out"] == {"ves": "API key (set GEMINI_API_KEY)"}
    assert manifest["config"]["judges"]["names"] == ["bleu"]
    # Judges that the user names are refused, with a preset too.
    done = CliRunner().invoke(cli, ["run", "reference", "--preset", "echomind", "--judges", "ves"])
    assert "these judges cannot run on this machine" in str(done.exception)


def test_a_run_is_resumed_with_a_new_key_even_if_it_stored_the_old_one() -> None:
    def manifest(secret: str) -> dict[str, Any]:
        extra = {"tools": [{"headers": {"X-Key": secret}}]}
        endpoint = {"base_url": f"ws://me:{secret}@h/v1?sig={secret}", "extra": extra}
        return make_plan(validate({"endpoint": endpoint})).manifest()

    before, now = manifest("quiet-4711"), manifest("quiet-4712")
    assert "quiet" not in json.dumps([before, now])
    check_same(before, now)
    # As stored by an earlier version.
    before["config"]["endpoint"]["extra"] = {"tools": [{"headers": {"X-Key": "quiet-4711"}}]}
    check_same(before, now)
    before["config"]["endpoint"]["base_url"] = "ws://elsewhere/v1"
    with pytest.raises(StoreError, match=r"endpoint\.base_url was 'ws://elsewhere/v1'"):
        check_same(before, now)


def test_a_word_is_an_endpoint_or_a_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags: dict[str, Any] = {"endpoint__name": None}
    assert _run_file("openai", flags) is None
    assert flags == {"endpoint__name": "openai"}
    with pytest.raises(UsageError, match="expected one endpoint, got gemini-live and --endpoint openai"):
        _run_file("gemini-live", flags)
    Path("settings").write_text("")
    for name in ("my.toml", "folder/mine", "settings"):
        assert _run_file(name, {}) == Path(name)


def test_the_newest_run_is_resumed_and_its_summary_printed_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(
        '[endpoint]\nname = "reference"\n[data]\nlimit = 1\n[judges]\nnames = []\n[output]\nreport = false\n'
    )
    plan = make_plan(validate(read_run_file(Path("mine.toml"))))
    with RunWriter.create(tmp_path / "recordings" / "mine", plan.manifest()) as writer:
        writer.commit(spoken_turn(plan.jobs[0].case))
        writer.end(finished=True)
    printed = validated("run", ["mine.toml", "--out", "latest", "--resume", "--json"])
    assert printed["turns"]["captured"] == 1
    asserted = ["run", "mine.toml", "--out", "latest", "--resume", "--assert", "voice_to_voice.p95 < 9s"]
    done = CliRunner().invoke(cli, asserted)
    assert "note: voice_to_voice.p95 < 9s: will fail: p95 of fewer than 30 values (1 planned)" in done.stderr
    done = CliRunner().invoke(cli, ["show", "latest", "--json"])
    assert json.loads(done.stdout) == printed


def test_a_failure_of_a_presets_judge_is_printed_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("live_eval.cli._run_command.read_preset", lambda _: {"judges": {"names": ["bleu"]}})
    failed = JudgeSummary(name="bleu", version="3", n_failed=1, reasons={"malformed: no number": 1})
    monkeypatch.setattr("live_eval.cli._run_command.score_run", lambda *_, **__: ScoringSummary(1, (failed,)))
    plan = make_plan(validate({"data": {"limit": 1}}))
    with RunWriter.create(Path("mine"), plan.manifest()) as writer:
        writer.commit(spoken_turn(plan.jobs[0].case))
        writer.end(finished=True)
    arguments = ["run", "reference", "--limit", "1", "--out", "mine", "--resume", "--no-report"]
    done = CliRunner().invoke(cli, [*arguments, "--preset", "echomind"])
    assert done.exit_code == 3
    assert "bleu: 1 not scored: malformed: no number" in done.stderr
    # A default judge's failure is printed, but does not count.
    assert CliRunner().invoke(cli, arguments).exit_code == 0


def test_each_prompt_has_a_run_and_other_tasks_are_in_the_first() -> None:
    def tasks(prompt: str, task: str = "all") -> list[tuple[str, str]]:
        configs = _prompt_configs(validate({"task": {"name": task, "prompt": prompt}}))
        return [(config.task.prompt, config.task.name) for config in configs]

    assert tasks("basic") == [("basic", "all")]
    assert tasks("no, basic,enhance") == [
        ("no", "all"),
        ("basic", "conversation"),
        ("enhance", "conversation"),
    ]
    for prompt, task, message in (
        ("no,basc", "all", "did you mean basic"),
        ("no,no", "all", "different names"),
        ("no,basic", "reasoning", "require --task conversation or --task all"),
    ):
        with pytest.raises(UsageError, match=message):
            tasks(prompt, task)


def test_runs_of_several_prompts_are_resumed_where_they_were_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan(validate({"data": {"limit": 1}, "judges": {"names": []}, "output": {"report": False}}))
    with RunWriter.create(Path("mine-no"), plan.manifest()) as writer:
        writer.commit(spoken_turn(plan.jobs[0].case))
        writer.end(finished=True)

    def open_writer(plan: Plan, out: Path) -> None:
        raise UsageError(f"{out} {plan.config.task.prompt} {plan.config.output.resume}")

    monkeypatch.setattr("live_eval.cli._run_command.open_writer", open_writer)
    flags = [
        "--prompt",
        "no,basic",
        "--limit",
        "1",
        "--judges",
        "none",
        "--no-report",
        "--out",
        "mine",
        "--resume",
    ]
    done = CliRunner().invoke(cli, ["run", "reference", *flags])
    assert "1 of 1 turns captured" in done.stdout
    assert str(done.exception) == "mine-basic basic False"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["reference", "openai"],
            "expected one endpoint or run file, got 2; --simultaneous",
        ),
        (["reference", "--simultaneous"], "expected two or more endpoints or run files"),
        (["reference", "reference", "--simultaneous"], "with different names, got reference, reference"),
        (
            ["reference", "openai", "--simultaneous", "--base-url", "ws://h/v1", "--model", "m"],
            "write a run file for each endpoint, without --base-url, --model",
        ),
        (
            ["reference", "openai", "--simultaneous", "--prompt", "no,basic"],
            "expected one prompt",
        ),
        (["reference", "openai", "--simultaneous", "--ray", "--judges", "none"], "does not support --ray"),
    ],
)
def test_targets_that_cannot_run_together_are_refused(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["run", *arguments])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert not (tmp_path / "recordings").exists()


def test_simultaneous_runs_have_a_folder_each_and_are_resumed_where_they_were_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.toml").write_text('[endpoint]\nname = "reference"\nbase_url = "ws://127.0.0.1:9/v1"\n')
    plan = make_plan(read_config("a.toml"))
    with RunWriter.create(Path("mine-a"), plan.manifest()) as writer:
        writer.commit(spoken_turn(plan.jobs[0].case))
        writer.end(finished=True)
    opened = []

    def open_writer(plan: Plan, out: Path) -> None:
        opened.append((out.name, plan.config.output.resume, plan.simultaneous_with))
        raise UsageError("enough")

    monkeypatch.setattr("live_eval.cli._run_command.open_writer", open_writer)
    flags = ["--limit", "1", "--judges", "none", "--no-report", "--out", "mine", "--resume"]
    done = CliRunner().invoke(cli, ["run", "a.toml", "b.toml", "--simultaneous", *flags])
    assert str(done.exception) == "enough"
    assert opened == [("mine-b", False, ("a",))]  # a is complete


@pytest.mark.parametrize("again", ["--resume", "--retry-failed"])
def test_simultaneous_runs_to_resume_must_exist(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.toml").write_text('[endpoint]\nname = "reference"\nbase_url = "ws://127.0.0.1:9/v1"\n')
    RunWriter.create(Path("recordings/mine-a"), make_plan(read_config("a.toml")).manifest()).close()
    run = ["run", "a.toml", "b.toml", "--simultaneous", "--limit", "1", "--judges", "none", again]
    for out, message in (
        ([], f"{again} requires --out with the prefix of the runs to continue"),
        (["--out", "mine"], f"--out mine {again}: no run to continue at mine-a or mine-b"),
        (
            ["--out", "latest"],
            f"--out latest {again}: no run to continue at latest-a or latest-b; pass --out recordings/mine",
        ),
        (
            ["--out", "recordings/mine-a"],
            f"--out recordings/mine-a {again}: no run to continue at recordings/mine-a-a or "
            "recordings/mine-a-b; pass --out recordings/mine",
        ),
    ):
        done = CliRunner().invoke(cli, [*run, *out])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception) == message
    assert [each.name for each in Path("recordings").iterdir()] == ["mine-a"]


def test_the_folders_of_simultaneous_runs_share_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = iter(range(9))
    monkeypatch.setattr("live_eval.cli._run_command.new_folder", lambda name: Path(f"{next(stamps)}-{name}"))
    flags = {"output__out": None, "output__resume": None, "output__retry_failed": None}
    assert _simultaneous_folders(["a", "b"], flags) == {"a": Path("0-a"), "b": Path("0-b")}


def test_sessions_of_simultaneous_runs_that_began_apart_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("a", "b")):
        Path(f"{name}.toml").write_text('[endpoint]\nname = "reference"\nbase_url = "ws://127.0.0.1:9/v1"\n')
        plan = make_plan(read_config(f"{name}.toml"))
        with RunWriter.create(Path(f"mine-{name}"), plan.manifest()) as writer:
            turn = spoken_turn(plan.jobs[0].case)
            writer.commit(replace(turn, wall_ns=turn.wall_ns + number * 2_000_000_000))
            writer.end(finished=True)
    flags = ["--limit", "1", "--judges", "none", "--no-report", "--out", "mine", "--resume"]
    done = CliRunner().invoke(cli, ["run", "a.toml", "b.toml", "--simultaneous", *flags])
    assert done.exit_code == 0
    assert "note: 1 of 1 session began more than 1 s apart" in done.stderr


def read_config(path: str) -> RunConfig:
    values = {**read_run_file(Path(path)), "data": {"limit": 1}}
    return validate({**values, "judges": {"names": []}, "output": {"report": False}})
