"""Parts of the screen."""

from rich.console import Console

from live_eval.live.screen_parts import figures, latency_bar, rows_of, standings_table
from live_eval.live.standings import Standing
from tests.unit.live.test_ballot import turn


def text(part: object, width: int) -> list[str]:
    console = Console(width=width, height=24)
    with console.capture() as captured:
        console.print(part)
    return captured.get().splitlines()


def standing(label: str) -> Standing:
    found = Standing(label)
    found.follow(turn(1))
    return found


def test_a_bar_that_the_scale_cuts_ends_in_an_arrow() -> None:
    assert [latency_bar(ns).plain[-1] for ns in (2_900_000_000, 3_560_000_000)] == ["█", "▶"]
    assert latency_bar(0, 4_000_000_000).plain.strip() == ""


def test_the_latest_latency_is_shown_in_large_digits() -> None:
    rows = text(figures([standing("toy")], 1), 40)
    assert [row.rstrip() for row in rows] == [
        "voice to voice",
        "█▀▀ █▀█ █▀█",
        "▀▀█ █▀█ █ █",
        "▀▀▀ ▀▀▀ ▀▀▀ ms",
    ]
    assert text(figures([Standing("toy")], 1), 40)[2].strip() == "▀▀▀"
    assert "b: voice to voice" in text(figures([standing("a"), standing("b")], 1), 80)[0]


def test_a_row_of_the_table_never_wraps() -> None:
    for width in (60, 80, 120):
        for count in (1, 4):
            standings = [standing(f"endpoint {place}") for place in range(count)]
            wins = (0,) * count if count > 1 else ()
            table = standings_table(standings, 1, width, wins=wins)
            assert len(text(table, width - 4)) == rows_of(table, width) == count + 1
