"""Implement ``live-eval duplex``: measure an endpoint's turn-taking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from live_eval.analysis.assertions import too_few_planned
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics, EndpointProfile
from live_eval.analysis.turn_taking.trial_pairs import ConditionDifference
from live_eval.campaigns.duplex.assertions import check_probes, probe_of
from live_eval.campaigns.duplex.campaign import DuplexCampaign, DuplexPlan
from live_eval.campaigns.duplex.probes import OWN, PROBES
from live_eval.campaigns.duplex.summary import (
    DuplexComparison,
    DuplexSummary,
    compare_campaigns,
    duplex_summary,
    read_duplex,
)
from live_eval.campaigns.duplex.trial_results import CLEAN, IMPAIRED
from live_eval.cli import _options
from live_eval.cli._assertions import parse_assertions
from live_eval.cli._campaigns import campaign_folder, run_campaign
from live_eval.cli._flags import configured
from live_eval.cli._listing import (
    NONE,
    counts_in_words,
    estimated,
    formatted,
    output_console,
    plain_table,
    print_listing,
    print_table,
)
from live_eval.cli._targets import check_endpoint
from live_eval.errors import UsageError
from live_eval.report.duplex import write_duplex_page
from live_eval.run.stop_signals import StopSignals

__all__ = ["compare_command", "duplex_command", "print_duplex"]

_SHOWN = ("response_latency", "audible_stop", "provider_stop", "new_reply")


def duplex_command(
    endpoint: str | None,
    probes: Sequence[str],
    repeat: int,
    sentinel_turns: int,
    asserts: Sequence[str],
    listed: bool,
    out: Path | None,
    resume: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Run ``live-eval duplex measure`` with the values of its flags, and exit with its status."""
    stop = click.get_current_context().with_resource(StopSignals())
    if listed:
        _list(as_json)
        return
    if endpoint is None:
        raise UsageError("expected an ENDPOINT; `live-eval endpoints` lists them")
    probes = [name.strip() for names in probes for name in names.split(",")]
    assertions = parse_assertions("duplex", asserts)  # before anything runs
    check_probes(assertions, probes)
    plan = DuplexPlan(
        config=configured({"endpoint": {"name": check_endpoint(endpoint)}}, flags),
        probes=probes,
        repeat=repeat,
        sentinel_turns=sentinel_turns,
        asserts=asserts,
    )
    folder = campaign_folder(out, f"{endpoint}-duplex", "duplex", resume=resume)
    campaign = DuplexCampaign(plan, folder, resume=resume)

    sys.exit(
        run_campaign(
            campaign,
            stop,
            lambda: duplex_summary(read_duplex(folder)),
            print_duplex,
            write_duplex_page,
            as_json=as_json,
            too_few=too_few_planned(assertions, lambda each: campaign.trials[probe_of(each)]),
        )
    )


def _list(as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": probe.name,
            "what": probe.what,
            "conditions": [condition.name for condition in probe.conditions],
        }
        for probe in PROBES.values()
    ]
    rows.append({"name": OWN, "what": "Your annotated recordings (--data).", "conditions": []})
    print_listing(rows, {"name": "probe", "what": "content", "conditions": "conditions"}, as_json=as_json)


def compare_command(first: Path, second: Path, as_json: bool) -> None:
    """Run ``live-eval duplex compare`` with the values of its arguments."""
    if first.resolve() == second.resolve():
        raise UsageError("expected different campaigns, got a duplicate campaign")
    comparison = compare_campaigns(read_duplex(first), read_duplex(second))
    if as_json:
        _options.print_json(comparison.as_json())
    else:
        _print_comparison(comparison)


def print_duplex(summary: DuplexSummary) -> None:
    """Print the results of a campaign."""
    console = output_console()
    for run, profile in summary.profiles.items():
        if run != CLEAN:
            console.print(f"{run}: {summary.impairment}", markup=False)
        conditions = [each for each in summary.conditions if each.run == run]
        table = plain_table(
            "probe",
            "condition",
            "passed, %",
            "outcomes",
            "void",
            "ms: latency p50",
            "stop p50",
            "provider stop p50",
            "new reply p50",
            text=("condition", "outcomes"),
        )
        for each in conditions:
            table.add_row(
                each.probe,
                each.condition,
                estimated(each.passed),
                counts_in_words({outcome.value: count for outcome, count in each.outcomes.items()}),
                str(each.void or NONE),
                *(
                    estimated(found["p50"]) if (found := each.durations.get(name)) else NONE
                    for name in _SHOWN
                ),
            )
        print_table(console, table)
        console.print()
        for line in (*_details(conditions), *_profile(profile)):
            console.print(line, markup=False)
        console.print()
    _print_pairs(summary.paired, (CLEAN, IMPAIRED))


def _print_comparison(comparison: DuplexComparison) -> None:
    console = output_console()
    for note in comparison.notes:
        console.print(f"note: {note}", markup=False)
    for name, profile in zip(comparison.labels, comparison.profiles, strict=True):
        console.print(f"{name}:", markup=False)
        for line in _profile(profile):
            console.print(f"  {line}", markup=False)
    console.print()
    _print_pairs(comparison.paired, comparison.labels)


def _details(conditions: Sequence[ConditionMetrics]) -> list[str]:
    """Return lines for results that only some conditions have."""
    lines = []
    for each in conditions:
        name = f"{each.probe} {each.condition}"
        for where, share in each.correction.items():
            if share.n:
                what = "replies contain" if where == "reply" else "transcripts contain"
                lines.append(
                    f"{name}: {formatted(share.value, digits=0)} % of {share.n} {what} the correction"
                )
        triggers = each.false_triggers_per_minute
        if triggers is not None and triggers.value:
            lines.append(f"{name}: {estimated(triggers, digits=1)} false triggers per minute")
    return lines


def _profile(profile: EndpointProfile) -> list[str]:
    lines = []
    if profile.survived:
        longest = profile.longest_pause_ms
        waits = "no pause" if longest is None else f"pauses up to {longest} ms"
        lines.append(f"patient: waits through {waits}")
    for name, words in (
        ("response_latency", "answers after"),
        ("audible_stop", "is silent after"),
        ("provider_stop", "reports its stop after"),
    ):
        median = profile.quickness[name]["p50"]
        if median.n:
            lines.append(f"quick: {words} {estimated(median)} ms (median)")
    for kind, share, verb, what in (
        ("yielding", profile.yielding, "yields to", "interruptions"),
        ("selective", profile.selectivity, "ignores", "speech not addressed to the model"),
    ):
        if share.n:
            lines.append(f"{kind}: {verb} {estimated(share)} % of {what}")
    return lines


def _print_pairs(pairs: Sequence[ConditionDifference], names: tuple[str, str]) -> None:
    if not pairs:
        return
    table = plain_table(
        f"{names[1]} − {names[0]}",
        "condition",
        "pairs",
        "passed, points",
        *(f"{name.replace('_', ' ')}, ms" for name in _SHOWN),
        text=("condition",),
    )
    for row in pairs:
        table.add_row(
            row.probe,
            row.condition,
            str(row.pairs),
            estimated(row.passed, signed=True),
            *(
                estimated(found.difference, signed=True) if (found := row.durations.get(name)) else NONE
                for name in _SHOWN
            ),
        )
    print_table(output_console(), table)
