"""Keys of a live conversation."""

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import cast

import pytest
from blockbuster import BlockBuster

from live_eval.live.conversation import LiveConversation
from live_eval.live.performance import Performance, TakeChoice
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.terminal import HANG_UP, Keyboard, key_help, reading_keys

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")


class Asked:
    """Records the calls of a conversation's methods."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> object:
        return lambda *arguments: self.calls.append((name, *arguments))


def pressed(keys: str, *, manual: bool = False, half_duplex: bool = False) -> list[tuple[object, ...]]:
    asked = Asked()
    keyboard = Keyboard(cast("LiveConversation", asked), manual=manual, half_duplex=half_duplex)
    for key in keys:
        keyboard.press(key)
    return asked.calls


def test_each_key_does_one_thing() -> None:
    assert pressed("mmhhrq" + HANG_UP) == [
        ("mute", True),
        ("mute", False),
        ("half_duplex", True),
        ("half_duplex", False),
        ("reconnect",),
        ("stop",),
        ("stop",),
    ]


@pytest.mark.parametrize("key", [" ", "\n", "\r"])
def test_a_key_ends_the_turn_only_with_manual_turns(key: str) -> None:
    assert pressed(key, manual=True) == [("commit",)]
    assert pressed(key) == []
    assert "end turn" in key_help(manual=True)
    assert "end turn" not in key_help(manual=False)


def test_keys_of_a_performance() -> None:
    conversation, performance = Asked(), Asked()
    keyboard = Keyboard(
        cast("LiveConversation", conversation),
        manual=False,
        half_duplex=False,
        performance=cast("Performance", performance),
    )
    for key in "\narsq":
        keyboard.press(key)
    assert performance.calls == [
        ("enter",),
        ("choose", TakeChoice.ACCEPT),
        ("choose", TakeChoice.REPEAT),
        ("choose", TakeChoice.SKIP),
    ]
    assert conversation.calls == [("stop",)]
    assert "a accept" in key_help(manual=False, performs=True)


def test_keys_choose_the_endpoint_that_is_heard_and_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int | None]] = []
    monkeypatch.setattr(SharedConversation, "hear", lambda _, place: calls.append(("hear", place)))
    monkeypatch.setattr(SharedConversation, "vote", lambda _, place: calls.append(("vote", place)))
    keyboard = Keyboard(object.__new__(SharedConversation), manual=False, half_duplex=False)
    for key in "21v20v0vx3":
        keyboard.press(key)
    assert calls == [("hear", 1), ("hear", 0), ("vote", 1), ("hear", None), ("vote", None), ("hear", 2)]
    assert pressed("12v1") == []  # a conversation with one endpoint


def test_the_first_h_switches_off_half_duplex_that_was_on() -> None:
    assert pressed("h", half_duplex=True) == [("half_duplex", False)]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pseudo-terminal as standard input: the side that types, which the test closes."""
    ours, theirs = pty.openpty()
    with open(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours


async def test_all_keys_are_read_before_the_terminal_is_closed(
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
