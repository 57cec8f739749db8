"""Socket behaviour of the reference endpoint's other dialects that our clients do not exercise."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from live_eval.audio.codecs import OggOpusEncoder
from tests.support.serving import reference

GEMINI = "/ws/google.ai.generativelanguage.{}.GenerativeService.BidiGenerateContent"


@asynccontextmanager
async def endpoint(token: str | None = None) -> AsyncIterator[str]:
    """Serve in this process; yield the address."""
    async with reference(token=token, calibrate=True) as address:
        yield f"ws://{address}"


async def test_moshi_has_one_session_at_a_time_and_others_wait_for_their_handshake() -> None:
    async with endpoint() as url:
        first = await connect(f"{url}/api/chat?text_temperature=0.7")
        assert (await first.recv())[0] == 4
        assert await first.recv() == bytes(9)
        async with connect(f"{url}/api/chat") as second:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(second.recv(), 0.1)
            await first.close()
            metadata = await second.recv()
            assert isinstance(metadata, bytes)
            assert json.loads(metadata[1:])["session_id"].startswith("sess_")
            assert await second.recv() == bytes(9)


async def test_moshi_answers_a_frame_with_a_frame() -> None:
    voice = await asyncio.to_thread(OggOpusEncoder, 24_000)
    frame = await asyncio.to_thread(lambda: voice.headers() + voice.encode(bytes(3_840)))
    async with endpoint() as url, connect(f"{url}/api/chat") as socket:
        await socket.recv()
        await socket.recv()
        await socket.send(b"\x01" + frame)
        told = await socket.recv()
        assert isinstance(told, bytes)
        assert told[:5] == b"\x01OggS"


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
async def test_gemini_speaks_json_in_binary_messages(version: str) -> None:
    async with endpoint() as url, connect(url + GEMINI.format(version)) as socket:
        await socket.send('{"setup":{"model":"models/m"}}')
        told = await socket.recv()
        assert isinstance(told, bytes)
        assert json.loads(told)["setupComplete"]["sessionId"]


async def test_gemini_closes_on_a_wrong_key() -> None:
    async with endpoint("right") as url:
        async with connect(f"{url}{GEMINI.format('v1')}?key=right") as socket:
            await socket.send('{"setup":{}}')
            assert b"setupComplete" in await socket.recv()
        async with connect(f"{url}{GEMINI.format('v1')}?key=wrong") as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        1007,
        "API key not valid. Please pass a valid API key.",
    )


async def test_gpt_live_ends_with_a_close_message() -> None:
    async with endpoint() as url, connect(f"{url}/v1/live/sessions") as socket:
        await socket.send('{"type":"session.start","session":{"model":"gpt-live-1"}}')
        assert json.loads(await socket.recv())["type"] == "session.started"
        await socket.send('{"type":"session.close"}')
        assert json.loads(await socket.recv())["reason"] == "close_requested"
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
