"""``live-eval data``: inspect a data set and check its files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.audio import MAX_RECORDING_S
from live_eval.cli import FAILED, _options
from live_eval.cli._help import CommandGroup
from live_eval.cli._listing import counts_in_words, output_console, plain_table
from live_eval.cli._screen import console
from live_eval.data import DataOptions, DataReport, DataSet, check, load, locate
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["command"]

_MOST_LINES = 40
_TEXT = ("", "cues", "types", "kind")


@click.group(cls=CommandGroup)
def command() -> None:
    """Inspect data sets."""


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
    help="Folder that audio paths are relative to. Default: by the data set's layout.",
)
@click.option(
    "--max-recording",
    type=_options.DurationType(low=0.001),
    default=MAX_RECORDING_S,
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
    """Report the contents of PATH, missing files, and files that cannot be read.

    PATH is EchoMind's root, its data_synthesis or data_human, a manifest (JSONL, CSV, TSV), a folder of
    recordings, or one of the words sample and sample-dialogues.

    Exit status: 0 if every file can be read, 3 if not, 2 if PATH is not a data set.
    """
    options = DataOptions(neutral_rule=neutral_rule == "on", fields=_mapping(mapping), audio_root=audio_root)
    dataset = load(locate(path), options)
    if as_json:
        report = check(dataset, max_s=max_recording)
        _options.print_json(report.as_json())
    else:
        report = _check_with_progress(dataset, max_recording)
        _print(report)
    if not report.ok:
        sys.exit(FAILED)


def _mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, name = pair.partition("=")
        if not (field.strip() and equals and name.strip()):
            raise UsageError(f"--map: expected FIELD=NAME, got {pair!r}")
        mapping[field.strip()] = name.strip()
    return mapping


def _check_with_progress(dataset: DataSet, max_s: float) -> DataReport:
    from rich.progress import Progress

    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        return check(
            dataset,
            max_s=max_s,
            on_file=lambda done, total: progress.update(task, completed=done, total=total),
        )


def _print(report: DataReport) -> None:
    console = output_console()
    dataset = report.dataset
    console.print(f"{dataset.name}: {dataset.kind}, {dataset.root}", markup=False)
    console.print(f"{report.scripts} scripts, {len(dataset.cases)} cases", markup=False)
    for title, counts in (
        ("variants", report.counts("variant")),
        ("sources", report.counts("source")),
        ("topics", report.counts("topic")),
    ):
        if counts:
            console.print(f"{title}: {counts_in_words(counts)}", markup=False)
    console.print()
    console.print(_table(("dimension", "", "cases", "cues"), _cue_rows(report)))
    if report.question_types():
        console.print()
        console.print(_table(("questions", "number", "types"), _question_rows(report)))
    if report.published:
        console.print()
        rows = [(count.what, str(count.expected), str(count.found)) for count in report.published]
        console.print(_table(("EchoMind publishes", "expected", "found"), rows))
    console.print()
    console.print(_table(("files", "kind", "rate", "channels", "number", "seconds"), _file_rows(report)))
    _print_details(report, console)


def _print_details(report: DataReport, console: Console) -> None:
    """Print notes, then problems, then the verdict."""
    odd: dict[str, list[str]] = {}
    for file in report.files:
        for note in file.notes:
            odd.setdefault(note, []).append(file.path.name)
    remarks = [f"{len(names)} × {note}: {_some(names)}" for note, names in odd.items()]
    failed = [f"{file.kind}: {file.message} ({file.role} of {file.case_id})" for file in report.unreadable]
    problems = [f"{case.case_id}: {case.problem}" for case in report.problems]
    unasked = [f"{case.case_id}: {case.problem}" for case in report.question_problems]
    for note, cases in (
        ("no answer key: asked, but not scored", report.keyless),
        (
            "the question's recording is not used in any conversation, so it cannot be related to a reply",
            report.apart,
        ),
    ):
        if cases:
            remarks.append(f"{len(cases)} × {note}: {_some([case.case_id for case in cases])}")
    for title, lines in (
        ("notes", [*report.dataset.notes, *remarks]),
        ("cases with a problem", problems),
        ("questions with a problem", unasked),
        ("files that cannot be used", failed),
    ):
        if lines:
            console.print(f"\n{title}:", markup=False)
        for line in lines[:_MOST_LINES]:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        if len(lines) > _MOST_LINES:
            console.print(f"  … and {len(lines) - _MOST_LINES} more; --json lists all", markup=False)
    console.print()
    if report.ok:
        console.print(f"all {len(report.files)} files can be read", markup=False)
        return
    failures = f" ({counts_in_words(report.failures)})" if report.failures else ""
    verdict = (
        f"{len(report.unreadable)} of {len(report.files)} files cannot be used{failures}; "
        f"{len(report.problems)} of {len(report.dataset.cases)} cases have a problem"
    )
    if report.dataset.questions:
        verdict += (
            f"; {len(report.question_problems)} of {len(report.dataset.questions)} questions have a problem"
        )
    if unread := sum(map(len, report.dataset.unread.values())):
        verdict += f"; question files that cannot be read: {unread}"
    console.print(verdict, markup=False, soft_wrap=True)


def _cue_rows(report: DataReport) -> list[tuple[str, ...]]:
    return [
        (coarse, fine, str(sum(names.values())), counts_in_words(names))
        for coarse, fines in report.cues().items()
        for fine, names in fines.items()
    ]


def _question_rows(report: DataReport) -> list[tuple[str, ...]]:
    """Return a row for each task; question types of the paper that are missing count 0."""
    return [
        (task, str(sum(kinds.values())), counts_in_words(kinds))
        for task, kinds in report.question_types().items()
    ]


def _file_rows(report: DataReport) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, int, int], list[int]] = {}
    for file in report.files:
        if file.kind is None:
            assert file.rate_hz is not None
            assert file.channels is not None
            assert file.duration_ns is not None
            group = (file.role, f"{file.format} {file.subtype}", file.rate_hz, file.channels)
            groups.setdefault(group, []).append(file.duration_ns)
    return [
        (role, kind, f"{rate_hz} Hz", str(channels), str(len(lengths)), f"{sum(lengths) / 1e9:.1f}")
        for (role, kind, rate_hz, channels), lengths in groups.items()
    ]


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> RenderableType:
    table = plain_table(*headings, text=_TEXT)
    for row in rows:
        table.add_row(*row)
    return table


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
