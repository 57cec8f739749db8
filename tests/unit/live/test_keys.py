"""Keys from a terminal."""

import asyncio
import os
import sys
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster

from live_eval.live.keys import HANG_UP, reading_keys

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make a pseudo-terminal the standard input; return the side that types, which the test closes."""
    ours, theirs = pty.openpty()
    with open(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours


async def test_keys_that_come_together_are_all_read_before_the_terminal_goes_away(
    terminal: int, blockbuster: BlockBuster
) -> None:
    blockbuster.functions["os.read"].deactivate()  # a terminal with keys to read does not block
    pressed: asyncio.Queue[str] = asyncio.Queue()
    with reading_keys(pressed.put_nowait) as reads:
        assert reads
        os.write(terminal, b"m hq")
        assert [await pressed.get() for _ in "m hq"] == ["m", " ", "h", "q"]
        os.close(terminal)
        assert await pressed.get() == HANG_UP
        await asyncio.sleep(0)
    assert pressed.empty()


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with reading_keys(lambda key: None) as reads:
            assert not reads
