"""``live-eval score``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import FAILED
from live_eval.cli._listing import print_listing
from live_eval.runfile import DEFAULT_JUDGES

if TYPE_CHECKING:
    from live_eval.scoring import JudgeSummary

__all__ = ["command"]

_COLUMNS = {
    "name": "judge",
    "n": "n",
    "n_unscored": "unscored",
    "n_failed": "failed",
    "seconds": "seconds",
    "audio_seconds": "audio s",
    "calls": "calls",
    "cost": "cost",
    "reason": "could not run",
}


@click.command(short_help="Score a run, again or with other judges.")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--judges", default=",".join(DEFAULT_JUDGES), show_default=True, metavar="A,B,…", help="Who judges."
)
@click.option("--again", is_flag=True, help="Score anew what these versions of the judges have scored.")
@click.option("--llm-base-url", metavar="URL", help="OpenAI-compatible address that LLM judges ask.")
@click.option("--llm-model", metavar="NAME", help="Model that LLM judges ask.")
@click.option("--llm-key-variable", metavar="NAME", help="Environment variable of the key for it.")
@click.option(
    "--llm-concurrency", type=click.IntRange(1, 1000), default=8, show_default=True, help="Calls at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    run: Path,
    judges: str,
    again: bool,
    llm_base_url: str | None,
    llm_model: str | None,
    llm_key_variable: str | None,
    llm_concurrency: int,
    as_json: bool,
) -> None:
    """Score the run in folder RUN, again or with other judges.

    What a judge has scored already in its present version is left alone; what it had not is tried again.
    A judge that cannot run here says why, and its turns stay unscored.

    Exit status: 0; 3 when a judge failed at a turn; 2 for wrong usage.
    """
    from live_eval.cli._scoring_progress import ScoringProgress
    from live_eval.llm import LlmOptions
    from live_eval.scoring import score_run

    options = LlmOptions(
        base_url=llm_base_url,
        model=llm_model,
        key_variable=llm_key_variable,
        concurrency=llm_concurrency,
    )
    names = [name.strip() for name in judges.split(",") if name.strip()]
    with ScoringProgress() as progress:
        summary = score_run(run, names, again=again, progress=progress, llm=options)
    rows = [asdict(judge) for judge in summary.judges]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        shown = [{**row, **_rounded(judge)} for row, judge in zip(rows, summary.judges, strict=True)]
        print_listing(shown, _COLUMNS, as_json=False)
    if any(judge.n_failed for judge in summary.judges):
        sys.exit(FAILED)


def _rounded(judge: JudgeSummary) -> dict[str, str]:
    return {
        "seconds": f"{judge.seconds:.1f}",
        "audio_seconds": f"{judge.audio_seconds:.1f}",
        "cost": "not known" if judge.cost is None else f"{judge.cost:.2f}",
    }
