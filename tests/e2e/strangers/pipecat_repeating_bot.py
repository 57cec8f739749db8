"""A pipecat bot that repeats each utterance, over any transport that `benchmarks/hops.py` compares.

Runs in the strangers' environment (with the extra ``livekit``) and imports nothing from this project. Usage::

    EVENTS=events.jsonl HEARD=folder python pipecat_repeating_bot.py PORT

It serves ``/websocket`` (protobuf), ``/twilio``, ``/vonage``, ``/api/offer`` (SmallWebRTC), and joins a
LiveKit room on ``POST /livekit {"url", "token", "room"}``. Its pipeline has the same rate everywhere:
transports and serialisers resample. Each line of the log has the monotonic time at which the bot noticed the
end of an utterance, or handed its answer to the transport; each utterance is also written as a WAV file.
"""

import array
import asyncio
import json
import math
import os
import sys
import time
import wave
from pathlib import Path

import uvicorn
from fastapi import BackgroundTasks, FastAPI, WebSocket
from pipecat.frames.frames import Frame, InputAudioRawFrame, OutputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.runner.utils import parse_telephony_websocket
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.serializers.protobuf import ProtobufFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.serializers.vonage import VonageFrameSerializer
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.transports.livekit.transport import LiveKitParams, LiveKitTransport
from pipecat.transports.smallwebrtc.request_handler import (
    SmallWebRTCPatchRequest,
    SmallWebRTCRequest,
    SmallWebRTCRequestHandler,
)
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 16_000
LOUD = 150  # RMS of speech
PAUSE_S, DELAY_S = 0.9, 0.1  # silence that ends an utterance, and the thinking time
BEFORE_S, AFTER_S = 0.2, 0.3  # margin repeated around the loud part
EVENTS = open(os.environ.get("EVENTS", os.devnull), "a", encoding="utf-8")  # noqa: SIM115 (until the end)
HEARD = os.environ.get("HEARD")
AUDIO = {"audio_in_enabled": True, "audio_out_enabled": True}

app = FastAPI()
offers = SmallWebRTCRequestHandler()


def log(event: str, **fields: object) -> None:
    """Write a line of the log."""
    print(json.dumps({"event": event, "at_ns": time.monotonic_ns(), **fields}), file=EVENTS, flush=True)


def samples(seconds: float) -> int:
    """Return the size in bytes of this much audio."""
    return 2 * round(seconds * RATE_HZ)


class Repeats(FrameProcessor):
    """An energy detector that repeats each utterance."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = bytearray()
        self._loud_from: int | None = None
        self._loud_to = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Process audio; forward all other frames."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, InputAudioRawFrame):
            await self.push_frame(frame, direction)
            return
        assert (frame.sample_rate, frame.num_channels) == (RATE_HZ, 1)
        pcm = array.array("h", frame.audio)
        begin = len(self._heard)
        self._heard += frame.audio
        if math.sqrt(sum(sample * sample for sample in pcm) / max(1, len(pcm))) > LOUD:
            self._loud_from = begin if self._loud_from is None else self._loud_from
            self._loud_to = len(self._heard)
        elif self._loud_from is None:
            del self._heard[: -samples(BEFORE_S)]
        elif len(self._heard) - self._loud_to >= samples(PAUSE_S):
            end = self._loud_to + samples(AFTER_S)
            said = bytes(self._heard[max(0, self._loud_from - samples(BEFORE_S)) : end])
            self._heard.clear()
            self._loud_from = None
            self.create_task(self._answer(said))

    async def _answer(self, said: bytes) -> None:
        log("end")
        await asyncio.sleep(DELAY_S)
        wav = f"{time.monotonic_ns()}.wav"
        log("answer", wav=wav)
        await self.push_frame(OutputAudioRawFrame(said, RATE_HZ, 1))
        if HEARD:
            await asyncio.to_thread(save, Path(HEARD) / wav, said)


def save(path: Path, pcm: bytes) -> None:
    """Write a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm)


async def serve(transport: BaseTransport, *ends: str) -> None:
    """Serve one client until it leaves."""
    worker = PipelineWorker(
        Pipeline([transport.input(), Repeats(), transport.output()]),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
    )

    async def leave(*_: object) -> None:
        await worker.cancel()

    for end in ends or ("on_client_disconnected",):
        transport.add_event_handler(end, leave)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


async def serve_socket(websocket: WebSocket, serializer: FrameSerializer) -> None:
    """Serve one client of a WebSocket."""
    params = FastAPIWebsocketParams(**AUDIO, serializer=serializer)
    await serve(FastAPIWebsocketTransport(websocket=websocket, params=params))


@app.websocket("/websocket")
async def plain(websocket: WebSocket) -> None:
    """Serve pipecat's protobuf frames."""
    await websocket.accept()
    await serve_socket(websocket, ProtobufFrameSerializer())


@app.websocket("/twilio")
async def twilio(websocket: WebSocket) -> None:
    """Serve Twilio Media Streams."""
    await websocket.accept()
    _, call = await parse_telephony_websocket(websocket)
    stays = TwilioFrameSerializer.InputParams(auto_hang_up=False)
    await serve_socket(websocket, TwilioFrameSerializer(call["stream_id"], call["call_id"], params=stays))


@app.websocket("/vonage")
async def vonage(websocket: WebSocket) -> None:
    """Serve Vonage's binary audio."""
    await websocket.accept()
    await serve_socket(websocket, VonageFrameSerializer())


@app.post("/api/offer")
async def offer(request: SmallWebRTCRequest, tasks: BackgroundTasks) -> object:
    """Serve SmallWebRTC."""

    async def connected(connection: object) -> None:
        transport = SmallWebRTCTransport(webrtc_connection=connection, params=TransportParams(**AUDIO))
        tasks.add_task(serve, transport)

    return await offers.handle_web_request(request=request, webrtc_connection_callback=connected)


@app.patch("/api/offer")
async def candidates(request: SmallWebRTCPatchRequest) -> dict[str, str]:
    """Add a client's candidates."""
    await offers.handle_patch_request(request)
    return {"status": "success"}


@app.post("/livekit")
async def livekit(room: dict, tasks: BackgroundTasks) -> dict[str, str]:
    """Join a LiveKit room."""
    params = LiveKitParams(**AUDIO, audio_in_user_tracks=False)
    transport = LiveKitTransport(room["url"], room["token"], room["room"], params)
    tasks.add_task(serve, transport, "on_participant_disconnected", "on_disconnected")
    return {"status": "joins"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="info")
