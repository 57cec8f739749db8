"""Open the run that ``live-eval run`` records into: a new one, or one to resume with the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from live_eval.errors import StoreError, UsageError
from live_eval.recording import RUN_FILE, RunReader, RunWriter, part_of
from live_eval.redaction import SECRETS, public_settings
from live_eval.run.plan import Plan
from live_eval.run.runner import RunOutcome
from live_eval.text.wording import changed_in_words, counted, limited

__all__ = ["check_same", "finished_outcome", "manifest_to_retry", "open_writer"]

_MAY_CHANGE = {
    "endpoint": {"key_from", "key_variable"},
    "data": {"max_recording"},
    "turns": {"concurrency", "processes", "retries", "patience", "connect_timeout"},
}
"""Settings that do not affect turns and may therefore change when a run is resumed."""


def manifest_to_retry(out: Any) -> Mapping[str, Any]:
    """Return the manifest of the run whose failed turns will be rerun."""
    if out is None:
        raise UsageError("--retry-failed requires --out, the run whose failed turns to rerun")
    with RunReader.open(Path(out)) as run:
        return run.manifest


def finished_outcome(plan: Plan) -> RunOutcome | None:
    """Return the outcome of the run to resume if every turn has been recorded, otherwise None."""
    output = plan.config.output
    if not output.resume or output.retry_failed or output.out is None or not (output.out / RUN_FILE).exists():
        return None
    with RunReader.open(output.out) as run:
        if not run.ended:
            return None
        check_same(run.manifest, plan.manifest())
        if not all(job.turn_id in run for job in plan.jobs):
            return None
        return RunOutcome(len(run) - run.failed_turns, run.failed_turns, interrupted=False)


def open_writer(plan: Plan, out: Path) -> RunWriter:
    """Create the run, or resume it if its settings are unchanged."""
    output = plan.config.output
    if not (output.resume or output.retry_failed):
        return RunWriter.create(out, plan.manifest())
    if output.out is None:
        raise UsageError("--resume requires --out, the run to continue (latest: the newest)")
    writer = RunWriter.resume(out, ended=True)  # an ended run may be incomplete
    try:
        check_same(writer.manifest, plan.manifest())
        _note_lost(writer)
    except BaseException:
        writer.close()
        raise
    return writer


def _note_lost(writer: RunWriter) -> None:
    again = writer.to_repeat()
    if again:
        click.echo(
            f"note: the audio of {counted(len(again), 'captured turn')} is missing; rerunning: "
            f"{limited(again, ', ')}",
            err=True,
        )


def check_same(before: Mapping[str, Any], now: dict[str, Any]) -> None:
    """Raise a `StoreError` if the data, the endpoint or the turn settings of the run have changed."""
    now = SECRETS.values(now)  # like the stored manifest
    config, config_now = part_of(before, "config"), now["config"]
    # Compare redacted URLs and settings: a key may have changed.
    config = {**config, "endpoint": public_settings(part_of(config, "endpoint"))}
    parts = [(name, part_of(before, name), now[name]) for name in ("endpoint", "data")]
    parts += [
        (name, part_of(config, name), config_now[name])
        for name in ("endpoint", "data", "task", "turns", "impair")
    ]
    for part, then, wanted in parts:
        for key, value in wanted.items():
            if key not in _MAY_CHANGE.get(part, ()) and then.get(key) != value:
                change = changed_in_words(then.get(key), value)
                raise StoreError(f"cannot resume this run: its {part}.{key} {change}")
