"""A livekit-agents worker whose agent answers each utterance with a tone and logs the times.

Runs in a separate environment and imports nothing from this project. Usage::

    LIVEKIT_URL=ws://HOST LIVEKIT_API_KEY=KEY LIVEKIT_API_SECRET=SECRET ANSWERS=answers.jsonl \
        python livekit_worker.py start

It is dispatched by the name ``tone``. Each line of the log has the room, and the monotonic time at which the
session handed the first frame of an answer to the audio source of its track. Each session has a process.
``BOT=hangup`` leaves the room after the first utterance instead.
"""

import array
import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator

from livekit import rtc
from livekit.agents import Agent, AgentServer, AgentSession, JobContext, cli

NAME, TEXT = "tone", "It is ten."
EAR_HZ, VOICE_HZ, FRAME_S = 16_000, 24_000, 0.02
LOUD = 300  # RMS of speech
PAUSE_S, DELAY_S = 0.6, 0.2  # silence that ends an utterance, and the thinking time
REPLY_S = float(os.environ.get("REPLY_S", "1.0"))
LOG = open(os.environ.get("ANSWERS", os.devnull), "a", encoding="utf-8")  # noqa: SIM115 (until the end)

server = AgentServer(load_threshold=float("inf"), num_idle_processes=1, port=0)


async def tone() -> AsyncIterator[rtc.AudioFrame]:
    """Yield the answer."""
    samples = round(VOICE_HZ * FRAME_S)
    for begin in range(0, round(VOICE_HZ * REPLY_S), samples):
        wave = (round(9_000 * math.sin(math.tau * 440 * n / VOICE_HZ)) for n in range(begin, begin + samples))
        yield rtc.AudioFrame(array.array("h", wave).tobytes(), VOICE_HZ, 1, samples)


async def answer(context: JobContext, session: AgentSession, track: rtc.Track) -> None:
    """Answer each utterance on a track."""
    speaks, quiet_s = False, 0.0
    async for event in rtc.AudioStream(track, sample_rate=EAR_HZ, num_channels=1):
        samples = event.frame.data
        loud = math.sqrt(sum(sample * sample for sample in samples) / len(samples)) > LOUD
        speaks = speaks or loud
        quiet_s = 0.0 if loud else quiet_s + len(samples) / EAR_HZ
        if speaks and quiet_s >= PAUSE_S:
            speaks = False
            await asyncio.sleep(DELAY_S)
            if os.environ.get("BOT") == "hangup":
                context.shutdown("it hangs up")
                return
            session.say(TEXT, audio=tone())


@server.rtc_session(agent_name=NAME)
async def serve(context: JobContext) -> None:
    """Serve one room."""
    session = AgentSession(vad=None)  # by default, a second detector would interrupt the answers
    await session.start(Agent(instructions=""), room=context.room)

    def started(event: object) -> None:
        line = {"call": context.room.name, "event": "audio", "at_ns": time.monotonic_ns()}
        print(json.dumps(line), file=LOG, flush=True)

    session.output.audio.on("playback_started", started)
    hearing = set()

    def hear(track: rtc.Track, *_: object) -> None:
        hearing.add(asyncio.create_task(answer(context, session, track)))

    context.room.on("track_subscribed", hear)
    for participant in context.room.remote_participants.values():
        for publication in participant.track_publications.values():
            if publication.track is not None:
                hear(publication.track)


if __name__ == "__main__":
    cli.run_app(server)
