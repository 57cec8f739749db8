"""OpenAI-like services over real sockets: imitations of the vendors' servers, and the real clients."""

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import numpy as np
import soundfile
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from live_eval.audio import Codec, CodecName, frames_of
from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder, OggOpusEncoder
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.recording.record import TurnRecord, finish
from live_eval.registry import client, load
from live_eval.session import Session, Utterance
from live_eval.session.limits import SessionLimits
from live_eval.types import Case, Secret, SpeechBoundaries, TurnMode, Variant
from tests.support.sounds import main_tone_hz, tone

MS = 1_000_000
SPECS = {name: client(name) for name in ("unmute", "glm", "qwen-omni", "vllm-omni")}
LOADED = {name: (load(spec.dialect), load(spec.transport)) for name, spec in SPECS.items()}
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=3, stall_s=3)
Serve: TypeAlias = Callable[["Vendor"], Coroutine[Any, Any, None]]


class Vendor:
    """A connection from the vendor's side: received messages, and a way to send events."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.heard: list[NDArray[np.int16]] = []

    async def say(self, kind: str, **fields: object) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        with contextlib.suppress(ConnectionClosed):
            async for message in self.socket:
                yield json.loads(message)


@asynccontextmanager
async def vendor(behaviour: Serve) -> AsyncIterator[tuple[str, list[Vendor]]]:
    came: list[Vendor] = []

    async def hold(socket: ServerConnection) -> None:
        came.append(Vendor(socket))
        with contextlib.suppress(ConnectionClosed):
            await behaviour(came[-1])

    async with serve(hold, "127.0.0.1", 0, subprotocols=None, select_subprotocol=_realtime) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}", came


def _realtime(socket: ServerConnection, offered: Any) -> Any:
    return "realtime" if "realtime" in offered else None


async def one_turn(name: str, base_url: str, mode: TurnMode, model: str | None = None) -> TurnRecord:
    """Send half a second of a tone with the endpoint's own client."""
    spec, (dialect, transport) = SPECS[name], LOADED[name]
    clock = SystemClock()
    key = Secret("secret-of-the-vendor")
    settings = EndpointSettings(base_url=base_url, model=model or spec.model, turn_mode=mode, key=key)
    session = Session(dialect(settings), transport, clock, turn_mode=mode, limits=LIMITS)
    frames = frames_of(tone(spec.input_rate_hz, 500), spec.input_rate_hz * spec.frame_ms // 1000)
    boundaries = SpeechBoundaries(onset_ns=0, voice_end_ns=500 * MS, method="annotation")
    (capture,) = await session.converse(
        [Utterance(frames=frames, frame_ns=spec.frame_ms * MS, boundaries=boundaries)]
    )
    case = Case(case_id="c", script_id="c", variant=Variant.NEUTRAL, audio_path=Path("c.wav"))
    return finish(capture, case, None, repeat=0, attempt=1)


# -- Unmute --------------------------------------------------------------------------------------------


async def unmute(here: Vendor) -> None:
    """Receives Ogg Opus and answers in Ogg Opus after 0.6 s of speech, as Kyutai's backend does."""
    assert here.socket.subprotocol == "realtime"
    ears, voice = Decoder(Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)), OggOpusEncoder(24_000)
    answered = False
    async for event in here.events():
        if event["type"] == "session.update":
            assert event["session"]["allow_recording"] is False
            await here.say("session.updated", session=event["session"])
            continue
        assert event["type"] == "input_audio_buffer.append"
        here.heard.append(ears.decode(base64.b64decode(event["audio"])))
        if sum(map(len, here.heard)) < 0.6 * OPUS_RATE_HZ or answered:
            continue
        answered = True
        await here.say("input_audio_buffer.speech_stopped")
        await here.say(
            "response.created", response={"status": "in_progress", "voice": "v", "chat_history": []}
        )
        await here.say("response.text.delta", delta="Beep.")
        data = voice.headers()
        for frame in frames_of(tone(24_000, 400, hz=880), 480):
            data += voice.encode(frame)
            await here.say("response.audio.delta", delta=base64.b64encode(data).decode())
            data = b""
        await here.say("response.text.done", text="Beep.")
        await here.say("response.audio.done")


