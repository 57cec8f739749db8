"""``live-eval leaderboard``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from live_eval.errors import UsageError

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
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File. Default: leaderboard.html for html, stdout for the other forms.",
)
@click.option("--all-prompts", is_flag=True, help="A row for every prompt, instead of each model's best.")
def command(runs: tuple[Path, ...], form: str, output: Path | None, all_prompts: bool) -> None:
    """Put runs beside the paper's tables.

    RUNS are folders of scored runs. Three tables (understanding and reasoning; the response's sound; its
    words) with our rows, their intervals, and the published rows; and maps by type of question and by
    attribute.
    """
    from live_eval.leaderboard import build_board, render

    text = render(build_board(runs, all_prompts=all_prompts), cast("BoardFormat", form))
    if output is None and form == "html":
        output = Path("leaderboard.html")
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
    click.echo(f"leaderboard to open: {output}", err=True)
