"""The paper's three tables with rows of one's own runs, and maps of where a model is strong."""

from live_eval.leaderboard.board import Board, BoardCell, BoardRow, BoardTable, HeatMap, build_board
from live_eval.leaderboard.columns import BoardColumn
from live_eval.leaderboard.entries import Source
from live_eval.leaderboard.plots import LevelPlot, ModelDot
from live_eval.leaderboard.render import BoardFormat, render
from live_eval.leaderboard.runs import BoardRun

__all__ = [
    "Board",
    "BoardCell",
    "BoardColumn",
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
