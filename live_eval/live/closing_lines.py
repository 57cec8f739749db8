"""Collect the values of a conversation with one endpoint for the lines that are printed at its end. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean
from typing import Self

from live_eval.live.lines import ShownScore, main_scores
from live_eval.live.standings import SPREAD, Standing
from live_eval.live.terminal import Screen
from live_eval.live.updates import EchoDetected, QuickScores, Update
from live_eval.text.wording import counted

__all__ = ["ClosingLines"]


class ClosingLines:
    """A `Screen` that collects values for the closing lines, and forwards updates to another screen."""

    def __init__(self) -> None:
        self._screen: Screen | None = None
        self._standing = Standing("")
        self._echoes = False
        self._scores: defaultdict[str, dict[int, ShownScore]] = defaultdict(dict)  # by title and turn

    def before(self, screen: Screen) -> Self:
        """Forward updates to `screen`."""
        self._screen = screen
        return self

    def show(self, update: Update) -> None:
        """Handle an update."""
        self._standing.follow(update)
        self._echoes = self._echoes or isinstance(update, EchoDetected)
        if isinstance(update, QuickScores):
            for score in main_scores(update.scores):
                self._scores[score.title][update.number] = score
        if self._screen is not None:
            self._screen.show(update)

    @property
    def lines(self) -> list[str]:
        """The numbers of turns, the latency, the main scores, and a note on echoes; empty without turns."""
        turns = self._standing.turns.values()
        if not turns:
            return []
        failed = sum(turn.record.failure is not None for turn in turns)
        lost = f", {failed} failed" if failed else ""
        latency = f"voice to voice, {SPREAD}: {self._standing.so_far}"
        scores = [f"{title}: {_in_all(list(found.values()))}" for title, found in self._scores.items()]
        echo = ["the microphone picked up replies: some turns may be echoes"] if self._echoes else []
        return [f"{counted(len(turns), 'turn')}{lost}", latency, *scores, *echo]


def _in_all(scores: list[ShownScore]) -> str:
    """Return the mean of a score or, for classes, their frequencies."""
    values = [score.value for score in scores if isinstance(score.value, float)]
    if values:
        mean = scores[0]._replace(value=fmean(values))
        return f"{mean.text} (mean of {counted(len(values), 'turn')})"
    classes = Counter(str(score.value).partition(",")[0] for score in scores)
    return ", ".join(f"{name} {count}×" for name, count in classes.most_common())
