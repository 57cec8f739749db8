"""Render a campaign as Markdown: its assertions first, then its values; for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.campaigns.duplex.summary import DuplexSummary
from live_eval.campaigns.latency.points import PointRole
from live_eval.campaigns.latency.summary import CampaignSummary
from live_eval.report.cells import Table
from live_eval.report.duplex.tables import condition_table, pair_table, profile_table
from live_eval.report.latency.page import point_views
from live_eval.report.latency.tables import sweep_table
from live_eval.report.tables import assert_table
from live_eval.report.text_formats import table_as_markdown
from live_eval.text.wording import markdown_text

__all__ = ["duplex_as_markdown", "latency_as_markdown"]


def duplex_as_markdown(summary: DuplexSummary) -> str:
    """Return a duplex campaign's assertions, and the profile and conditions of each run."""
    tables = []
    for run, profile in summary.profiles.items():
        suffix = "" if len(summary.profiles) == 1 else f": {run}"
        tables.append((f"Turn-taking{suffix}", profile_table(profile)))
        conditions = [each for each in summary.conditions if each.run == run]
        tables.append((f"Probes{suffix}", condition_table(conditions)))
    tables.append(("Impaired compared with clean", pair_table(summary.paired)))
    return _document(summary, tables)


def latency_as_markdown(summary: CampaignSummary) -> str:
    """Return a latency campaign's assertions and conditions."""
    views = [view for view in point_views(summary) if view.record.stored.role != PointRole.SENTINEL]
    return _document(summary, [("Voice to voice, ms", sweep_table(views))])


def _document(summary: DuplexSummary | CampaignSummary, tables: Sequence[tuple[str, Table]]) -> str:
    campaign = summary.campaign
    about = [str(fact) for name in ("endpoint", "created") if (fact := campaign.facts.get(name))]
    parts = [f"# {markdown_text(campaign.folder.resolve().name)}", markdown_text(" · ".join(about))]
    if not summary.complete:
        parts.append("**The campaign is incomplete: it was interrupted or stopped.**")
    parts.append("\n".join(f"- {markdown_text(note)}" for note in summary.notes))
    for title, table in (("Assertions", assert_table(summary.asserts)), *tables):
        if table.rows:
            parts += [f"## {title}", table_as_markdown(table)]
    return "\n\n".join(filter(None, parts)) + "\n"
