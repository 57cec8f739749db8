"""Define the flags of ``live-eval run``, without importing what a run needs."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli._estimate import estimate_options
from live_eval.cli._flags import PANELS, table_options, trust_option
from live_eval.cli._help import Command, Option
from live_eval.run.presets import PRESETS

__all__ = ["command"]


def _run(**values: Any) -> None:
    from live_eval.cli._run_command import run_command  # importing it takes 20 times as long as this module

    run_command(**values)


command = Command(
    "run",
    callback=_run,
    params=[
        click.Argument(["targets"], nargs=-1, metavar="[ENDPOINT|RUNFILE]..."),
        *(option for table in PANELS for option in table_options(table)),
        click.Option(
            ["--assert", "asserts"],
            multiple=True,
            metavar="EXPRESSION",
            help="Check a value, as in 'failed < 2%' or 'voice_to_voice.p95 < 1200ms'; repeatable.",
        ),
        Option(
            ["--preset"],
            metavar="NAME",
            help=f"Use the settings of a published benchmark: {' or '.join(PRESETS)}.",
        ),
        *estimate_options(),
        trust_option,
        Option(
            ["--simultaneous"],
            is_flag=True,
            help="Stream each case to several endpoints at once.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the summary or the estimate as JSON."),
        click.Option(["--until-stdin-ends"], is_flag=True, hidden=True),
    ],
    help="""Run conversations with an endpoint and score them.

    Streams recordings to ENDPOINT (see `live-eval endpoints`) at the pace of speech, captures the spoken
    replies with their timing, runs the judges and writes a report. RUNFILE is a TOML file; the brackets after
    a flag contain its key in this file, and flags override it.

    Without --judges, all default judges that can run here are used. Judges that you name must be able to run.

    Examples:

    \b
      live-eval run reference
      live-eval run openai --data PATH/TO/EchoMind --limit 20
      live-eval run my.toml --out recordings/friday --resume

    Exit status: 0 if every turn was captured, 4 if an assertion failed, 3 if some turns or a judge of
    --judges or --preset failed, 2 for wrong usage.""",
)
