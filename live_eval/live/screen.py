"""Show a live conversation on the terminal screen: meters, transcript, latest waterfall and keys."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from live_eval.live.drawing import Drawing
from live_eval.live.lines import (
    duration,
    in_words,
    plain,
    score_lines,
    stopped,
    take_line,
    voice_to_voice,
)
from live_eval.live.standings import Standing
from live_eval.live.updates import (
    AudioSide,
    DeviceChanged,
    EchoDetected,
    LatencyMeasured,
    Levels,
    QuickScores,
    SpeechDetected,
    State,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TranscriptPiece,
    Update,
    Xruns,
)

__all__ = ["LiveScreen", "latency_bar", "latest_lines", "rows_of", "user_meter"]

_LINES = 14
_METER = 30  # width in characters, for 60 dB
_BAR = 40  # in characters
_SCALE_NS = 3_000_000_000  # fixed end of the bars' scale, to make turns comparable
_FRAME = 4  # width in columns
_FIXED_ROWS = 6  # frame, meters, empty row and cursor row
_FEWEST = 3
_TOLD = (State.LAUNCHING, State.DISCONNECTED, State.REPEATING, State.SCORING)


class LiveScreen:
    """A `Screen` on the terminal; use it as a context manager.

    Args:
        keys: Key help for the bottom line.
        console: Output console; the terminal by default.
    """

    def __init__(self, title: str, keys: str, console: Console | None = None) -> None:
        self._title = title
        self._keys = keys
        self._drawing = Drawing(self.render, console)
        self._transcript: deque[tuple[AudioSide | None, str]] = deque(maxlen=_LINES)
        self._pieces = dict.fromkeys(AudioSide, "")
        self._levels = Levels(-90.0, -90.0)
        self._speaks = False
        self._standing = Standing(title)
        self._turn: LatencyMeasured | None = None
        self._scores: QuickScores | None = None
        self._notes: dict[type | AudioSide, str] = {}
        self._asked: TakeAsked | None = None
        self._checked: TakeChecked | None = None

    def __enter__(self) -> Self:
        self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._drawing.stop()

    def show(self, update: Update) -> None:
        """Handle an update."""
        self._standing.follow(update)
        match update:
            case Levels():
                self._levels = update
            case SpeechDetected():
                self._speaks = update.speaking
                if update.barge_in:
                    self._transcript.append((None, in_words(update)))
            case TranscriptPiece():
                self._add_piece(update)
            case LatencyMeasured():
                self._turn = update
                for side in AudioSide:
                    self._end_line(side, self._pieces[side])
            case QuickScores():
                self._scores = update.merged(self._scores)
            case TakeAsked():
                self._asked, self._checked = update, None
            case TakeChecked():
                self._checked = update
            case StateChanged():
                if update.failure is not None or update.state in _TOLD:
                    self._transcript.append((None, in_words(update)))
            case Xruns() | EchoDetected():
                self._notes[type(update)] = in_words(update)
            case DeviceChanged(side):
                self._notes[side] = in_words(update)
            case _:
                line = in_words(update)
                if line:
                    self._transcript.append((None, line))
        self._drawing.changed()

    def _add_piece(self, piece: TranscriptPiece) -> None:
        if piece.final:
            self._end_line(piece.side, piece.text)
        else:
            self._pieces[piece.side] += piece.text

    def _end_line(self, side: AudioSide, text: str) -> None:
        self._pieces[side] = ""
        if text.strip():
            self._transcript.append((side, text.strip()))

    def render(self) -> RenderableType:
        """Return the current contents of the screen."""
        meters = user_meter(self._levels, speaks=self._speaks)
        meters.add_row("reply", _meter(self._levels.reply), f"{self._levels.reply:4.0f} dB")
        below: list[Text | Table] = []
        if self._turn is not None:
            below += [Text(), _waterfall(self._turn)]
        if self._scores is not None:
            below += [Text(), *_scores(self._scores)]
        below += [Text(note, style="yellow") for note in self._notes.values()]
        lines = [*self._transcript, *((side, f"{text} …") for side, text in self._pieces.items() if text)]
        take = [] if self._asked is None else _take(self._asked, self._checked)
        below = [*take, *below] if self._standing.state is State.RECORDING else below
        width, height = self._drawing.console.size
        room = height - _FIXED_ROWS - sum(rows_of(part, width) for part in below)
        parts = [
            meters,
            Text(),
            *latest_lines([_transcript_line(side, text) for side, text in lines], room, width),
            *below,
        ]
        title = f"{escape(self._title)} · {self._standing.in_words}"
        return Panel(Group(*parts), title=title, subtitle=self._keys, title_align="left")


def latest_lines(said: Sequence[Text], room: int, width: int) -> Sequence[Text]:
    """Return the latest lines that fit in `room` rows, at least a few of them."""
    rows = [rows_of(text, width) for text in said]
    while len(said) > 1 and (len(said) > _LINES or sum(rows[-len(said) :]) > max(room, _FEWEST)):
        said = said[1:]
    return said


def rows_of(part: Text | Table, width: int) -> int:
    """Return the height of a screen part in rows."""
    if isinstance(part, Table):
        return part.row_count
    return max(1, math.ceil(part.cell_len / max(1, width - _FRAME)))


def user_meter(levels: Levels, *, speaks: bool) -> Table:
    """Return a table with the meter of the user's level."""
    table = Table.grid(padding=(0, 1))
    who = "muted" if levels.muted else "you speak" if speaks else "you"
    table.add_row(who.ljust(9), _meter(levels.user), f"{levels.user:4.0f} dB")
    return table


