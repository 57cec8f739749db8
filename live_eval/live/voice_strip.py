"""Draw both voices as scrolling waveforms and spectrograms of block characters. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from live_eval.live.updates import Levels
from live_eval.live.voice_bands import BANDS

__all__ = ["Spectrogram", "VoiceStrip"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_QUIETEST_DBFS = -60.0
_CLIPS_DBFS = -3.0
_SHADES = " ░▒▓█"
_FAINTEST_DBFS = -75.0  # minimum and maximum level of a band
_LOUDEST_DBFS = -30.0
_SILENT = (-90.0,) * BANDS
_UPDATES = 2  # levels in a column, so that it takes about 100 ms
_MOST = 240  # columns
_NAME = 9
_LEVEL = 9  # width of a level with its unit and spaces


class _Column(NamedTuple):
    """The loudest levels of both voices in about 100 ms."""

    user: float
    reply: float
    waits: bool
    user_bands: tuple[float, ...]
    reply_bands: tuple[float, ...]


class Spectrogram:
    """A spectrogram of `BANDS` lines of shades, drawn without `Text`, which takes several milliseconds.

    Args:
        spectra: Levels of the bands in dBFS, of each column, the upper line first.
        before: Number of empty columns at the left.
    """

    def __init__(self, spectra: Sequence[tuple[float, ...]], before: int, colour: str) -> None:
        self._spectra = spectra
        self._before = " " * before
        self._style = Style(color=colour)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in range(BANDS):
            shades = "".join(_shade(round(spectrum[line])) for spectrum in self._spectra)
            yield Segment(self._before + shades, self._style)
            yield Segment.line()


class VoiceStrip:
    """Both voices on one axis, the latest at the right, with the handovers from the user to the reply."""

    def __init__(self) -> None:
        self._levels = Levels(-90.0, -90.0)
        self._columns: deque[_Column] = deque(maxlen=_MOST)
        self._updates = 0

    def add(self, levels: Levels, *, waits: bool) -> None:
        """Add the latest levels; `waits` is whether the user waits for the reply."""
        self._levels = levels
        heard = levels.reply_bands or _SILENT
        column = _Column(levels.user, levels.reply, waits, levels.user_bands or _SILENT, heard)
        if levels.muted:
            column = column._replace(user=-90.0, user_bands=_SILENT)
        if self._updates % _UPDATES and self._columns:
            column = _louder(self._columns.pop(), column)
        self._columns.append(column)
        self._updates += 1

    def spectrograms(self, width: int) -> tuple[Spectrogram, Spectrogram]:
        """Return the user's spectrogram, to draw above the waveforms, and the reply's, to draw below them.

        The lowest band is next to the waveform.
        """
        shown = list(self._columns)[-max(1, width - _NAME - _LEVEL) :]
        before = width - _LEVEL - len(shown) + 1  # up to the first column in the table of `rows`
        return (
            Spectrogram([each.user_bands[::-1] for each in shown], before, "green"),
            Spectrogram([each.reply_bands for each in shown], before, "cyan"),
        )

    def rows(self, width: int, *, speaks: bool) -> Table:
        """Return the waveforms of the user and of the reply as two rows that fit in `width` columns.

        Args:
            speaks: Whether the user speaks, according to the session's detector.
        """
        columns = max(1, width - _NAME - _LEVEL)
        shown = list(self._columns)[-columns:]
        user = Text(" " * (columns - len(shown)))
        for column in shown:
            block = _block(column.user)
            style = "red" if column.user > _CLIPS_DBFS else "green"
            user.append("·" if column.waits and block == " " else block, "yellow" if column.waits else style)
        reply = Text("".join(_block(column.reply) for column in shown).rjust(columns), style="cyan")
        levels = self._levels
        who = "muted" if levels.muted else "you speak" if speaks else "you"
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=_NAME)
        table.add_column(no_wrap=True, ratio=1)
        table.add_column(justify="right", no_wrap=True)
        table.add_row(who, user, f"{levels.user:.0f} dB")
        table.add_row("reply", reply, f"{levels.reply:.0f} dB")
        return table


def _louder(one: _Column, other: _Column) -> _Column:
    return _Column(
        max(one.user, other.user),
        max(one.reply, other.reply),
        one.waits or other.waits,
        tuple(map(max, one.user_bands, other.user_bands)),
        tuple(map(max, one.reply_bands, other.reply_bands)),
    )


def _block(level: float) -> str:
    return _symbol(_BLOCKS, level, _QUIETEST_DBFS, 0.0)


@lru_cache(maxsize=256)
def _shade(level: int) -> str:
    return _symbol(_SHADES, level, _FAINTEST_DBFS, _LOUDEST_DBFS)


def _symbol(symbols: str, level: float, low: float, high: float) -> str:
    """Return the symbol for a level on the scale from `low`, the first symbol, to `high`."""
    share = (level - low) / (high - low)
    return symbols[round(max(0.0, min(1.0, share)) * (len(symbols) - 1))]
