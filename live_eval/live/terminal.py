"""A live conversation in the terminal: devices and conversation joined, with a screen or plain lines."""

from __future__ import annotations

import asyncio
from typing import Protocol

from live_eval.errors import UsageError
from live_eval.live.conversation import LiveConversation
from live_eval.live.devices import Devices
from live_eval.live.updates import Update

__all__ = ["Screen", "converse"]

_POLL_S = 0.005


class Screen(Protocol):
    """Shows what happens in a conversation."""

    def show(self, update: Update) -> None:
        """Take an update."""
        ...


async def converse(conversation: LiveConversation, devices: Devices, screen: Screen) -> None:
    """Hold a conversation at a sound card until it is stopped.

    Raises:
        UsageError: A device has stopped; what was recorded before is kept.
    """
    problem = ""

    async def show() -> None:
        async for update in conversation.updates():
            screen.show(update)

    async def listen() -> None:
        nonlocal problem
        while True:
            for pcm, at_ns in devices.blocks():
                conversation.push(pcm, at_ns)
            conversation.count_device_xruns(devices.input_xruns, devices.output_xruns)
            problem = devices.problem
            if problem:
                conversation.stop()
                return
            await asyncio.sleep(_POLL_S)

    async with asyncio.TaskGroup() as tasks:
        showing, listening = tasks.create_task(show()), tasks.create_task(listen())
        await conversation.hold()
        listening.cancel()
        await showing
    if problem:
        raise UsageError(f"{problem} What was recorded before is kept")
