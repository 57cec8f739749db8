"""Implement ``live-eval runs``: list recorded runs, clean up after killed processes, and delete runs."""

from __future__ import annotations

import contextlib
import glob
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._help import CommandGroup
from live_eval.errors import AudioError, LiveEvalError, StoreError, StoreLockedError, UsageError
from live_eval.text.wording import counted

if TYPE_CHECKING:
    from live_eval.campaigns.folders import FoundFolder
    from live_eval.recording.contents import FolderForms
    from live_eval.types import Case

__all__ = ["command"]

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_folders = click.argument("folders", nargs=-1, type=_FOLDER)


@click.group(cls=CommandGroup)
def command() -> None:
    """List recorded runs, clean up after killed ones, and delete runs.

    Examples:

    \b
      live-eval runs list
      live-eval runs gc --dry-run
      live-eval runs delete RUN
    """


@command.command("list")
@_folders
@_options.json_option
def _list(folders: tuple[Path, ...], as_json: bool) -> None:
    """List runs and campaigns.

    FOLDERS are runs, campaigns, or folders of them; recordings/ by default.

    Examples:

    \b
      live-eval runs list
    """
    from live_eval.cli._listing import NONE, output_console, plain_table, print_table

    rows = [_facts(each) for each in _found(folders)]
    if as_json:
        _options.print_json({"folders": rows})
        return
    table = plain_table(
        "run", "state", "endpoint", "data", "turns", "failed", "MB", text=("state", "endpoint", "data")
    )
    for row in rows:
        table.add_row(
            row["path"],
            row["state"],
            row["endpoint"] or NONE,
            row["data"] or NONE,
            NONE if row["turns"] is None else f"{row['turns']} of {row['planned'] or '?'}",
            str(row["failed"] or NONE),
            f"{row['bytes'] / 1e6:.1f}",
        )
    print_table(output_console(), table)
    for row in rows:
        if row["problem"]:
            click.echo(f"unreadable: {row['problem']}", err=True)


@command.command("delete")
@click.argument("runs", nargs=-1, required=True, type=_options.DAMAGED_RUN_OR_CAMPAIGN)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def _delete(runs: tuple[Path, ...], yes: bool) -> None:
    """Delete runs and campaigns: turns, audio, scores, judges' answers, cassettes and reports.

    Also deletes the cached speech boundaries of recordings that no other run in the same folder uses.
    Damaged runs can be deleted too. Files that live-eval did not write are kept. A run in progress cannot be
    deleted.

    Examples:

    \b
      live-eval runs delete @1 @2
    """
    chosen = [each for run in runs for each in [_one(run)]]
    for each in chosen:
        facts = _facts(each)
        turns = "" if facts["turns"] is None else f", {counted(facts['turns'], 'turn')}"
        click.echo(f"{each.path}: {each.kind}{turns}, {facts['bytes'] / 1e6:.1f} MB")
    if not yes:
        click.confirm(f"Delete {counted(len(chosen), 'folder')} permanently?", abort=True)
    boundaries = _boundaries_of(chosen)
    for each in chosen:
        if _deleted(each):
            others = ", ".join(sorted(str(path.relative_to(each.path)) for path in _leaves(each.path))[:5])
            click.echo(
                f"note: {each.path} is kept because of files that live-eval did not write: {others}", err=True
            )
        for page in sorted(each.path.parent.glob(f"*{glob.escape(each.path.name)}*.html")):
            click.echo(f"note: {_shown(page)} may contain its audio: delete it too", err=True)
    for path in boundaries:
        path.unlink(missing_ok=True)


@command.command("gc")
@_folders
@click.option("--dry-run", is_flag=True, help="List what would be removed, without removing it.")
@_options.json_option
def _gc(folders: tuple[Path, ...], dry_run: bool, as_json: bool) -> None:
    """Remove leftovers of killed processes: audio without a turn, temporary files, stale locks.

    Runs in progress are skipped. FOLDERS have the same meaning as for `runs list`.

    Examples:

    \b
      live-eval runs gc --dry-run

    Exit status: 0; 3 if a run cannot be read or cleaned up.
    """
    rows = [_collected(each.path, dry_run) for each in _found(folders) if each.kind == "run"]
    if as_json:
        _options.print_json({"dry_run": dry_run, "folders": rows})
    else:
        for row in rows:
            for name in row["removed"]:
                click.echo(f"{'would remove' if dry_run else 'removed'} {Path(row['path']) / name}")
            if row["being_written"] or row["problem"]:
                why = row["problem"] or f"{row['path']} is being written"
                click.echo(f"skipped: {why}", err=True)
        removed_files = counted(sum(len(row["removed"]) for row in rows), "file")
        click.echo(f"{counted(len(rows), 'run')}: {removed_files} {'to remove' if dry_run else 'removed'}")
    sys.exit(FAILED if any(row["problem"] for row in rows) else 0)


