"""A pipecat bot over WebSocket or a phone line that answers each utterance with a tone and logs the times.

Runs in the strangers' environment and imports nothing from this project. Usage::

    ANSWERS=answers.jsonl python pipecat_tone_bot.py -t twilio -x HOST --host 127.0.0.1 --port PORT
    ANSWERS=answers.jsonl python pipecat_tone_bot.py -t websocket --host 127.0.0.1 --port PORT
    ANSWERS=answers.jsonl python pipecat_tone_bot.py single-client PORT

Each line of the log has the call, and the monotonic time at which an answer or a clear went to the socket.
``BOT`` selects another behaviour: ``mute`` never answers, ``hangup`` ends the call after the first utterance.
"""

import array
import asyncio
import json
import math
import os
import sys
import time

from pipecat.frames.frames import Frame, InputAudioRawFrame, InterruptionFrame, OutputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor, FrameProcessorSetup
from pipecat.runner.types import WebSocketRunnerArguments
from pipecat.runner.utils import parse_telephony_websocket
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.serializers.exotel import ExotelFrameSerializer
from pipecat.serializers.plivo import PlivoFrameSerializer
from pipecat.serializers.protobuf import ProtobufFrameSerializer
from pipecat.serializers.telnyx import TelnyxFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.transports.base_transport import BaseTransport
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.transports.websocket.server import (
    SingleClientWebsocketServerParams,
    SingleClientWebsocketServerTransport,
)
from pipecat.workers.runner import WorkerRunner

PHONE = "-x" in sys.argv  # the provider's proxy
RATE_HZ = 8_000 if PHONE else 16_000
LOUD = 300  # RMS of speech
PAUSE_S, DELAY_S = 0.6, 0.2  # silence that ends an utterance, and the thinking time
REPLY_S = float(os.environ.get("REPLY_S", "1.0"))
LOG = open(os.environ.get("ANSWERS", os.devnull), "a", encoding="utf-8")  # noqa: SIM115 (until the end)
BOT = os.environ.get("BOT", "tone")
TONE = array.array(
    "h", (round(9_000 * math.sin(math.tau * 440 * n / RATE_HZ)) for n in range(round(RATE_HZ * REPLY_S)))
).tobytes()


class Answers(FrameProcessor):
    """An energy detector that answers each utterance with a tone."""

    def __init__(self, log: "Log") -> None:
        super().__init__()
        self._log = log
        self._quiet_s = 0.0
        self._speaks = False
        self._replies_until = 0.0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Process audio; forward all other frames."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, InputAudioRawFrame):
            await self.push_frame(frame, direction)
            return
        samples = array.array("h", frame.audio)
        loud = math.sqrt(sum(sample * sample for sample in samples) / max(1, len(samples))) > LOUD
        if loud and not self._speaks:
            self._speaks = True
            if time.monotonic() < self._replies_until:
                self._replies_until = 0.0
                await self.push_frame(InterruptionFrame())
        self._quiet_s = 0.0 if loud else self._quiet_s + frame.num_frames / frame.sample_rate
        if self._speaks and self._quiet_s >= PAUSE_S:
            self._speaks = False
            if BOT != "mute":
                self.create_task(self._answer())

    async def _answer(self) -> None:
        await asyncio.sleep(DELAY_S)
        if BOT == "hangup":
            await self._log.websocket.close()
            return
        self._log.expects = True
        self._replies_until = time.monotonic() + REPLY_S
        await self.push_frame(OutputAudioRawFrame(TONE, RATE_HZ, 1))


class Log(FrameSerializer):
    """A pipecat serialiser that logs the first audio of each answer."""

    def __init__(self, websocket: object, serializer: FrameSerializer, call: str) -> None:
        super().__init__()
        self.websocket = websocket
        self.expects = False
        self._serializer = serializer
        self._call = call

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """Set the serialiser up."""
        await self._serializer.setup(setup)

    async def deserialize(self, data: str | bytes) -> Frame | None:
        """Read a message."""
        return await self._serializer.deserialize(data)

    async def serialize(self, frame: Frame) -> str | bytes | None:
        """Write a frame; the transport sends the result at once."""
        message = await self._serializer.serialize(frame)
        cleared = isinstance(frame, InterruptionFrame)
        if message and (cleared or (self.expects and isinstance(frame, OutputAudioRawFrame))):
            self.expects = self.expects and cleared
            event = "clear" if cleared else "audio"
            line = {"call": self._call, "event": event, "at_ns": time.monotonic_ns()}
            print(json.dumps(line), file=LOG, flush=True)
        return message


def serializer_of(provider: str, stream: str, call: str) -> FrameSerializer:
    """Return pipecat's serialiser for a provider."""
    match provider:
        case "twilio":
            stays = TwilioFrameSerializer.InputParams(auto_hang_up=False)
            return TwilioFrameSerializer(stream, call, params=stays)
        case "telnyx":
            stays = TelnyxFrameSerializer.InputParams(auto_hang_up=False)
            return TelnyxFrameSerializer(stream, "PCMU", "PCMU", call, params=stays)
        case "plivo":
            return PlivoFrameSerializer(
                stream, call, params=PlivoFrameSerializer.InputParams(auto_hang_up=False)
            )
        case "exotel":
            return ExotelFrameSerializer(stream, call)
    raise ValueError(f"pipecat found no provider: {provider}")


async def bot(arguments: WebSocketRunnerArguments) -> None:
    """Serve one call; pipecat's runner calls this for each."""
    if PHONE:
        provider, call = await parse_telephony_websocket(arguments.websocket)
        serializer = serializer_of(provider, call["stream_id"], call["call_id"])
        log = Log(arguments.websocket, serializer, call["call_id"])
    else:
        log = Log(arguments.websocket, ProtobufFrameSerializer(), "")
    transport = FastAPIWebsocketTransport(
        websocket=arguments.websocket,
        params=FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True, serializer=log),
    )
    worker = pipeline(transport, log)

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(transport: FastAPIWebsocketTransport, client: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


async def serve_single_client(port: int) -> None:
    """Serve one client at a time, with pipecat's own server; later clients are closed with 1013."""
    log = Log(None, ProtobufFrameSerializer(), "")
    params = SingleClientWebsocketServerParams(serializer=log, audio_in_enabled=True, audio_out_enabled=True)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(pipeline(SingleClientWebsocketServerTransport(params, "127.0.0.1", port), log))
    await runner.run()


def pipeline(transport: BaseTransport, log: Log) -> PipelineWorker:
    """Return the bot between the two sides of a transport."""
    return PipelineWorker(
        Pipeline([transport.input(), Answers(log), transport.output()]),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
    )


if __name__ == "__main__":
    if sys.argv[1] == "single-client":
        asyncio.run(serve_single_client(int(sys.argv[2])))
    else:
        from pipecat.runner.run import main

        main()
