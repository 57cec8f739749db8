"""The page of a latency campaign: its figures, with links to the turns behind them."""

from live_eval.report.latency.page import campaign_page, write_campaign_page

__all__ = ["campaign_page", "write_campaign_page"]
