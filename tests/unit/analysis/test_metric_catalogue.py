"""The catalogue of published metrics, and the pages that list it."""

import re
import textwrap
from itertools import groupby
from pathlib import Path

from live_eval.analysis import turn_taking
from live_eval.analysis.latency import definitions as latency
from live_eval.analysis.metric_catalogue import DEFINITIONS

PAGES = Path(__file__).parents[3] / "docs/reference"


def latency_rows() -> str:
    """The table of the page about latency campaigns."""
    rows = [f"| `{each.name}` | {each.means} | {each.source} |" for each in latency.DEFINITIONS]
    return "\n".join(["| definition | measures | source |", "|---|---|---|", *rows])


def turn_taking_rows() -> str:
    """The tables of the page about turn-taking metrics."""
    lines = []
    for location, definitions in groupby(turn_taking.DEFINITIONS, lambda each: each.source):
        of_source = list(definitions)
        source = re.match(r"\w+(\.\d)?", of_source[0].name)[0]  # type: ignore[index]
        lines += [f"### {source}", "", f"Source: {location}.", ""]
        lines += ["| name | measures | unit | better |", "|---|---|---|---|"]
        corrections: dict[str, list[str]] = {}
        for (means, unit, better), alike in groupby(
            of_source, lambda each: (each.means, each.unit, each.better)
        ):
            named = [(each.name.removeprefix(f"{source}."), each.corrects) for each in alike]
            lines.append(f"| {', '.join(name for name, _ in named)} | {means} | {unit or '–'} | {better} |")
            for name, corrects in named:
                for corrected in corrects.split("; "):
                    corrections.setdefault(corrected, []).append(name)
        lines += ["", "Corrected:", ""]
        for text, names in corrections.items():
            if text:
                which = "all" if len(names) == len(of_source) else ", ".join(names)
                lines.append(textwrap.fill(f"- {text} ({which})", 120, subsequent_indent="  "))
        lines.append("")
    return "\n".join(lines)


def test_the_pages_list_every_metric() -> None:
    for page, rows in (("latency-campaigns", latency_rows()), ("turn-taking-metrics", turn_taking_rows())):
        assert rows in (PAGES / f"{page}.md").read_text("utf-8"), f"{page}.md should contain:\n\n{rows}"


def test_every_metric_has_its_own_name_and_a_source() -> None:
    assert len(DEFINITIONS) == len(latency.DEFINITIONS) + len(turn_taking.DEFINITIONS)
    assert all(each.source and each.means for each in DEFINITIONS.values())
