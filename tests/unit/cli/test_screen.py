"""Text from an untrusted run is printed without control characters."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from rich.live import Live
from rich.text import Text

from live_eval.cli import main
from live_eval.cli._screen import console, raw, without_secrets
from tests.unit.conftest import MANIFEST, write_run

CLIPBOARD = "\x1b]52;c;aGFja2Vk\x07"
HOSTILE = f"a{CLIPBOARD}\x9b2Jb\x1b[1A\x1b[2K\u202ec\rd"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose manifest contains names with control characters."""
    endpoint = {**MANIFEST["endpoint"], "name": HOSTILE, "model": HOSTILE, "turn_mode": HOSTILE}
    machine = {"system": HOSTILE, "cores": 2}
    data = {"name": HOSTILE, "cases": 24, "notes": [HOSTILE]}
    manifest: dict[str, Any] = {**MANIFEST, "endpoint": endpoint, "data": data, "machine": machine}
    return write_run(tmp_path_factory.mktemp("runs") / "hostile", manifest=manifest)


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["show", "--json"],
        ["runs", "list"],
        ["compare", "again"],
        ["plan", "--detect", "50", "--metric", "first_byte", "--from"],
        ["leaderboard", "--format", "md"],
        ["report", "--format", "md", "--output", "-"],
        ["cue-sensitivity", "--words"],
        ["score", "--judges", "bleu"],
        ["replay"],
    ],
    ids=" ".join,
)
def test_no_command_prints_control_characters(
    hostile: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(hostile)] * (2 if command[-1] == "again" else 1)
    with pytest.raises(SystemExit):
        main([*(word for word in command if word != "again"), *runs])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert not CONTROLS.findall(printed.out + printed.err)


def test_a_page_contains_no_control_characters(hostile: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["report", str(hostile), "--output", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "]52;c;aGFja2Vk" in page, "what is shown of it is harmless"
    assert not CONTROLS.findall(page)


def test_rich_keeps_its_own_controls_and_passes_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with without_secrets():
        console().print(f"[bold]{HOSTILE}[/bold]")
        click.echo(f"plain {HOSTILE}")
    text = terminal.getvalue()
    assert "\x1b[1m" in text
    assert set(CONTROLS.sub("", text)) >= set("abcd")
    assert not CONTROLS.findall(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_a_progress_bar_moves_and_other_output_has_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with without_secrets(), Live(console=console(), auto_refresh=False) as shown:
        for number in range(3):
            shown.update(Text(f"one\n{number} of 3"), refresh=True)
        click.echo(f"beside it \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ {CLIPBOARD}\x9b2J")
    text = terminal.getvalue()
    assert "\ufffd[" not in text.partition("beside it")[0]
    assert text.count("\r\x1b[2K\x1b[1A\x1b[2K") >= 2, "the cursor moves up to draw again"
    assert "beside it link" in text
    assert "\x1b]" not in text
    assert "\x9b" not in text


def test_data_keeps_its_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with without_secrets():
        raw(sys.stdout).write(HOSTILE)
    assert capsys.readouterr().out == HOSTILE
