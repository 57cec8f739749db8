"""A simulated user: microphone blocks at the pace of speech, and an output device that records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from live_eval.live import AudioSide, LiveConversation, State
from live_eval.live.updates import StateChanged, Update

__all__ = ["BLOCK_MS", "RATE_HZ", "Loudspeaker", "Seen", "speak"]

T = TypeVar("T", bound=Update)

RATE_HZ = 16_000
BLOCK_MS = 10


class Loudspeaker:
    """An `AudioSink` that records the audio it receives."""

    def __init__(self) -> None:
        self.played: list[tuple[AudioSide, int]] = []
        self.drops = 0

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        self.played.append((side, len(pcm)))

    def drop(self) -> None:
        self.drops += 1


async def speak(conversation: LiveConversation, speech: Sequence[NDArray[np.int16]]) -> None:
    """Push each block at the pace of speech, then silence until cancelled."""
    block = RATE_HZ * BLOCK_MS // 1000
    pcm = np.concatenate(speech)
    due_ns, at = time.monotonic_ns(), 0
    while True:
        due_ns += BLOCK_MS * 1_000_000
        await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        piece = pcm[at : at + block]
        at += block
        conversation.push(np.pad(piece, (0, block - len(piece))), time.monotonic_ns())


class Seen:
    """The updates of a conversation so far."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self._news = asyncio.Condition()

    async def follow(self, conversation: LiveConversation) -> None:
        """Collect updates until the conversation ends."""
        async for update in conversation.updates():
            async with self._news:
                self.updates.append(update)
                self._news.notify_all()

    async def until(self, kind: type[T], number: int = 1) -> list[T]:
        """Wait for the first `number` updates of a kind and return them."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.of(kind)) >= number)
        return self.of(kind)[:number]

    async def until_state(self, state: State) -> None:
        """Wait until the conversation has reached a state."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: state in self.states)

    def of(self, kind: type[T]) -> list[T]:
        """Return the updates of a kind."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def states(self) -> list[State]:
        """The states of the conversation in order."""
        return [update.state for update in self.of(StateChanged)]
