"""The consent to a performance, and its outcome in the terminal."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import live_eval.cli._live_command as live_command
from live_eval.cli import cli
from live_eval.cli._performance import print_outcome
from live_eval.errors import LiveEvalError

COMMAND = ["live", "reference", "--base-url", "ws://127.0.0.1:1/v1", "--perform", "sample"]


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that are found but cannot be opened."""

    def opened(*_: object, **__: object) -> None:
        raise RuntimeError("the sound card was opened")

    monkeypatch.setattr(live_command, "list_devices", list)
    monkeypatch.setattr(live_command, "find_device", lambda *_: None)
    monkeypatch.setattr(live_command, "open_sound_card", opened)


@pytest.mark.usefixtures("devices")
def test_nothing_is_stored_without_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, takes = tmp_path / "run", tmp_path / "run-takes"
    done = CliRunner().invoke(cli, [*COMMAND, "--out", str(run)])
    assert isinstance(done.exception, LiveEvalError)
    assert "pass --consent NAME" in str(done.exception)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    declined = CliRunner().invoke(cli, [*COMMAND, "--out", str(run), "--consent", " "])
    assert declined.exit_code == 0
    assert "Nothing is recorded or sent without consent." in declined.stdout
    assert not run.exists()
    assert not takes.exists()


@pytest.mark.usefixtures("devices")
def test_consent_is_stored_with_the_takes_before_the_microphone_opens(tmp_path: Path) -> None:
    run, takes = tmp_path / "run", tmp_path / "mine"
    arguments = ["--out", str(run), "--takes", str(takes), "--consent", "A. B."]
    done = CliRunner().invoke(cli, [*COMMAND, *arguments])
    assert "the sound card was opened" in str(done.exception)
    consent = json.loads((takes / "consent.json").read_text())
    assert consent["given_by"] == "A. B."
    assert consent["recipient"].endswith(" at 127.0.0.1:1")
    assert consent["recipient"] in consent["text"]
    assert str(takes) in consent["text"]
    assert str(takes) in done.stderr
    again = CliRunner().invoke(cli, [*COMMAND, *arguments])
    assert isinstance(again.exception, LiveEvalError)
    assert "expected a new or empty folder for the takes" in str(again.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--takes", "x"], "--takes and --consent require --perform"),
        (["--perform", "sample", "--from", "sample"], "expected either --perform or --from, got both"),
        (["--perform", "sample-dialogues"], "expected scripts that a person can perform"),
    ],
)
def test_settings_that_conflict(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["live", "reference", "--base-url", "ws://127.0.0.1:1/v1", *arguments])
    assert isinstance(done.exception, LiveEvalError)
    assert message in str(done.exception)


@pytest.mark.slow
def test_the_outcome_shows_published_rows_only_for_scored_columns(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_outcome(run_folder)
    shown = capsys.readouterr().out
    assert "Does the model hear how you speak?" in shown
    assert "No conclusion: fewer than 5 scripts" in shown
    assert "voice to voice p50" in shown
    assert "EmoAlign" not in shown
