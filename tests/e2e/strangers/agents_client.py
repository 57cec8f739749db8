"""A client with `openai-agents`: streams recordings to an endpoint and prints the events of each turn.

Runs in the strangers' environment and imports nothing from this project. Usage::

    python agents_client.py URL WAV [WAV …]

Every WAV is one turn (int16 mono at 24 kHz). Each output line is a JSON object: an event with its ``type``
and some of its fields, or, after a turn, ``{"type": "turn", "audio": base64, "history": items}``.
"""

import asyncio
import base64
import json
import sys
import wave
from typing import Any

from agents.realtime import RealtimeAgent, RealtimeRunner
from agents.realtime.session import RealtimeSession

FRAME_S = 0.02
FRAME_BYTES = 960
PATIENCE_S = 40.0


def tell(kind: str, **fields: Any) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def frames(path: str) -> list[bytes]:
    """Return a recording in frames of 20 ms."""
    with wave.open(path) as recording:
        assert (recording.getframerate(), recording.getnchannels(), recording.getsampwidth()) == (
            24_000,
            1,
            2,
        )
        pcm = recording.readframes(recording.getnframes())
    return [pcm[at : at + FRAME_BYTES].ljust(FRAME_BYTES, b"\0") for at in range(0, len(pcm), FRAME_BYTES)]


async def speak(session: RealtimeSession, path: str) -> None:
    """Stream a recording at the pace of speech, then silence until cancelled."""
    recording = frames(path)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    number = 0
    while True:
        await session.send_audio(recording[number] if number < len(recording) else bytes(FRAME_BYTES))
        number += 1
        await asyncio.sleep(begin + FRAME_S * number - loop.time())


async def hear(session: RealtimeSession) -> None:
    """Print events until the agent has answered."""
    audio = bytearray()
    history: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in session:
            match event.type:
                case "audio":
                    audio += event.audio.data
                case "history_updated":
                    history = [item.model_dump(mode="json") for item in event.history]
                case "error":
                    tell("error", error=str(event.error))
                case "raw_model_event" if event.data.type == "exception":
                    tell("exception", exception=repr(event.data.exception), context=event.data.context)
                case "raw_model_event" if event.data.type == "usage":
                    tell("usage", input=event.data.usage.input_tokens, output=event.data.usage.output_tokens)
                case "raw_model_event":
                    pass
                case "agent_end":
                    break
                case kind:
                    tell(kind)
    tell("turn", audio=base64.b64encode(audio).decode(), history=history)


async def main(url: str, recordings: list[str]) -> None:
    """Run the conversation."""
    runner = RealtimeRunner(RealtimeAgent(name="Stranger", instructions="Be kind."))
    async with await runner.run(model_config={"url": url, "api_key": "none"}) as session:
        for path in recordings:
            speaking = asyncio.create_task(speak(session, path))
            try:
                await hear(session)
            finally:
                speaking.cancel()
    tell("closed")


asyncio.run(main(sys.argv[1], sys.argv[2:]))
