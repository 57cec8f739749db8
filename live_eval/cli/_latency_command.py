"""Implement ``live-eval latency``: measure an endpoint's latency under controlled load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from live_eval.analysis.assertions import too_few_planned
from live_eval.analysis.latency.campaign_latencies import OUR_FAILURE
from live_eval.analysis.latency.definitions import DefinedLatency
from live_eval.analysis.latency.drift import DRIFT_METRICS, DriftCheck
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.campaigns.latency.campaign import LatencyCampaign
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.point_metrics import PointMetrics
from live_eval.campaigns.latency.points import CampaignPlan, PointRole, SessionKind
from live_eval.campaigns.latency.summary import CampaignSummary, DetectorCost, campaign_summary
from live_eval.cli._assertions import parse_assertions
from live_eval.cli._campaigns import campaign_folder, run_campaign
from live_eval.cli._flags import configured, parse_pairs
from live_eval.cli._listing import (
    NONE,
    counts_in_words,
    estimated,
    formatted,
    output_console,
    plain_table,
    print_table,
)
from live_eval.cli._prices import price_of
from live_eval.cli._targets import check_endpoint
from live_eval.errors import UsageError
from live_eval.judging import TURN_FAILED
from live_eval.report.latency import write_campaign_page
from live_eval.run.stop_signals import StopSignals
from live_eval.text.durations import seconds_of
from live_eval.text.wording import stamped_by

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["latency_command", "print_campaign"]

T = TypeVar("T")

_OPEN_LOOP = "voice_to_voice_from_intended"

_WORDS = {
    "premature": "responses that began before the user had finished",
    "early": "turns answered before the user had finished",
    "flagged": "turns with a lag above 20 ms",
}


def latency_command(
    endpoint: str,
    turns: int,
    concurrency: str,
    arrivals: str,
    input_s: str,
    detections: Sequence[str],
    sessions: str,
    endpointing: bool,
    sentinel_turns: int,
    uncertain: bool,
    price: str,
    asserts: Sequence[str],
    out: Path | None,
    resume: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Run ``live-eval latency`` with the values of its flags, and exit with its status."""
    stop = click.get_current_context().with_resource(StopSignals())
    assertions = parse_assertions("latency", asserts)  # before anything runs
    plan = CampaignPlan(
        config=configured({"endpoint": {"name": check_endpoint(endpoint)}}, flags),
        turns=turns,
        concurrency=_listed("--concurrency", concurrency, _sessions_at_a_time),
        arrivals=Arrivals.parse(arrivals),
        inputs_s=_listed("--input-s", input_s, _seconds) if input_s else (),
        detections=[_detection(endpoint, text) for text in detections] or ({},),
        sessions=_listed("--sessions", sessions, _session_kind),
        endpointing=endpointing,
        sentinel_turns=sentinel_turns,
        uncertain=uncertain,
        price=price_of(price) if price else None,
        asserts=asserts,
    )
    folder = campaign_folder(out, f"{endpoint}-latency", "campaign", resume=resume)
    campaign = LatencyCampaign(plan, folder, resume=resume)

    sys.exit(
        run_campaign(
            campaign,
            stop,
            lambda: campaign_summary(read_campaign(folder)),
            print_campaign,
            write_campaign_page,
            as_json=as_json,
            too_few=too_few_planned(assertions, lambda _: turns),
        )
    )


def _listed(flag: str, text: str, read: Callable[[str], T]) -> list[T]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{flag}: expected a list A,B,…, got {text!r}")
    try:
        return [read(part) for part in parts]
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _sessions_at_a_time(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= 1000):
        raise ValueError(f"expected whole numbers of 1 to 1000, got {text!r}")
    return int(text)


def _session_kind(text: str) -> SessionKind:
    if text not in tuple(SessionKind):
        raise ValueError(f"expected cold or warm, got {text!r}")
    return SessionKind(text)


def _seconds(text: str) -> float:
    try:
        seconds = seconds_of(text)
    except ValueError as error:
        raise ValueError(f"{error}, got {text!r}") from None
    if not 0.1 <= seconds <= 300:
        raise ValueError(f"expected 0.1 to 300 s, got {text!r}")
    return seconds


def _detection(endpoint: str, text: str) -> dict[str, Any]:
    """Return a detector's settings, validated as in a run file, which also redacts their secrets."""
    settings = parse_pairs("--turn-detection", filter(None, map(str.strip, text.split(","))))
    table = {"name": endpoint, "turn_detection": settings}
    return configured({"endpoint": table}, {}).endpoint.turn_detection


