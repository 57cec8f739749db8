"""The page of a latency campaign, with links from its values to their turns."""

from live_eval.report.latency.page import campaign_page, write_campaign_page

__all__ = ["campaign_page", "write_campaign_page"]
