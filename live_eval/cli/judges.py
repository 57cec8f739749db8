"""``live-eval judges``."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli._listing import print_listing
from live_eval.judging import JudgeSpec, score_name
from live_eval.registry import JUDGES, Plugin, find_plugins, lacks

__all__ = ["command"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the judges and what each lacks here."""
    rows = [_row(plugin) for plugin in find_plugins(JUDGES)]
    columns = {
        "name": "judge",
        "title": "what it measures",
        "scores": "scores",
        "needs": "needs",
        "version": "version",
        "licence": "licence of weights",
        "lacks": "lacks here",
    }
    print_listing(rows, columns, as_json=as_json)


def _row(plugin: Plugin) -> dict[str, Any]:
    spec = plugin.spec
    if not isinstance(spec, JudgeSpec):
        keys = "title kind version outputs scores needs licence source"
        return {"name": plugin.name, "ok": False, "lacks": plugin.problem, **dict.fromkeys(keys.split())}
    lacking = lacks(spec)
    return {
        "name": spec.name,
        "ok": lacking is None,
        "lacks": lacking,
        "title": spec.title,
        "kind": spec.kind.value,
        "version": spec.version,
        "scores": [score_name(spec.name, output.name) for output in spec.outputs],
        "outputs": [
            {
                "score": score_name(spec.name, output.name),
                "title": output.title,
                "unit": output.unit,
                "low": output.low,
                "high": output.high,
                "higher_is_better": output.higher_is_better,
            }
            for output in spec.outputs
        ],
        "needs": sorted(need.value for need in spec.needs),
        "licence": spec.licence,
        "source": spec.source,
    }
