"""Hume, chat completions, OpenS2S and Moshi: imitations of their servers, and the real clients."""

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import soundfile
from aiohttp import WSMsgType, web
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName, frames_of
from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder, OggOpusEncoder
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.registry import client, load
from live_eval.session import Session, Utterance
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from live_eval.types import Case, Secret, SpeechBoundaries, Variant
from tests.support.serving import listening, reference
from tests.support.sounds import main_tone_hz, tone

MS = 1_000_000
KEY = "secret-of-the-vendor"
SPECS = {name: client(name) for name in ("hume", "openai-chat-audio", "opens2s", "moshi")}
LOADED = {name: (load(spec.dialect), load(spec.transport)) for name, spec in SPECS.items()}
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=3, stall_s=3, silence_s=0.4)
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", handler)
    async with listening(application) as address:
        yield f"http://{address}"


def wav(pcm: NDArray[np.int16], rate_hz: int, subtype: str = "PCM_16") -> str:
    file = io.BytesIO()
    samples = pcm / 32_768 if subtype == "FLOAT" else pcm
    soundfile.write(file, samples, rate_hz, format="WAV", subtype=subtype)
    return base64.b64encode(file.getvalue()).decode()


async def one_turn(
    name: str,
    base_url: str,
    *,
    frames: list[bytes] | None = None,
    extra: Mapping[str, Any] | None = None,
    limits: SessionLimits = LIMITS,
) -> TurnRecord:
    """Send half a second of a tone, or other frames, with the endpoint's own client."""
    spec, (dialect, transport) = SPECS[name], LOADED[name]
    clock, mode = SystemClock(), spec.turn_modes[0]
    settings = EndpointSettings(
        base_url=base_url, model=spec.model, turn_mode=mode, key=Secret(KEY), extra=extra or {}
    )
    session = Session(dialect(settings), transport, clock, turn_mode=mode, limits=limits)
    frame_samples = spec.input_rate_hz * spec.frame_ms // 1000
    frames = frames or frames_of(tone(spec.input_rate_hz, 480), frame_samples)
    boundaries = SpeechBoundaries(
        onset_ns=0, voice_end_ns=len(frames) * spec.frame_ms * MS, method="annotation"
    )
    (capture,) = await session.converse(
        [Utterance(frames=frames, frame_ns=spec.frame_ms * MS, boundaries=boundaries)]
    )
    case = Case(case_id="c", script_id="c", variant=Variant.NEUTRAL, audio_path=Path("c.wav"))
    return finish(capture, case, None, repeat=0, attempt=1)


# -- Hume ----------------------------------------------------------------------------------------------


class Hume:
    """EVI: receives PCM, transcribes it, and answers in WAV files; stops when the user speaks again."""

    def __init__(self, *, sentences: int = 2, expires: bool = False) -> None:
        self.sentences, self.expires = sentences, expires
        self.heard: list[NDArray[np.int16]] = []
        self.request: web.Request | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.request = request
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "chat_metadata", "chat_id": "chat_1", "chat_group_id": "group_1"})
        with contextlib.suppress(ConnectionError):
            async with asyncio.TaskGroup() as tasks:
                await self._hear(socket, tasks)
        return socket

    async def _hear(self, socket: web.WebSocketResponse, tasks: asyncio.TaskGroup) -> None:
        answering: asyncio.Task[None] | None = None
        loud, quiet = 0, 0
        async for message in socket:
            event = message.json()
            if event["type"] == "session_settings":
                assert event["audio"] == {"encoding": "linear16", "sample_rate": 24_000, "channels": 1}
                continue
            assert event["type"] == "audio_input"
            pcm = np.frombuffer(base64.b64decode(event["data"]), "<i2").astype(np.int16)
            self.heard.append(pcm)
            if np.abs(pcm).max() > 1_000:
                loud, quiet = loud + 1, 0
                if loud == 5:
                    await self._user(socket, "What", interim=True)
                    if answering is not None and not answering.done():
                        answering.cancel()
                        await socket.send_json({"type": "user_interruption", "time": 1_795_003_602_345})
            elif loud and (quiet := quiet + 1) == 10:
                loud = 0
                await self._user(socket, "What time is it?", interim=False)
                answering = tasks.create_task(self._answer(socket))

    async def _user(self, socket: web.WebSocketResponse, text: str, *, interim: bool) -> None:
        said = {"role": "user", "content": text}
        time = {"begin": 0, "end": 100}
        await socket.send_json(
            {"type": "user_message", "from_text": False, "interim": interim, "message": said, "time": time}
        )

    async def _answer(self, socket: web.WebSocketResponse) -> None:
        if self.expires:
            said = "Your chat ended: the maximum duration was reached."
            await socket.send_json({"type": "error", "code": "E0715", "slug": "max", "message": said})
            await socket.close()
            return
        for number in range(self.sentences):
            name = f"sentence_{number}"
            words = {"role": "assistant", "content": f"Beep {number}."}
            await socket.send_json({"type": "assistant_message", "id": name, "message": words})
            for index in range(2):
                data = wav(tone(48_000, 200, hz=880), 48_000)
                await socket.send_json({"type": "audio_output", "id": name, "index": index, "data": data})
                await asyncio.sleep(0.15)
        await socket.send_json({"type": "assistant_end"})


