"""Define the command line, with one module per command, imported on first use."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click
from click.exceptions import NoArgsIsHelpError

from live_eval.cli._errors import in_words, with_flag
from live_eval.cli._help import CommandGroup, write_commands
from live_eval.cli._screen import without_secrets
from live_eval.errors import DataError, LiveEvalError, RunFileError, StoreError, UsageError

__all__ = ["ASSERTION_FAILED", "COMMANDS", "FAILED", "GROUPS", "INTERRUPTED", "WRONG_USAGE", "cli", "main"]

FAILED = 3
ASSERTION_FAILED = 4
INTERRUPTED = 130
WRONG_USAGE = 2

GROUPS = {
    "Run": {
        "run": "Run conversations with an endpoint and score them.",
        "live": "Talk to an endpoint with a microphone and loudspeakers.",
        "replay": "Replay recorded sessions and compare them with the stored turns.",
    },
    "Measure": {
        "latency": "Measure an endpoint's latency under controlled load.",
        "duplex": "Measure turn-taking: pauses, interruptions, noise.",
        "doctor": "Test whether an endpoint hears the user.",
        "calibrate": "Measure live-eval's own timing error against known times.",
    },
    "Inspect": {
        "show": "Print the summary of a run.",
        "report": "Write a report on runs as HTML, Markdown, CSV or JSON.",
        "studio": "View, compare and start runs, and talk to endpoints, in the browser.",
        "runs": "List runs, clean up after killed ones, and delete runs.",
    },
    "Analyse": {
        "score": "Rescore a run, or score it with other judges.",
        "compare": "Compare runs with the first one, with significance tests.",
        "plan": "Estimate the sample size a comparison needs.",
        "leaderboard": "Compare runs with the paper's published tables.",
        "arena": "Rank runs by pairwise judgements of their replies.",
        "cue-sensitivity": "Test whether replies change when only the voice changes.",
        "audit": "Test how reliable a judge is.",
    },
    "Data": {
        "data": "Inspect data sets, and add other benchmarks.",
        "export": "Export a run's turns to pandas, Hugging Face or inspect_ai.",
        "impair": "List impairments, or serve an impairing proxy.",
    },
    "Set up": {
        "endpoints": "List endpoints, or show one in detail.",
        "endpoint": "Serve the built-in reference endpoint.",
        "judges": "List judges and whether they can run here, or show one.",
        "weights": "Download and list model weights for judges.",
        "plugins": "List plugins, and report broken ones.",
    },
}
"""Commands and their short help, by group, listed here because ``--help`` must not import any command."""

COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""Commands and their short help."""

_WRITE_ERRORS = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE}


class _LazyGroup(CommandGroup):
    """A group that imports a command's module only when the command runs."""

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
        write_commands(formatter, GROUPS)


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
    """Run spoken conversations with realtime speech models, time them, and score the replies.

    `live-eval COMMAND --help` shows the command's flags, with examples. RUN is a run folder; @1 or latest
    selects the newest run in recordings/, @2 the second newest. Durations are written as 15, 15s, 500ms or
    10m.

    Examples:

    \b
      live-eval run reference
      live-eval run openai --data PATH/TO/EchoMind --limit 20
      live-eval show latest
      live-eval studio

    Exit status: 0 success; 1 error on this machine; 2 wrong usage or missing requirements; 3 turns or
    judgements failed; 4 an assertion failed; 130 interrupted.
    """


@without_secrets()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with a status listed in ``--help``."""
    if sys.stdout is None:  # the shell closed the stream (>&-)
        click.echo("error: standard output is closed; redirect it to /dev/null to discard output", err=True)
        sys.exit(WRONG_USAGE)
    # At exit, Python restores its own signal handlers, so Ctrl-C would then replace the exit status.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            status = cli.main(args=arguments, prog_name="live-eval", standalone_mode=False)
        finally:
            sys.stdout.flush()  # flush here, while a failure can still be reported
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(WRONG_USAGE)
    except click.ClickException as error:
        click.echo(f"error: {in_words(error)}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(1)
    except (UsageError, DataError, StoreError) as error:
        # A run file's error names the file's key, with its line.
        message = str(error) if isinstance(error, RunFileError) else with_flag(str(error))
        click.echo(f"error: {message}", err=True)
        sys.exit(WRONG_USAGE)
    except LiveEvalError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        if error.errno != errno.EPIPE:  # the reader has closed the pipe
            click.echo(f"error: cannot write output: {error.strerror}", err=True)
        # At exit, Python flushes the remaining buffer, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(status)
