"""Build leaderboards: the paper's three tables with rows for the user's runs, and heat maps."""

from live_eval.report.leaderboard.board import build_board
from live_eval.report.leaderboard.render import BoardFormat, render

__all__ = ["BoardFormat", "build_board", "render"]
