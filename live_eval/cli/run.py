"""``live-eval run``: play a data set to an endpoint and score the replies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import live_eval.report
from live_eval.cli import FAILED, INTERRUPTED
from live_eval.cli._flags import TABLES, overlay, table_options
from live_eval.cli._options import new_folder
from live_eval.cli._progress import RunProgress, ScoringProgress
from live_eval.cli.show import print_summary
from live_eval.errors import StoreError, UsageError
from live_eval.impair import parse
from live_eval.recording import RunReader, RunWriter, part_of
from live_eval.redaction import public_settings
from live_eval.registry import client, judge
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import RunConfig, located, read_run_file, validate
from live_eval.run.runner import RunOutcome, play
from live_eval.run.stop_signals import StopSignals
from live_eval.scoring.judge_runner import check_options, judge_options
from live_eval.scoring.runner import score_run
from live_eval.session.event_loop import run as run_loop
from live_eval.text.wording import counted
from live_eval.types import Task

__all__ = ["command"]


def _run(runfile: Path | None, **flags: Any) -> None:
    stop = click.get_current_context().with_resource(StopSignals())
    values = read_run_file(runfile) if runfile is not None else {}
    if runfile is not None:
        validate(values, runfile)  # before flags change the values: errors name lines of the file
    config = validate(overlay(values, flags))
    with located("endpoint.name", None if flags["endpoint__name"] else runfile):
        client(config.endpoint.name)
    with located("judges.names", None if flags["judges__names"] else runfile):
        specs = [judge(name) for name in config.judges.names]  # unknown judges are refused before the run
    with located("judges.options", None if flags["judges__options"] else runfile):
        check_options(specs, judge_options(config.judges))
    with located("impair.specs", None if flags["impair__specs"] else runfile):
        parse(config.impair.specs)
    out = config.output.out or new_folder(config.endpoint.name)
    plan = make_plan(config)
    go_on = f"rerun with --out {out} --resume"
    with _begun(plan, config, out) as writer:
        try:
            outcome = _play(plan, writer, out, stop)
        except StoreError as error:
            raise StoreError(f"{error}\nThe turns recorded before are kept. To continue, {go_on}") from error
        except KeyboardInterrupt:  # the second signal
            outcome = RunOutcome(captured=0, failed=0, interrupted=True)
    if outcome.interrupted:
        click.echo(f"Interrupted. To continue, {go_on}", err=True)
        sys.exit(INTERRUPTED)
    try:
        _score(config, out)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. All turns are recorded; to score them: live-eval score {out}", err=True)
        sys.exit(INTERRUPTED)
    with RunReader.open(out) as run:
        print_summary(run)
    click.echo(f"run: {out}")
    if config.output.report:
        page = out / "report.html"
        live_eval.report.write_report([out], page)
        click.echo(f"report to open: {page}")
    sys.exit(FAILED if outcome.failed else 0)


def _begun(plan: Plan, config: RunConfig, out: Path) -> RunWriter:
    """Create the run, or resume it if its settings are the same."""
    if not config.output.resume:
        return RunWriter.create(out, plan.manifest())
    if config.output.out is None:
        raise UsageError("--resume needs --out: the run to continue")
    writer = RunWriter.resume(out)
    try:
        _check_same(writer.manifest, plan.manifest())
        _note_lost(writer)
    except BaseException:
        writer.close()
        raise
    return writer


def _note_lost(writer: RunWriter) -> None:
    """Print which turns are played again because their audio is missing."""
    again = writer.to_play_again()
    if again:
        turns = f"{', '.join(again[:_NAMED])}{', …' if len(again) > _NAMED else ''}"
        click.echo(
            f"note: the audio of {counted(len(again), 'captured turn')} is missing; playing again: {turns}",
            err=True,
        )


def _play(plan: Plan, writer: RunWriter, out: Path, stop: StopSignals) -> RunOutcome:
    with RunProgress() as progress:
        for note in (*plan.notes, *_on_prompt(plan)):
            click.echo(f"note: {note}", err=True)
        with stop.gently():
            outcome = run_loop(play(plan, writer, out, progress, stop=stop))
            writer.end(finished=not outcome.interrupted)
    return outcome


def _on_prompt(plan: Plan) -> Iterator[str]:
    """Yield a note if no turn of the run uses the system prompt."""
    if plan.prompt.text and all(job.case.task is not Task.CONVERSATION for job in plan.jobs):
        tasks = ", ".join(dict.fromkeys(job.case.task.value for job in plan.jobs))
        yield f"the prompt {plan.prompt.name} is only used in conversations, not for the task {tasks}"


def _score(config: RunConfig, out: Path) -> None:
    if not config.judges.names:
        return
    with ScoringProgress() as progress:
        options = judge_options(config.judges)
        summary = score_run(out, config.judges.names, options=options, progress=progress)
    for line in summary.judges:
        if line.reason is not None:
            click.echo(f"{line.name} could not run: {line.reason}", err=True)


_NAMED = 5
_MAY_CHANGE = {
    "data": {"max_recording"},
    "turns": {"concurrency", "processes", "retries", "patience", "connect_timeout"},
}
"""Settings that may change when a run is resumed, because they affect no turn."""


def _check_same(before: Mapping[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume a run with different data, another endpoint or other turn settings."""
    config, today = part_of(before, "config"), now["config"]
    # Compare redacted URLs and settings: a key may have changed.
    config = {**config, "endpoint": public_settings(part_of(config, "endpoint"))}
    parts = [(name, part_of(before, name), now[name]) for name in ("endpoint", "data")]
    parts += [
        (name, part_of(config, name), today[name]) for name in ("endpoint", "data", "task", "turns", "impair")
    ]
    for part, then, wanted in parts:
        for key, value in wanted.items():
            if key not in _MAY_CHANGE.get(part, ()) and then.get(key) != value:
                raise StoreError(
                    f"cannot resume this run: its {part}.{key} was {then.get(key)!r}, but is now {value!r}"
                )


command = click.Command(
    "run",
    callback=_run,
    params=[
        click.Argument(["runfile"], required=False, type=click.Path(path_type=Path, dir_okay=False)),
        *(option for table in TABLES for option in table_options(table)),
    ],
    help="""Hold conversations with an endpoint and score them.

    Plays the recordings of a data set to an endpoint at the pace of speech, captures the spoken replies
    with their timing, runs the judges and writes a report. RUNFILE is a TOML file; the keys it may have
    are shown in brackets below, and flags override it.

    Exit status: 0 if every turn was captured, 3 if some failed, 2 for wrong usage.""",
)
