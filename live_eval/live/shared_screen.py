"""Show a conversation with several endpoints on the terminal screen, with their values side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from live_eval.live.drawing import Drawing
from live_eval.live.lines import duration, in_words, plain, score_lines
from live_eval.live.screen import latency_bar, latest_lines, rows_of, user_meter
from live_eval.live.standings import Standing
from live_eval.live.updates import (
    AudioSide,
    DeviceChanged,
    EchoDetected,
    FromEndpoint,
    HeardChanged,
    Levels,
    QuickScores,
    SpeechDetected,
    State,
    StateChanged,
    TranscriptPiece,
    Update,
    Voted,
    Xruns,
)

__all__ = ["SharedScreen"]

_LINES = 10
_FIXED_ROWS = 7  # frame, meter, table's heading, two empty rows and cursor row


class SharedScreen:
    """A `Screen` for several endpoints; use it as a context manager.

    Args:
        standings: The endpoints' values, updated by the conversation, in the order of presentation.
        keys: Key help for the bottom line.
        console: Output console; the terminal by default.
    """

    def __init__(self, standings: Sequence[Standing], keys: str, console: Console | None = None) -> None:
        self._keys = keys
        self._drawing = Drawing(self.render, console)
        self._standings = standings
        self._said: deque[Text] = deque(maxlen=_LINES)
        self._pieces = [dict.fromkeys(AudioSide, "") for _ in standings]
        self._scores: dict[int, QuickScores] = {}  # of the latest scored turn, by place
        self._notes: dict[type | AudioSide, str] = {}
        self._heard: int | None = 0
        self._wins = (0,) * len(standings)
        self._voted: dict[int, int | None] = {}
        self._levels = Levels(-90.0, -90.0)
        self._speaks = False

    def __enter__(self) -> Self:
        self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._drawing.stop()

    def show(self, update: Update) -> None:
        """Handle an update."""
        match update:
            case FromEndpoint():
                self._show_endpoint(update.place, update.update)
            case Levels():
                self._levels = update
            case DeviceChanged(side):
                self._notes[side] = in_words(update)
            case HeardChanged():
                self._heard = update.place
            case Voted():
                self._wins = update.wins
                if update.number is not None:
                    self._voted[update.number] = update.winner
        self._drawing.changed()

    def _show_endpoint(self, place: int, update: Update) -> None:
        standing = self._standings[place]
        match update:
            case SpeechDetected():
                self._speaks = update.speaking
            case TranscriptPiece():
                pieces = self._pieces[place]
                pieces[update.side] = update.text if update.final else pieces[update.side] + update.text
                if update.final:
                    self._say(place, update.side)
            case StateChanged() if update.failure is not None:
                self._said.append(Text(plain(f"{standing.label}: {in_words(update)}"), style="yellow"))
            case StateChanged(state=State.SCORING):
                self._notes[State] = in_words(update)
            case QuickScores():
                self._scores[place] = update.merged(self._scores.get(place))
            case Xruns() | EchoDetected():
                self._notes[type(update)] = in_words(update)

    def _say(self, place: int, side: AudioSide) -> None:
        text, self._pieces[place][side] = self._pieces[place][side].strip(), ""
        if text:
            who = self._standings[place].label + (" heard you say" if side is AudioSide.USER else "")
            style = "bold" if side is AudioSide.USER else "cyan"
            self._said.append(Text(f"{plain(who)}: ", style="dim") + Text(plain(text), style=style))

    def render(self) -> RenderableType:
        """Return the current contents of the screen."""
        meters = user_meter(self._levels, speaks=self._speaks)
        notes = [Text(note, style="yellow") for note in self._notes.values()]
        title = "all in turn" if self._heard is None else f"you hear {self._standings[self._heard].label}"
        scores = [
            Text(plain(f"{self._standings[place].label}: {' · '.join(score_lines(each))}{duration(each)}"))
            for place, each in sorted(self._scores.items())
        ]
        width, height = self._drawing.console.size
        room = height - _FIXED_ROWS - len(self._standings) - sum(rows_of(note, width) for note in notes)
        if (rows := sum(rows_of(each, width) for each in scores)) > room // 2:
            scores, rows = [], 0  # the notes and what is said matter more
        said = latest_lines(list(self._said), room - rows, width)
        parts: list[RenderableType] = [meters, Text(), self._table(), *scores, Text(), *said, *notes]
        return Panel(Group(*parts), title=plain(title), subtitle=self._keys, title_align="left")

    def _table(self) -> Table:
        number = max((number for each in self._standings for number in each.turns), default=0)
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        turn = f"turn {number}" if number else ""
        for heading in ("", "", "state", turn, "", "median (range, turns)", "votes"):
            table.add_column(heading, header_style="dim")
        for place, each in enumerate(self._standings):
            ms = each.voice_to_voice_ms(number)
            heard = self._heard in (None, place)
            won = "★" if self._voted.get(number, -1) == place else ""
            table.add_row(
                f"{'▶' if heard else ' '} {place + 1}",
                Text(plain(each.label), style="bold" if heard else ""),
                Text(each.in_words, style="red" if each.failure is not None else ""),
                plain(each.turn_in_words(number)) if number else "",
                latency_bar(0 if ms is None else round(ms * 1e6)),
                each.so_far,
                f"{self._wins[place]} {won}",
            )
        return table
