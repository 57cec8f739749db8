"""Implement ``live-eval leaderboard``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from live_eval.cli import _options
from live_eval.cli._board import print_board
from live_eval.cli._help import Command
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.report.leaderboard import BoardFormat

__all__ = ["command"]

_FORMS = ("html", "md", "csv", "json", "latex")


@click.command(cls=Command)
@_options.runs_argument
@_options.format_option(_FORMS)
@_options.output_option("leaderboard.html for html, standard output for other formats")
@click.option("--all-prompts", is_flag=True, help="Show every prompt, not only each model's best.")
@click.option(
    "--data", metavar="NAME", help="Compare with the published values of another benchmark (data list)."
)
@_options.json_option
def command(
    runs: tuple[Path, ...],
    form: str | None,
    output: Path | None,
    all_prompts: bool,
    data: str | None,
    as_json: bool,
) -> None:
    """Compare runs with the paper's published tables, or with another benchmark's.

    RUNS are folders of scored runs. One run of `run --preset` selects its runs with all prompts. The
    output has three tables (understanding and reasoning; the speech of responses; their text) with your runs,
    their intervals and the published rows, and breakdowns by question type and by attribute. Without --out
    and --format, the tables are also printed.

    Examples:

    \b
      live-eval leaderboard latest
      live-eval leaderboard RUN RUN -o tables.tex
    """
    from live_eval.report.leaderboard import build_benchmark_board, build_board, render

    if as_json and form not in (None, "json"):
        raise UsageError(f"expected either --json or --format {form}, got both")
    form = "json" if as_json else form
    wanted = _options.format_to_write(_FORMS, form, output)
    if data is not None and all_prompts:
        raise UsageError("expected either --data or --all-prompts, got both")
    if data is not None:
        board = build_benchmark_board(runs, data)
    else:
        runs = _with_other_prompts(runs[0]) if len(runs) == 1 else runs
        board = build_board(runs, all_prompts=all_prompts)
    text = render(board, cast("BoardFormat", wanted))
    if output is None and wanted == "html":
        print_board(board)
    if output is None:
        output = Path("leaderboard.html") if wanted == "html" else _options.STDOUT
    with _options.open_output(output) as file:
        file.write(text)
    if output != _options.STDOUT:
        click.echo(f"leaderboard: {output}" if wanted == "html" else f"wrote {output}", err=True)


def _with_other_prompts(run: Path) -> tuple[Path, ...]:
    """Return a run and the runs that `run --preset` wrote next to it for the other prompts."""
    from live_eval.recording import RUN_FILE, RunReader, part_of, text_of
    from live_eval.run.presets import PRESETS, read_preset

    def origin(folder: Path) -> tuple[str | None, str | None]:
        with RunReader.open(folder) as reader:
            task = part_of(part_of(reader.manifest, "config"), "task")
            return text_of(reader.manifest, "preset"), text_of(task, "prompt")

    preset, prompt = origin(run)
    name, end = run.resolve().name, f"-{prompt}"
    if preset not in PRESETS or not name.endswith(end):
        return (run,)
    found = []
    for each in read_preset(preset)["task"]["prompt"].split(","):
        place = run.with_name(f"{name.removesuffix(end)}-{each}")
        if each == prompt or ((place / RUN_FILE).exists() and origin(place) == (preset, each)):
            found.append(place)
    if len(found) > 1:
        click.echo(f"note: all prompts of --preset {preset}: {', '.join(map(str, found))}", err=True)
    return tuple(found) or (run,)
