"""The reference endpoint over real sockets, with a plain WebSocket client."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from live_eval.audio import Audio, frames_of, read_audio, resample
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.responders.responder import (
    CascadeResponder,
    ChatReplier,
    NoReplyError,
    ReplyLine,
    Responder,
    ScriptReplier,
)
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.speech.synthesis import Voice
from live_eval.types import Secret
from tests.support.serving import NO_RECOGNISER, listening, reference

SAMPLE = Path(__file__).parents[2] / "live_eval/data/sample/data_synthesis/audio"
SPOKEN = SAMPLE / "whisper/le_103_whisper_technology_neutral.flac"

Json = dict[str, Any]
Start = Callable[..., Any]


@asynccontextmanager
async def endpoint(responder: Responder | None = None, **settings: Any) -> AsyncIterator[str]:
    """Serve in this process; yield the base URL."""
    async with reference(responder, **settings) as address:
        yield f"ws://{address}/v1"


@asynccontextmanager
async def session(base_url: str, **query: Any) -> AsyncIterator[ClientConnection]:
    extra = "".join(f"&{key}={value}" for key, value in query.items())
    async with connect(f"{base_url}/realtime?model=m{extra}", max_size=None) as socket:
        yield socket


async def event(socket: ClientConnection) -> Json:
    found: Json = json.loads(await socket.recv())
    return found


async def until(socket: ClientConnection, kind: str) -> list[Json]:
    """Receive up to and including the first event of a type."""
    events: list[Json] = []
    while not events or events[-1]["type"] != kind:
        events.append(await event(socket))
    return events


async def append(socket: ClientConnection, pcm: bytes) -> None:
    audio = base64.b64encode(pcm).decode()
    await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))


async def say_marked(socket: ClientConnection) -> None:
    for frame in frames_of(calibration_speech(200).audio.int16(), 480):
        await append(socket, frame)
    await append(socket, bytes(960))


def types(events: list[Json]) -> list[str]:
    return [each["type"] for each in events]


async def test_a_calibrated_turn_has_its_truth(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    query = {"delay_ms": 80, "lead_silence_ms": 30, "chunk_ms": 20, "reply_ms": 200}
    async with endpoint(truth=path, calibrate=True) as url, session(url, **query) as socket:
        created = await event(socket)
        await say_marked(socket)
        events = await until(socket, "response.done")
    (turn,) = await asyncio.to_thread(lambda: read_truth(path).replies)
    assert turn.session_id == created["session"]["id"]
    assert turn.response_id == events[-1]["response"]["id"]
    assert turn.voice_end_by == "mark"
    assert turn.onset_sample == 30 * 24
    assert sum(turn.chunk_samples) == 230 * 24
    assert turn.first_byte_ns is not None
    assert turn.first_byte_ns >= 80_000_000
    # The onset is in the second chunk, which a burst sends before its playout time.
    assert turn.voice_to_voice_ns == turn.first_byte_ns + 30_000_000
    assert turn.chunk_sent_ns == tuple(sorted(turn.chunk_sent_ns))
    audio = b"".join(
        base64.b64decode(each["delta"]) for each in events if each["type"] == "response.output_audio.delta"
    )
    assert len(audio) == 230 * 48
    assert not any(audio[: 30 * 48])
    assert any(audio[30 * 48 : 30 * 48 + 2])


async def test_realtime_cadence_keeps_its_deadlines(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    query = {"cadence": "realtime", "chunk_ms": 20, "reply_ms": 300}
    async with endpoint(truth=path, calibrate=True) as url, session(url, **query) as socket:
        await say_marked(socket)
        await until(socket, "response.done")
    (turn,) = await asyncio.to_thread(lambda: read_truth(path).replies)
    first_ns = turn.chunk_sent_ns[0]
    for number, sent_ns in enumerate(turn.chunk_sent_ns):
        # Never earlier than the schedule, which started at the first chunk's deadline or just before.
        assert sent_ns - first_ns > number * 20_000_000 - 20_000_000


@pytest.mark.parametrize("name", ["pcm", "pcmu", "pcma"])
async def test_real_speech_is_detected_and_answered(name: str) -> None:
    audio = await asyncio.to_thread(lambda: resample(read_audio(SPOKEN).audio, 24_000))
    cascade = CascadeResponder(ScriptReplier([ReplyLine("a", "Here is a reply.")]), None, hears_words=False)
    async with endpoint(cascade) as url, session(url) as socket:
        output = {"type": f"audio/{name}"}
        settings = {
            "type": "realtime",
            "audio": {"input": {"transcription": {"model": "whisper-1"}}, "output": {"format": output}},
        }
        await socket.send(json.dumps({"type": "session.update", "session": settings}))
        await until(socket, "session.updated")
        for frame in frames_of(audio.int16(), 480):
            await append(socket, frame)
        await append(socket, bytes(48_000))
        events = await until(socket, "response.done")
    started, stopped = events[0], events[1]
    assert types(events[:2]) == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
    voice_end_ms = audio.duration_ns // 1_000_000
    assert 0 <= started["audio_start_ms"] < 400
    assert voice_end_ms - 500 < stopped["audio_end_ms"] < voice_end_ms + 700
    (failed,) = [each for each in events if each["type"].endswith("transcription.failed")]
    assert failed["error"]["message"] == NO_RECOGNISER
    done = events[-1]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["transcript"] == "Here is a reply."
    sent = sum(
        len(base64.b64decode(each["delta"]))
        for each in events
        if each["type"] == "response.output_audio.delta"
    )
    assert sent == (48_000 if name == "pcm" else 8_000)


async def test_a_message_of_any_kind_leaves_the_session_alive() -> None:
    async with endpoint(calibrate=True) as url, session(url) as socket:
        await event(socket)
        for message in ("{", b"\x00\x01", "[]", '{"type":"nonsense"}', '{"type":"response.cancel"}'):
            await socket.send(message)
            assert (await event(socket))["type"] == "error"
        await append(socket, bytes(15 * 1024 * 1024))
        await say_marked(socket)
        assert (await until(socket, "response.done"))[-1]["response"]["status"] == "completed"


async def test_a_session_expires() -> None:
    async with endpoint(calibrate=True, session_limit_s=1) as url, session(url) as socket:
        events = await until(socket, "error")
        assert events[-1]["error"]["code"] == "session_expired"
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


class SlowVoice(Voice):
    """Yields the first sentence immediately and the others when released."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_go_on = threading.Event()

    def sentences(self, text: str) -> list[str]:
        return text.split("|")

    def speak(self, text: str, *, speed: float = 1.0) -> Audio:
        self.begun.append(text)
        if len(self.begun) > 1:
            self.may_go_on.wait(10)
        return calibration_reply(200)


