"""A client with pipecat's Ultravox service: streams recordings to a call and prints each turn.

Runs in the strangers' environment and imports nothing from this project. Usage::

    python ultravox_client.py ORIGIN KEY WAV [WAV …]

Every WAV is one turn (int16 mono at 48 kHz). The output is one JSON object per turn:
``{"audio": base64 of PCM, "heard": text, "said": text, "interruptions": count}``.
"""

import asyncio
import base64
import json
import sys
import wave
from datetime import timedelta
from typing import Any

import aiohttp
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.ultravox.llm import OneShotInputParams, UltravoxRealtimeLLMService

RATE_HZ = 48_000
FRAME_S = 0.02
FRAME_BYTES = 1_920
PATIENCE_S = 40.0
SERVICE = "https://api.ultravox.ai"


class Listener(FrameProcessor):
    """Stores the frames that pass to and from the service."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Queue[str]()
        self.ended = asyncio.Event()
        self.audio = bytearray()
        self.said = ""
        self.interruptions = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case TranscriptionFrame():
                self.heard.put_nowait(frame.text)
            case TTSAudioRawFrame():
                self.audio += frame.audio
            case TTSTextFrame():
                self.said += frame.text
            case InterruptionFrame() if direction is FrameDirection.DOWNSTREAM:
                self.interruptions += 1
            case LLMFullResponseEndFrame():
                self.ended.set()
        await self.push_frame(frame, direction)


async def main(origin: str, key: str, recordings: list[str]) -> None:
    """Run the conversation."""
    post = aiohttp.ClientSession.post

    def post_to_origin(session: aiohttp.ClientSession, url: str, **options: Any) -> Any:
        return post(session, url.replace(SERVICE, origin), **options)

    aiohttp.ClientSession.post = post_to_origin  # the service's address is fixed in pipecat
    before, after = Listener(), Listener()
    call = OneShotInputParams(api_key=key, system_prompt="Be brief.", max_duration=timedelta(minutes=2))
    task = PipelineTask(
        Pipeline([before, UltravoxRealtimeLLMService(params=call), after]), cancel_on_idle_timeout=False
    )
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    to_say = bytearray()
    speaking = asyncio.create_task(speak(task, to_say))
    for path in recordings:
        with wave.open(path) as recording:
            assert recording.getparams()[:3] == (1, 2, RATE_HZ)
            to_say += recording.readframes(recording.getnframes())
        async with asyncio.timeout(PATIENCE_S):
            heard = await before.heard.get()
            await after.ended.wait()
        turn = {
            "audio": base64.b64encode(after.audio).decode(),
            "heard": heard,
            "said": after.said,
            "interruptions": after.interruptions,
        }
        after.ended.clear()
        after.audio.clear()
        after.said = ""
        sys.stdout.write(json.dumps(turn) + "\n")
        sys.stdout.flush()
    speaking.cancel()
    await task.cancel()
    await running


async def speak(task: PipelineTask, to_say: bytearray) -> None:
    """Stream the queued audio at the pace of speech, then silence."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    due = loop.time()
    while True:
        piece = bytes(to_say[:FRAME_BYTES]).ljust(FRAME_BYTES, b"\0")
        del to_say[:FRAME_BYTES]
        await task.queue_frame(InputAudioRawFrame(piece, RATE_HZ, 1))
        due += FRAME_S
        await asyncio.sleep(due - loop.time())


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
