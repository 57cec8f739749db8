"""Draw both voices as scrolling waveforms of block characters. Pure."""

from __future__ import annotations

from collections import deque

from rich.table import Table
from rich.text import Text

from live_eval.live.updates import Levels

__all__ = ["VoiceStrip"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_QUIETEST_DBFS = -60.0
_CLIPS_DBFS = -3.0
_UPDATES = 2  # levels in a column, so that it takes about 100 ms
_MOST = 240  # columns
_NAME = 9
_LEVEL = 9  # width of a level with its unit and spaces


class VoiceStrip:
    """Both voices on one axis, the latest at the right, with the handovers from the user to the reply."""

    def __init__(self) -> None:
        self._levels = Levels(-90.0, -90.0)
        self._columns: deque[tuple[float, float, bool]] = deque(maxlen=_MOST)
        self._updates = 0

    def add(self, levels: Levels, *, waits: bool) -> None:
        """Add the latest levels; `waits` is whether the user waits for the reply."""
        self._levels = levels
        user = -90.0 if levels.muted else levels.user
        column = user, levels.reply, waits
        if self._updates % _UPDATES and self._columns:
            *before, waited = self._columns.pop()
            column = max(user, before[0]), max(levels.reply, before[1]), waits or waited
        self._columns.append(column)
        self._updates += 1

    def rows(self, width: int, *, speaks: bool) -> Table:
        """Return two rows, the user's and the reply's, that fit in `width` columns.

        Args:
            speaks: Whether the user speaks, according to the session's detector.
        """
        columns = max(1, width - _NAME - _LEVEL)
        shown = list(self._columns)[-columns:]
        user = Text(" " * (columns - len(shown)))
        for level, _, waits in shown:
            block = _block(level)
            style = "red" if level > _CLIPS_DBFS else "green"
            user.append("·" if waits and block == " " else block, "yellow" if waits else style)
        reply = Text("".join(_block(level) for _, level, _ in shown).rjust(columns), style="cyan")
        levels = self._levels
        who = "muted" if levels.muted else "you speak" if speaks else "you"
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=_NAME)
        table.add_column(no_wrap=True, ratio=1)
        table.add_column(justify="right", no_wrap=True)
        table.add_row(who, user, f"{levels.user:.0f} dB")
        table.add_row("reply", reply, f"{levels.reply:.0f} dB")
        return table


def _block(level: float) -> str:
    share = (level - _QUIETEST_DBFS) / -_QUIETEST_DBFS
    return _BLOCKS[round(max(0.0, min(1.0, share)) * (len(_BLOCKS) - 1))]
