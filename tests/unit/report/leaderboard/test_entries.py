"""Runs as entries: models, addresses and kinds of data."""

from collections.abc import Mapping
from pathlib import Path

from live_eval.recording import RunWriter
from live_eval.report.leaderboard import BoardFormat, build_board, render
from tests.unit.report.leaderboard.boards import at, notes, ours, written

FORMS: tuple[BoardFormat, ...] = ("html", "md", "csv", "latex")


def test_runs_with_equal_descriptions_are_distinguished(runs: Mapping[str, Path], tmp_path: Path) -> None:
    again = written(tmp_path / "again", prompt="basic", c4=3.0)
    assert ours([runs["basic"], again], 2) == [("made-up (basic)", "basic"), ("made-up (again)", "basic")]


def test_runs_at_different_addresses_are_different_models(tmp_path: Path) -> None:
    first = written(tmp_path / "first", manifest=at("wss://me:secret@127.0.0.1:18777/v1?key=k-4711"))
    second = written(tmp_path / "second", manifest=at("ws://127.0.0.1:18778/v1", "enhance"), c4=3.5)
    vendor = written(tmp_path / "vendor", manifest=at(None, "enhance"), c4=4.0)
    three = [first, second, vendor]
    assert ours(three, 2) == [
        ("made-up @ 127.0.0.1:18777", "basic"),
        ("made-up @ 127.0.0.1:18778", "enhance"),
        ("made-up", "enhance"),
    ], "none takes the place of another as the better prompt"
    board = build_board(three)
    assert "is shown" not in notes(board, 2)
    dots = {dot.label for plot in board.plots for dot in plot.dots if not dot.published}
    assert dots == {name for name, _ in ours(three, 2)}
    for form in FORMS:
        made = render(board, form)
        assert "made-up @ 127.0.0.1:18777" in made
        assert "secret" not in made
        assert "k-4711" not in made


def test_a_run_without_turns_has_no_kind_of_data(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "empty", at(None)).close()
    [run] = build_board([tmp_path / "empty"]).runs
    assert run.cells[-3:] == (
        "the bundled sample: 0 cases",
        "0 of 0 captured; incomplete: 0 of 30 turns recorded",
        "recordings: none",
    )


def test_paths_of_a_gateway_are_different_models(tmp_path: Path) -> None:
    first = written(tmp_path / "first", manifest=at("ws://gateway:1/model-a/v1"))
    second = written(tmp_path / "second", manifest=at("ws://gateway:1/model-b/v1", "enhance"), c4=3.5)
    assert ours([first, second], 2) == [
        ("made-up @ gateway:1", "basic"),
        ("made-up @ gateway:1", "enhance"),
    ], "none takes the place of another as the better prompt"
