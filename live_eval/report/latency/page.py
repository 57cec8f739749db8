"""Write a latency campaign's page, and the reports that it links to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval.campaigns.latency.campaign_file import CampaignRecord
from live_eval.campaigns.latency.points import PointRole
from live_eval.campaigns.latency.summary import CampaignSummary
from live_eval.recording.calibrations import kept_in
from live_eval.report.build import write_report
from live_eval.report.cells import number
from live_eval.report.drift_table import drift_table
from live_eval.report.file_names import CAMPAIGN_PAGE, RUN_PAGE
from live_eval.report.glossary import CAMPAIGN_DEFINITIONS, LAG_NOTE
from live_eval.report.latency import tables
from live_eval.report.latency.charts import mean_waterfall, sweep, turn_waterfall
from live_eval.report.latency.curves import latency_curves, latency_tails
from live_eval.report.latency.point_view import PointView
from live_eval.report.pages import COLOURS, page_template, write_page
from live_eval.report.plots import Plot
from live_eval.report.tables import assert_table
from live_eval.text.mappings import flattened
from live_eval.text.wording import stamped_by

__all__ = ["campaign_page", "point_views", "write_campaign_page"]

_AUDIO_MB = 20.0
_HEARD, _HEARD_FROM_INTENDED = "voice_to_voice", "voice_to_voice_from_intended"
_CURVED = (_HEARD, "first_byte", "endpointing", "transcript", "complete", "connect")
_CURVED_OPEN = (_HEARD_FROM_INTENDED, "start_delay")


def write_campaign_page(summary: CampaignSummary) -> Path:
    """Write a campaign's page to the campaign folder, and each run's report to the run folder.

    Each page is a single file that works offline. Links are relative, so the whole folder can be moved.

    Raises:
        UsageError: A page cannot be written.
    """
    campaign = summary.campaign
    for point in campaign.points:
        if not point.error:
            write_report([point.path], point.path / RUN_PAGE, audio_mb=_AUDIO_MB)
    return write_page(campaign.folder / CAMPAIGN_PAGE, campaign_page(summary))


def campaign_page(summary: CampaignSummary) -> Iterator[str]:
    """Render a campaign's page in pieces; see `write_campaign_page`."""
    campaign, views = summary.campaign, point_views(summary)
    swept = [view for view in views if view.record.stored.role == PointRole.SWEEP]
    measured = [view for view in views if view.record.stored.role != PointRole.SENTINEL]
    is_open = summary.arrivals not in (None, "closed")
    return page_template("latency.html", number=number).generate(
        title=campaign.folder.resolve().name,
        summary=summary,
        facts=campaign.facts,
        asserts=assert_table(summary.asserts),
        sweep_table=tables.sweep_table(measured),
        sweeps=[
            (tables.METRIC_TITLES[name], chart)
            for name in (_HEARD, *(_CURVED_OPEN if is_open else ()))
            if (chart := sweep(swept, name)) is not None
        ],
        curves=_plots(latency_curves, "", swept, (*_CURVED, *_CURVED_OPEN) if is_open else _CURVED),
        tails=_plots(
            latency_tails,
            " by percentile: the tail, ms",
            swept,
            (_HEARD, _HEARD_FROM_INTENDED) if is_open else (_HEARD,),
        ),
        point_tables=[(view, tables.point_table(view)) for view in measured],
        mean_waterfall=mean_waterfall(measured),
        step_table=tables.step_table(measured),
        waterfalls=[(view, chart) for view in measured if (chart := turn_waterfall(view)) is not None],
        stalls=tables.stall_table(measured),
        costs=tables.cost_table(measured),
        endpointing=tables.endpointing_chart(summary.endpointing, views),
        other_definitions=tables.definitions_chart(summary.definitions, views),
        sentinels=drift_table(
            [each.drift for each in summary.sentinel], {view.name: view.link for view in views}.__getitem__
        ),
        stamps=stamped_by(summary.stamped),
        calibration=_calibration(campaign),
        lag_note=LAG_NOTE,
        definitions=CAMPAIGN_DEFINITIONS,
        settings=_settings(campaign.facts),
    )


def point_views(summary: CampaignSummary) -> list[PointView]:
    """Return the views of a campaign's conditions; those of the sweep have colours."""
    colours = itertools.count()
    return [
        PointView(next(colours) if record.stored.role == PointRole.SWEEP else None, record, metrics)
        for record, metrics in zip(summary.campaign.points, summary.points, strict=True)
    ]


def _plots(
    draw: Callable[[str, str, Sequence[PointView]], Plot | None],
    suffix: str,
    points: Sequence[PointView],
    metrics: Sequence[str],
) -> list[Plot]:
    """Plot some metrics, splitting the conditions so that no plot uses a colour twice."""
    plots = [
        draw(f"{tables.METRIC_TITLES[metric].capitalize()}{suffix}", metric, points[start : start + COLOURS])
        for metric in metrics
        for start in range(0, len(points), COLOURS)
    ]
    return [plot for plot in plots if plot is not None]


def _calibration(campaign: CampaignRecord) -> str:
    """Describe this machine's calibration; empty without one."""
    kept = kept_in(campaign.facts)
    return kept.in_words() if kept is not None else ""


def _settings(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of the campaign-level settings, from `campaign.json`."""
    whole = {name: value for name, value in facts.items() if name not in ("points", "notes", "plan")}
    return [(name, str(value)) for name, value in flattened(whole) if value not in (None, "", [])]
