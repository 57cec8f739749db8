"""Write the report of one or two duplex campaigns, and its audio files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from live_eval.analysis.statistics.intervals import quantile
from live_eval.analysis.turn_taking.from_turns import both_sides_of
from live_eval.analysis.turn_taking.outcomes import DURATIONS, Outcome, Rule
from live_eval.analysis.turn_taking.trial import TrialResult
from live_eval.analysis.turn_taking.trial_pairs import ConditionDifference
from live_eval.campaigns.duplex.probes import PROBES
from live_eval.campaigns.duplex.summary import DuplexComparison, DuplexRecord, DuplexSummary, duplex_summary
from live_eval.campaigns.duplex.trial_results import CLEAN
from live_eval.errors import StoreError
from live_eval.recording import RunReader
from live_eval.report.bars import BarChart
from live_eval.report.build import write_report
from live_eval.report.cells import Table, number
from live_eval.report.drift_table import drift_table
from live_eval.report.duplex.charts import duration_chart, outcome_chart, timeline_legend, timelines
from live_eval.report.duplex.glossary import DUPLEX_DEFINITIONS, DURATION_TITLES, spelt
from live_eval.report.duplex.sides import Side, conditions_of, probes_of, sentinel_link
from live_eval.report.duplex.sounds import write_sounds
from live_eval.report.duplex.tables import metric_rows, pair_charts, pair_table, tiles
from live_eval.report.duplex.trial_view import TELLING, TrialView, trial_row
from live_eval.report.file_names import DUPLEX_PAGE, RUN_PAGE
from live_eval.report.glossary import LAG_BOUND_MS
from live_eval.report.pages import in_utc, inline_script, page_template, write_page
from live_eval.report.tables import assert_table
from live_eval.text.mappings import flattened
from live_eval.text.wording import counted, natural_order

__all__ = ["write_comparison_page", "write_duplex_page"]


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A run of a campaign, as the source of a side of the page.

    Args:
        run: Run folder, relative to the campaign folder.
        base: Link from the page to the campaign folder, with a trailing slash; empty if they are the same.
        place: Folder for the page's audio files.
    """

    summary: DuplexSummary
    run: str
    label: str
    note: str
    base: str
    place: Path

    @property
    def campaign(self) -> DuplexRecord:
        """The stored campaign."""
        return self.summary.campaign

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.campaign.folder / self.run


def write_duplex_page(summary: DuplexSummary, place: Path | None = None) -> Path:
    """Write a campaign's page and audio to the campaign folder, and each run's report to the run folder.

    The page works offline. Links are relative, so the whole folder can be moved.

    Args:
        summary: Metrics of the campaign.
        place: Folder for the page and its audio, instead of the campaign folder; the reports are then
            omitted.

    Raises:
        StoreError: The audio folder is a link.
        UsageError: A file cannot be written.
    """
    campaign = summary.campaign
    folder = place or campaign.folder
    sources = [
        _Source(summary, run, run, "" if run == CLEAN else str(summary.impairment), "", folder)
        for run in campaign.trials
    ]
    if place is None:
        _write_reports(sources)
    return _write(folder, DUPLEX_PAGE, campaign.folder.resolve().name, sources, summary.paired)


def write_comparison_page(page: Path, comparison: DuplexComparison) -> Path:
    """Write a page that compares the clean runs of two campaigns.

    Args:
        page: Output file; the page refers to the audio in the campaign folders.
        comparison: Differences between the campaigns.

    Raises:
        StoreError: The audio folder is a link.
        UsageError: A file cannot be written.
    """
    names = [campaign.folder.resolve().name for campaign in comparison.campaigns]
    sources = []
    for campaign, name, label in zip(comparison.campaigns, names, comparison.labels, strict=True):
        note = "" if label == name else name
        link = _link(page.parent, campaign.folder)
        sources.append(_Source(duplex_summary(campaign), CLEAN, label, note, link, campaign.folder))
    _write_reports(sources)
    return _write(page.parent, page.name, " and ".join(names), sources, comparison.paired)


def _link(here: Path, folder: Path) -> str:
    """Return the relative link from one folder to another."""
    parts = Path(os.path.relpath(folder.resolve(), here.resolve())).parts
    return "".join(f"{quote(part, safe='')}/" for part in parts)


def _write_reports(sources: Sequence[_Source]) -> None:
    for source in sources:
        write_report([source.path], source.path / RUN_PAGE, audio_mb=0)


def _write(
    folder: Path, name: str, title: str, sources: Sequence[_Source], pairs: Sequence[ConditionDifference]
) -> Path:
    with ExitStack() as stack:
        readers = [stack.enter_context(RunReader.open(source.path)) for source in sources]
        return write_page(folder / name, _page(title, sources, readers, pairs))


def _page(
    title: str,
    sources: Sequence[_Source],
    readers: Sequence[RunReader],
    pairs: Sequence[ConditionDifference],
) -> Iterator[str]:
    views = _views(sources)
    sides = [
        Side(
            index=index,
            label=source.label,
            note=source.note,
            trials=[view for view in views if view.side == index],
            conditions=[each for each in source.summary.conditions if each.run == source.run],
            profile=source.summary.profiles[source.run],
        )
        for index, source in enumerate(sources)
    ]
    summaries = [source.summary for source in sources]
    return page_template("duplex.html", number=number).generate(
        title=title,
        script=inline_script("duplex.js"),
        sides=sides,
        facts=_facts(sources),
        notes=list(dict.fromkeys(note for summary in summaries for note in summary.notes)),
        complete=all(summary.complete for summary in summaries),
        asserts=assert_table([each for summary in summaries for each in summary.asserts]),
        tiles=[(side, tiles(side.profile)) for side in sides],
        probes=[_probe(name, sides, pairs) for name in probes_of(sides)],
        pairs=pair_table(pairs),
        metrics=metric_rows(sides, [each.summary.metrics.get(each.run, {}) for each in sources]),
        drift=_drift(sources),
        rows=_rows(views, sources, readers),
        outcomes=[each for each in Outcome if any(view.played.outcome is each for view in views)],
        asked=list(dict.fromkeys((view.played.facts.probe, view.played.facts.condition) for view in views)),
        spelt=spelt,
        lags=[_lag(side) for side in sides],
        definitions=DUPLEX_DEFINITIONS,
        reports=[(each.label, f"{each.base}{quote(each.run)}/{RUN_PAGE}") for each in sources],
        settings=_settings(sources),
    )


