"""Parts of the terminal's screen: bars on a fixed scale, large figures, waterfall, take and scores. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from live_eval.live.lines import duration, in_words, plain, score_lines, stopped, take_line, voice_to_voice
from live_eval.live.standings import SPREAD, Standing
from live_eval.live.updates import LatencyMeasured, QuickScores, TakeAsked, TakeChecked

__all__ = [
    "figures",
    "latency_bar",
    "latest_lines",
    "rows_of",
    "scores_of",
    "standings_table",
    "take_lines",
    "waterfall",
]

_SCALE_NS = 3_000_000_000  # fixed end of the bars' scale, to make turns comparable
_BAR = 40  # in characters
_SHORTEST_BAR = 10
_FRAME = 4  # width in columns
_FEWEST = 3
_DIGITS = {
    "0": ("█▀█", "█ █", "▀▀▀"),
    "1": ("▀█ ", " █ ", "▀▀▀"),
    "2": ("▀▀█", "█▀▀", "▀▀▀"),
    "3": ("▀▀█", " ▀█", "▀▀▀"),
    "4": ("█ █", "▀▀█", "  ▀"),
    "5": ("█▀▀", "▀▀█", "▀▀▀"),
    "6": ("█▀▀", "█▀█", "▀▀▀"),
    "7": ("▀▀█", "  █", "  ▀"),
    "8": ("█▀█", "█▀█", "▀▀▀"),
    "9": ("█▀█", "▀▀█", "▀▀▀"),
    "-": ("   ", "▀▀▀", "   "),
}


def latest_lines(said: Sequence[Text], room: int, width: int) -> Sequence[Text]:
    """Return the latest lines that fit in `room` rows, at least a few of them."""
    rows = [rows_of(text, width) for text in said]
    while len(said) > 1 and sum(rows[-len(said) :]) > max(room, _FEWEST):
        said = said[1:]
    return said


def rows_of(part: Text | Table, width: int) -> int:
    """Return the height of a screen part in rows; the cells of a table must not wrap."""
    if isinstance(part, Table):
        return part.row_count + (1 if part.show_header and part.columns else 0)
    return max(1, math.ceil(part.cell_len / max(1, width - _FRAME)))


def latency_bar(ns: int, begin_ns: int = 0, columns: int = _BAR) -> Text:
    """Return the bar, on the common scale, of a latency that begins at `begin_ns`; empty for 0 or less.

    A bar that the scale cuts ends in an arrow.
    """
    at, end = (min(columns - 1, each * columns // _SCALE_NS) for each in (begin_ns, begin_ns + ns))
    bar = "█" * max(1, end - at) if ns > 0 else ""
    return Text(" " * at) + Text(f"{bar[:-1]}▶" if bar and begin_ns + ns > _SCALE_NS else bar, style="blue")


def figures(standings: Sequence[Standing], number: int) -> Table:
    """Return the voice-to-voice latencies of a turn in large digits with headings, side by side, in ms."""
    table = Table.grid(padding=(0, 3), expand=True)
    digits = []
    for each in standings:
        table.add_column(no_wrap=True, ratio=1)
        ms = each.voice_to_voice_ms(number)
        digits.append([_DIGITS[digit] for digit in ("-" if ms is None else f"{ms:.0f}")])
    whose = [f"{each.label}: " if len(standings) > 1 else "" for each in standings]
    table.add_row(*(Text(plain(f"{each}voice to voice"), style="dim") for each in whose))
    for row in range(3):
        units = ("", "", " ms")
        table.add_row(
            *(Text(" ".join(digit[row] for digit in each) + units[row], style="bold") for each in digits)
        )
    return table


def standings_table(
    standings: Sequence[Standing],
    number: int,
    width: int,
    *,
    heard: int | None = 0,
    wins: Sequence[int] = (),
    winner: int | None = -1,
) -> Table:
    """Return each endpoint's state, its latency of a turn on the fixed scale, and the median so far.

    Args:
        number: Turn number; 0 before the first turn.
        heard: Place of the audible endpoint; None for all.
        wins: Number of votes for each endpoint; empty for a single endpoint.
        winner: Place of the endpoint that has won the turn's vote; -1 before the vote.
    """
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    several = bool(wins)
    rows: list[list[Text]] = []
    for place, each in enumerate(standings):
        audible = heard in (None, place)
        name = Text(plain(each.label), style="bold" if audible else "")
        row = [Text(f"{'▶' if audible else ' '} {place + 1} ") + name if several else name]
        row.append(Text(each.in_words, style="red" if each.failure is not None else ""))
        row.append(Text(plain(each.turn_in_words(number)) if number else ""))
        row.append(Text(each.so_far))
        if several:
            row.append(Text(f"{wins[place]} {'★' if winner == place else ''}"))
        rows.append(row)
    turn = f"turn {number}" if number else ""
    headings = ["", "state", turn, SPREAD, *(["votes"] if several else [])]
    taken = sum(
        max(len(heading), *(row[at].cell_len for row in rows)) + 2 for at, heading in enumerate(headings)
    )
    bar = max(_SHORTEST_BAR, min(_BAR, width - _FRAME - taken - 2))
    headings.insert(3, f"0{f'{_SCALE_NS // 1_000_000_000} s':>{bar - 1}}")
    for heading in headings:
        table.add_column(heading, header_style="dim", no_wrap=True, overflow="ellipsis")
    for each, row in zip(standings, rows, strict=True):
        ms = each.voice_to_voice_ms(number)
        table.add_row(*row[:3], latency_bar(0 if ms is None else round(ms * 1e6), columns=bar), *row[3:])
    return table


def waterfall(turn: LatencyMeasured) -> Text | Table:
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


def take_lines(asked: TakeAsked, checked: TakeChecked | None) -> list[Text]:
    """Return a take's script and the result of its check."""
    again = f", attempt {asked.attempt}" if asked.attempt > 1 else ""
    lines = [
        Text(f"take {asked.number} of {asked.total}{again}: say this", style="dim")
        + Text(f" {plain(asked.direction)}", style="bold yellow"),
        Text(plain(asked.text), style="bold"),
    ]
    if checked is not None:
        lines.append(Text(plain(take_line(checked)), style="red" if checked.problems else "green"))
    return lines


def scores_of(labelled: Iterable[tuple[str, QuickScores]]) -> list[Text]:
    """Return the scores of each endpoint's latest scored turn; a single endpoint has an empty label."""
    lines: list[Text] = []
    for label, scores in labelled:
        found = score_lines(scores)
        if label:
            lines.append(Text(plain(f"{label}: {' · '.join(found)}{duration(scores)}")))
        elif found:
            lines.append(Text(plain(f"scores of turn {scores.number}{duration(scores)}"), style="bold"))
            lines += [Text(plain(line)) for line in found]
    return lines
