"""A pipecat bot on SmallWebRTC, built as in its documentation, that echoes the user after a delay.

Runs in the strangers' environment and imports nothing from this project. Usage::

    ECHO_DELAY_MS=4000 python echo_bot.py -t webrtc --host 127.0.0.1 --port PORT
"""

import os
from collections import deque

from pipecat.frames.frames import Frame, InputAudioRawFrame, OutputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.runner.types import SmallWebRTCRunnerArguments
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000
DELAY_MS = int(os.environ.get("ECHO_DELAY_MS", "0"))


class Echo(FrameProcessor):
    """A delay line for audio."""

    def __init__(self) -> None:
        super().__init__()
        self._line: deque[InputAudioRawFrame] = deque()
        self._held_ms = 0.0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Forward every frame; delay audio."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, InputAudioRawFrame):
            await self.push_frame(frame, direction)
            return
        self._line.append(frame)
        self._held_ms += length_ms(frame)
        while self._line and self._held_ms > DELAY_MS:
            oldest = self._line.popleft()
            self._held_ms -= length_ms(oldest)
            await self.push_frame(OutputAudioRawFrame(oldest.audio, oldest.sample_rate, oldest.num_channels))


def length_ms(frame: InputAudioRawFrame) -> float:
    """Return the duration of a frame."""
    return frame.num_frames * 1000 / frame.sample_rate


async def bot(arguments: SmallWebRTCRunnerArguments) -> None:
    """Serve one client; pipecat's runner calls this for each."""
    transport = SmallWebRTCTransport(
        webrtc_connection=arguments.webrtc_connection,
        params=TransportParams(audio_in_enabled=True, audio_out_enabled=True),
    )
    worker = PipelineWorker(
        Pipeline([transport.input(), Echo(), transport.output()]),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
    )

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(transport: SmallWebRTCTransport, client: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


if __name__ == "__main__":
    from pipecat.runner.run import main

    main()
