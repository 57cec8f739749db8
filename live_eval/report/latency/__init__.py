"""The page of a latency campaign: its figures, with links to the turns behind them."""

from live_eval.report.latency.page import CAMPAIGN_PAGE, campaign_page, write_campaign_page

__all__ = ["CAMPAIGN_PAGE", "campaign_page", "write_campaign_page"]
