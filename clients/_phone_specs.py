"""Specify the clients that call a phone agent, without importing their implementation."""

from __future__ import annotations

from dataclasses import replace

from live_eval.registry import ClientSpec, Emulation, TriedWith
from live_eval.types import TurnMode

__all__ = ["EXOTEL", "PLIVO", "TELNYX", "TWILIO", "VONAGE"]

_DIALECTS = "live_eval.clients.dialects"

TWILIO = ClientSpec(
    transport="live_eval.clients.transports.websocket:WebSocketTransport",
    name="twilio",
    title="A phone agent built for Twilio Media Streams",
    dialect=f"{_DIALECTS}.twilio:Twilio",
    input_rate_hz=8_000,
    output_rate_hz=8_000,
    line="8 kHz µ-law",
    turn_modes=(TurnMode.FULL_DUPLEX,),
    takes_instructions=False,
    limits="a phone line: 8 kHz µ-law both ways; replies are detected by their energy, as they are played",
    docs_url="https://www.twilio.com/docs/voice/media-streams",
    trial=TriedWith(servers="pipecat 1.14", clients="streamdouble 0.3", untried="a call by Twilio"),
    emulation=Emulation(base_path="/media-stream", lossy_input=True),
)

TELNYX = replace(
    TWILIO,
    name="telnyx",
    title="A phone agent built for Telnyx Media Streaming",
    dialect=f"{_DIALECTS}.telnyx:Telnyx",
    docs_url="https://developers.telnyx.com/docs/voice/programmable-voice/media-streaming",
    trial=TriedWith(servers="pipecat 1.14", untried="a call by Telnyx"),
    emulation=None,
)

PLIVO = replace(
    TWILIO,
    name="plivo",
    title="A phone agent built for Plivo audio streaming",
    dialect=f"{_DIALECTS}.plivo:Plivo",
    docs_url="https://www.plivo.com/docs/voice/xml/audiostream",
    trial=TriedWith(servers="pipecat 1.14", untried="a call by Plivo"),
    emulation=None,
)

EXOTEL = replace(
    TWILIO,
    name="exotel",
    title="A phone agent built for Exotel's Voicebot",
    dialect=f"{_DIALECTS}.exotel:Exotel",
    frame_ms=100,
    line="8 kHz PCM",
    limits="a phone line: 16-bit PCM at 8 kHz in frames of 100 ms; replies are detected by their energy, "
    "as they are played",
    docs_url="https://developer.exotel.com/docs/agentstream/websocket-protocol",
    trial=TriedWith(servers="pipecat 1.14", untried="a call by Exotel"),
    emulation=None,
)

VONAGE = replace(
    TWILIO,
    name="vonage",
    title="A phone agent, called as by Vonage's Voice API",
    dialect=f"{_DIALECTS}.vonage:Vonage",
    input_rate_hz=16_000,
    output_rate_hz=16_000,
    line="16 kHz PCM",
    limits="a phone line: 16-bit PCM at 16 kHz; replies are detected by their energy, as they are played",
    docs_url="https://developer.vonage.com/en/voice/voice-api/guides/websockets",
    trial=TriedWith(servers="pipecat 1.14", untried="a call by Vonage"),
    emulation=None,
)
