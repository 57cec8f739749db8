"""Talk to an endpoint with your own microphone and output device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import SystemClock
from live_eval.live import AudioSink, LiveConversation
from live_eval.recording import RunWriter
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import validate


def talk(
    microphone: AsyncIterator[NDArray[np.int16]], sink: AudioSink, folder: Path, endpoint: dict[str, object]
) -> None:
    """Talk until the microphone ends.

    Args:
        microphone: Blocks of int16 mono, shape (samples,), at 48 kHz, as they arrive.
        sink: The output device.
        folder: The run folder.
        endpoint: The table ``[endpoint]`` of a run file, for example ``{"name": "reference"}``.
    """
    plan = make_live_plan(validate({"endpoint": endpoint}))
    with RunWriter.create(folder, plan.manifest()) as writer:
        conversation = LiveConversation(plan, writer, sink, device_hz=48_000)
        asyncio.run(converse(conversation, microphone))
        writer.end()


async def converse(conversation: LiveConversation, microphone: AsyncIterator[NDArray[np.int16]]) -> None:
    """Pass the microphone's audio to the conversation and print its updates."""

    async def listen() -> None:
        async for pcm in microphone:
            conversation.push(pcm, SystemClock().now_ns())
        conversation.stop()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(conversation.run())  # returns when the conversation has ended
        tasks.create_task(listen())
        async for update in conversation.updates():
            print(update)  # levels, transcript, latencies of each turn, failures
