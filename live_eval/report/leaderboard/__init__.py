"""The paper's three tables with rows for your own runs, and heat maps by attribute and by question type."""

from live_eval.report.leaderboard.board import build_board
from live_eval.report.leaderboard.render import BoardFormat, render

__all__ = ["BoardFormat", "build_board", "render"]