def replying_slowly(voice: SlowVoice) -> CascadeResponder:
    return CascadeResponder(ScriptReplier([ReplyLine("a", "One.|Two.|Three.")]), voice, hears_words=False)


async def test_the_first_sentence_is_sent_while_the_second_is_synthesised() -> None:
    voice = SlowVoice()
    async with endpoint(replying_slowly(voice), calibrate=True) as url, session(url) as socket:
        await say_marked(socket)
        await until(socket, "response.output_audio.delta")
        assert len(voice.begun) < 3
        voice.may_go_on.set()
        done = (await until(socket, "response.done"))[-1]["response"]
    assert done["output"][0]["content"][0]["transcript"] == "One. Two. Three."


async def test_an_interruption_cancels_synthesis() -> None:
    voice = SlowVoice()
    async with endpoint(replying_slowly(voice), calibrate=True) as url, session(url) as socket:
        await say_marked(socket)
        await until(socket, "response.output_audio.delta")
        await append(socket, calibration_speech(200).audio.int16()[:480].tobytes())
        events = await until(socket, "response.done")
        assert events[-1]["response"]["status"] == "cancelled"
        voice.may_go_on.set()
        written = {"type": "response.create", "response": {"output_modalities": ["text"]}}
        await socket.send(json.dumps(written))
        events = await until(socket, "response.done")
    assert events[-1]["response"]["status"] == "completed"
    assert voice.begun in (["One."], ["One.", "Two."])


# -- Authority -----------------------------------------------------------------------------------------


