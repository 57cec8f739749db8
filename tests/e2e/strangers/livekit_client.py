"""A client with LiveKit's SDK: publishes a recording in a room and prints the agent's reply.

Runs in a separate environment and imports nothing from this project. Usage::

    python livekit_client.py URL WAV

The WAV is int16 mono at 48 kHz. The output is one JSON object: ``{"heard": text, "said": text, "states":
[state], "audio": base64 of PCM}``, where ``said`` is the agent's transcript of its reply.
"""

import asyncio
import base64
import json
import sys
import wave

from livekit import api, rtc

RATE_HZ = 48_000
FRAME_SAMPLES = 480
PATIENCE_S = 40.0
IDENTITY = "stranger"


class Listener:
    """Collects what the agent says and reports."""

    def __init__(self, room: rtc.Room) -> None:
        self.heard, self.said, self.audio = "", "", bytearray()
        self.states: list[str] = []
        self.answered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        room.on("participant_attributes_changed", self._changed)
        room.on("track_subscribed", lambda track, *_: self._start(self._listen(track)))
        room.register_text_stream_handler(
            "lk.transcription", lambda reader, who: self._start(self._read(reader, who))
        )

    def _start(self, job) -> None:
        self._tasks.append(asyncio.create_task(job))

    def _changed(self, changed, participant) -> None:
        state = changed.get("lk.agent.state")
        if state is not None:
            self.states.append(state)
            if state == "listening" and "speaking" in self.states:
                self.answered.set()

    async def _listen(self, track) -> None:
        async for event in rtc.AudioStream(track, sample_rate=RATE_HZ, num_channels=1):
            self.audio += event.frame.data.tobytes()

    async def _read(self, reader, who) -> None:
        text = await reader.read_all()
        if who == IDENTITY:
            self.heard += text
        else:
            self.said += text


async def speak(source: rtc.AudioSource, path: str) -> None:
    """Publish a recording, then silence until cancelled."""
    with wave.open(path) as recording:
        assert recording.getparams()[:3] == (1, 2, RATE_HZ)
        pcm = recording.readframes(recording.getnframes())
    number, length = 0, 2 * FRAME_SAMPLES
    while True:
        piece = pcm[number * length : (number + 1) * length].ljust(length, b"\0")
        await source.capture_frame(rtc.AudioFrame(piece, RATE_HZ, 1, FRAME_SAMPLES))
        number += 1


async def main(url: str, recording: str) -> None:
    """Join the room, publish the recording, and print the result."""
    grants = api.VideoGrants(room_join=True, room="room")
    token = api.AccessToken("devkey", "secret" * 8).with_identity(IDENTITY).with_grants(grants).to_jwt()
    room = rtc.Room()
    listener = Listener(room)
    await room.connect(url, token)
    source = rtc.AudioSource(RATE_HZ, 1, queue_size_ms=40)
    track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
    options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE, dtx=False, red=False)
    await room.local_participant.publish_track(track, options)
    speaking = asyncio.create_task(speak(source, recording))
    async with asyncio.timeout(PATIENCE_S):
        await listener.answered.wait()
    await asyncio.sleep(0.5)  # time for the jitter buffer and the last text
    speaking.cancel()
    found = {"heard": listener.heard, "said": listener.said, "states": listener.states}
    sys.stdout.write(json.dumps({**found, "audio": base64.b64encode(listener.audio).decode()}) + "\n")
    await room.disconnect()


asyncio.run(main(*sys.argv[1:]))