def _meter(level: float) -> Text:
    """Return the meter of a level in dBFS."""
    full = round(max(0.0, min(1.0, (level + 60) / 60)) * _METER)
    style = "red" if level > -3 else "green"
    return Text("█" * full, style=style) + Text("░" * (_METER - full), style="dim")


def _transcript_line(side: AudioSide | None, text: str) -> Text:
    if side is None:
        return Text(plain(text), style="yellow")
    name, style = ("you: ", "bold") if side is AudioSide.USER else ("reply: ", "cyan")
    return Text(name, style="dim") + Text(plain(text), style=style)


def _waterfall(turn: LatencyMeasured) -> Text | Table:
    """Return a turn's waterfall, in which each step's bar begins where the previous bar ends."""
    failure = turn.record.failure
    if failure is not None:
        return Text(plain(in_words(turn)), style="red")
    table = Table.grid(padding=(0, 1))
    table.add_row(
        Text(f"turn {turn.number}", style="bold"), Text(f"voice to voice {voice_to_voice(turn)}"), ""
    )
    parts = {name: ns for name, ns in turn.reply_steps.items() if ns > 0}
    begin = 0
    for name, ns in parts.items():
        table.add_row(name.replace("_", " "), latency_bar(ns, begin), f"{ns / 1e6:.0f} ms")
        begin += ns
    if stopped(turn):
        table.add_row("", Text(stopped(turn), style="yellow"), "")
    return table


def latency_bar(ns: int, begin_ns: int = 0) -> Text:
    """Return the bar, on the common scale, of a latency that begins at `begin_ns`; empty for 0 or less.

    A bar that the scale cuts ends in an arrow.
    """
    at, end = (min(_BAR - 1, each * _BAR // _SCALE_NS) for each in (begin_ns, begin_ns + ns))
    bar = "█" * max(1, end - at) if ns > 0 else ""
    return Text(" " * at) + Text(f"{bar[:-1]}▶" if bar and begin_ns + ns > _SCALE_NS else bar, style="blue")


def _take(asked: TakeAsked, checked: TakeChecked | None) -> list[Text]:
    """Return a take's script and the result of its check."""
    again = f", attempt {asked.attempt}" if asked.attempt > 1 else ""
    lines = [
        Text(f"take {asked.number} of {asked.total}{again}: say this", style="dim")
        + Text(f" {plain(asked.direction)}", style="bold yellow"),
        Text(plain(asked.text), style="bold"),
    ]
    if checked is not None:
        lines.append(Text(plain(take_line(checked)), style="red" if checked.problems else "green"))
    return [*lines, Text()]


def _scores(scores: QuickScores) -> list[Text]:
    lines = score_lines(scores)
    heading = [Text(f"scores of {scores.turn_id}{duration(scores)}", style="bold")] if lines else []
    return [*heading, *(Text(plain(line)) for line in lines)]
