"""The paper's three tables with rows for your own runs, and heat maps by attribute and type of question."""

from live_eval.report.leaderboard.board import Board, BoardCell, BoardRow, BoardTable, HeatMap, build_board
from live_eval.report.leaderboard.entries import BoardRun, Source
from live_eval.report.leaderboard.plots import LevelPlot, ModelDot
from live_eval.report.leaderboard.render import BoardFormat, render

__all__ = [
    "Board",
    "BoardCell",
    "BoardFormat",
    "BoardRow",
    "BoardRun",
    "BoardTable",
    "HeatMap",
    "LevelPlot",
    "ModelDot",
    "Source",
    "build_board",
    "render",
]
