"""Run a live conversation in the terminal, with audio devices, a screen and keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np

from live_eval.clock import SystemClock
from live_eval.errors import UsageError
from live_eval.live.conversation import LiveConversation
from live_eval.live.performance import Performance, TakeChoice
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.sound_card import SoundCard
from live_eval.live.stand_in import StandIn
from live_eval.live.updates import AudioSide, DeviceChanged, State, StateChanged, Update

__all__ = ["HANG_UP", "Keyboard", "Screen", "converse", "key_help", "reading_keys"]

HANG_UP = "\x04"
"""The key reported when the terminal is closed; equal to Ctrl-D."""

_CHOICES = {"a": TakeChoice.ACCEPT, "r": TakeChoice.REPEAT, "s": TakeChoice.SKIP}
_PLACES: Mapping[str, int | None] = {"0": None, **{str(place + 1): place for place in range(4)}}
_MOST_BYTES = 1024
_POLL_S = 0.005
_BLOCK_NS = 10_000_000


class Screen(Protocol):
    """Interface of a display for a conversation."""

    def show(self, update: Update) -> None:
        """Handle an update."""
        ...


def key_help(*, manual: bool, performs: bool = False, endpoints: int = 1) -> str:
    """Return the key help for manual turns, automatic turns, a performance or several endpoints."""
    if performs:
        return "enter end take, then accept or (problems) repeat · a accept · r repeat · s skip · q quit"
    end_turn = "space end turn · " if manual else ""
    several = ""
    if endpoints > 1:
        several = f"1–{endpoints} hear · 0 all in turn · v1–v{endpoints} vote · v0 tie · "
    return f"{several}m mute · {end_turn}h half-duplex · r reconnect · q quit"


class Keyboard:
    """Control a conversation with keys."""

    def __init__(
        self,
        conversation: LiveConversation | SharedConversation,
        *,
        manual: bool,
        half_duplex: bool,
        performance: Performance | None = None,
    ) -> None:
        self._conversation = conversation
        self._performance = performance
        self._manual = manual
        self._half_duplex = half_duplex
        self._muted = self._votes = False

    def press(self, key: str) -> None:
        """Handle a key; unassigned keys are ignored."""
        if self._performance is not None:
            if key in "\n\r ":
                self._performance.enter()
                return
            if key in _CHOICES:
                self._performance.choose(_CHOICES[key])
                return
        votes, self._votes = self._votes, key == "v"
        if isinstance(self._conversation, SharedConversation) and key in _PLACES:
            (self._conversation.vote if votes else self._conversation.hear)(_PLACES[key])
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
            case "q" | "\x04":  # HANG_UP
                self._conversation.stop()


@contextlib.contextmanager
def reading_keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` with each key, and with `HANG_UP` if the terminal is closed, on the event loop.

    Yields:
        Whether keys can be read: standard input is a terminal and the system supports terminal modes.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # Unbuffered, because `sys.stdin` would withhold keys that arrive together.
        try:
            keys = os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            keys = ""
        if not keys:
            loop.remove_reader(descriptor)
        for key in keys or HANG_UP:
            pressed(key)

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield True
    finally:
        loop.remove_reader(descriptor)
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def converse(
    conversation: LiveConversation | SharedConversation,
    card: SoundCard,
    screen: Screen,
    *,
    manual: bool = False,
    half_duplex: bool = False,
    performance: Performance | None = None,
    stand_in: StandIn | None = None,
) -> None:
    """Run a conversation on a sound card until it is stopped.

    While the microphone is lost, the endpoint hears silence; while the output device is lost, replies are not
    audible, but still measured. If keys cannot be read, the user cannot
    reconnect, so the conversation ends with its first session.

    Args:
        manual: Whether a key ends the user's turn.
        performance: The conversation's performance; if keys cannot be read, its takes are accepted
            automatically.
        stand_in: Speaks in place of a person in a conversation with several endpoints.

    Raises:
        UsageError: The endpoint failed, and the user cannot reconnect because keys cannot be read; earlier
            turns are kept.
    """
    failure = ""

    async def show(*, reconnects: bool) -> None:
        nonlocal failure
        async for update in conversation.updates():
            screen.show(update)
            if isinstance(update, StateChanged) and update.state is State.DISCONNECTED and not reconnects:
                failure = update.failure.message if update.failure is not None else ""
                conversation.stop()

    def speak(stand_in: StandIn, at_ns: int) -> None:
        assert isinstance(conversation, SharedConversation)
        spoke = stand_in.speaks
        pcm = stand_in.block(at_ns, _BLOCK_NS, quiet=conversation.quiet)
        if pcm is None:
            conversation.stop()
            return
        conversation.push(pcm, at_ns)
        card.play(AudioSide.USER, pcm, card.rate_hz, paced=True)
        if manual and spoke and not stand_in.speaks:
            conversation.commit()

    async def listen() -> None:
        clock = SystemClock()
        due_ns = clock.now_ns()  # of the next block that does not come from the microphone
        lost = dict.fromkeys(AudioSide, "")
        block = np.zeros(card.rate_hz * _BLOCK_NS // 1_000_000_000, np.int16)
        while True:
            for pcm, at_ns in card.blocks():
                if stand_in is None:
                    conversation.push(pcm, at_ns)
            for side, before in lost.items():
                if before != (problem := card.problem(side)):
                    lost[side] = problem
                    screen.show(DeviceChanged(side, problem))
                    if side is AudioSide.USER:
                        due_ns = clock.now_ns()
                    else:
                        card.drop()
            while (stand_in or lost[AudioSide.USER]) and due_ns + _BLOCK_NS <= clock.now_ns():
                due_ns += _BLOCK_NS
                if stand_in is not None:
                    speak(stand_in, due_ns)
                else:
                    conversation.push(block, due_ns)
            conversation.count_device_xruns(card.input_xruns, card.output_xruns)
            if card.stalled:
                card.restart()
            await asyncio.sleep(_POLL_S)

    card.begin()
    keyboard = Keyboard(conversation, manual=manual, half_duplex=half_duplex, performance=performance)
    with reading_keys(keyboard.press) as reconnects:
        if performance is not None:
            performance.unattended = not reconnects
        async with asyncio.TaskGroup() as tasks:
            showing, listening = tasks.create_task(show(reconnects=reconnects)), tasks.create_task(listen())
            await conversation.run()
            listening.cancel()
            await showing
    if failure:
        raise UsageError(f"{failure}\nTurns recorded so far are kept")
