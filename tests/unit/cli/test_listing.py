"""The output of listing commands: the terminal's width, or one line per row without a terminal."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.cli._listing import plain_table, print_listing, print_table
from live_eval.cli._screen import console
from live_eval.weights import FOLDER_VARIABLE

ROWS: list[dict[str, Any]] = [
    {"name": "emotion2vec_plus_large", "what": "a classifier of emotions in speech " * 3, "here": True},
    {"name": "nisqa", "what": None, "here": False},
]
COLUMNS = {"name": "weights", "what": "what they are", "here": "here"}


def test_elsewhere_than_in_a_terminal_no_row_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_listing(ROWS, COLUMNS, as_json=False)
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["weights", "what", "they", "are", "here"]
    assert first.split()[0] == "emotion2vec_plus_large"
    assert first.split()[-1] == "yes"
    assert second.split() == ["nisqa", "–", "no"]


def in_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


@pytest.mark.parametrize("columns", [80, 44, 40])
def test_a_terminal_gets_whole_names_where_they_fit(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_terminal(columns, monkeypatch)
    print_listing(ROWS, COLUMNS, as_json=False)
    shown = click.unstyle(capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= columns
    assert "emotion2vec_plus_large" in shown
    told = [*COLUMNS.values(), *(row["name"] + (row["what"] or "–") for row in ROWS), "yes", "no"]
    assert sorted("".join(shown.split())) == sorted("".join("".join(told).split())), "never cut"


def test_the_weights_are_listed_in_eighty_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    in_a_terminal(80, monkeypatch)
    cli(["weights", "list"], standalone_mode=False)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    names = {line.split()[0] for line in lines[1:] if line[0] != " "}
    assert {"emotion2vec_plus_large", "qwen3-embedding-0.6b", "utmos22-strong"} <= names
    assert max(map(len, lines)) <= 80


def test_a_score_is_shown_with_its_scale() -> None:
    shown = CliRunner().invoke(cli, ["judges", "nisqa"]).stdout
    assert "nisqa.mos = overall quality (NISQA) (1 to 5 MOS, higher is better)" in shown
    told = json.loads(CliRunner().invoke(cli, ["judges", "nisqa", "--json"]).stdout)["outputs"][0]
    assert (told["low"], told["high"], told["scale"]) == (-6.3, 6.2, [1.0, 5.0])
    told = json.loads(CliRunner().invoke(cli, ["judges", "bleu", "--json"]).stdout)["outputs"][0]
    assert (told["low"], told["high"], told["scale"]) == (0.0, 100.0, None)


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (60, ["name         p50  outcomes", "barge_in      12  premature 3, yielded 5"]),
        (
            34,
            ["name         p50  outcomes", "barge_in      12  premature 3,", "                  yielded 5"],
        ),
        (20, ["barge_in", "  p50 12; outcomes", "  premature 3,", "  yielded 5"]),
    ],
)
def test_a_narrow_table_breaks_no_word(
    width: int, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = plain_table("name", "p50", "outcomes", text=("outcomes",))
    table.add_row("barge_in", "12", "premature 3, yielded 5")
    print_table(console(width=width), table)
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert printed == [" ".join(line.split()) for line in lines]


def test_an_endpoint_is_shown_with_what_it_was_tried_with() -> None:
    shown = CliRunner().invoke(cli, ["endpoints", "twilio"]).output
    rows = [re.split(r"\s{2,}", line) for line in shown.splitlines() if "tried with" in line]
    assert rows == [
        ["tried with", "pipecat 1.14; streamdouble 0.3 (as client of the built-in endpoint)"],
        ["never tried with", "a call by Twilio"],
    ]


def test_an_endpoint_is_shown_with_the_histories_that_it_accepts() -> None:
    shown = {name: CliRunner().invoke(cli, ["endpoints", name]).output for name in ("deepgram", "moshi")}
    rows = {name: [row for row in text.splitlines() if "history" in row] for name, text in shown.items()}
    assert rows["deepgram"][0].split() == ["dialogue", "history", "inject-text"]
    assert rows["moshi"][0].split() == ["dialogue", "history", "–"]