async def test_a_configured_token_is_required() -> None:
    async with endpoint(calibrate=True, token="right") as url:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{url}/realtime?model=m", additional_headers=given)
            assert refused.value.response.status_code == 401
            assert b"right" not in refused.value.response.body
        headers = {"Authorization": "Bearer right"}
        async with connect(f"{url}/realtime?model=m", additional_headers=headers) as socket:
            assert (await event(socket))["type"] == "session.created"


@pytest.mark.parametrize("header", [b"Authorization: Bearer \xff\xe9", b"api-key: \xff", b"X-Other: \xff"])
async def test_a_key_of_any_bytes_is_refused(header: bytes) -> None:
    async with reference(calibrate=True, token="right") as address:
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /v1/realtime?key=%ff HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", "http://localhost.evil.example"]
)
async def test_pages_from_other_origins_are_refused(origin: str) -> None:
    async with endpoint(calibrate=True) as url:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url}/realtime", additional_headers={"Origin": origin})
        assert refused.value.response.status_code == 403


async def test_pages_from_this_machine_are_accepted() -> None:
    local = {"Origin": "http://localhost:3000"}
    async with (
        endpoint(calibrate=True) as url,
        connect(f"{url}/realtime", additional_headers=local) as socket,
    ):
        assert (await event(socket))["session"]["model"] == "live-eval-reference"


async def test_dns_rebinding_is_refused() -> None:
    async with reference(calibrate=True) as address:
        port = address.partition(":")[2]
        found = {}
        for host in ("evil.example", f"evil.example:{port}", f"localhost.evil.example:{port}"):
            async with (
                aiohttp.ClientSession() as browser,
                browser.get(f"http://{address}/v1/realtime", headers={"Host": host}) as answer,
            ):
                found[host] = answer.status, (await answer.json())["error"]["code"]
    assert set(found.values()) == {(403, "host")}


async def test_a_client_with_a_token_may_use_any_name() -> None:
    headers = {"Host": "voice.example", "Authorization": "Bearer right"}
    async with (
        reference(calibrate=True, token="right") as address,
        aiohttp.ClientSession(headers=headers) as client,
        client.get(f"http://{address}/v1/realtime") as answer,
    ):
        assert answer.status == 426


async def test_health_and_wrong_requests() -> None:
    async with endpoint(calibrate=True) as url, aiohttp.ClientSession() as http:
        base = url.replace("ws://", "http://")
        async with http.get(base.replace("/v1", "/healthz")) as answer:
            assert (await answer.json())["status"] == "ok"
        async with http.get(f"{base}/realtime?model=m") as answer:
            assert answer.status == 426
        async with http.get(f"{base}/realtime?delay=5") as answer:
            assert answer.status == 400
            assert "delay_ms" in (await answer.json())["error"]["message"]


# -- Faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "status"), [("status:401", 401), ("rate_limit:1s", 429)])
async def test_a_handshake_is_refused(fault: str, status: int) -> None:
    async with endpoint(calibrate=True) as url:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url}/realtime?model=m&fault={fault}")
        assert refused.value.response.status_code == status
        assert refused.value.response.headers.get("Retry-After") == ("1" if status == 429 else None)


async def test_an_endpoint_is_never_ready() -> None:
    async with endpoint(calibrate=True, faults=parse_faults("never_ready")) as url, session(url) as socket:
        await socket.send('{"type":"session.update","session":{"type":"realtime"}}')
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.1)


async def test_a_slow_accept_may_outlast_the_endpoint() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with endpoint(calibrate=True, faults=parse_faults("slow_accept:100ms")) as url:
        host, port = url.removeprefix("ws://").partition("/")[0].split(":")
        _, writer = await asyncio.open_connection(host, port)
    await asyncio.sleep(0.2)
    writer.close()
    assert problems == []


