"""Implement ``live-eval calibrate``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._help import Command, Option
from live_eval.cli._listing import output_console, plain_table, print_table
from live_eval.errors import DataError
from live_eval.text.wording import stamped_by

__all__ = ["command"]


@click.command(cls=Command)
@click.option(
    "--transport",
    type=click.Choice(["ws", "webrtc"]),
    default="ws",
    show_default=True,
    help="Transport to calibrate.",
)
@click.option(
    "--endpoint", help="Calibrate this client instead, such as gemini-live, moshi or pipecat-webrtc."
)
@click.option(
    "--concurrency",
    "sessions",
    cls=Option,
    aliases=("--sessions",),
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of concurrent sessions.",
)
@click.option(
    "--turns", type=click.IntRange(1), default=200, show_default=True, help="Total number of turns."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the delays.")
@click.option("--noise", is_flag=True, help="Keep all cores busy during the calibration.")
@click.option(
    "--processes",
    type=click.IntRange(0, 64),
    help="Number of processes that run the sessions; 0 for the main process. Default: as in a run.",
)
@_options.json_option
def command(
    transport: str,
    endpoint: str | None,
    sessions: int,
    turns: int,
    seed: int,
    noise: bool,
    processes: int | None,
    as_json: bool,
) -> None:
    """Measure live-eval's own timing error against known times.

    Runs turns against the reference endpoint in a separate process. Its delay and lead silence vary from turn
    to turn, and the measured latencies are compared with the times that it logged. An error is the measured
    minus the true value; bias is the mean error, and p50 and p99 are those of absolute errors. Continuous
    media (a bot over WebRTC, full duplex) has no first byte to compare.

    Also prints how late a bare timer loop runs before and after the turns (the lower bound on this machine),
    and the delay from sending reply chunks to their arrival timestamps.

    The result is stored if there are at least 50 turns, none failed, and --endpoint is omitted or names the
    transport's default client. Later runs on this machine report the stored error and its date, for the same
    transport and number of processes at the nearest load.

    Examples:

    \b
      live-eval calibrate --concurrency 16
      live-eval calibrate --transport webrtc

    Exit status: 0 if every turn was compared, 3 if some failed.
    """
    from live_eval.calibrate import CalibrationPlan, calibrate, client_for
    from live_eval.recording.calibrations import keep
    from live_eval.registry import client
    from live_eval.run.spread import default_processes, overload
    from live_eval.session.event_loop import run

    endpoint = endpoint or client_for(transport)
    kind = client(endpoint).transport_kind
    if too_many := overload(kind, sessions):
        click.echo(f"note: {too_many.partition(';')[0]}", err=True)
    plan = CalibrationPlan(
        endpoint=endpoint,
        sessions=sessions,
        turns=turns,
        seed=seed,
        noise=noise,
        processes=default_processes(kind, sessions) if processes is None else processes,
    )
    result = run(calibrate(plan))
    measured = result.as_json()
    if as_json:
        _options.print_json(measured)
    else:
        _print(measured)
    why_not_kept = result.why_not_kept
    if not why_not_kept:
        try:
            keep(result.kept(datetime.now(UTC)))
        except DataError as error:  # a failure to store does not affect the printed results
            why_not_kept = str(error)
    if why_not_kept:
        click.echo(f"note: the calibration is not stored: {why_not_kept}", err=True)
    for line in result.failed[:10]:
        click.echo(f"failed: {line}", err=True)
    sys.exit(FAILED if result.failed else 0)


def _print(measured: dict[str, Any]) -> None:
    console = output_console()
    console.print(f"{measured['n']} turns with {measured['endpoint']}, {measured['sessions']} concurrent")
    rows = {f"error of {name}": row for name, row in measured["errors_ms"].items()}
    if measured["arrival_ms"]:
        rows["arrival stamps"] = measured["arrival_ms"]
    rows["frames late"] = measured["send_lateness_ms"]
    rows["lag"] = measured["lag_ms"]
    rows["bare timer late"] = measured["floor_ms"]
    table = plain_table("ms", "bias", "p50", "p99")
    for name, row in rows.items():
        table.add_row(name, *(f"{row[key]:.3f}" if key in row else "" for key in ("bias", "p50", "p99")))
    print_table(console, table)
    noise = ", all cores kept busy" if measured["noise"] else ""
    processes = f", session processes: {measured['processes']}" if measured["processes"] else ""
    stamped = stamped_by(measured["stamped_turns"])
    console.print(f"arrivals stamped {stamped}; {measured['priority']} priority{noise}{processes}")
    console.print(f"{measured['cpu_ms_per_session_s']} ms of CPU time per second of a session")
