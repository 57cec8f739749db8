"""Build leaderboards: published tables with rows for the user's runs, and heat maps."""

from live_eval.report.leaderboard.benchmark import build_benchmark_board
from live_eval.report.leaderboard.board import build_board
from live_eval.report.leaderboard.render import BoardFormat, render

__all__ = ["BoardFormat", "build_benchmark_board", "build_board", "render"]