async def test_the_connection_is_closed_during_a_reply(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    async with endpoint(truth=path, calibrate=True) as url:
        async with session(url, fault="close") as socket:
            await say_marked(socket)
            received: list[Json] = []
            with contextlib.suppress(ConnectionClosed):
                async for message in socket:
                    received.append(json.loads(message))
            assert socket.close_code == 1011
        assert types(received).count("response.output_audio.delta") == 5
    (turn,) = await asyncio.to_thread(lambda: read_truth(path).replies)
    assert isinstance(turn, TrueReply)
    assert (turn.status, len(turn.chunk_samples)) == ("open", 5)


async def test_a_client_that_disconnects_during_a_reply_affects_no_other() -> None:
    async with endpoint(calibrate=True) as url:
        async with session(url, fault="endless") as socket:
            await say_marked(socket)
            await until(socket, "response.output_audio.delta")
            socket.transport.abort()
        async with session(url) as socket:
            await say_marked(socket)
            await until(socket, "response.done")


async def test_stopping_the_endpoint_closes_sessions_cleanly() -> None:
    async with endpoint(calibrate=True) as url:
        socket = await connect(f"{url}/realtime?model=m")
        await event(socket)
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


# -- A chat server -------------------------------------------------------------------------------------


@asynccontextmanager
async def chat_server(status: int = 200) -> AsyncIterator[tuple[str, list[Json]]]:
    asked: list[Json] = []

    async def complete(request: web.Request) -> web.Response:
        asked.append({**await request.json(), "key": request.headers["Authorization"]})
        if status != 200:
            return web.json_response({"error": {"message": "no such key: sk-secret"}}, status=status)
        message = {"role": "assistant", "content": " It is a quarter past nine. "}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        )

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    async with listening(app) as address:
        yield f"http://{address}/v1", asked


async def ask(socket: ClientConnection, text: str) -> Json:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await socket.send('{"type":"response.create","response":{"output_modalities":["text"]}}')
    found: Json = (await until(socket, "response.done"))[-1]["response"]
    return found


async def test_a_chat_server_answers_with_the_conversation_and_instructions() -> None:
    async with chat_server() as (chat_url, asked):
        replier = await asyncio.to_thread(ChatReplier, chat_url, "tiny", Secret("sk-secret"))
        cascade = CascadeResponder(replier, None, hears_words=False)
        async with endpoint(cascade) as url, session(url) as socket:
            update = {"type": "realtime", "instructions": "Be a clock."}
            await socket.send(json.dumps({"type": "session.update", "session": update}))
            done = await ask(socket, "What time is it?")
            assert done["output"][0]["content"][0]["text"] == "It is a quarter past nine."
            await ask(socket, "And now?")
        assert asked[1]["model"] == "tiny"
        assert asked[1]["key"] == "Bearer sk-secret"
        assert asked[1]["messages"] == [
            {"role": "system", "content": "Be a clock."},
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": "It is a quarter past nine."},
            {"role": "user", "content": "And now?"},
        ]


async def test_a_failing_chat_server_fails_the_response_without_revealing_the_key() -> None:
    async with chat_server(status=401) as (chat_url, _):
        replier = await asyncio.to_thread(ChatReplier, chat_url, "tiny", Secret("sk-secret"))
        cascade = CascadeResponder(replier, None, hears_words=False)
        async with endpoint(cascade) as url, session(url) as socket:
            done = await ask(socket, "What time is it?")
        assert done["status"] == "failed"
        error = done["status_details"]["error"]
        assert error["code"] == "llm_failed"
        assert "authentication: 401" in error["message"]
        assert "sk-secret" not in error["message"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: web.Response(text="[" * 100_000, content_type="application/json"), "unreadable"),
        (lambda: web.Response(body=bytes(5 << 20)), "longer than 4194304 bytes"),
        (lambda: web.Response(status=307, headers={"Location": "/v1/elsewhere"}), "redirects"),
    ],
)
async def test_responses_of_a_chat_server_are_bounded(answer: Callable[[], web.Response], why: str) -> None:
    async def complete(request: web.Request) -> web.Response:
        await request.read()
        return answer()

    app = web.Application()
    app.router.add_post("/v1/{path:.*}", complete)
    async with listening(app) as address:
        replier = await asyncio.to_thread(ChatReplier, f"http://{address}/v1", "tiny", None)
        with pytest.raises(NoReplyError, match=why):
            await replier.reply([ItemContent(Role.USER, "Hello.")], "")
        await replier.close()
