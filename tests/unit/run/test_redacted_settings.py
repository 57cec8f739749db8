"""Settings whose secrets are missing from a manifest."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.cli._flags import FLAGS
from live_eval.cli._stored_settings import judges_table, needs_for
from live_eval.errors import UsageError
from live_eval.recording import RunReader, RunWriter
from live_eval.run.plan import make_plan
from live_eval.run.redacted_settings import check_repeated, public_config, redacted_paths
from live_eval.run.run_file import validate

QUERY = "ws://127.0.0.1:9/v1?reply_ms=300&fault=silent"
LOGIN = "ws://me:hunter2hunter2@127.0.0.1:9/v1"


def manifest_of(endpoint: dict[str, Any], judges: dict[str, Any] | None = None) -> dict[str, Any]:
    tables = {"endpoint": endpoint, "judges": judges or {"names": ()}}
    config = validate(tables).model_dump(mode="json")
    public = public_config(config)
    return {"config": public, "redacted": redacted_paths(config, public)}


def missing(manifest: dict[str, Any], given: dict[str, Any], *judges: str) -> str:
    """Return what the user is asked to pass again; empty for nothing."""
    try:
        check_repeated(manifest, given, FLAGS, needs_for(judges))
    except UsageError as error:
        return str(error).rpartition("pass ")[2].removesuffix(" again")
    return ""


@pytest.mark.parametrize("url", [QUERY, LOGIN])
def test_a_url_whose_secrets_are_redacted_must_be_passed_again(url: str) -> None:
    manifest = manifest_of({"base_url": url})
    assert missing(manifest, {}) == "--base-url"
    assert missing(manifest, {"endpoint": {"base_url": "ws://127.0.0.1:9/v1?reply_ms=***"}}) == "--base-url"
    assert missing(manifest, {"endpoint": {"base_url": url}}) == ""
    assert missing(manifest_of({"base_url": "ws://127.0.0.1:9/v1"}), {}) == ""


def test_secrets_in_further_settings_must_be_passed_again() -> None:
    extra = {"api_key": "canary4711canary", "style": "calm", "note": "sk-canary4711canary4711"}
    servers = ["turn:me:hunter2hunter2@127.0.0.1:9"]
    manifest = manifest_of({"extra": extra, "ice_servers": servers})
    assert missing(manifest, {}) == "--extra api_key=…, --extra note=…, --ice-servers"
    given = {"extra": extra, "ice_servers": servers}
    assert missing(manifest, {"endpoint": given}) == ""
    assert missing(manifest, {"endpoint": given | {"extra": {"api_key": "k"}}}) == "--extra note=…"


def test_judging_models_count_only_where_a_judge_asks_them() -> None:
    url = "http://me:hunter2hunter2@127.0.0.1:9/v1"
    judges = {"llm_base_url": url, "options": {"rubric.base_url": url, "audio-rubric": {"base_url": url}}}
    manifest = manifest_of({}, judges)
    assert missing(manifest, {}, "bleu") == ""
    assert missing(manifest, {}, "rubric") == "--set rubric.base_url=…, --llm-base-url"
    given = {"judges": {"llm_base_url": url, "options": {"rubric.base_url": url}}}
    assert missing(manifest, given, "rubric") == ""


def test_runs_of_earlier_versions_are_read_by_their_masks() -> None:
    manifest = {"config": manifest_of({"base_url": QUERY, "instructions": "Be calm."})["config"]}
    assert missing(manifest, {}) == "--base-url"


def ended_run(folder: Path, **endpoint: str) -> None:
    tables = {
        "endpoint": {"name": "openai", **endpoint},
        "data": {"limit": 1},
        "judges": {"names": ("bleu",)},
    }
    with RunWriter.create(folder, make_plan(validate(tables)).manifest()) as writer:
        writer.end()


@pytest.mark.parametrize("url", [QUERY, LOGIN])
def test_failed_turns_are_not_played_again_at_a_redacted_url(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def playing(coroutine: Coroutine[Any, Any, Any]) -> None:
        coroutine.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("live_eval.cli._run_command.run_loop", playing)
    out = tmp_path / "run"
    ended_run(out, base_url=url)
    again = ("run", "--retry-failed", "--out", str(out))
    done = CliRunner().invoke(cli, again)
    assert isinstance(done.exception, UsageError)
    assert "pass --base-url again" in str(done.exception)
    with RunReader.open(out) as run:
        assert run.ended
        assert not run.failures()
    other = CliRunner().invoke(cli, [*again, "--base-url", url.replace("127.0.0.1", "127.0.0.2")])
    assert "its endpoint.base_url was" in str(other.exception)
    same = CliRunner().invoke(cli, [*again, "--base-url", url])
    assert same.exit_code == 130, same.output


def test_scores_are_not_requested_from_a_redacted_url(tmp_path: Path) -> None:
    tables = {"judges": {"llm_base_url": "http://me:hunter2hunter2@127.0.0.1:9/v1"}, "data": {"limit": 1}}
    with RunWriter.create(tmp_path / "run", make_plan(validate(tables)).manifest()) as writer:
        writer.end()
    with pytest.raises(UsageError, match="pass --llm-base-url again"):
        judges_table(tmp_path / "run", {"judges__names": "rubric"})
    assert judges_table(tmp_path / "run", {"judges__names": "bleu"}).names == ("bleu",)
    with pytest.raises(UsageError, match="pass --llm-base-url again"):
        judges_table(tmp_path / "run", {}, "rubric")
