"""A LiveKit server for rooms with two participants: a client and a third-party agent.

The participants are those of the built-in endpoint (`live_eval.reference.server.rooms`). Packets, data and
attributes are forwarded between them. Each sees itself as ``PA_client`` and the other as ``PA_agent``. An
update reports a departure; the room closes when its first participant leaves.

Source: livekit-protocol 1.1.29 (``livekit_agent.proto``, ``livekit_rtc.proto``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from live_eval.audio.rtp import RtpPacket
from live_eval.clients.dialects._livekit_token import access_token, participant_claims
from live_eval.clock import SystemClock
from live_eval.http.connections import Connections
from live_eval.reference.faults.fault_script import FaultScript
from live_eval.reference.protocols.livekit import AGENT_SID, AGENT_TRACK
from live_eval.reference.server.rooms import CLIENT_SID, RoomParticipant, claims_of
from live_eval.reference.server.site import accept_socket
from live_eval.webrtc.livekit_messages import load_protocol
from tests.support.serving import listening

__all__ = ["KEYS", "Dispatch", "Forwarded", "agent_token", "livekit_server"]

KEYS = {"LIVEKIT_API_KEY": "devkey", "LIVEKIT_API_SECRET": "secret" * 8}
"""Environment variables of the key with which clients and agents sign their tokens; it is not checked."""

Dispatch: TypeAlias = Callable[[str], Awaitable[object]]
Forwarded: TypeAlias = Callable[[str, RtpPacket, int], None]

_CONNECT_NS = 30_000_000_000
_MOST_MESSAGE_BYTES = 256 * 1024
_GOING_AWAY = 1001


@dataclass(slots=True, eq=False)
class _Participant:
    """A participant, with the packets queued for the other one."""

    connection: RoomParticipant
    identity: str
    kind: str
    said: asyncio.Queue[RtpPacket]
    attributes: dict[str, str] = field(default_factory=dict)
    tracks: list[dict[str, Any]] = field(default_factory=list)

    def update(self, sid: str, state: str = "ACTIVE") -> bytes:
        """Return the signal that describes this participant."""
        return orjson.dumps({"type": "update", "participants": [self.described(sid, state)]})

    def described(self, sid: str, state: str = "ACTIVE") -> dict[str, Any]:
        """Return the description (``ParticipantInfo``), under the ID by which the reader knows it."""
        known = {"sid": sid, "identity": self.identity, "kind": self.kind, "state": state}
        return {**known, "attributes": self.attributes, "tracks": self.tracks}


class _Server:
    """Rooms by name, and the workers that registered.

    Args:
        dispatch: Called with a room's name when the client in it has published its microphone; it starts an
            agent. None for the registered worker with the name in the client's token, or any without a name.
        forwarded: Called with a room's name, each packet of its agent, and the time at which it was sent to
            the client.
    """

    def __init__(self, dispatch: Dispatch | None, forwarded: Forwarded | None) -> None:
        self.clock = SystemClock()
        self.connections = Connections(self.clock)
        self._dispatch, self._forwarded = dispatch, forwarded
        self._rooms: dict[str, list[_Participant]] = {}
        self._workers: dict[str, web.WebSocketResponse] = {}
        self._jobs: dict[str, Any] = {}

    def application(self) -> web.Application:
        """Return the application with its routes."""
        app = web.Application(middlewares=[self.connections.middleware])
        app.router.add_get("/rtc", self._enter)
        app.router.add_get("/rtc/validate", _valid)
        app.router.add_get("/agent", self._register)
        return app

    # -- Rooms ------------------------------------------------------------------------------------------

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        """Serve a participant until either participant leaves."""
        claims = claims_of(request)
        name, identity = str(claims["video"]["room"]), str(claims["sub"])
        channel = await accept_socket(request, most_bytes=_MOST_MESSAGE_BYTES, binary=True)
        modules = await asyncio.to_thread(load_protocol)
        said: asyncio.Queue[RtpPacket] = asyncio.Queue()
        connection = RoomParticipant(
            channel, modules, self.clock, FaultScript(), identity, heard=said.put_nowait
        )
        here = _Participant(connection, identity, str(claims.get("kind", "standard")).upper(), said)
        room = self._rooms.setdefault(name, [])
        others = [other.described(AGENT_SID) for other in room]
        room.append(here)
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(connection.read())
                changing = tasks.create_task(self._follow(here, name, claims))
                await connection.join(name, others, subscribes=request.query.get("auto_subscribe") != "0")
                if await connection.connected(_CONNECT_NS):
                    other = next(each for each in room if each is not here)
                    forwarded = self._forwarded if here is room[0] else None
                    speaking = tasks.create_task(_forward(other.said, connection, name, forwarded))
                    await connection.left()
                    speaking.cancel()
                changing.cancel()
                reading.cancel()
        finally:
            was_first = here is room[0]
            room.remove(here)
            await connection.close(_GOING_AWAY, "the session is over")
            for other in room:
                await other.connection.send(here.update(AGENT_SID, "DISCONNECTED"))
                if was_first:
                    await other.connection.close(_GOING_AWAY, "the room is closed")
            if not room:
                self._rooms.pop(name, None)
        return channel.socket

    async def _follow(self, here: _Participant, name: str, claims: Any) -> None:
        """Forward a participant's data, and changes of its description."""
        while (arrival := await here.connection.receive()) is not None:
            message = orjson.loads(arrival.message)
            others = [each for each in self._rooms[name] if each is not here]
            match message:
                case {"type": "add_track", "name": str(track)}:
                    source = message.get("source", "MICROPHONE")
                    here.tracks = [{"sid": AGENT_TRACK, "type": "AUDIO", "name": track, "source": source}]
                    if not others:
                        await self._bring_agent(name, claims)
                case {"type": "update_metadata"}:
                    here.attributes |= message.get("attributes", {})
                    await here.connection.tell(
                        "request_response", request_id=message.get("request_id", 0), reason="OK"
                    )
                    await here.connection.send(here.update(CLIENT_SID))
                case _:
                    sent = orjson.dumps({"participant_identity": here.identity, **message})
                    for other in others:
                        await other.connection.send(sent)
                    continue
            for other in others:
                await other.connection.send(here.update(AGENT_SID))

    # -- Workers ----------------------------------------------------------------------------------------

    async def _bring_agent(self, room: str, claims: Any) -> None:
        if self._dispatch is not None:
            await self._dispatch(room)
            return
        from livekit.protocol import agent

        named = [str(each["agentName"]) for each in claims.get("roomConfig", {}).get("agents", ())]
        for name in named or [""]:
            if (worker := self._workers.get(name)) is not None:
                number = f"AJ_{len(self._jobs)}"
                job = agent.Job(id=number, type=agent.JT_ROOM, agent_name=name)
                job.room.sid, job.room.name = "RM_1", room
                self._jobs[number] = job
                await _tell(worker, availability=agent.AvailabilityRequest(job=job))

    async def _register(self, request: web.Request) -> web.StreamResponse:
        """Serve a worker: offer it jobs, and admit its agents to their rooms."""
        from livekit.protocol import agent

        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            said = agent.WorkerMessage.FromString(message.data)
            match said.WhichOneof("message"):
                case "register":
                    self._workers[said.register.agent_name] = socket
                    await _tell(socket, register=agent.RegisterWorkerResponse(worker_id="AW_1"))
                case "availability" if said.availability.available:
                    job = self._jobs[said.availability.job_id]
                    token = agent_token(job.room.name, said.availability.participant_identity, kind="agent")
                    await _tell(socket, assignment=agent.JobAssignment(job=job, token=token))
                case "ping":
                    await _tell(socket, pong=agent.WorkerPong(last_timestamp=said.ping.timestamp))
        return socket


