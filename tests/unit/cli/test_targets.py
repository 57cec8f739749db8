"""Endpoints, run files and addresses are distinguished by the same rules in every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.cli._targets import names_of, read_target, run_file_of
from live_eval.errors import UsageError


def test_a_target_is_an_endpoint_or_a_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings").write_text('[endpoint]\nname = "openai"\n')
    Path("reference").write_text("")
    for name in ("my.toml", "folder/mine", "settings"):
        assert run_file_of(name) == Path(name)
    for name in ("reference", "unknown"):
        assert run_file_of(name) is None
    assert names_of(["openai", "a/my.toml", "folder/mine", "settings"]) == [
        "openai",
        "my",
        "mine",
        "settings",
    ]
    assert read_target("settings", {}).endpoint.name == "openai"
    with pytest.raises(UsageError, match="with different names"):
        names_of(["a/x.toml", "b/x.toml"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], "an endpoint or a run file"),
        (["live"], "an endpoint or a run file"),
        (["latency"], "an endpoint"),
        (["duplex"], "an endpoint"),
    ],
)
def test_an_address_is_passed_with_a_flag(arguments: list[str], expected: str) -> None:
    done = CliRunner().invoke(cli, [*arguments, "ws://user:secret@host/v1"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).endswith(f"host/v1: expected {expected}; pass an address with --base-url")
    assert "secret" not in str(done.exception)


@pytest.mark.parametrize("command", ["latency", "duplex"])
def test_a_campaign_has_no_run_file(command: str) -> None:
    done = CliRunner().invoke(cli, [command, "a.toml"])
    assert str(done.exception) == "a.toml: expected an endpoint, not a run file; pass its settings as flags"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "expected an ENDPOINT or a RUNFILE; `live-eval run reference` needs no key"),
        (["--base-url", "ws://host/v1"], "expected an ENDPOINT or a RUNFILE"),
        (["reference", "--judges", ""], "--judges '': expected a list A,B,…, or none"),
        (["reference", "--cue", " , "], "--cue ' , ': expected a list A,B,…"),
        (["reference", "--judges", "none,bleu"], "--judges 'none,bleu': none cannot be combined"),
    ],
)
def test_a_run_needs_a_target_and_lists_are_not_empty(flags: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["run", *flags])
    assert str(done.exception).startswith(message)
