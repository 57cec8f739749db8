"""Define the commands and flags of ``live-eval data``, without importing what data sets need."""

from __future__ import annotations

from pathlib import Path

import click

from live_eval.cli import _options
from live_eval.cli._help import CommandGroup

__all__ = ["command"]


@click.group(cls=CommandGroup)
def command() -> None:
    """Inspect data sets, and add other benchmarks.

    Examples:

    \b
      live-eval data check PATH/TO/EchoMind
      live-eval data add voicebench/openbookqa
    """


@command.command("check")
@click.argument("path")
@_options.json_option
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="FIELD=NAME",
    help="Read FIELD from the data's field NAME; repeatable.",
)
@click.option(
    "--neutral-rule",
    type=click.Choice(["on", "off"]),
    default="on",
    help="Skip neutral variants for the cues male, female, child, adult and elderly, as EchoMind does. "
    "Default: on.",
)
@click.option(
    "--audio-root",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder that audio paths are relative to. Default: depends on the data set's layout.",
)
@click.option(
    "--max-recording",
    type=_options.DurationType(low=0.001),
    default="10m",
    show_default=True,
    help="Maximum length of a recording.",
)
def _check(
    path: str,
    as_json: bool,
    mapping: tuple[str, ...],
    neutral_rule: str,
    audio_root: Path | None,
    max_recording: float,
) -> None:
    """Report the contents of PATH, and its missing and unreadable files.

    PATH is EchoMind's root folder, its data_synthesis or data_human, a manifest (JSONL, CSV, TSV), a folder
    of recordings, a benchmark from `live-eval data list`, or the name sample or sample-dialogues.

    Examples:

    \b
      live-eval data check PATH/TO/EchoMind
      live-eval data check mine.jsonl --map text=script.en

    Exit status: 0 if every file can be read, 3 if not or if a benchmark's files differ from those that were
    added, 2 if PATH is not a data set.
    """
    from live_eval.cli._data_command import check_command

    check_command(path, as_json, mapping, neutral_rule, audio_root, max_recording)


@command.command("list")
@_options.json_option
def _list(as_json: bool) -> None:
    """List the other benchmarks that live-eval reads, with licences, and show which are on this machine.

    Examples:

    \b
      live-eval data list
    """
    from live_eval.cli._data_command import list_command

    list_command(as_json)


@command.command("add")
@click.argument("name", metavar="NAME[/PART]")
@click.option(
    "--path",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=None,
    help="Use an existing copy: the folder is recorded, and nothing is downloaded or copied.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Verify the hashes of downloaded files, and replace those that have changed.",
)
@click.option(
    "--noncommercial",
    is_flag=True,
    help="Confirm that your use is not commercial, if the benchmark's licence requires it.",
)
def _add(name: str, path: Path | None, again: bool, noncommercial: bool) -> None:
    """Make a benchmark available as --data NAME or --data NAME/PART.

    NAME is a name from `live-eval data list`. The files are downloaded at a pinned revision and stay in their
    published layout; nothing is converted. Interrupted downloads resume. HF_ENDPOINT replaces
    https://huggingface.co; a token in HF_TOKEN is sent only there.

    Examples:

    \b
      live-eval data add voicebench/openbookqa
      live-eval data add sd-eval --path FOLDER --noncommercial
    """
    from live_eval.cli._data_command import add_command

    add_command(name, path, again, noncommercial)
