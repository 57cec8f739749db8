"""What ``live-eval duplex`` prints of a campaign and of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval.cli._listing import NONE, counts_in_words, figure, figure_table, output_console

__all__ = ["print_comparison", "print_duplex"]

_SHOWN = ("response_latency", "audible_stop", "provider_stop", "new_reply")


def print_duplex(summary: Mapping[str, Any]) -> None:
    """Print the figures of a campaign, as `duplex_summary` returns them."""
    console = output_console()
    for run in summary["profile"]:
        if run != "clean":
            console.print(f"{run}: {summary['impairment']}", markup=False)
        entries = [entry for entry in summary["probes"] if entry["run"] == run]
        table = figure_table(
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
        for entry in entries:
            table.add_row(
                entry["probe"],
                entry["condition"],
                figure(entry["passed"]["value"], entry["passed"]["interval"], digits=0),
                counts_in_words(entry["outcomes"]),
                str(entry["void"]) if entry["void"] else NONE,
                *(_median(entry["durations"].get(name)) for name in _SHOWN),
            )
        console.print(table)
        console.print()
        for line in (*_details(entries), *_profile(summary["profile"][run])):
            console.print(line, markup=False)
        console.print()
    _print_pairs(summary["paired"], ("clean", "impaired"))


def print_comparison(comparison: Mapping[str, Any]) -> None:
    """Print a comparison, as `compare_campaigns` returns it."""
    console = output_console()
    first, second = comparison["endpoints"]
    if first == second:
        first, second = (Path(folder).resolve().name for folder in comparison["campaigns"])
    for note in comparison["notes"]:
        console.print(f"note: {note}", markup=False)
    for name, profile in zip((first, second), comparison["profiles"], strict=True):
        console.print(f"{name}:", markup=False)
        for line in _profile(profile):
            console.print(f"  {line}", markup=False)
    console.print()
    _print_pairs(comparison["paired"], (first, second))


def _details(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what only some conditions have."""
    lines = []
    for entry in entries:
        name = f"{entry['probe']} {entry['condition']}"
        for where, share in entry.get("correction", {}).items():
            if share["n"]:
                what = "replies take up" if where == "reply" else "transcripts hold"
                lines.append(
                    f"{name}: {figure(share['value'], digits=0)} % of {share['n']} {what} the correction"
                )
        triggers = entry.get("false_triggers_per_minute")
        if triggers is not None and triggers["value"]:
            rate = figure(triggers["value"], triggers["interval"], digits=1)
            lines.append(f"{name}: {rate} false triggers a minute")
    return lines


def _profile(profile: Mapping[str, Any]) -> list[str]:
    patience, quick = profile["patience"], profile["quickness"]
    longest = patience["longest_pause_ms"]
    lines = []
    if patience["survived"]:
        waits = "no pause" if longest is None else f"pauses up to {longest} ms"
        lines.append(f"patient: waits through {waits}")
    for name, words in (
        ("response_latency", "answers after"),
        ("audible_stop", "is silent after"),
        ("provider_stop", "says that it stops after"),
    ):
        if quick[name]["n"]:
            lines.append(f"quick: {words} {_median(quick[name])} ms (median)")
    for name, words in (
        ("yielding", "interruptions yielded to"),
        ("selectivity", "of what was not meant for it ignored"),
    ):
        share = profile[name]
        if share["n"]:
            kind = "yielding" if name == "yielding" else "selective"
            lines.append(f"{kind}: {figure(share['value'], share['interval'], digits=0)} % {words}")
    return lines


def _print_pairs(pairs: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> None:
    if not pairs:
        return
    table = figure_table(
        f"{names[1]} − {names[0]}",
        "condition",
        "pairs",
        "passed, points",
        *(f"{name.replace('_', ' ')}, ms" for name in _SHOWN),
        text=("condition",),
    )
    for row in pairs:
        table.add_row(
            row["probe"],
            row["condition"],
            str(row["pairs"]),
            figure(row["passed"]["value"], row["passed"]["interval"], digits=0, signed=True),
            *(_difference(row["durations"].get(name)) for name in _SHOWN),
        )
    output_console().print(table)


def _median(duration: Mapping[str, Any] | None) -> str:
    return NONE if duration is None else figure(duration["p50"], duration["interval"], digits=0)


def _difference(duration: Mapping[str, Any] | None) -> str:
    if duration is None:
        return NONE
    found = duration["difference"]
    return figure(found["value"], found["interval"], digits=0, signed=True)
