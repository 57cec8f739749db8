"""What ``live-eval latency`` prints of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from live_eval.analysis.latency.latencies import OUR_FAILURE
from live_eval.cli._listing import NONE, counts_in_words, figure, figure_table, output_console
from live_eval.judging import TURN_FAILED
from live_eval.text.wording import stamped_by

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["print_campaign"]

_OPEN_LOOP = "voice_to_voice_from_intended"


def print_campaign(summary: Mapping[str, Any]) -> None:
    """Print the figures of a campaign, as `campaign_summary` returns them."""
    console = output_console()
    for table in (_points(summary), _endpointing(summary), _definitions(summary), _sentinel(summary)):
        if table.row_count:
            console.print(table)
            console.print()
    lag = summary["error_bar"]["lag_ms"]
    if lag["p50"] is not None:
        console.print(
            f"error bar (lag): p50 {figure(lag['p50'], digits=1)} ms, p99 {figure(lag['p99'], digits=1)} ms; "
            f"arrivals stamped {stamped_by(summary['stamped_turns'])}"
        )
    for point in _played(summary):
        cost = point["cost_per_minute"]
        if cost["usd"] is not None:
            tokens = f"{cost['tokens_per_minute']:.0f} tokens"
            console.print(f"{point['name']}: a minute takes {tokens} and costs US$ {cost['usd']:.4f}")
    for reason in dict.fromkeys(_reasons(summary)):
        console.print(reason, markup=False)


def _points(summary: Mapping[str, Any]) -> Table:
    headings = ("point", "turns", "failed", "voice to voice, ms: p50", "p95", "p99", "max", "first byte: p50")
    is_open = summary["arrivals"] != "closed"
    table = figure_table(*headings, *(("from when due: p50", "p95", "p99") if is_open else ()))
    played = _played(summary)
    # Where nothing was captured, the reasons say all there is to say.
    for point in played if any(point["turns"]["captured"] for point in played) else ():
        turns, latencies = point["turns"], point["latencies"]
        heard, first, due = (latencies[name] for name in ("voice_to_voice", "first_byte", _OPEN_LOOP))
        cells = [figure(heard["p50_ms"], heard["intervals"].get("p50_ms"), digits=0)]
        cells += [figure(heard[key], digits=0) for key in ("p95_ms", "p99_ms", "max_ms")]
        cells.append(figure(first["p50_ms"], digits=0))
        if is_open:
            cells += [figure(due[key], digits=0) for key in ("p50_ms", "p95_ms", "p99_ms")]
        failed = sum(turns["failed"].values())
        table.add_row(point["name"], str(turns["n"]), str(failed) if failed else NONE, *cells)
    return table


def _endpointing(summary: Mapping[str, Any]) -> Table:
    table = figure_table("endpointing cost", "n", "detector, ms: p50", "manual: p50", "mean difference")
    for cost in _measured(summary["endpointing_cost"]):
        set_to = ", ".join(f"{key}={value}" for key, value in (cost["turn_detection"] or {}).items())
        table.add_row(
            set_to or "default",
            str(cost["n"]),
            figure(cost["detector_ms"], digits=0),
            figure(cost["manual_ms"], digits=0),
            figure(cost["difference_ms"], cost["interval_ms"], digits=0, signed=True),
        )
    return table


def _definitions(summary: Mapping[str, Any]) -> Table:
    table = figure_table("definition", "n", "median, ms", "median difference")
    for row in _measured(summary["definitions"]):
        table.add_row(
            row["name"],
            str(row["n"]),
            figure(row["median_ms"], digits=0),
            figure(row["difference_ms"], row.get("interval_ms"), digits=0, signed=True),
        )
    return table


def _sentinel(summary: Mapping[str, Any]) -> Table:
    names = ("connect", "first_byte", "voice_to_voice", "lag")
    table = figure_table("drift, ms", "n", *(name.replace("_", " ") for name in names))
    for sentinel in summary["sentinel"]:
        figures = [sentinel["figures"][name] for name in names]
        cells = [
            figure(each["p50_ms"], digits=0)
            if each["difference_ms"] is None
            else figure(each["difference_ms"], each["difference_interval_ms"], digits=0, signed=True)
            for each in figures
        ]
        table.add_row(sentinel["name"], str(max(each["n"] for each in figures)), *cells)
    return table


def _reasons(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield why figures are missing, and what else is worth knowing."""
    for point in _played(summary):
        heard = point["latencies"]["voice_to_voice"]
        if heard["p50_ms"] is not None and heard["reason"].get("p50_ms"):
            yield f"{point['name']}: voice to voice has no interval: {heard['reason']['p50_ms']}"
        for share in ("p95", "p99"):
            if heard[f"{share}_ms"] is None and point["turns"]["captured"]:
                yield f"{point['name']}: voice to voice has no {share}: {heard['reason'].get(f'{share}_ms')}"
        yield from (f"{point['name']}: {words}" for words in _rests_on(point))
        for kind, count in point["turns"]["failed"].items():
            yield f"{point['name']}: {count} failed: {kind}"
        for what in ("premature", "early", "flagged"):
            if point["turns"].get(what):
                yield f"{point['name']}: {point['turns'][what]} {_WORDS[what]}"


def _rests_on(point: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many of the captured turns a latency rests on, and why not on all."""
    captured = point["turns"]["captured"]
    for name in ("voice_to_voice", "first_byte"):
        latency = point["latencies"][name]
        left_out = {"uncertain end of speech": latency["uncertain"], **latency["missing"]}
        for not_captured in (TURN_FAILED, OUR_FAILURE):
            left_out.pop(not_captured, None)
        if latency["n"] < captured:
            why = counts_in_words({reason: count for reason, count in left_out.items() if count})
            yield f"{name.replace('_', ' ')} rests on {latency['n']} of {captured} turns: {why}"


def _measured(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return rows of which at least one has values; none otherwise."""
    return rows if any(row["n"] for row in rows) else ()


_WORDS = {
    "premature": "responses began before the user had finished",
    "early": "turns were answered before the user had finished",
    "flagged": "turns have a lag beyond 20 ms",
}


def _played(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [point for point in summary["points"] if point["role"] != "sentinel"]
