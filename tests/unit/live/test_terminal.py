"""What keys do in a conversation."""

from typing import cast

import pytest

from live_eval.live.conversation import LiveConversation
from live_eval.live.keys import HANG_UP
from live_eval.live.terminal import Keyboard, key_help


class Asked:
    """Remembers what a conversation was asked to do."""

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


def test_a_conversation_that_began_half_duplex_is_switched_back_by_the_first_key() -> None:
    assert pressed("h", half_duplex=True) == [("half_duplex", False)]
