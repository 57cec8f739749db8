"""Implement ``live-eval audit``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._flags import judge_flags
from live_eval.cli._help import Command
from live_eval.cli._listing import formatted, print_details, print_listing
from live_eval.errors import UsageError

__all__ = ["command"]

_OF_STORED_SCORES = {"agreement", "against"}
"""Parts that do not call the judge."""

_LABELS = {
    "repeats": "repeats",
    "sees": "sees",
    "does_not_see": "does not see",
    "order": "order",
    "labels": "human labels",
    "other_judge": "other judge",
}
_DEGRADATIONS = {
    "title": "degradation",
    "output": "number",
    "change": "change (95 % interval)",
    "worse": "worse",
    "verdict": "the judge",
}
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(cls=Command)
@click.argument("judge")
@click.argument("run", type=_options.RUN, required=False)
@click.option(
    "--repeats", type=click.IntRange(2, 100), default=3, show_default=True, help="Judgements per turn."
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=30,
    show_default=True,
    help="Maximum number of turns to use, spread evenly over scripts (with --data, drawn at random); "
    "0 for all.",
)
@click.option("--labels", type=_FILE, metavar="FILE", help="CSV file of human scores: turn_id, score, …")
@click.option(
    "--against", metavar="JUDGE", help="Another judge to compare with; it must have scored the run."
)
@click.option(
    "--against-run",
    type=_options.RUN,
    metavar="RUN",
    help="For pairwise judges: compare with this run of the same cases instead of the reference replies.",
)
@click.option(
    "--data",
    metavar="NAME",
    help="Instead of a run, use published replies with human ratings: vstyle (data add vstyle --path).",
)
@click.option(
    "--parts",
    metavar="A,B,…",
    help="Run only these parts: consistency, order, sensitivity, agreement, against. Default: all that "
    "apply.",
)
@_options.seed_option
@click.option(
    "--again", is_flag=True, help="Repeat model calls instead of reusing results from earlier audits."
)
@_options.json_option
@judge_flags(names=False)
def command(
    judge: str,
    run: Path | None,
    data: str | None,
    parts: str | None,
    repeats: int,
    limit: int,
    seed: int,
    labels: Path | None,
    against: str | None,
    against_run: Path | None,
    again: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Test how reliable JUDGE is on the turns of the run in folder RUN.

    Test whether repeated judgements are equal (consistency), whether the order of the replies affects a
    pairwise judge (order), whether scores respond to known degradations (sensitivity), and whether they agree
    with people (agreement, with --labels) and with another judge (against, with --against). The result is
    stored with the scores and shown in reports. With --data, only agreement with people is measured, and the
    result is only printed.

    Examples:

    \b
      live-eval audit dnsmos latest
      live-eval audit rubric latest --labels people.csv --against ves

    Exit status: 0; 3 if the judge failed on a turn; 2 if it cannot run here, or for wrong usage.
    """
    from live_eval import registry
    from live_eval.analysis.audit.auditor import AuditPlan, audit_run
    from live_eval.analysis.licences import licences_of
    from live_eval.analysis.summary.audits import audit_in_words
    from live_eval.cli._progress import Bars
    from live_eval.cli._stored_settings import judges_table, print_judges_keys
    from live_eval.recording import RunReader, StoredAudit
    from live_eval.scoring.judge_runner import check_named, judge_options

    plan = AuditPlan(
        parts=tuple(part.strip() for part in parts.split(",") if part.strip()) if parts else None,
        repeats=repeats,
        limit=limit,
        seed=seed,
        again=again,
        labels=labels,
        against=against,
        against_run=against_run,
    )
    if data is not None:
        if run is not None or labels is not None or against is not None or against_run is not None or parts:
            raise UsageError("--data replaces RUN, --labels, --against, --against-run and --parts")
        _audit_published(judge, data, limit, seed, flags, as_json=as_json)
        return
    if run is None:
        raise UsageError("expected a RUN, or --data NAME")
    options = judge_options(judges_table(run, flags, judge))
    if plan.parts is None or not set(plan.parts) <= _OF_STORED_SCORES:
        check_named([registry.judge(judge)], options)
    print_judges_keys([judge], options)
    with Bars() as progress:
        report = audit_run(run, judge, plan, options=options, progress=progress)
    words = audit_in_words(StoredAudit(report["judge"], report["version"], 0, report))
    with RunReader.open(run) as reader:
        licences = licences_of([reader.manifest])
    if as_json:
        _options.print_json({**report, "licences": licences})
    else:
        click.echo(f"{words.judge}, version {words.version}")
        print_details({name: getattr(words, name) for name in _LABELS}, _LABELS)
        _print_parts(report)
        for licence in licences:
            click.echo(licence)
    if words.n_failed:
        sys.exit(FAILED)