async def test_a_turn_with_hume_is_pcm_up_and_wav_down() -> None:
    hume = Hume()
    async with serving(hume.serve) as address:
        record = await one_turn("hume", f"{address}/v0/evi", extra={"config_id": "c-1"})
    assert record.failure is None
    assert hume.request is not None
    assert hume.request.path == "/v0/evi/chat"
    assert hume.request.query["config_id"] == "c-1"
    assert hume.request.headers["X-Hume-Api-Key"] == KEY
    assert KEY not in hume.request.path_qs
    assert np.array_equal(np.concatenate(hume.heard)[: 24 * 480], tone(24_000, 480))
    assert record.session_id == "chat_1"
    assert record.reply is not None
    assert record.reply_rate_hz == 48_000
    assert np.array_equal(record.reply, np.tile(tone(48_000, 200, hz=880), 4))
    assert record.reply_text == "Beep 0. Beep 1."
    assert record.heard_text == "What time is it?"
    assert record.timing.first_byte.ns is not None
    assert 190 * MS < record.timing.first_byte.ns < 600 * MS


async def test_hume_replies_to_the_interrupting_utterance() -> None:
    """The user continues 400 ms after the first words, during the reply to them."""
    pause = [bytes(2 * 480)] * 20
    speech = frames_of(tone(24_000, 480), 480)
    async with serving(Hume(sentences=4).serve) as address:
        record = await one_turn("hume", f"{address}/v0/evi", frames=[*speech, *pause, *speech])
    assert record.failure is None
    statuses = [response.status for response in record.responses]
    assert statuses == [ResponseStatus.CANCELLED, ResponseStatus.COMPLETED]
    assert record.timing.headline == 1
    assert record.heard_text == "What time is it? What time is it?"


async def test_a_hume_chat_at_its_duration_limit() -> None:
    async with serving(Hume(expires=True).serve) as address:
        record = await one_turn("hume", f"{address}/v0/evi")
    assert record.failure is not None
    assert record.failure.kind is FailureKind.SESSION_EXPIRED
    assert "E0715" in record.failure.message


# -- Chat completions ----------------------------------------------------------------------------------


class Chat:
    """Chat completions: receives a WAV file and answers with a stream of events or one object."""

    def __init__(self, answer: Handler) -> None:
        self.answer = answer
        self.heard: NDArray[np.int16] | None = None
        self.requests: list[web.Request] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        assert request.method == "POST"
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        body = await request.json()
        assert body["modalities"] == ["text", "audio"]
        (heard,) = body["messages"][0]["content"]
        recording = io.BytesIO(base64.b64decode(heard["input_audio"]["data"]))
        self.heard, rate_hz = soundfile.read(recording, dtype="int16")
        assert rate_hz == 24_000
        return await self.answer(request)


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **more}
    return f"data: {json.dumps(event)}\n\n"


