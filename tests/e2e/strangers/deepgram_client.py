"""A client with `deepgram-sdk`: streams recordings to a Voice Agent and prints each turn.

Runs in the strangers' environment and imports nothing from this project. Usage::

    python deepgram_client.py ORIGIN WAV [WAV …]

Every WAV is one turn (int16 mono at 24 kHz). The output is one JSON object per turn:
``{"audio": base64 of PCM, "heard": text, "said": text, "kinds": [type]}``; ``kinds`` are the messages in
order, without repetitions, and ``bytes`` stands for audio.
"""

import asyncio
import base64
import json
import sys
import wave
from typing import Any

from deepgram import AsyncDeepgramClient
from deepgram.agent.v1.socket_client import AsyncV1SocketClient
from deepgram.agent.v1.types import AgentV1Settings
from deepgram.environment import DeepgramClientEnvironment

FRAME_S = 0.02
FRAME_BYTES = 960
PATIENCE_S = 40.0
SETTINGS = {
    "audio": {
        "input": {"encoding": "linear16", "sample_rate": 24_000},
        "output": {"encoding": "linear16", "sample_rate": 24_000, "container": "none"},
    },
    "agent": {
        "listen": {"provider": {"type": "deepgram", "model": "nova-3"}},
        "think": {"provider": {"type": "open_ai", "model": "gpt-4o-mini"}, "prompt": "Be kind."},
        "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
    },
}


async def speak(socket: AsyncV1SocketClient, path: str) -> None:
    """Stream a recording at the pace of speech, then silence until cancelled."""
    with wave.open(path) as recording:
        assert recording.getparams()[:3] == (1, 2, 24_000)
        pcm = recording.readframes(recording.getnframes())
    loop = asyncio.get_running_loop()
    begin = loop.time()
    number = 0
    while True:
        piece = pcm[number * FRAME_BYTES : (number + 1) * FRAME_BYTES].ljust(FRAME_BYTES, b"\0")
        await socket.send_media(piece)
        number += 1
        await asyncio.sleep(begin + FRAME_S * number - loop.time())


async def hear(socket: AsyncV1SocketClient) -> dict[str, Any]:
    """Receive until the agent's audio is complete, and return the turn."""
    audio, said, kinds = bytearray(), {"user": "", "assistant": ""}, []
    async for message in socket:
        kind = "bytes" if isinstance(message, bytes) else message.type
        if kinds[-1:] != [kind]:
            kinds.append(kind)
        if isinstance(message, bytes):
            audio += message
        elif kind == "ConversationText":
            said[message.role] += message.content
        elif kind == "AgentAudioDone":
            break
    encoded = base64.b64encode(audio).decode()
    return {"audio": encoded, "heard": said["user"], "said": said["assistant"], "kinds": kinds}


async def main(origin: str, recordings: list[str]) -> None:
    """Run the conversation."""
    environment = DeepgramClientEnvironment(base=origin, production=origin, agent=origin, agent_rest=origin)
    client = AsyncDeepgramClient(api_key="none", environment=environment)
    async with client.agent.v1.connect() as socket:
        await socket.send_settings(AgentV1Settings.model_validate(SETTINGS))
        for path in recordings:
            speaking = asyncio.create_task(speak(socket, path))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    turn = await hear(socket)
            finally:
                speaking.cancel()
            sys.stdout.write(json.dumps(turn) + "\n")
            sys.stdout.flush()


asyncio.run(main(sys.argv[1], sys.argv[2:]))
