"""Build a latency campaign's page, with links from values to turns."""

from live_eval.report.latency.page import campaign_page, write_campaign_page

__all__ = ["campaign_page", "write_campaign_page"]
