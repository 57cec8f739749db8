"""Wrong usage is one line that names the flag, what was given and what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from live_eval.cli import COMMANDS, main
from live_eval.cli._options import DurationType
from live_eval.cli.endpoint import command as endpoint


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("lattency", "unknown command 'lattency' (did you mean latency?); there are: run, "),
        ("weights fetc", "unknown command 'fetc' (did you mean fetch?); there are: add, fetch, list, path"),
        ("run opnai", "unknown endpoint 'opnai' (did you mean openai?); there are: "),
        ("run --lmit 3", "unknown flag --lmit (did you mean --limit?); see live-eval run --help"),
        ("show", "expected RUN; see live-eval show --help"),
        ("show nothing", "RUN 'nothing': not found; `live-eval runs list` lists runs"),
        ("show latset", "RUN 'latset': not found (did you mean latest?)"),
        (
            "run https://me:hidden@host/v1",
            "https://host/v1: expected an endpoint or a run file; pass an address",
        ),
        ("run reference --ice-servers stun.example.org --estimate", "--ice-servers "),
        ("studio --endpoint moshi=127.0.0.1:80", "--endpoint moshi=127.0.0.1:80: expected an address like "),
        ("plan --detect 1 --metric ves --from . --power 90", "--alpha 0.05, --power 90: expected shares"),
        ("latency reference --turns many", "--turns 'many': expected a whole number"),
        ("latency reference --turns 0", "--turns 0: expected 1 or more"),
        ("latency reference extra", "unexpected extra; see live-eval latency --help"),
        ("latency reference --turns", "--turns: expected a value"),
        (
            "live openai --turn-mode manul",
            "--turn-mode 'manul': expected server_vad, manual or full_duplex",
        ),
        ("endpoint --port 99999", "--port 99999: expected 0 to 65535"),
        ("endpoint --delay-ms soon", "--delay-ms 'soon': expected a duration, such as 15, 500ms"),
        ("endpoint --delay-ms 1h", "--delay-ms '1h': expected 0 ms to 600000 ms"),
        ("duplex compare a b", "FIRST 'a': not found"),
        ("calibrate --sessions 0", "--concurrency 0: expected 1 or more"),
        ("plan --detect x", "--detect 'x': expected a number"),
        ("plan --detect 1 --metric ves", "expected --from; see live-eval plan --help"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {told}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_shows_the_common_flags_and_help_all_every_flag_in_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short, whole = (printed(capsys, "run", flag) for flag in ("--help", "--help-all"))
    assert "--data PATH" in short
    assert "--stall-timeout" not in short
    assert len(short.splitlines()) < 50
    assert "--stall-timeout DURATION" in whole.partition("\nTurns:\n")[2].partition("\nJudges:\n")[0]
    assert max(map(len, (short + whole).splitlines())) <= 80


def test_help_lists_every_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    listed = [line for line in text.partition("\nRun:\n")[2].splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in listed if line[2:3].isalpha()] == [*COMMANDS]
    assert "Exit status: 0 success" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [("s", "15", 15), ("s", "500ms", 0.5), ("ms", "15", 15), ("ms", "0.5s", 500), ("ms", "1m", 60_000)],
)
def test_a_number_without_a_unit_has_the_unit_of_its_flag(
    unit: Literal["s", "ms"], text: str, value: float
) -> None:
    assert DurationType(unit).convert(text, None, None) == value


def test_old_spellings_work_and_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    options = {name for param in endpoint.params for name in param.opts}
    assert {"--end-silence-ms", "--patience-ms"} <= options
    whole = printed(capsys, "endpoint", "--help-all")
    assert "--end-silence-ms" in whole
    assert "--patience-ms" not in whole
