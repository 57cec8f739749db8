"""What the bundled clients say of themselves; entry points name these. Imports no implementation."""

from __future__ import annotations

from dataclasses import replace

from live_eval.dialect import ClientSpec
from live_eval.types import TurnMode

__all__ = ["OPENAI", "OPENAI_BETA", "REFERENCE"]

OPENAI = ClientSpec(
    name="openai",
    title="OpenAI Realtime",
    dialect="clients.openai_realtime:OpenAIRealtime",
    transport="clients.websocket:WebSocketTransport",
    base_url="wss://api.openai.com/v1",
    model="gpt-realtime-2.1",
    voice="marin",
    transcription_model="gpt-4o-transcribe",
    key_variable="OPENAI_API_KEY",
    turn_modes=(TurnMode.SERVER_VAD, TurnMode.MANUAL),
    session_limit_s=3_600,
    docs_url="https://platform.openai.com/docs/guides/realtime",
)

# OpenAI itself now refuses this dialect; it is for the servers that still speak it, with `--base-url`.
OPENAI_BETA = replace(
    OPENAI,
    name="openai-beta",
    title="OpenAI Realtime, beta dialect",
    dialect="clients.openai_realtime_beta:OpenAIRealtimeBeta",
    model="gpt-4o-realtime-preview",
    voice="alloy",
)

REFERENCE = replace(
    OPENAI,
    name="reference",
    title="Built-in reference endpoint",
    base_url=None,
    model=None,
    voice=None,
    transcription_model="whisper-tiny.en",
    key_variable=None,
    session_limit_s=None,
    docs_url="",
)