def _probe(name: str, sides: Sequence[Side], pairs: Sequence[ConditionDifference]) -> Mapping[str, Any]:
    """Return the template's values for a probe's section of the page."""
    conditions = conditions_of(sides, name)
    rules = list(dict.fromkeys(condition.metrics.rule for condition in conditions))
    main = list(dict.fromkeys(each for rule in rules for each in TELLING[rule]))
    charts = {
        each: (f"{DURATION_TITLES[each].capitalize()}, ms: {meaning}", chart)
        for each, meaning in DURATIONS.items()
        if (chart := duration_chart(each, conditions)) is not None
    }
    drawn: dict[str, list[BarChart]] = {}
    for condition in conditions:
        if (chart := timelines(condition)) is not None:
            drawn.setdefault(condition.name, []).append(chart)
    return {
        "name": name,
        "what": PROBES[name].what if name in PROBES else "",
        "passes": _passes(rules),
        "outcomes": outcome_chart(conditions),
        "telling": [charts[each] for each in main if each in charts],
        "further": [chart for each, chart in charts.items() if each not in main],
        "pairs": pair_charts([row for row in pairs if row.probe == name], sides, main),
        "legend": timeline_legend(conditions),
        "timelines": list(drawn.items()),
    }


def _passes(rules: Sequence[Rule]) -> str:
    """Describe the outcomes that pass, by rule if the rules differ."""
    passes = {rule: " or ".join(map(spelt, rule.passes)) for rule in rules}
    if len(set(passes.values())) == 1:
        return passes[rules[0]]
    return "; ".join(f"{spelt(rule)}: {outcomes}" for rule, outcomes in passes.items())


def _views(sources: Sequence[_Source]) -> list[TrialView]:
    """Return all trials and repetitions, alternating between the sides."""
    order = [(each.probe, each.condition) for source in sources for each in source.summary.conditions]
    order.sort(key=lambda asked: [*PROBES, asked[0]].index(asked[0]))
    places = {asked: place for place, asked in reversed(list(enumerate(order)))}

    def place(each: tuple[int, int, TrialResult]) -> tuple[Any, ...]:
        side, _, trial = each
        facts = trial.facts
        asked = places.get((facts.probe, facts.condition), len(order))
        return asked, natural_order(facts.trial_id), side, trial.playing

    played = [
        (side, number, trial)
        for side, source in enumerate(sources)
        for number, trial in enumerate(source.campaign.trials[source.run], 1)
    ]
    return [
        TrialView(f"t{at}", side, number, sources[side].run, sources[side].base, trial)
        for at, (side, number, trial) in enumerate(sorted(played, key=place))
    ]


def _rows(
    views: Sequence[TrialView], sources: Sequence[_Source], readers: Sequence[RunReader]
) -> Iterator[Mapping[str, Any]]:
    """Yield the trials' rows, and write their audio files."""
    for view in views:
        both, problem = None, ""
        try:
            both = both_sides_of(readers[view.side], view.played.turns)
        except StoreError:
            problem = "the stored audio is missing or damaged"
        sounds: list[tuple[str, str]] = []
        if both is not None:
            name = f"{view.run}-{view.number:04}-{view.played.facts.trial_id}"
            sounds = write_sounds(sources[view.side].place, name, *both)
        yield trial_row(view, both, sounds, problem)


def _facts(sources: Sequence[_Source]) -> list[str]:
    """Describe each side in a line."""
    return [
        " · ".join(
            str(part)
            for part in (
                source.campaign.facts.get("endpoint"),
                source.note,
                in_utc(source.campaign.facts.get("created")),
                counted(len(source.campaign.last(source.run)), "trial"),
            )
            if part
        )
        for source in sources
    ]


def _lag(side: Side) -> str:
    """Describe live-eval's lag in a side's trials."""
    lags = [view.played.lag_ns / 1e6 for view in side.trials]
    late = sum(lag > LAG_BOUND_MS for lag in lags)
    p50, p99 = (number(quantile(lags, share), 1) for share in (0.5, 0.99))
    return f"p50 {p50} ms, p99 {p99} ms, {counted(late, 'trial')} over {LAG_BOUND_MS} ms"


def _drift(sources: Sequence[_Source]) -> list[tuple[int, Table]]:
    return [
        (side, drift_table(sentinels, partial(sentinel_link, side)))
        for side, source in enumerate(sources)
        if (sentinels := source.summary.sentinel.get(source.run))
    ]


def _settings(sources: Sequence[_Source]) -> list[tuple[str, list[str]]]:
    """Return the names and values of the campaign-level settings, from the campaigns' documents."""
    flat = [
        {
            name: str(value)
            for name, value in flattened(source.campaign.facts)
            if name not in ("trials", "notes") and value not in (None, "", [])
        }
        for source in {id(source.campaign): source for source in sources}.values()
    ]
    names = dict.fromkeys(name for settings in flat for name in settings)
    return [(name, [settings.get(name, "–") for settings in flat]) for name in names]
