"""The voice agent under test: a parrot that repeats the user's audio.

It stops when it is interrupted, and ignores sounds as short as "mm-hmm".
The agent implements the part of OpenAI Realtime's protocol that a conversation needs. ``python agent.py``
serves the agent on a free port and prints its URL.
"""

import json
import time

import numpy as np
from pybase64 import b64decode, b64encode_as_string
from websockets.sync.server import ServerConnection, serve

RATE_HZ = 24_000
PATIENCE_S = 0.5  # silence that ends the user's turn
SPEECH_S = 0.6  # shorter sounds are backchannels
THINKING_S = 0.1
LOUD = 500
PCM = {"type": "audio/pcm", "rate": RATE_HZ}


def talk(connection: ServerConnection) -> None:
    """Run one conversation."""

    def send(kind: str, **fields: object) -> None:
        connection.send(json.dumps({"type": kind, **fields}))

    audio = {"input": {"format": PCM}, "output": {"format": PCM}}
    session = {"id": "sess_1", "model": "parrot", "audio": audio}
    send("session.created", session=session)
    heard, loud_s, silent_s, turn = bytearray(), 0.0, 0.0, 0
    for message in connection:
        event = json.loads(message)
        if event["type"] == "session.update":
            send("session.updated", session=session)
        elif event["type"] == "input_audio_buffer.append":
            frame = b64decode(event["audio"])
            pcm = np.frombuffer(frame, np.int16)
            loud = bool(np.abs(pcm.astype(np.int32)).max() > LOUD)
            seconds = len(pcm) / RATE_HZ
            if loud and loud_s < SPEECH_S <= loud_s + seconds:
                send("input_audio_buffer.speech_started", audio_start_ms=0, item_id=f"item_{turn}")
            loud_s, silent_s = (loud_s + seconds, 0.0) if loud else (loud_s, silent_s + seconds)
            if loud or heard:
                heard += frame
            if heard and silent_s >= PATIENCE_S:
                if loud_s >= SPEECH_S:
                    send("input_audio_buffer.speech_stopped", audio_end_ms=0, item_id=f"item_{turn}")
                    reply(send, f"resp_{turn}", bytes(heard))
                heard, loud_s, turn = bytearray(), 0.0, turn + 1


def reply(send, response_id: str, pcm: bytes) -> None:
    """Send the reply in 100 ms chunks."""
    time.sleep(THINKING_S)
    response = {"id": response_id, "status": "in_progress", "output": []}
    send("response.created", response=response)
    place = {"response_id": response_id, "item_id": f"{response_id}_0", "output_index": 0, "content_index": 0}
    send("response.output_audio_transcript.done", **place, transcript="(the same again)")
    step = RATE_HZ // 10 * 2
    for start in range(0, len(pcm), step):
        delta = b64encode_as_string(pcm[start : start + step])
        send("response.output_audio.delta", **place, delta=delta)
    send("response.output_audio.done", **place)
    send("response.done", response={**response, "status": "completed"})


if __name__ == "__main__":
    with serve(talk, "127.0.0.1", 0) as server:
        print(f"ws://127.0.0.1:{server.socket.getsockname()[1]}", flush=True)
        server.serve_forever()