async def test_a_turn_with_unmute_is_opus_both_ways() -> None:
    async with vendor(unmute) as (address, connections):
        record = await one_turn("unmute", f"{address}/v1", TurnMode.SERVER_VAD)
    assert record.failure is None
    heard = np.concatenate(connections[0].heard)[: OPUS_RATE_HZ // 2]
    assert abs(main_tone_hz(heard, OPUS_RATE_HZ) - 440) < 5
    assert record.reply is not None
    assert record.reply_rate_hz == OPUS_RATE_HZ
    assert abs(len(record.reply) / OPUS_RATE_HZ - 0.4) < 0.01
    assert abs(main_tone_hz(record.reply, OPUS_RATE_HZ) - 880) < 5
    assert record.reply_text == "Beep."
    assert record.timing.first_byte.ns is not None
    assert 80 * MS < record.timing.first_byte.ns < 400 * MS


# -- GLM -----------------------------------------------------------------------------------------------


async def glm(here: Vendor) -> None:
    """Takes a WAV file with each append and answers after a commit and a `response.create`."""
    assert here.socket.request is not None
    assert here.socket.request.headers["Authorization"] == "Bearer secret-of-the-vendor"
    await here.say("session.created", session={"id": "s1", "object": "realtime.session"})
    async for event in here.events():
        match event["type"]:
            case "session.update":
                assert event["session"]["beta_fields"]["chat_mode"] == "audio"
                assert event["session"]["turn_detection"] == {"type": "client_vad"}
                await here.say("session.updated", session={"id": "s1", **event["session"]})
                await here.say("heartbeat")
            case "input_audio_buffer.append":
                pcm, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(event["audio"])), dtype="int16")
                assert rate_hz == 16_000
                here.heard.append(pcm)
            case "input_audio_buffer.commit":
                await here.say("input_audio_buffer.committed", item_id="u1")
            case "response.create":
                await here.say("response.created", response={"id": "r1", "status": "in_progress"})
                where = {"response_id": "r1", "item_id": "a1", "output_index": 0, "content_index": 0}
                audio = base64.b64encode(tone(24_000, 300, hz=880).tobytes()).decode()
                await here.say("response.audio.delta", **where, delta=audio)
                await here.say("response.audio_transcript.done", **where, transcript="Beep.")
                await here.say("response.done", response={"id": "r1", "status": "completed"})


async def test_a_manual_turn_with_glm_is_wav_up_and_pcm_down() -> None:
    async with vendor(glm) as (address, connections):
        record = await one_turn("glm", f"{address}/api/paas/v4", TurnMode.MANUAL)
    assert record.failure is None
    assert np.array_equal(np.concatenate(connections[0].heard), tone(16_000, 500))
    assert record.reply is not None
    assert np.array_equal(record.reply, tone(24_000, 300, hz=880))
    assert record.timing.endpointing.ns is not None


# -- Qwen ----------------------------------------------------------------------------------------------


async def qwen(here: Vendor) -> None:
    """Answers immediately after the commit and confirms the end of the session on request."""
    await here.say("session.created", session={"id": "s1"})
    async for event in here.events():
        match event["type"]:
            case "session.update":
                await here.say("session.updated", session={"id": "s1", "input_audio_format": "pcm16"})
            case "input_audio_buffer.append":
                here.heard.append(np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(np.int16))
            case "response.create":
                await here.say("response.created", response={"id": "r1", "status": "in_progress"})
                audio = base64.b64encode(tone(24_000, 200).tobytes()).decode()
                await here.say("response.audio.delta", response_id="r1", item_id="a1", delta=audio)
                await here.say("response.done", response={"id": "r1", "status": "completed"})
            case "session.finish":
                await asyncio.sleep(0.05)
                await here.say("session.finished")
                here.heard.append(np.full(1, -1, np.int16))


async def test_a_turn_with_qwen_ends_with_its_farewell() -> None:
    async with vendor(qwen) as (address, connections):
        record = await one_turn("qwen-omni", f"{address}/api-ws/v1", TurnMode.MANUAL)
    assert record.failure is None
    *heard, farewell = connections[0].heard
    assert np.array_equal(np.concatenate(heard), tone(16_000, 500))
    assert farewell.tolist() == [-1]


# -- vLLM-Omni -----------------------------------------------------------------------------------------


async def vllm_omni(here: Vendor) -> None:
    """Opens a session immediately if allowed, like the server; otherwise on the first ``session.update``."""
    assert here.socket.request is not None
    asks = parse_qs(urlsplit(here.socket.request.path).query)
    session: dict[str, Any] = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}}
    if "model" in asks and asks.get("autostart") != ["0"]:
        await here.say("session.created", session=session)
        await here.say("session.updated", session=session)
    async for event in here.events():
        match event["type"]:
            case "session.update":
                session = {"id": "s1", **event["session"]}
                await here.say("session.created", session=session)
                await here.say("session.updated", session=session)
            case "input_audio_buffer.append":
                here.heard.append(np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(np.int16))
            case "response.create":
                await here.say("response.created", response={"id": "r1"}, response_id="r1")
                audio = base64.b64encode(tone(16_000, 250, hz=880).tobytes()).decode()
                told = {"delta": audio, "format": "pcm16", "sample_rate_hz": 16_000}
                await here.say("response.output_audio.delta", response_id="r1", item_id="a1", **told)
                await here.say(
                    "response.done", response={"id": "r1", "status": "completed"}, response_id="r1"
                )


async def test_a_turn_with_vllm_omni_uses_the_rates_it_announces() -> None:
    async with vendor(vllm_omni) as (address, connections):
        record = await one_turn("vllm-omni", f"{address}/v1", TurnMode.MANUAL, model="duplex-model")
    assert record.failure is None
    assert np.array_equal(np.concatenate(connections[0].heard), tone(24_000, 500))
    assert record.reply is not None
    assert record.reply_rate_hz == 16_000
    assert np.array_equal(record.reply, tone(16_000, 250, hz=880))