def agent_token(room: str, identity: str = "agent", **claims: str) -> str:
    """Return a token with which an agent joins a room."""
    known = participant_claims(identity, room, None, None)
    key, secret = KEYS.values()
    return access_token(key, secret, known | claims, SystemClock().wall_ns())


async def _forward(
    packets: asyncio.Queue[RtpPacket], to: RoomParticipant, room: str, forwarded: Forwarded | None
) -> None:
    while True:
        packet = await packets.get()
        left_ns = await to.say(packet.payload, packet.timestamp)
        if forwarded is not None and left_ns is not None:
            forwarded(room, packet, left_ns)


async def _tell(worker: web.WebSocketResponse, **message: Any) -> None:
    from livekit.protocol import agent

    await worker.send_bytes(agent.ServerMessage(**message).SerializeToString())


async def _valid(request: web.Request) -> web.Response:
    return web.Response(text="success")


@asynccontextmanager
async def livekit_server(
    dispatch: Dispatch | None = None, forwarded: Forwarded | None = None
) -> AsyncIterator[str]:
    """Serve rooms on this machine; yield the address. For the arguments, see `_Server`."""
    server = _Server(dispatch, forwarded)
    async with listening(server.application(), patience_s=1, connections=server.connections) as address:
        yield f"ws://{address}"