def print_campaign(summary: CampaignSummary) -> None:
    """Print the results of a campaign."""
    console = output_console()
    points = [point for point in summary.points if point.stored.role != PointRole.SENTINEL]
    for table in (
        _condition_table(points, is_open=summary.arrivals != "closed"),
        _endpointing_table(summary.endpointing),
        _definition_table(summary.definitions.latencies),
        _drift_table([each.drift for each in summary.sentinel]),
    ):
        if table.row_count:
            print_table(console, table)
            console.print()
    lag = summary.lag
    if lag.p50 is not None:
        console.print(
            f"error bar (lag): p50 {lag.p50:.1f} ms, p99 {formatted(lag.p99, digits=1)} ms; "
            f"arrivals stamped {stamped_by(summary.stamped)}"
        )
    for point in points:
        cost = point.cost
        if cost.usd is not None:
            tokens = f"{cost.tokens_per_minute:.0f} tokens"
            console.print(f"{point.name}: one minute uses {tokens} and costs US$ {cost.usd:.4f}")
    for reason in dict.fromkeys(_reasons(points)):
        console.print(reason, markup=False)


def _condition_table(points: Sequence[PointMetrics], *, is_open: bool) -> Table:
    table = plain_table(
        *("condition", "turns", "failed", "voice to voice, ms: p50", "p95", "p99", "max", "first byte: p50"),
        *(("from intended start: p50", "p95", "p99") if is_open else ()),
    )
    # If no turn was captured, the reasons are printed instead.
    for point in points if any(point.turns.captured for point in points) else ():
        heard, first, due = (
            point.latencies[name].measured for name in ("voice_to_voice", "first_byte", _OPEN_LOOP)
        )
        cells = [estimated(heard["p50"])]
        cells += [formatted(heard[name].value, digits=0) for name in ("p95", "p99", "max")]
        cells.append(formatted(first["p50"].value, digits=0))
        if is_open:
            cells += [formatted(due[name].value, digits=0) for name in ("p50", "p95", "p99")]
        table.add_row(point.name, str(point.turns.n), str(point.turns.n_failed or NONE), *cells)
    return table


def _endpointing_table(costs: Sequence[DetectorCost]) -> Table:
    table = plain_table("endpointing cost", "n", "detector, ms: p50", "manual: p50", "mean difference")
    paired = [(each.stored, each.cost.headline.paired) for each in costs]
    for stored, found in paired if any(found.difference.n for _, found in paired) else ():
        difference = found.difference
        table.add_row(
            ", ".join(f"{key}={value}" for key, value in (stored.turn_detection or {}).items()) or "default",
            str(difference.n),
            formatted(found.detector, digits=0),
            formatted(found.manual, digits=0),
            estimated(difference, signed=True),
        )
    return table


def _definition_table(definitions: Sequence[DefinedLatency]) -> Table:
    table = plain_table("definition", "n", "median, ms", "median difference")
    for each in definitions if any(each.n for each in definitions) else ():
        table.add_row(
            each.definition.name,
            str(each.n),
            formatted(each.median, digits=0),
            estimated(each.difference, signed=True),
        )
    return table


def _drift_table(checks: Sequence[DriftCheck]) -> Table:
    table = plain_table("drift, ms", "n", *(LATENCY_TITLES.get(name, name) for name in DRIFT_METRICS))
    for check in checks:
        metrics = [check.metrics[name] for name in DRIFT_METRICS]
        cells = [
            formatted(each.median.value, digits=0)
            if each.difference.value is None
            else estimated(each.difference, signed=True)
            for each in metrics
        ]
        table.add_row(check.name, str(max(each.median.n for each in metrics)), *cells)
    return table


def _reasons(points: Sequence[PointMetrics]) -> Iterator[str]:
    """Yield the reasons for missing values, the failures, and notes on unusual turns."""
    for point in points:
        heard = point.latencies["voice_to_voice"].measured
        if heard["p50"].value is not None and heard["p50"].reason:
            yield f"{point.name}: voice to voice has no interval: {heard['p50'].reason}"
        for name in ("p95", "p99"):
            if heard[name].value is None and point.turns.captured:
                yield f"{point.name}: voice to voice has no {name}: {heard[name].reason}"
        yield from (f"{point.name}: {note}" for note in _missing(point))
        for kind, count in point.turns.failed.items():
            yield f"{point.name}: {count} failed: {kind}"
        for what, words in _WORDS.items():
            if count := getattr(point.turns, what):
                yield f"{point.name}: {words}: {count}"


def _missing(point: PointMetrics) -> Iterator[str]:
    """Yield notes on captured turns that have no value for a latency, with reasons."""
    captured = point.turns.captured
    for name in ("voice_to_voice", "first_byte"):
        latency = point.latencies[name]
        missing = {"uncertain end of speech": latency.uncertain, **latency.measured.missing}
        for not_captured in (TURN_FAILED, OUR_FAILURE):
            missing.pop(not_captured, None)
        if latency.measured.n < captured:
            why = counts_in_words({reason: count for reason, count in missing.items() if count})
            yield f"{LATENCY_TITLES[name]}: n {latency.measured.n} of {captured} turns; missing: {why}"