def _collected(folder: Path, dry_run: bool) -> dict[str, Any]:
    """Clean up a run or list its leftovers; return its row for the output."""
    from live_eval.recording.housekeeping import is_busy, leftovers, remove_leftovers

    others, _ = _written_by_others()
    row: dict[str, Any] = {"path": str(folder), "removed": [], "being_written": False, "problem": None}
    try:
        removed = leftovers(folder, others) if dry_run else remove_leftovers(folder, others)
        row["removed"] = [str(path.relative_to(folder)) for path in removed]
        row["being_written"] = dry_run and is_busy(folder)
    except StoreLockedError:
        row["being_written"] = True
    except StoreError as error:
        row["problem"] = str(error)
    return row


def _found(folders: Sequence[Path]) -> list[FoundFolder]:
    """Return the runs and campaigns in folders, by default in recordings/."""
    from live_eval.campaigns.folders import find_folders

    return find_folders(folders or [_options.RECORDINGS])


def _one(folder: Path) -> FoundFolder:
    """Return the run or campaign in this folder, excluding nested ones."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link; to delete its target, pass {folder.resolve()}")
    return next(each for each in _found([folder]) if each.path == folder.resolve())


def _boundaries_of(chosen: Sequence[FoundFolder]) -> list[Path]:
    """Return the cached speech boundaries of recordings that only these folders use."""
    from live_eval.speech.boundaries import BoundaryCache

    paths = {each.path for each in chosen}
    others = [
        each
        for each in _found(list({path.parent for path in paths}))
        # Skip campaigns, since their runs are found separately.
        if each.kind == "run" and each.path not in paths and each.campaign not in paths
    ]
    shared = {case.audio_path for case in _cases(others)}
    cache = BoundaryCache()
    entries: list[Path] = []
    for case in {case.audio_path: case for case in _cases(chosen)}.values():
        if case.audio_path not in shared:
            with contextlib.suppress(AudioError):  # the recording is gone
                entries += cache.entries(case)
    return entries


def _cases(folders: Iterable[FoundFolder]) -> Iterator[Case]:
    """Yield the cases of runs, including campaign runs; skip unreadable runs."""
    from live_eval.recording import RUN_FILE, RunReader

    for each in folders:
        for file in [*each.path.glob(RUN_FILE), *each.path.glob(f"*/{RUN_FILE}")]:
            if file.parent.is_symlink():
                continue
            with contextlib.suppress(StoreError), RunReader.open(file.parent) as run:
                for turn in run.turns():
                    yield turn.case


def _facts(each: FoundFolder) -> dict[str, Any]:
    from live_eval.recording import RunReader, is_being_written, part_of, text_of

    facts: dict[str, Any] = {
        "path": _shown(each.path),
        "kind": each.kind,
        "state": each.kind,
        "endpoint": None,
        "data": None,
        "started_at": None,
        "turns": None,
        "planned": None,
        "failed": None,
        "bytes": sum(path.lstat().st_size for path in _files(each.path)),
        "problem": None,
    }
    if each.kind != "run":
        return facts
    try:
        with RunReader.open(each.path) as run:
            died = run.state == "running" and not is_being_written(each.path)
            facts |= {
                "state": "died" if died else run.state,
                "endpoint": text_of(part_of(run.manifest, "endpoint"), "name"),
                "data": text_of(part_of(run.manifest, "data"), "name"),
                "started_at": run.started_at,
                "turns": len(run),
                "planned": run.manifest.get("turns"),
                "failed": run.failed_turns,
            }
    except LiveEvalError as error:
        facts |= {"state": "unreadable", "problem": str(error)}
    return facts


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.is_file():
            yield path


def _leaves(folder: Path) -> Iterator[Path]:
    """Yield everything in a folder except non-empty folders."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
            yield path


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _deleted(each: FoundFolder) -> list[Path]:
    """Delete a folder; return the files that were kept."""
    from live_eval.campaigns.folders import delete_campaign
    from live_eval.recording.housekeeping import delete_run

    others, forms = _written_by_others()
    return delete_run(each.path, others) if each.kind == "run" else delete_campaign(each.path, others, forms)


def _written_by_others() -> tuple[tuple[str, ...], Mapping[str, FolderForms]]:
    """Return the file names and the folder patterns that other packages write to run folders."""
    from live_eval.reference.server.process import LOG_NAME
    from live_eval.report.file_names import CAMPAIGN_PAGE, DUPLEX_PAGE, RUN_PAGE, SOUND_FORMS, SOUNDS

    return (RUN_PAGE, CAMPAIGN_PAGE, DUPLEX_PAGE, LOG_NAME), {SOUNDS: SOUND_FORMS}
