"""The command line: one module per command, loaded when the command is used."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from live_eval.cli._screen import without_secrets
from live_eval.errors import DataError, LiveEvalError, StoreError, UsageError

__all__ = ["ASSERTION_FAILED", "COMMANDS", "FAILED", "INTERRUPTED", "WRONG_USAGE", "cli", "main"]

FAILED = 3
ASSERTION_FAILED = 4
INTERRUPTED = 130
WRONG_USAGE = 2

COMMANDS = {
    "run": "Run conversations with an endpoint and score them.",
    "latency": "Measure an endpoint's latency under controlled load.",
    "duplex": "Measure how an endpoint takes turns: pauses, interruptions, noise.",
    "live": "Talk to an endpoint with a microphone and loudspeakers.",
    "show": "Print the summary of a run.",
    "replay": "Replay recorded sessions and compare them with the stored turns.",
    "report": "Write a report of runs: an HTML page, Markdown, CSV or JSON.",
    "studio": "View runs, listen to them and compare them in the browser.",
    "leaderboard": "Compare runs with the paper's published tables.",
    "compare": "Compare runs with the first one, with significance tests.",
    "plan": "Estimate the sample size a comparison needs.",
    "arena": "Rank runs by pairwise judgements of their replies.",
    "cue-sensitivity": "Test whether replies change when only the voice does.",
    "runs": "List recorded runs, clean up after killed ones, and delete runs.",
    "export": "Write a run's turns as JSON lines, CSV, Parquet, or for Hugging Face or inspect_ai.",
    "score": "Rescore a run, or score it with other judges.",
    "audit": "Test how reliable a judge is.",
    "data": "Inspect data sets.",
    "impair": "List impairments, or check one and print its canonical form.",
    "endpoint": "Serve the built-in reference endpoint.",
    "calibrate": "Measure the harness's own error against known times.",
    "endpoints": "List endpoints, or show one in detail.",
    "judges": "List judges and whether they run here, or show one in detail.",
    "weights": "Download and list model weights for judges.",
    "plugins": "List plugins, and report broken ones.",
}
"""Commands and their short help, in one place so that ``--help`` loads no command."""

_NOT_WRITTEN = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE}


class _LazyGroup(click.Group):
    """Import a command's module only when the command runs."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click itself would exit with 1
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        command.name, command.short_help = cmd_name, COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from live_eval import __version__

        click.echo(f"live-eval {__version__}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def cli() -> None:
    """Run spoken conversations with realtime speech models, time them, and score the replies."""


@without_secrets()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit with 0 on success, 2 for wrong usage, 3 if turns failed, 4 if an assertion does not hold, 130 if
    interrupted, 1 for other errors.
    """
    if sys.stdout is None:  # the shell closed the stream (>&-)
        click.echo("error: standard output is closed; redirect it to /dev/null to discard output", err=True)
        sys.exit(WRONG_USAGE)
    # Python resets its handlers in the last step of its exit; Ctrl-C would then replace the exit status.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            cli.main(args=arguments, prog_name="live-eval", standalone_mode=True)
        finally:
            sys.stdout.flush()  # flush here, since a failure can still be reported
    except (UsageError, DataError, StoreError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(WRONG_USAGE)
    except LiveEvalError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        if error.errno != errno.EPIPE:  # the reader closed the pipe
            click.echo(f"error: cannot write output: {error.strerror}", err=True)
        # Python would fail again at exit when it flushes the remaining buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
