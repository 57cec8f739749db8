"""``live-eval leaderboard``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from live_eval.cli._output import STDOUT, open_output, output_option

if TYPE_CHECKING:
    from live_eval.leaderboard import BoardFormat

__all__ = ["command"]


@click.command(short_help="Put runs beside the paper's tables.")
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "csv", "latex"]),
    default="html",
    show_default=True,
    help="Form of the board.",
)
@output_option("leaderboard.html for html, standard output for the other forms")
@click.option("--all-prompts", is_flag=True, help="A row for every prompt, instead of each model's best.")
def command(runs: tuple[Path, ...], form: str, output: Path | None, all_prompts: bool) -> None:
    """Put runs beside the paper's tables.

    RUNS are folders of scored runs. Three tables (understanding and reasoning; the response's sound; its
    words) with our rows, their intervals, and the published rows; and maps by type of question and by
    attribute.
    """
    from live_eval.leaderboard import build_board, render

    text = render(build_board(runs, all_prompts=all_prompts), cast("BoardFormat", form))
    if output is None:
        output = Path("leaderboard.html") if form == "html" else STDOUT
    with open_output(output) as file:
        file.write(text)
    if output != STDOUT:
        click.echo(f"leaderboard to open: {output}", err=True)
