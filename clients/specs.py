"""Specify the bundled clients for the package's entry points, without importing their implementation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from live_eval.clients._phone_specs import EXOTEL, PLIVO, TELNYX, TWILIO, VONAGE
from live_eval.dialect import TransportKind
from live_eval.registry import ClientSpec, Emulation, TriedWith
from live_eval.types import History, TurnMode

__all__ = [
    "ASSEMBLYAI",
    "AZURE",
    "DEEPGRAM",
    "ELEVENLABS",
    "ELEVENLABS_WEBRTC",
    "EXOTEL",
    "FASTRTC_WEBRTC",
    "GEMINI_LIVE",
    "GLM",
    "HUME",
    "LIVEKIT",
    "MOSHI",
    "NOVA_SONIC",
    "OPENAI",
    "OPENAI_BETA",
    "OPENAI_CHAT_AUDIO",
    "OPENAI_LIVE",
    "OPENAI_WEBRTC",
    "OPENS2S",
    "PIPECAT_WEBRTC",
    "PIPECAT_WEBSOCKET",
    "PLIVO",
    "QWEN_OMNI",
    "REFERENCE",
    "SPEECH_TO_SPEECH",
    "STEPFUN",
    "TELNYX",
    "TWILIO",
    "ULTRAVOX",
    "ULTRAVOX_WEBRTC",
    "UNMUTE",
    "VLLM_OMNI",
    "VONAGE",
    "XAI",
]

_DIALECTS = "live_eval.clients.dialects"
_HOUR_S = 3_600
_ROOM = "Opus in a LiveKit room"

_websocket = partial(ClientSpec, transport="live_eval.clients.transports.websocket:WebSocketTransport")
_webrtc = partial(
    ClientSpec,
    transport="live_eval.clients.transports.webrtc:WebRtcTransport",
    transport_kind=TransportKind.WEBRTC,
    input_rate_hz=48_000,
    output_rate_hz=48_000,
)

# A token covers 100 ms of user audio or 50 ms of reply audio:
# https://developers.openai.com/api/docs/guides/realtime-costs
_INPUT_TOKENS_PER_S = 10.0
_OUTPUT_TOKENS_PER_S = 20.0

# -- OpenAI --------------------------------------------------------------------------------------------

OPENAI = _websocket(
    name="openai",
    title="OpenAI Realtime",
    dialect=f"{_DIALECTS}.openai_realtime:OpenAIRealtime",
    base_url="wss://api.openai.com/v1",
    model="gpt-realtime-2.1",
    voice="marin",
    transcription_model="gpt-4o-transcribe",
    key_variable="OPENAI_API_KEY",
    histories=(History.INJECT_TEXT, History.INJECT_AUDIO),
    session_limit_s=_HOUR_S,
    greets=False,
    docs_url="https://platform.openai.com/docs/guides/realtime",
    trial=TriedWith(
        servers="aimock 1.43", clients="openai 3.54, openai-agents 0.24", untried="OpenAI's service"
    ),
    emulation=Emulation(base_path="/v1"),
    input_audio_tokens_per_s=_INPUT_TOKENS_PER_S,
    output_audio_tokens_per_s=_OUTPUT_TOKENS_PER_S,
)

# OpenAI now rejects this dialect; use it with `--base-url` for servers that still support it.
OPENAI_BETA = replace(
    OPENAI,
    name="openai-beta",
    title="OpenAI Realtime, beta dialect",
    dialect=f"{_DIALECTS}.openai_realtime_beta:OpenAIRealtimeBeta",
    model="gpt-4o-realtime-preview",
    voice="alloy",
    trial=TriedWith(clients="openai 1.109 by hand", untried="any vendor's server"),
)

OPENAI_WEBRTC = _webrtc(
    name="openai-webrtc",
    title="OpenAI Realtime over WebRTC",
    dialect=f"{_DIALECTS}.openai_webrtc:OpenAIWebRtc",
    base_url="https://api.openai.com/v1",
    model=OPENAI.model,
    voice=OPENAI.voice,
    transcription_model=OPENAI.transcription_model,
    key_variable=OPENAI.key_variable,
    histories=(History.INJECT_TEXT,),  # a message on a data channel is too small for a recording
    session_limit_s=_HOUR_S,
    greets=False,
    docs_url="https://platform.openai.com/docs/guides/realtime-webrtc",
    trial=TriedWith(
        clients="openai 3.54, @openai/agents-realtime 0.20 in Chromium", untried="OpenAI's service"
    ),
    emulation=Emulation(base_path="/v1", lossy_input=True, calibrates=True),
    input_audio_tokens_per_s=_INPUT_TOKENS_PER_S,
    output_audio_tokens_per_s=_OUTPUT_TOKENS_PER_S,
)

OPENAI_LIVE = _websocket(
    name="openai-live",
    title="OpenAI GPT-Live",
    dialect=f"{_DIALECTS}.openai_live:OpenAILive",
    base_url="wss://api.openai.com/v1",
    model="gpt-live-1",
    voice="marin",
    transcription_model="built-in",
    key_variable="OPENAI_API_KEY",
    turn_modes=(TurnMode.FULL_DUPLEX,),
    limits="full duplex: replies are detected by their energy; the session announces its end at the "
    "start; instructions of at most 16,384 tokens; audio only",
    docs_url="https://developers.openai.com/api/docs/guides/live-conversations",
    trial=TriedWith(servers="aimock 1.43", clients="openai 3.54", untried="OpenAI's service"),
    emulation=Emulation(base_path="/v1"),
)

OPENAI_CHAT_AUDIO = ClientSpec(
    name="openai-chat-audio",
    title="OpenAI chat completions with audio (not realtime)",
    dialect=f"{_DIALECTS}.openai_chat_audio:OpenAIChatAudio",
    transport="live_eval.clients.transports.http:HttpTransport",
    transport_kind=TransportKind.HTTP,
    base_url="https://api.openai.com/v1",
    model="gpt-audio",
    voice="alloy",
    key_variable="OPENAI_API_KEY",
    turn_modes=(TurnMode.MANUAL,),
    histories=(History.INJECT_TEXT, History.INJECT_AUDIO),
    limits="not realtime: the recording is sent when the turn ends, so latency includes the upload; "
    "responses of at most 16 MiB; no input transcription",
    docs_url="https://platform.openai.com/docs/guides/audio",
    trial=TriedWith(untried="OpenAI's service"),
)

OPENS2S = ClientSpec(
    name="opens2s",
    title="OpenS2S, self-hosted (not realtime)",
    dialect=f"{_DIALECTS}.opens2s:OpenS2S",
    transport="live_eval.clients.transports.http:HttpTransport",
    transport_kind=TransportKind.HTTP,
    base_url="http://127.0.0.1:21002",
    input_rate_hz=16_000,
    output_rate_hz=22_050,
    turn_modes=(TurnMode.MANUAL,),
    histories=(History.INJECT_TEXT, History.INJECT_AUDIO),
    limits="not realtime: the recording is sent when the turn ends, so latency includes the upload; replies "
    "of at most 1,024 tokens and 16 MiB; no input transcription",
    docs_url="https://github.com/CASIA-LM/OpenS2S",
    trial=TriedWith(untried="a running model worker"),
    emulation=Emulation(),
)

AZURE = replace(
    OPENAI,
    name="azure",
    title="Azure OpenAI Realtime",
    dialect=f"{_DIALECTS}.openai_compatible:AzureOpenAI",
    base_url=None,
    model=None,
    key_variable="AZURE_OPENAI_API_KEY",
    limits="the base URL is https://RESOURCE.openai.azure.com/openai/v1, the model is the deployment name",
    docs_url="https://learn.microsoft.com/azure/ai-foundry/openai/how-to/realtime-audio",
    trial=TriedWith(untried="Azure's service"),
    emulation=None,
)

# -- Services that resemble OpenAI's -----------------------------------------------------------------

XAI = replace(
    OPENAI,
    histories=(),
    greets=None,
    input_audio_tokens_per_s=None,  # billed per minute
    output_audio_tokens_per_s=None,
    name="xai",
    title="xAI Grok Voice",
    dialect=f"{_DIALECTS}.openai_compatible:XAI",
    base_url="wss://api.x.ai/v1",
    model="grok-voice-latest",
    voice="Ara",
    transcription_model="grok-transcribe",
    key_variable="XAI_API_KEY",
    limits="manual turns are reported to be unstable",
    docs_url="https://docs.x.ai/docs/guides/voice",
    trial=TriedWith(untried="xAI's service"),
    emulation=None,
)

VLLM_OMNI = _websocket(
    name="vllm-omni",
    title="vLLM-Omni",
    dialect=f"{_DIALECTS}.openai_compatible:VllmOmni",
    limits="requires a duplex model, selected at server start; other models use a different protocol",
    docs_url="https://docs.vllm.ai/projects/vllm-omni",
    trial=TriedWith(untried="a running vLLM-Omni"),
)

SPEECH_TO_SPEECH = replace(
    VLLM_OMNI,
    name="speech-to-speech",
    title="Hugging Face speech-to-speech",
    dialect=f"{_DIALECTS}.openai_compatible:SpeechToSpeech",
    base_url="ws://127.0.0.1:8765/v1",  # default of ``speech-to-speech serve``
    transcription_model="built-in",
    turn_modes=(TurnMode.SERVER_VAD,),
    sessions=1,
    limits="one session at a time by default",
    docs_url="https://github.com/huggingface/speech-to-speech",
    trial=TriedWith(untried="a running server"),
)

QWEN_OMNI = _websocket(
    name="qwen-omni",
    title="Qwen-Omni Realtime (DashScope)",
    dialect=f"{_DIALECTS}.qwen_omni:QwenOmni",
    base_url="wss://dashscope-intl.aliyuncs.com/api-ws/v1",
    model="qwen3.8-omni-flash-realtime",
    voice="longanlingxin",
    transcription_model="qwen3-asr-flash-realtime",
    key_variable="DASHSCOPE_API_KEY",
    input_rate_hz=16_000,
    session_limit_s=2 * _HOUR_S,
    limits="keys from mainland China require wss://dashscope.aliyuncs.com/api-ws/v1; "
    "qwen3-omni-flash-realtime "
    "has other voices (Cherry)",
    docs_url="https://www.alibabacloud.com/help/en/model-studio/realtime",
    trial=TriedWith(untried="DashScope"),
)

STEPFUN = _websocket(
    name="stepfun",
    title="StepFun Realtime",
    dialect=f"{_DIALECTS}.openai_compatible:StepFun",
    base_url="wss://api.stepfun.com/v1",
    model="step-audio-2",
    key_variable="STEPFUN_API_KEY",
    session_limit_s=1_800,
    docs_url="https://platform.stepfun.com/docs/api-reference/realtime/chat",
    trial=TriedWith(untried="StepFun's service"),
)

GLM = _websocket(
    name="glm",
    title="Zhipu GLM-Realtime",
    dialect=f"{_DIALECTS}.glm:Glm",
    base_url="wss://open.bigmodel.cn/api/paas/v4",
    model="glm-realtime-flash",
    voice="tongtong",
    key_variable="ZHIPUAI_API_KEY",
    input_rate_hz=16_000,
    limits="remembers the last 2 minutes of a call",
    docs_url="https://docs.bigmodel.cn/cn/asyncapi/realtime",
    trial=TriedWith(untried="Zhipu's service"),
)

UNMUTE = _websocket(
    name="unmute",
    title="Kyutai Unmute",
    dialect=f"{_DIALECTS}.unmute:Unmute",
    base_url="ws://127.0.0.1:8000/v1",  # port in Unmute's ``start_backend.sh``
    transcription_model="built-in",
    output_rate_hz=48_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    greets=True,
    limits="speaks first; the server limits the number of concurrent sessions",
    docs_url="https://github.com/kyutai-labs/unmute",
    trial=TriedWith(untried="a running Unmute"),
)

# -- Other families ------------------------------------------------------------------------------------

GEMINI_LIVE = _websocket(
    name="gemini-live",
    title="Google Gemini Live",
    dialect=f"{_DIALECTS}.gemini_live:GeminiLive",
    base_url="wss://generativelanguage.googleapis.com",
    model="gemini-3.8-live",
    voice="Kore",
    transcription_model="built-in",
    key_variable="GEMINI_API_KEY",
    histories=(History.INJECT_TEXT,),
    input_rate_hz=16_000,
    session_limit_s=900,
    greets=False,
    limits="15 minutes of audio without contextWindowCompression; a connection lasts about 10 minutes, "
    "then the session resumes on a new one",
    docs_url="https://ai.google.dev/gemini-api/docs/live-api",
    trial=TriedWith(clients="google-genai 3.4", untried="Google's service"),
    emulation=Emulation(),
)

MOSHI = _websocket(
    name="moshi",
    title="Kyutai Moshi",
    dialect=f"{_DIALECTS}.moshi:Moshi",
    base_url="ws://127.0.0.1:8998",  # default of ``python -m moshi.server``
    output_rate_hz=48_000,
    frame_ms=80,
    turn_modes=(TurnMode.FULL_DUPLEX,),
    takes_instructions=False,
    session_limit_s=360,
    sessions=1,
    limits="full duplex: replies are detected by their energy; the Python server runs one session at a "
    "time, without a time limit; the server sets model and voice; no instructions; audio only",
    docs_url="https://github.com/kyutai-labs/moshi",
    trial=TriedWith(clients="Kyutai's sphn by hand", untried="a running Moshi"),
    emulation=Emulation(lossy_input=True, exclusive=True),
)

HUME = _websocket(
    name="hume",
    title="Hume EVI",
    dialect=f"{_DIALECTS}.hume:HumeEvi",
    base_url="wss://api.hume.ai/v0/evi",
    transcription_model="built-in",
    key_variable="HUME_API_KEY",
    output_rate_hz=48_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    session_limit_s=1_800,
    limits="endpoint.extra.config_id sets model, voice and prompt (default: Hume's); the chat ends "
    "after 2 minutes without speech",
    docs_url="https://dev.hume.ai/docs/speech-to-speech-evi/overview",
    trial=TriedWith(untried="Hume's service"),
)

DEEPGRAM = _websocket(
    name="deepgram",
    title="Deepgram Voice Agent",
    dialect=f"{_DIALECTS}.deepgram:DeepgramAgent",
    base_url="wss://agent.deepgram.com/v1",
    model="gpt-4o-mini",
    voice="aura-2-thalia-en",
    transcription_model="nova-3",
    key_variable="DEEPGRAM_API_KEY",
    turn_modes=(TurnMode.SERVER_VAD, TurnMode.MANUAL),
    histories=(History.INJECT_TEXT,),
    agent_field="agent",
    limits="a pipeline of recogniser, language model and voice; endpoint.extra.agent selects a stored agent",
    docs_url="https://developers.deepgram.com/docs/voice-agent",
    trial=TriedWith(clients="deepgram-sdk 7.17", untried="Deepgram's service"),
    emulation=Emulation(base_path="/v1"),
)

ELEVENLABS = _websocket(
    name="elevenlabs",
    title="ElevenLabs Agents",
    dialect=f"{_DIALECTS}.elevenlabs:ElevenLabsAgent",
    base_url="wss://api.elevenlabs.io/v1",
    transcription_model="built-in",
    key_variable="ELEVENLABS_API_KEY",
    input_rate_hz=16_000,
    output_rate_hz=16_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    limits="endpoint.extra.agent_id names the agent, which sets model, voice, prompt and formats (input is "
    "converted from 16 kHz); a reply ends after 1.5 s of silence",
    docs_url="https://elevenlabs.io/docs/agents-platform/api-reference/agents-platform/websocket",
    trial=TriedWith(clients="elevenlabs 2.78", untried="ElevenLabs' service"),
    emulation=Emulation(base_path="/v1"),
)

ELEVENLABS_WEBRTC = _webrtc(
    name="elevenlabs-webrtc",
    title="ElevenLabs Agents over WebRTC",
    dialect=f"{_DIALECTS}.elevenlabs_webrtc:ElevenLabsWebRtc",
    transport="live_eval.clients.transports.livekit:LiveKitTransport",
    base_url="https://api.elevenlabs.io/v1",
    transcription_model=ELEVENLABS.transcription_model,
    key_variable=ELEVENLABS.key_variable,
    packages=("livekit",),
    extra="livekit",
    line=_ROOM,
    turn_modes=(TurnMode.FULL_DUPLEX,),
    limits="needs the extra livekit; endpoint.extra.agent_id names the agent, which sets model, voice and "
    "prompt; a LiveKit room, in which replies are detected by their energy",
    docs_url="https://elevenlabs.io/docs/agents-platform/libraries/web-sockets",
    trial=TriedWith(untried="ElevenLabs' service"),
    emulation=Emulation(base_path="/v1", lossy_input=True),
)

ASSEMBLYAI = _websocket(
    name="assemblyai",
    title="AssemblyAI Voice Agent",
    dialect=f"{_DIALECTS}.assemblyai:AssemblyAiAgent",
    base_url="wss://agents.assemblyai.com/v1",
    transcription_model="built-in",
    key_variable="ASSEMBLYAI_API_KEY",
    turn_modes=(TurnMode.SERVER_VAD,),
    agent_field="agent_id",
    session_limit_s=3 * _HOUR_S,
    greets=False,
    limits="endpoint.extra.agent_id selects a stored agent",
    docs_url="https://www.assemblyai.com/docs/voice-agents/voice-agent-api",
    trial=TriedWith(untried="AssemblyAI's service"),
    emulation=Emulation(base_path="/v1"),
)

NOVA_SONIC = ClientSpec(
    name="nova-sonic",
    title="Amazon Nova Sonic (Bedrock)",
    dialect=f"{_DIALECTS}.nova_sonic:NovaSonic",
    transport="live_eval.clients.transports.bedrock:BedrockTransport",
    transport_kind=TransportKind.HTTP2,
    base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    model="amazon.nova-2-sonic-v1:0",
    voice="matthew",
    transcription_model="built-in",
    key_variable="AWS_SECRET_ACCESS_KEY",
    packages=("aws_sdk_bedrock_runtime", "awscrt"),
    extra="nova-sonic",
    python=(3, 12),
    key_id_variable="AWS_ACCESS_KEY_ID",
    key_token_variable="AWS_SESSION_TOKEN",
    base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    input_rate_hz=16_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    histories=(History.INJECT_TEXT,),
    greets=False,
    limits="needs Python 3.12 and the extra nova-sonic; the base URL names the region; arrivals are "
    "timestamped in this process; before the limit of 8 minutes, a new session receives the conversation as "
    "text",
    docs_url="https://docs.aws.amazon.com/nova/latest/nova2-userguide/using-conversational-speech.html",
    trial=TriedWith(untried="Bedrock"),
)

ULTRAVOX = _websocket(
    name="ultravox",
    title="Ultravox Realtime",
    dialect=f"{_DIALECTS}.ultravox:Ultravox",
    base_url="https://api.ultravox.ai/api",
    transcription_model="built-in",
    key_variable="ULTRAVOX_API_KEY",
    input_rate_hz=48_000,
    output_rate_hz=48_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    histories=(History.INJECT_TEXT,),
    agent_field="agent_id",
    greets=False,
    line="clientBufferSizeMs 60",
    line_setting=("medium", "serverWebSocket", "clientBufferSizeMs"),
    limits="endpoint.extra.agent_id selects a stored agent; replies arrive at most clientBufferSizeMs "
    "(60) ahead of their playback",
    docs_url="https://docs.ultravox.ai/apps/websockets",
    trial=TriedWith(clients="pipecat 1.14", untried="Ultravox's service"),
    emulation=Emulation(base_path="/api"),
)

ULTRAVOX_WEBRTC = _webrtc(
    name="ultravox-webrtc",
    title="Ultravox Realtime over WebRTC",
    dialect=f"{_DIALECTS}.ultravox_webrtc:UltravoxWebRtc",
    transport=ELEVENLABS_WEBRTC.transport,
    base_url=ULTRAVOX.base_url,
    transcription_model=ULTRAVOX.transcription_model,
    key_variable=ULTRAVOX.key_variable,
    packages=("livekit",),
    extra="livekit",
    line=_ROOM,
    turn_modes=(TurnMode.FULL_DUPLEX,),
    histories=ULTRAVOX.histories,
    agent_field=ULTRAVOX.agent_field,
    greets=False,
    limits="needs the extra livekit; endpoint.extra.agent_id selects a stored agent; a LiveKit room, in "
    "which replies are detected by their energy",
    docs_url="https://docs.ultravox.ai/apps/sdks",
    trial=TriedWith(untried="Ultravox's service"),
    emulation=Emulation(base_path="/api", lossy_input=True),
)

# -- Bots ----------------------------------------------------------------------------------------------

PIPECAT_WEBSOCKET = _websocket(
    name="pipecat-websocket",
    title="A pipecat bot over WebSocket",
    dialect=f"{_DIALECTS}.pipecat_websocket:PipecatWebSocket",
    base_url="ws://127.0.0.1:7860/ws-client",  # the default of pipecat's development runner
    input_rate_hz=16_000,
    turn_modes=(TurnMode.SERVER_VAD,),
    takes_instructions=False,
    sessions=1,
    limits="protobuf serializer; a single-client server accepts one session at a time; pipecat's runner "
    "accepts several",
    docs_url="https://docs.pipecat.ai/server/services/transport/fastapi-websocket",
    trial=TriedWith(servers="pipecat 1.14", untried=""),
)

PIPECAT_WEBRTC = _webrtc(
    name="pipecat-webrtc",
    title="A pipecat bot over WebRTC",
    dialect=f"{_DIALECTS}.pipecat_webrtc:PipecatWebRtc",
    base_url="http://127.0.0.1:7860",  # the default of pipecat's development runner
    turn_modes=(TurnMode.FULL_DUPLEX,),
    takes_instructions=False,
    docs_url="https://docs.pipecat.ai/server/services/transport/small-webrtc",
    trial=TriedWith(servers="pipecat 1.14", untried=""),
    emulation=Emulation(lossy_input=True),
)

FASTRTC_WEBRTC = replace(
    PIPECAT_WEBRTC,
    name="fastrtc-webrtc",
    title="A fastrtc stream over WebRTC",
    dialect=f"{_DIALECTS}.fastrtc_webrtc:FastRtcWebRtc",
    base_url="http://127.0.0.1:8000",  # default of uvicorn and FastAPI
    sessions=1,
    limits="one caller at a time by default",
    docs_url="https://fastrtc.org",
    trial=TriedWith(servers="fastrtc 0.0.34", untried=""),
)

LIVEKIT = _webrtc(
    name="livekit",
    title="An agent in a LiveKit room",
    dialect=f"{_DIALECTS}.livekit:LiveKitAgent",
    transport="live_eval.clients.transports.livekit:LiveKitTransport",
    key_variable="LIVEKIT_API_SECRET",
    packages=("livekit",),
    extra="livekit",
    key_id_variable="LIVEKIT_API_KEY",
    base_url_variable="LIVEKIT_URL",
    line="the agent may adjust gain and remove noise",
    turn_modes=(TurnMode.FULL_DUPLEX,),
    takes_instructions=False,
    limits="needs the extra livekit; LIVEKIT_URL and LIVEKIT_API_KEY name the server and the key; replies "
    "are detected by their energy; the agent's automatic gain control (on by default) and noise cancellation "
    "change the audio before its model; endpoint.extra.agent_name dispatches a named agent",
    docs_url="https://docs.livekit.io/agents",
    trial=TriedWith(
        servers="livekit-agents 1.8, pipecat 1.14",
        clients="livekit 1.1",
        untried="LiveKit's server",
    ),
    emulation=Emulation(lossy_input=True),
)

REFERENCE = _websocket(
    name="reference",
    title="Built-in reference endpoint",
    dialect=OPENAI.dialect,
    histories=OPENAI.histories,
    transcription_model="whisper-tiny.en",
    greets=False,
    input_audio_tokens_per_s=0,
    output_audio_tokens_per_s=0,
    reply_speed=100,  # all chunks at once
    base_url_variable="LIVE_EVAL_REFERENCE_URL",
    launch="live_eval.reference.server.process:launch",
    emulation=Emulation(base_path="/v1", calibrates=True),
    trial=TriedWith(clients="openai 3.54", untried=""),
)
