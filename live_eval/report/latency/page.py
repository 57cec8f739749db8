"""Write the page of a campaign, and those of its points' runs, which it links to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval import __version__
from live_eval.campaigns.latency.summary import CampaignRecord
from live_eval.files import flattened
from live_eval.recording.calibrations import kept_in
from live_eval.report.build import write_report
from live_eval.report.drift import drift_table
from live_eval.report.files import CAMPAIGN_PAGE, RUN_PAGE
from live_eval.report.latency import tables
from live_eval.report.latency.bars import mean_waterfall, sweep, turn_waterfall
from live_eval.report.latency.curves import TailChart, TurnChart, tail_chart, turn_chart
from live_eval.report.latency.points import PointView
from live_eval.report.latency.words import CAMPAIGN_DEFINITIONS
from live_eval.report.pages import page_template, write_page
from live_eval.report.tables import number
from live_eval.report.words import LAG_NOTE
from live_eval.text.wording import stamped_by

__all__ = ["campaign_page", "write_campaign_page"]

_TEMPLATES = Path(__file__).parents[1] / "templates"
_COLOURS = 6
_AUDIO_MB = 20.0
_HEARD, _HEARD_FROM_DUE = "voice_to_voice", "voice_to_voice_from_intended"
_CURVED = (_HEARD, "first_byte", "endpointing", "transcript", "complete", "connect")
_CURVED_OPEN = (_HEARD_FROM_DUE, "start_delay")


def write_campaign_page(campaign: CampaignRecord, summary: Mapping[str, Any]) -> Path:
    """Write the page of a campaign into its folder, and the report of each point's run into the run's.

    The pages are single files that open offline; the links between them are relative, so that the folder can
    be moved as a whole.

    Args:
        campaign: The campaign.
        summary: Its figures, as `campaign_summary` returns them.

    Returns:
        The page of the campaign.

    Raises:
        UsageError: A page cannot be written.
    """
    for point in campaign.points:
        if not point.error:
            write_report([point.path], point.path / RUN_PAGE, audio_mb=_AUDIO_MB)
    return write_page(campaign.folder, CAMPAIGN_PAGE, campaign_page(campaign, summary))


def campaign_page(campaign: CampaignRecord, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the page of a campaign in pieces.

    Args:
        campaign: The campaign.
        summary: Its figures, as `campaign_summary` returns them.
    """
    views = _views(campaign, summary)
    swept = [view for view in views if view.record.role == "sweep"]
    measured = [view for view in views if view.record.role != "sentinel"]
    is_open = summary["arrivals"] not in (None, "closed")
    return page_template(_TEMPLATES / "latency.html", number=number).generate(
        title=campaign.folder.resolve().name,
        version=__version__,
        colours=_COLOURS,
        summary=summary,
        asserts=tables.assert_table(summary),
        sweep_table=tables.sweep_table(measured),
        sweeps=[
            (tables.METRIC_TITLES[name], chart)
            for name in (_HEARD, *(_CURVED_OPEN if is_open else ()))
            if (chart := sweep(swept, name)) is not None
        ],
        charts=list(_charts(swept, (*_CURVED, *_CURVED_OPEN) if is_open else _CURVED)),
        tails=list(_tails(swept, (_HEARD, _HEARD_FROM_DUE) if is_open else (_HEARD,))),
        point_tables=[(view, tables.point_table(view)) for view in measured],
        mean_waterfall=mean_waterfall(measured),
        step_table=tables.step_table(measured),
        waterfalls=[(view, chart) for view in measured if (chart := turn_waterfall(view)) is not None],
        stalls=tables.stall_table(measured),
        costs=tables.cost_table(measured),
        endpointing=tables.endpointing_chart(summary, views),
        other_definitions=tables.definitions_chart(summary, views),
        sentinels=drift_table(summary["sentinel"], {view.name: view.link for view in views}.__getitem__),
        stamps=stamped_by(summary["stamped_turns"]),
        calibration=_calibration(campaign),
        lag_note=LAG_NOTE,
        definitions=CAMPAIGN_DEFINITIONS,
        settings=_settings(campaign.facts),
    )


def _views(campaign: CampaignRecord, summary: Mapping[str, Any]) -> list[PointView]:
    colours = itertools.count()
    return [
        PointView(next(colours) if record.role == "sweep" else None, record, figures)
        for record, figures in zip(campaign.points, summary["points"], strict=True)
    ]


def _charts(points: Sequence[PointView], metrics: Sequence[str]) -> Iterator[TurnChart]:
    for metric in metrics:
        for some in _by_colours(points):
            chart = turn_chart(tables.METRIC_TITLES[metric].capitalize(), metric, some, _COLOURS)
            if chart is not None:
                yield chart


def _tails(points: Sequence[PointView], metrics: Sequence[str]) -> Iterator[TailChart]:
    for metric in metrics:
        for some in _by_colours(points):
            title = f"{tables.METRIC_TITLES[metric].capitalize()} by percentile: the tail, ms"
            chart = tail_chart(title, metric, some, _COLOURS)
            if chart is not None:
                yield chart


def _by_colours(points: Sequence[PointView]) -> Iterator[Sequence[PointView]]:
    """Yield the points in groups whose colours differ."""
    for start in range(0, len(points), _COLOURS):
        yield points[start : start + _COLOURS]


def _calibration(campaign: CampaignRecord) -> str:
    """Return the error that this machine measured of itself, in words; empty if it is not known."""
    kept = kept_in(campaign.facts)
    return kept.in_words() if kept is not None else ""


def _settings(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what `campaign.json` says of the campaign as a whole."""
    whole = {name: value for name, value in facts.items() if name not in ("points", "notes", "plan")}
    return [(name, str(value)) for name, value in flattened(whole) if value not in (None, "", [])]
