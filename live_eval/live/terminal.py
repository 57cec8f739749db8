"""A live conversation in the terminal: devices, conversation, screen and keys joined."""

from __future__ import annotations

import asyncio
from typing import Protocol

from live_eval.errors import UsageError
from live_eval.live import keys
from live_eval.live.conversation import LiveConversation
from live_eval.live.sound_card import SoundCard
from live_eval.live.updates import State, StateChanged, Update

__all__ = ["Keyboard", "Screen", "converse", "key_help"]

_POLL_S = 0.005


class Screen(Protocol):
    """Shows what happens in a conversation."""

    def show(self, update: Update) -> None:
        """Take an update."""
        ...


def key_help(*, manual: bool) -> str:
    """Return what the keys do, with manual turns or without."""
    end_turn = "space end turn · " if manual else ""
    return f"m mute · {end_turn}h half-duplex · r reconnect · q quit"


class Keyboard:
    """Does what the keys say.

    Args:
        conversation: The conversation that they steer.
        manual: Whether turns are manual: a key ends the user's turn.
        half_duplex: Whether the conversation begins half-duplex.
    """

    def __init__(self, conversation: LiveConversation, *, manual: bool, half_duplex: bool) -> None:
        self._conversation = conversation
        self._manual = manual
        self._half_duplex = half_duplex
        self._muted = False

    def press(self, key: str) -> None:
        """Do what a key says; nothing for others."""
        match key:
            case "m":
                self._muted = not self._muted
                self._conversation.mute(self._muted)
            case "h":
                self._half_duplex = not self._half_duplex
                self._conversation.half_duplex(self._half_duplex)
            case " " | "\n" | "\r" if self._manual:
                self._conversation.commit()
            case "r":
                self._conversation.reconnect()
            case "q" | keys.HANG_UP:
                self._conversation.stop()
            case _:
                pass


async def converse(
    conversation: LiveConversation,
    card: SoundCard,
    screen: Screen,
    *,
    manual: bool = False,
    half_duplex: bool = False,
) -> None:
    """Hold a conversation at a sound card until it is stopped.

    Where there are no keys to ask for another session, the conversation ends when its session does.

    Args:
        conversation: The conversation.
        card: Its microphone and loudspeaker.
        screen: Shows what happens.
        manual: Whether turns are manual: a key ends the user's turn.
        half_duplex: Whether the conversation begins half-duplex.

    Raises:
        UsageError: A device has stopped; what was recorded before is kept.
        LiveEvalError: The endpoint failed, and there were no keys to reconnect.
    """
    problem = failure = ""

    async def show(*, asks: bool) -> None:
        nonlocal failure
        async for update in conversation.updates():
            screen.show(update)
            if isinstance(update, StateChanged) and update.state is State.DISCONNECTED and not asks:
                failure = update.failure.message if update.failure is not None else ""
                conversation.stop()

    async def listen() -> None:
        nonlocal problem
        while not problem:
            for pcm, at_ns in card.blocks():
                conversation.push(pcm, at_ns)
            conversation.count_device_xruns(card.input_xruns, card.output_xruns)
            if card.stalled:
                card.restart()
            problem = card.problem
            await asyncio.sleep(_POLL_S)
        conversation.stop()

    keyboard = Keyboard(conversation, manual=manual, half_duplex=half_duplex)
    with keys.reading_keys(keyboard.press) as asks:
        async with asyncio.TaskGroup() as tasks:
            showing, listening = tasks.create_task(show(asks=asks)), tasks.create_task(listen())
            await conversation.hold()
            listening.cancel()
            await showing
    if problem or failure:
        raise UsageError(f"{problem or failure}\nWhat was recorded before is kept")