def _audit_published(
    judge: str, data: str, limit: int, seed: int, flags: Mapping[str, Any], *, as_json: bool
) -> None:
    from live_eval import registry
    from live_eval.analysis.audit.rated import audit_ratings, published_agreement
    from live_eval.cli._stored_settings import judges_table, print_judges_keys
    from live_eval.data.benchmarks import BENCHMARKS, benchmark_named, benchmarks_folder, read_record
    from live_eval.data.benchmarks.vstyle import rated_replies
    from live_eval.scoring.judge_runner import check_named, judge_options

    rated = [name for name, each in BENCHMARKS.items() if each.rated]
    if data.partition("/")[0] not in rated:
        raise UsageError(f"--data {data!r}: expected replies with human ratings: {', '.join(rated)}")
    spec, language = benchmark_named(data)
    recorded = read_record(spec)
    if recorded is None:
        raise UsageError(f"{spec.title} is not on this machine: live-eval data add {spec.name} --path FOLDER")
    licence = spec.licence_note(language)
    damaged: dict[str, str] = {}
    replies = rated_replies(recorded.root, language, damaged)
    for reason in damaged.values():
        click.echo(f"left out: {reason}", err=True)
    judges, options = [registry.judge(judge)], judge_options(judges_table(None, flags, judge))
    try:
        check_named(judges, options)
    except UsageError as error:
        if not as_json:
            _print_publisher(published_agreement(replies, seed=seed))
            click.echo(licence)
        raise UsageError(
            f"{error}\nwithout {judge}, only the publisher's judge can be compared with people; a judge that "
            "uses a language model also accepts your own server (--llm-base-url URL), and local judges need "
            "no key (live-eval judges)"
        ) from None
    print_judges_keys([judge], options)
    folder = benchmarks_folder() / spec.name
    report = audit_ratings(judge, replies, folder, options=options, limit=limit, seed=seed)
    if as_json:
        _options.print_json({**report, "licences": [licence]})
    else:
        _print_published(report, data)
        click.echo(licence)
    if report["n_failed"]:
        sys.exit(FAILED)


def _print_published(report: Mapping[str, Any], data: str) -> None:
    from live_eval.analysis.summary.audits import audit_in_words
    from live_eval.recording import StoredAudit

    words = audit_in_words(StoredAudit(report["judge"], report["version"], 0, report))
    click.echo(f"{words.judge}, version {words.version}: {data}, {report['asked']} replies")
    print_details({"labels": words.labels}, {"labels": "human labels"})
    _print_publisher(report["published_judge"])
    for reason, count in report["skipped"].items():
        click.echo(f"{count} skipped: {reason}")
    for reason, count in report["reasons"].items():
        click.echo(f"{count} judgements missing: {reason}")


def _print_publisher(theirs: Mapping[str, Any]) -> None:
    found = theirs["spearman"]
    print_details(
        {"theirs": formatted(found["value"], found["interval"], digits=2)},
        {"theirs": f"the publisher's judge, Spearman, n {theirs['n']}"},
    )


def _print_parts(report: Mapping[str, Any]) -> None:
    degradations = report.get("sensitivity", {}).get("degradations", {})
    rows = list(_degradation_rows(degradations, report["judge"]))
    if rows:
        click.echo()
        print_listing(rows, _DEGRADATIONS, as_json=False)
    for part in ("consistency", "order", "sensitivity"):
        about = report.get(part)
        if about is None:
            continue
        turns = about["turns"]
        click.echo(f"{part}: {turns['asked']} of {turns['total']} turns, evenly by script")
        for reason, count in turns["skipped"].items():
            click.echo(f"{part}: {count} excluded: {reason}")
        for one in (about, *(degradations.values() if part == "sensitivity" else ())):
            for reason, count in one.get("reasons", {}).items():
                click.echo(f"{part}: {count} judgements missing: {reason}")
    for output, one in report.get("consistency", {}).get("outputs", {}).items():
        if one["worst"] is not None and one["identical"] < 1:
            values = ", ".join(f"{value:.4g}" for value in one["worst"]["values"])
            click.echo(f"{output}: largest spread on {one['worst']['turn_id']}: {values}")
    labels = report.get("agreement")
    if labels is not None:
        click.echo(
            f"labels: {labels['rows']} rows, {labels['n_unknown']} for turns missing from the run, "
            f"{labels['n_other']} for other scores"
        )


def _degradation_rows(degradations: Mapping[str, Any], judge: str) -> Iterator[dict[str, Any]]:
    for one in degradations.values():
        for output, seen in one["outputs"].items():
            found = seen["difference"]
            yield {
                "title": one["title"],
                "output": output.removeprefix(f"{judge}."),
                "change": _change(found),
                "worse": None if seen["worse"] is None else f"{100 * seen['worse']:.0f} % of {seen['n']}",
                "verdict": seen["verdict"],
            }


def _change(found: Mapping[str, Any]) -> str | None:
    if found["value"] is None:
        return None
    reason = f" ({found['reason']})" if found["interval"] is None else ""
    return formatted(found["value"], found["interval"], digits=2, signed=True) + reason