async def streaming(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def openai(request: web.Request) -> web.StreamResponse:
    """OpenAI's stream: PCM and its transcript, the finish reason, and [DONE]."""
    response = await streaming(request)
    await asyncio.sleep(0.2)
    for frame in frames_of(tone(24_000, 400, hz=880), 2_400):
        data = base64.b64encode(frame).decode()
        await response.write(chunk({"audio": {"id": "audio_1", "data": data}}).encode())
        await asyncio.sleep(0.02)
    await response.write(chunk({"audio": {"id": "audio_1", "transcript": "Beep."}}).encode())
    await response.write(f"{chunk({}, 'stop')}data: [DONE]\n\n".encode())
    return response


async def vllm_omni(request: web.Request) -> web.StreamResponse:
    """vLLM-Omni's stream: text, then audio in the content of separate events."""
    response = await streaming(request)
    await response.write(chunk({"content": "Beep."}, "stop", modality="text").encode())
    await asyncio.sleep(0.2)
    for frame in frames_of(tone(24_000, 400, hz=880), 4_800):
        spoken = {"content": base64.b64encode(frame).decode()}
        await response.write(chunk(spoken, modality="audio").encode())
    await response.write(f"{chunk({}, 'stop')}data: [DONE]\n\n".encode())
    return response


async def whole(request: web.Request) -> web.StreamResponse:
    """The response of servers that do not stream."""
    await asyncio.sleep(0.2)
    audio = {"id": "audio_1", "data": wav(tone(16_000, 400, hz=880), 16_000), "transcript": "Beep."}
    choice = {"index": 0, "message": {"role": "assistant", "audio": audio}, "finish_reason": "stop"}
    return web.json_response({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]})


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = await streaming(request)
    await response.write(
        chunk({"audio": {"data": base64.b64encode(tone(24_000, 400).tobytes()).decode()}}).encode()
    )
    await asyncio.sleep(0.05)
    assert request.transport is not None
    request.transport.abort()
    return response


async def overloaded(request: web.Request) -> web.StreamResponse:
    error = {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}
    return web.json_response({"error": error}, status=429, headers={"Retry-After": "7"})


async def without_the_model(request: web.Request) -> web.StreamResponse:
    error = {"message": "The model `gpt-audio` does not exist.", "type": "NotFoundError", "code": 404}
    return web.json_response({"error": error}, status=404)


async def heard_and_answered(answer: Handler, rate_hz: int = 24_000) -> TurnRecord:
    """Run a successful turn and check everything that all servers have in common."""
    chat = Chat(answer)
    async with serving(chat.serve) as address:
        record = await one_turn("openai-chat-audio", f"{address}/v1")
    assert record.failure is None
    assert [request.path for request in chat.requests] == ["/v1/chat/completions"]
    assert chat.heard is not None
    assert np.array_equal(chat.heard, tone(24_000, 480))
    assert record.reply is not None
    assert record.reply_rate_hz == rate_hz
    assert np.array_equal(record.reply, tone(rate_hz, 400, hz=880))
    assert record.reply_text == "Beep."
    assert record.timing.first_byte.ns is not None
    assert 190 * MS < record.timing.first_byte.ns < 600 * MS
    return record


async def test_a_turn_with_chat_completions_is_streamed() -> None:
    record = await heard_and_answered(openai)
    assert len(record.responses[0].chunk_arrival_ns) == 4


async def test_a_turn_with_vllm_omni() -> None:
    record = await heard_and_answered(vllm_omni)
    transcript_ns = record.timing.transcript.ns
    assert transcript_ns is not None
    assert transcript_ns < 190 * MS


async def test_a_turn_with_a_server_that_does_not_stream() -> None:
    await heard_and_answered(whole, 16_000)


async def refused(answer: Handler) -> TurnRecord:
    async with serving(Chat(answer).serve) as address:
        record = await one_turn("openai-chat-audio", f"{address}/v1")
    assert record.failure is not None
    assert KEY not in record.failure.message
    return record


async def test_a_truncated_reply_is_kept() -> None:
    record = await refused(cut_off)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.CLOSED
    assert record.reply is not None
    assert np.array_equal(record.reply, tone(24_000, 400))


async def test_a_rate_limit_has_a_retry_time() -> None:
    record = await refused(overloaded)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.RATE_LIMITED
    assert record.retry_after_s == 7


async def test_an_unknown_model() -> None:
    record = await refused(without_the_model)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.UNKNOWN_MODEL


