"""Build a duplex campaign's page: outcomes, durations, and every trial on two tracks with audio."""

from live_eval.report.duplex.page import write_comparison_page, write_duplex_page

__all__ = ["write_comparison_page", "write_duplex_page"]
