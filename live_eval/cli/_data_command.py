"""Implement ``live-eval data``: check a data set, and list and add other benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._listing import counts_in_words, output_console, plain_table, print_listing
from live_eval.cli._screen import console
from live_eval.cli._transfers import transfer_bars
from live_eval.data import DataKind, DataOptions, DataReport, DataSet, check, load, locate
from live_eval.data.benchmarks import (
    BENCHMARKS,
    BenchmarkSpec,
    RecordedBenchmark,
    benchmark_named,
    changed_files,
    find_benchmark,
    found_parts,
    read_record,
    record_copy,
)
from live_eval.data.benchmarks.fetching import fetch_benchmark
from live_eval.errors import DataError, UsageError
from live_eval.text.wording import counted, limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rich.console import Console, RenderableType

__all__ = ["add_command", "check_command", "list_command"]

_MOST_LINES = 40
_NOT_ADDED = "EchoMind and your own recordings are not added: pass their folder with --data"
_TEXT = ("", "cues", "types", "kind")
_LISTED = {
    "name": "benchmark",
    "items": "items",
    "megabytes": "MB",
    "licence": "licence",
    "commercial_use": "commercial use",
    "here": "here",
}


def check_command(
    path: str,
    as_json: bool,
    mapping: tuple[str, ...],
    neutral_rule: str,
    audio_root: Path | None,
    max_recording: float,
) -> None:
    """Run ``live-eval data check`` with the values of its flags."""
    options = DataOptions(
        neutral_rule=neutral_rule == "on", fields=_mapping(mapping), audio_root=audio_root, verify=True
    )
    place = locate(path)
    if (placed := find_benchmark(place)) is not None and placed.spec.rated:
        raise UsageError(
            f"{placed.spec.title} contains rated replies instead of recordings for runs: "
            f"live-eval {placed.spec.command(placed.spec.name)} reports those that cannot be used"
        )
    dataset = load(place, options)
    if as_json:
        report = check(dataset, max_s=max_recording)
        _options.print_json(report.as_json())
    else:
        report = _check_with_progress(dataset, max_recording)
        _print(report)
    if not report.ok:
        sys.exit(FAILED)


def list_command(as_json: bool) -> None:
    """Run ``live-eval data list`` with the values of its flags."""
    rows = [_benchmark_row(spec) for spec in BENCHMARKS.values()]
    shown = (
        rows
        if as_json
        else [
            {
                **{key: "unknown" if row[key] is None else row[key] for key in _LISTED},
                "items": _items_in_words(row, row["items"]),
                "megabytes": "unknown" if row["megabytes"] is None else f"{row['megabytes']:,}",
                "here": _presence(row),
            }
            for row in rows
        ]
    )
    print_listing(shown, _LISTED, as_json=as_json)
    for row in rows if not as_json else ():
        parts = [
            f"{name} {_items_in_words(row, part['items'])} ({part['about']})"
            for name, part in row["parts"].items()
        ]
        click.echo(f"\n{row['name']}: {row['title']}, {row['source']}\n  {'; '.join(parts)}")
        if row["problem"] or row["path"]:
            click.echo(f"  {row['problem'] or row['path']}")


def _items_in_words(row: Mapping[str, Any], items: int) -> str:
    return f"{items:,}" if row["items_verified"] else f"{items:,} unverified"


def _presence(row: Mapping[str, Any]) -> str:
    parts = [part["here"] for part in row["parts"].values()]
    if row["problem"] and row["path"]:
        return "damaged"
    if not row["here"]:
        return "no"
    return "yes" if all(parts) else f"{sum(parts)} of {len(parts)} parts"


def _benchmark_row(spec: BenchmarkSpec) -> Mapping[str, Any]:
    recorded: RecordedBenchmark | None = None
    problem: str | None = None
    parts_here: list[str] = []
    try:
        recorded = read_record(spec)
        parts_here = [] if recorded is None else found_parts(spec, recorded)
        if recorded is not None and (changed := changed_files(recorded)):
            problem = (
                f"{recorded.root}: {len(changed)} of {len(recorded.files)} files are missing or changed "
                f"({limited(changed, ', ', 3)}): {recorded.remedy(spec.name)} them"
            )
    except DataError as error:
        problem = str(error)
    return {
        "name": spec.name,
        "title": spec.title,
        "source": spec.source,
        "revision": spec.revision,
        "items": spec.items,
        "items_verified": spec.counted,
        "megabytes": spec.megabytes,
        "licence": spec.licence_of(),
        "commercial_use": _permission(spec),
        "parts": {
            name: {
                "items": part.items,
                "rule": part.rule.value,
                "about": part.about,
                "licence": spec.licence_of(name),
                "commercial_use": _permission(spec, name),
                "here": name in parts_here,
            }
            for name, part in spec.parts.items()
        },
        "here": recorded is not None and problem is None,
        "path": None if recorded is None else str(recorded.root),
        "problem": problem,
    }


def _permission(spec: BenchmarkSpec, part: str = "") -> bool | None:
    """Return whether commercial use is permitted, of all parts or of one; None if unknown."""
    forbidden = spec.forbids_commercial_use(part)
    return None if forbidden is None else not forbidden


def add_command(name: str, path: Path | None, again: bool, noncommercial: bool) -> None:
    """Run ``live-eval data add`` with the values of its flags."""
    try:
        spec, part = benchmark_named(name)
    except UsageError as error:
        known = name.partition("/")[0] in BENCHMARKS
        raise (error if known else UsageError(f"{error}. {_NOT_ADDED}")) from None
    revision = f", revision {spec.revision[:12]}" if spec.revision else ""
    click.echo(f"{spec.title}: {spec.source}{revision}", err=True)
    click.echo(f"  licence: {spec.licence_of(part)}", err=True)
    if spec.forbids_commercial_use(part) and not noncommercial:
        permitted = [] if part else [each for each in spec.parts if not spec.forbids_commercial_use(each)]
        alternative = f", or add a part that permits it, such as {name}/{permitted[0]}" if permitted else ""
        raise UsageError(
            f"{spec.title} {spec.prohibition(part)}: pass --noncommercial to confirm that your use is not "
            f"commercial{alternative}"
        )
    if path is None:
        _download(spec, part, again=again)
    else:
        _record_copy(spec, part, path)
    if spec.unverified:
        click.echo(f"  unverified: {spec.unverified}", err=True)
    check = "" if spec.rated else f"live-eval data check {name}, "
    click.echo(f"next: {check}live-eval {spec.command(name)}", err=True)


def _download(spec: BenchmarkSpec, part: str, *, again: bool) -> None:
    if not spec.repository:
        raise UsageError(_by_hand(spec, part))
    inseparable = spec.metadata or len({spec.place_of(each) for each in spec.parts}) == 1
    if inseparable or not part:
        size = "" if spec.megabytes is None else f", about {spec.megabytes:,} MB"
        click.echo(f"  all {len(spec.parts)} parts{size}", err=True)
    with transfer_bars() as progress:
        record = fetch_benchmark(
            spec,
            spec.selected(part),
            split=part.partition("/")[2],
            again=again,
            progress=progress,
            planned=_announce,
        )
    click.echo(f"{spec.name}: {record.root}")


def _by_hand(spec: BenchmarkSpec, part: str) -> str:
    """Return how to get a benchmark that is not downloaded: what, from where, and into which layout."""
    name = f"{spec.name}/{part}" if part else spec.name
    confirmed = " --noncommercial" if spec.forbids_commercial_use(part) else ""
    places = limited([spec.place_of(each) for each in spec.selected(part)], ", ", 2)
    return (
        f"live-eval does not download {spec.title}, because {spec.undownloaded}: {spec.by_hand}. Then run "
        f"live-eval data add {name} --path FOLDER{confirmed}, where FOLDER contains {places}"
    )


def _announce(place: str, files: int, here: int) -> None:
    what = f"{place}: " if place else ""
    here_already = f", {here} already downloaded" if here else ""
    click.echo(f"  {what}{counted(files, 'file')}{here_already}", err=True)


def _record_copy(spec: BenchmarkSpec, part: str, path: Path) -> None:
    placed = find_benchmark(path)
    if placed is None or placed.spec.name != spec.name:
        first, described = next(iter(spec.parts.items()))
        inner = [child for child in sorted(path.iterdir()) if child.is_dir() and _holds(child, spec)]
        raise DataError(
            f"{path}: expected the files of {spec.title} in their published layout ({spec.source}), such as "
            f"{spec.metadata or described.file or first}, got "
            + (placed.spec.title if placed is not None else "none of them")
            + (f"; pass --path {inner[0]}" if inner else "")
        )
    named = find_benchmark(placed.root / part) if part else placed
    if named is None:
        raise DataError(f"{placed.root}: the part {part} of {spec.title} is missing")
    data = named.read(DataOptions())  # raises if nothing can be read
    for omission in data.omissions:
        click.echo(f"  {omission}", err=True)
    if changed := record_copy(spec, part, placed.root):
        click.echo(f"  changed since it was last added: {limited(changed, ', ')}", err=True)
    click.echo(f"{spec.name}: {placed.root}")


def _holds(folder: Path, spec: BenchmarkSpec) -> bool:
    placed = find_benchmark(folder)
    return placed is not None and placed.spec.name == spec.name


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
    if dataset.kind is not DataKind.BENCHMARK:
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
    dataset = report.dataset
    odd: dict[str, list[str]] = {}
    for file in report.files:
        for note in file.notes:
            odd.setdefault(note, []).append(file.path.name)
    remarks = [f"{len(names)} × {note}: {limited(names, ', ', 3)}" for note, names in odd.items()]
    failed = [f"{file.kind}: {file.message} ({file.role} of {file.case_id})" for file in report.unreadable]
    problems = [f"{case.case_id}: {case.problem}" for case in report.problems]
    unasked = [f"{case.case_id}: {case.problem}" for case in report.question_problems]
    for note, cases in (
        ("no answer key: the question is asked but not scored", report.keyless),
        (
            "no conversation uses the question's recording, so it has no corresponding reply",
            report.apart,
        ),
    ):
        if cases:
            remarks.append(f"{len(cases)} × {note}: {limited([case.case_id for case in cases], ', ', 3)}")
    for title, lines in (
        ("notes", [*dataset.notes, *remarks]),
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
        f"{len(report.problems)} of {len(dataset.cases)} cases have a problem"
    )
    if dataset.questions:
        verdict += f"; {len(report.question_problems)} of {len(dataset.questions)} questions have a problem"
    if unread := sum(map(len, dataset.unread.values())):
        verdict += f"; question files that cannot be read: {unread}"
    verdict += "".join(f"; {difference}" for difference in dataset.differences)
    if dataset.damaged:
        verdict += f"; cannot be read: {limited(list(dataset.damaged), ', ')}"
    console.print(verdict, markup=False, soft_wrap=True)


def _cue_rows(report: DataReport) -> list[tuple[str, ...]]:
    return [
        (coarse, fine, str(sum(names.values())), counts_in_words(names))
        for coarse, fines in report.cues().items()
        for fine, names in fines.items()
    ]


def _question_rows(report: DataReport) -> list[tuple[str, ...]]:
    """Return a row for each task; the paper's question types that are missing count as 0."""
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