# -- OpenS2S -------------------------------------------------------------------------------------------


async def test_a_turn_with_opens2s_is_a_recording_up_and_float_wav_files_down() -> None:
    heard: list[NDArray[np.int16]] = []

    async def worker(request: web.Request) -> web.StreamResponse:
        assert request.path == "/worker_generate_stream"
        (said,) = (await request.json())["messages"][0]["content"]
        recording, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(said["audio"])), dtype="int16")
        assert rate_hz == 16_000
        heard.append(recording)
        response = web.StreamResponse()
        await response.prepare(request)
        pieces = [("Beep.", ""), *[("Beep.", wav(tone(22_050, 200, hz=880), 22_050, "FLOAT"))] * 2]
        for number, (text, audio) in enumerate(pieces):
            piece = {"text": text, "audio": audio, "finalize": number == 2, "error_code": 0}
            await response.write(json.dumps(piece).encode() + b"\0")
            await asyncio.sleep(0.05)
        return response

    async with serving(worker) as address:
        record = await one_turn("opens2s", address)
    assert record.failure is None
    assert np.array_equal(heard[0], tone(16_000, 480))
    assert record.reply is not None
    assert np.abs(record.reply - np.tile(tone(22_050, 200, hz=880), 2).astype(int)).max() <= 1
    assert (record.reply_rate_hz, record.reply_text) == (22_050, "Beep.")


async def test_a_turn_with_opens2s_and_the_built_in_endpoint() -> None:
    async with reference(reply_ms=300, delay_ms=100) as address:
        record = await one_turn("opens2s", f"http://{address}")
        cut_off = await one_turn("opens2s", f"http://{address}?fault=close:1011")
    assert record.failure is None
    assert (record.reply_rate_hz, record.reply_text) == (22_050, "A tone.")
    assert cut_off.failure is not None
    assert cut_off.failure.kind is FailureKind.CLOSED
    assert "without 'finalize'" in cut_off.failure.message


# -- Moshi ---------------------------------------------------------------------------------------------


class Moshi:
    """`moshi.server`: one session at a time under a lock, and one audio step out per audio step in."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.speaks = asyncio.Event()
        self.heard: list[NDArray[np.int16]] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async with self.lock:
            ears, voice = Decoder(Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)), OggOpusEncoder(24_000)
            await socket.send_bytes(b"\x00")
            self.speaks.set()
            pages, steps = voice.headers(), 0
            async for message in socket:
                if message.type is not WSMsgType.BINARY:
                    break
                assert message.data[0] == 1
                self.heard.append(ears.decode(message.data[1:]))
                steps += 1
                speaks = 10 <= steps < 15
                pcm = tone(24_000, 80, hz=1_000) if speaks else np.zeros(1_920, np.int16)
                pages += b"".join(voice.encode(frame) for frame in frames_of(pcm, 480))
                await socket.send_bytes(b"\x01" + pages)
                pages = b""
                if steps == 10:
                    await socket.send_bytes(b"\x02 Beep.")
        return socket


async def test_a_second_moshi_session_waits() -> None:
    """A second client gets no handshake, which is a named failure; a later client is served."""
    moshi = Moshi()
    async with serving(moshi.serve) as address, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(one_turn("moshi", address))
        await moshi.speaks.wait()
        hasty = SessionLimits(connect_s=5, ready_s=0.3)
        second = await one_turn("moshi", address, limits=hasty)
        record = await first
        third = await one_turn("moshi", address)
    assert second.failure is not None
    assert second.failure.kind is FailureKind.NO_SESSION
    assert "not ready within 0.3 s; no message arrived" in second.failure.message
    assert third.failure is None
    assert record.failure is None
    heard = np.concatenate(moshi.heard[:6])
    assert abs(main_tone_hz(heard, OPUS_RATE_HZ) - 440) < 5
    assert record.reply is not None
    assert abs(main_tone_hz(record.reply, OPUS_RATE_HZ) - 1_000) < 5
    assert record.reply_text is not None
    assert record.reply_text.strip() == "Beep."
    assert record.timing.first_byte.ns is None
    assert record.timing.voice_to_voice.ns is not None
    assert 240 * MS < record.timing.voice_to_voice.ns < 600 * MS
