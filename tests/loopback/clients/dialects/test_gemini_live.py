"""Gemini Live over a real socket: a session that continues on another connection, frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pybase64
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from live_eval.clients.dialects.gemini_live import GeminiLive
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from live_eval.types import Secret, SpeechBoundaries, TurnMode

MS = 1_000_000
SAMPLES = 320
SPOKEN = [np.full(SAMPLES, number, "<i2").tobytes() for number in range(1, 61)]
TURN = Utterance(
    frames=SPOKEN,
    frame_ns=20 * MS,
    boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=len(SPOKEN) * 20 * MS),
)
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=3, stall_s=3)
REPLY = pybase64.b64encode_as_string(np.full(2_400, 3_000, "<i2").tobytes())
NOTICE_AT = 20


@dataclass
class Connection:
    """The traffic of one connection.

    Args:
        setup: The client's setup message.
        frames: The first sample of every received frame, in order.
        activity: Names of the other realtime input, with the number of frames before it.
        socket: The connection.
        others_open: Whether an earlier connection was still open when the setup came.
    """

    setup: dict[str, Any]
    socket: ServerConnection
    others_open: bool
    frames: list[int] = field(default_factory=list)
    activity: list[tuple[str, int]] = field(default_factory=list)


class Google:
    """Imitates the service: the first connection sends goAway, the next one answers the turn.

    Args:
        handle: Handle sent at the start; None to send none.
        early: Whether the first connection closes immediately, before the client can switch connections.
        resumes: Whether the handle is accepted.
    """

    def __init__(self, *, handle: str | None = "handle-1", early: bool = False, resumes: bool = True) -> None:
        self._handle = handle
        self._early = early
        self._resumes = resumes
        self.connections: list[Connection] = []

    async def __call__(self, socket: ServerConnection) -> None:
        setup = orjson.loads(await socket.recv())["setup"]
        connection = Connection(
            setup,
            socket,
            others_open=any(other.socket.state is State.OPEN for other in self.connections),
        )
        self.connections.append(connection)
        try:
            if len(self.connections) == 1:
                await self._first(socket, connection)
            else:
                await self._second(socket, connection)
        except ConnectionClosed:
            pass

    async def _first(self, socket: ServerConnection, connection: Connection) -> None:
        await self._say(socket, setupComplete={})
        if self._handle is not None:
            update = {"newHandle": self._handle, "resumable": True}
            await self._say(socket, sessionResumptionUpdate=update)
        await self._hear(socket, connection, until=lambda: len(connection.frames) >= NOTICE_AT)
        await self._say(socket, goAway={"timeLeft": "0.5s"})
        if not self._early:
            hearing = asyncio.ensure_future(self._hear(socket, connection, until=lambda: False))
            await asyncio.wait((hearing,), timeout=0.5)
            hearing.cancel()
        await socket.close(1011, "Deadline expired before operation could complete.")

    async def _second(self, socket: ServerConnection, connection: Connection) -> None:
        await asyncio.sleep(0.2)
        if not self._resumes:
            await socket.close(1007, "Request contains an invalid argument.")
            return
        await self._say(socket, setupComplete={})
        ended = ("activityEnd", len(SPOKEN))
        await self._hear(
            socket, connection, until=lambda: ended in connection.activity or 0 in connection.frames
        )
        part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": REPLY}}
        await self._say(socket, serverContent={"modelTurn": {"parts": [part]}, "generationComplete": True})
        await self._say(socket, serverContent={"turnComplete": True})
        await self._hear(socket, connection, until=lambda: False)

    async def _say(self, socket: ServerConnection, **message: Any) -> None:
        await socket.send(orjson.dumps(message))

    async def _hear(
        self, socket: ServerConnection, connection: Connection, *, until: Callable[[], bool]
    ) -> None:
        while not until():
            given = orjson.loads(await socket.recv())["realtimeInput"]
            for name, value in given.items():
                if name != "audio":
                    connection.activity.append((name, len(connection.frames)))
                    continue
                connection.frames.append(int(np.frombuffer(pybase64.b64decode(value["data"]), "<i2")[0]))


@asynccontextmanager
async def serving(google: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    async with serve(google, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def hold(google: Google, mode: TurnMode = TurnMode.SERVER_VAD) -> TurnCapture:
    async with serving(google) as base_url:
        settings = EndpointSettings(base_url=base_url, model="m", turn_mode=mode, key=Secret("hush-key"))
        session = Session(
            GeminiLive(settings), WebSocketTransport, SystemClock(), turn_mode=mode, limits=LIMITS
        )
        (capture,) = await session.converse([TURN])
        logged = str(session.log())
    assert "hush-key" not in logged
    assert "handle-1" not in logged
    return capture


@pytest.mark.parametrize("early", [False, True], ids=["in time", "too early"])
@pytest.mark.parametrize("mode", [TurnMode.SERVER_VAD, TurnMode.MANUAL])
async def test_all_user_audio_arrives_and_the_turn_is_captured(early: bool, mode: TurnMode) -> None:
    google = Google(early=early)
    capture = await hold(google, mode)
    assert capture.failure is None
    assert [warning.kind for warning in capture.warnings] == [FailureKind.NOT_FATAL_ERROR]
    (response,) = capture.wire
    assert response.record.status is ResponseStatus.COMPLETED
    first, second = google.connections
    assert second.setup == {**first.setup, "sessionResumption": {"handle": "handle-1"}}
    assert not second.others_open
    spoken = [number for number in second.frames if number]
    assert spoken == list(range(1, len(SPOKEN) + 1))  # once each, in order, before the silence
    assert second.frames[: len(spoken)] == spoken
    if mode is TurnMode.MANUAL:
        assert second.activity == [("activityStart", 0), ("activityEnd", len(SPOKEN))]


async def test_a_handle_that_is_refused_is_an_expired_session() -> None:
    google = Google(resumes=False)
    capture = await hold(google)
    assert len(google.connections) == 2
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.SESSION_EXPIRED
    assert "before the session was resumed" in capture.failure.message


async def test_a_connection_that_ends_without_a_handle_is_an_expired_session() -> None:
    google = Google(handle=None)
    capture = await hold(google)
    assert len(google.connections) == 1
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.SESSION_EXPIRED
    assert "as announced" in capture.failure.message
