"""A client with `google-genai`: streams recordings to a Live endpoint and prints each turn.

Runs in the strangers' environment and imports nothing from this project. Usage::

    python genai_client.py URL VERSION WAV [WAV …]

Every WAV is one turn (int16 mono at 16 kHz). The output is one JSON object per turn:
``{"audio": base64 of PCM, "rates": [Hz], "heard": text, "said": text, "complete": bool, "tokens": int}``.
"""

import asyncio
import base64
import json
import sys
import wave
from typing import Any

from google import genai
from google.genai import types
from google.genai.live import AsyncSession

FRAME_S = 0.02
FRAME_BYTES = 640
PATIENCE_S = 40.0
CONFIG = types.LiveConnectConfig(
    response_modalities=[types.Modality.AUDIO],
    system_instruction="Be kind.",
    speech_config=types.SpeechConfig(
        voice_config=types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Kore"))
    ),
    input_audio_transcription=types.AudioTranscriptionConfig(),
    output_audio_transcription=types.AudioTranscriptionConfig(),
)


async def speak(session: AsyncSession, path: str) -> None:
    """Stream a recording at the pace of speech, then silence until cancelled."""
    with wave.open(path) as recording:
        assert (recording.getframerate(), recording.getnchannels(), recording.getsampwidth()) == (
            16_000,
            1,
            2,
        )
        pcm = recording.readframes(recording.getnframes())
    loop = asyncio.get_running_loop()
    begin = loop.time()
    number = 0
    while True:
        piece = pcm[number * FRAME_BYTES : (number + 1) * FRAME_BYTES].ljust(FRAME_BYTES, b"\0")
        await session.send_realtime_input(audio=types.Blob(data=piece, mime_type="audio/pcm;rate=16000"))
        number += 1
        await asyncio.sleep(begin + FRAME_S * number - loop.time())


async def hear(session: AsyncSession) -> dict[str, Any]:
    """Receive until the turn is complete, and return it."""
    audio, heard, said = bytearray(), "", ""
    rates: set[str] = set()
    complete, tokens = False, 0
    async for message in session.receive():
        audio += message.data or b""
        if message.usage_metadata is not None:
            tokens = message.usage_metadata.total_token_count or tokens
        content = message.server_content
        if content is None:
            continue
        for part in content.model_turn.parts if content.model_turn is not None else ():
            rates.add(part.inline_data.mime_type)
        heard += (content.input_transcription and content.input_transcription.text) or ""
        said += (content.output_transcription and content.output_transcription.text) or ""
        complete = complete or bool(content.generation_complete)
    encoded = base64.b64encode(audio).decode()
    return {
        "audio": encoded,
        "rates": sorted(rates),
        "heard": heard,
        "said": said,
        "complete": complete,
        "tokens": tokens,
    }


async def main(url: str, version: str, recordings: list[str]) -> None:
    """Run the conversation."""
    options = types.HttpOptions(base_url=url, api_version=version)
    client = genai.Client(api_key="none", http_options=options)
    async with client.aio.live.connect(model="gemini-live", config=CONFIG) as session:
        for path in recordings:
            speaking = asyncio.create_task(speak(session, path))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    turn = await hear(session)
            finally:
                speaking.cancel()
            sys.stdout.write(json.dumps(turn) + "\n")
            sys.stdout.flush()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
