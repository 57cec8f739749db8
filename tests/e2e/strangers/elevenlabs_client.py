"""A client with the `elevenlabs` SDK: streams recordings to an agent and prints each turn.

Runs in the strangers' environment and imports nothing from this project. Usage::

    python elevenlabs_client.py ORIGIN KEY WAV [WAV …]

Every WAV is one turn (int16 mono at 16 kHz); KEY is empty for a public agent, and is otherwise exchanged for
a signed address. The output is one JSON object per turn: ``{"audio": base64 of PCM,
"heard": text, "said": text, "interruptions": count}``.
"""

import asyncio
import base64
import json
import sys
import wave
from collections.abc import Awaitable, Callable

from elevenlabs.client import ElevenLabs
from elevenlabs.conversational_ai.conversation import AsyncAudioInterface, AsyncConversation

FRAME_S = 0.1
FRAME_BYTES = 3200
PATIENCE_S = 40.0


class Telephone(AsyncAudioInterface):
    """Streams the given audio, then silence, and stores the received audio."""

    def __init__(self) -> None:
        self.to_say = bytearray()
        self.heard = bytearray()
        self.interruptions = 0

    async def start(self, input_callback: Callable[[bytes], Awaitable[None]]) -> None:
        self._speaking = asyncio.create_task(self._speak(input_callback))

    async def stop(self) -> None:
        self._speaking.cancel()

    async def output(self, audio: bytes) -> None:
        self.heard += audio

    async def interrupt(self) -> None:
        self.interruptions += 1

    async def _speak(self, input_callback: Callable[[bytes], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            piece = bytes(self.to_say[:FRAME_BYTES]).ljust(FRAME_BYTES, b"\0")
            del self.to_say[:FRAME_BYTES]
            await input_callback(piece)
            due += FRAME_S
            await asyncio.sleep(due - loop.time())


async def main(origin: str, key: str, recordings: list[str]) -> None:
    """Run the conversation."""
    telephone = Telephone()
    heard, said = asyncio.Queue[str](), asyncio.Queue[str]()
    conversation = AsyncConversation(
        ElevenLabs(api_key=key or "none", base_url=origin),
        "agent_1",
        requires_auth=bool(key),
        audio_interface=telephone,
        callback_agent_response=said.put,
        callback_user_transcript=heard.put,
    )
    await conversation.start_session()
    for path in recordings:
        with wave.open(path) as recording:
            assert recording.getparams()[:3] == (1, 2, 16_000)
            telephone.to_say += recording.readframes(recording.getnframes())
        async with asyncio.timeout(PATIENCE_S):
            turn = {"heard": await heard.get(), "said": await said.get()}
        turn |= {
            "audio": base64.b64encode(telephone.heard).decode(),
            "interruptions": telephone.interruptions,
        }
        telephone.heard.clear()
        sys.stdout.write(json.dumps(turn) + "\n")
        sys.stdout.flush()
    await conversation.end_session()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
