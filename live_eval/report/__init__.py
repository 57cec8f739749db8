"""Build reports: a page that works offline, or its tables as Markdown, CSV or JSON."""

from live_eval.report.build import ReportFormat, open_runs, write_report

__all__ = ["ReportFormat", "open_runs", "write_report"]
