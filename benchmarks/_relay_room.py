"""A LiveKit server that connects two participants: the client under test and a third party's agent.

It joins two participants of the built-in endpoint's rooms (`live_eval.reference.server.rooms`), and forwards
the packets of each to the other unchanged, as LiveKit's server does. Its signals are those of the built-in
endpoint: the agent is the participant of kind AGENT, and it reports that it listens once it is connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from live_eval.audio.rtp import RtpPacket
from live_eval.clock import SystemClock
from live_eval.http.connections import Connections
from live_eval.reference.faults.fault_script import FaultScript
from live_eval.reference.protocols.livekit import agent
from live_eval.reference.server.rooms import RoomParticipant, claims_of
from live_eval.reference.server.site import StampedSite, accept_socket
from live_eval.webrtc.livekit_messages import load_protocol

__all__ = ["AGENT_IDENTITY", "relay_rooms"]

AGENT_IDENTITY = "agent"
"""The identity in the token of the third party's agent."""

_CONNECT_NS = 30_000_000_000
_MOST_MESSAGE_BYTES = 256 * 1024
_GOING_AWAY = 1001


class _Relay:
    """The rooms by name, each with the packets that wait for either participant."""

    def __init__(self, dispatch: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self.connections = Connections(clock := SystemClock())
        self._dispatch = dispatch
        self._clock = clock
        self._queues: dict[tuple[str, bool], asyncio.Queue[RtpPacket]] = {}
        self._clients: dict[str, RoomParticipant] = {}
        self._agents: dict[str, RoomParticipant] = {}

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Serve a participant until one of the two leaves."""
        claims = claims_of(request)
        identity, room = str(claims["sub"]), str(claims["video"]["room"])
        is_agent = identity == AGENT_IDENTITY
        channel = await accept_socket(request, most_bytes=_MOST_MESSAGE_BYTES, binary=True)
        modules = await asyncio.to_thread(load_protocol)
        heard = self._queues.setdefault((room, not is_agent), asyncio.Queue())
        said = self._queues.setdefault((room, is_agent), asyncio.Queue())
        participant = RoomParticipant(
            channel, modules, self._clock, FaultScript(), identity, heard=heard.put_nowait
        )
        here = self._agents if is_agent else self._clients
        here[room] = participant
        try:
            async with asyncio.TaskGroup() as tasks:
                if not is_agent:
                    tasks.create_task(self._dispatch(room))
                reading = tasks.create_task(participant.read())
                await participant.join(room, subscribes=request.query.get("auto_subscribe") != "0")
                if await participant.connected(_CONNECT_NS):
                    if is_agent:
                        await self._announce(room)
                    speaking = tasks.create_task(_forward(said, participant))
                    await participant.left()
                    speaking.cancel()
                reading.cancel()
        finally:
            here.pop(room, None)
            self._queues.pop((room, is_agent), None)
            await participant.close(_GOING_AWAY, "the session is over")
            for other in (self._clients.get(room), self._agents.get(room)):
                if other is not None:
                    await other.close(_GOING_AWAY, "the other participant left")
        return channel.socket

    async def _announce(self, room: str) -> None:
        """Tell the client that the agent listens."""
        if room in self._clients:
            update = {"type": "update", "participants": [agent("listening")]}
            await self._clients[room].send(orjson.dumps(update))


async def _forward(packets: asyncio.Queue[RtpPacket], to: RoomParticipant) -> None:
    while True:
        packet = await packets.get()
        await to.say(packet.payload, packet.timestamp)


@asynccontextmanager
async def relay_rooms(dispatch: Callable[[str], Coroutine[Any, Any, None]]) -> AsyncIterator[str]:
    """Serve rooms on this machine; the value is the address.

    Args:
        dispatch: Called with a room's name when a client has entered it; it brings the agent.
    """
    relay = _Relay(dispatch)
    app = web.Application(middlewares=[relay.connections.middleware])
    app.router.add_get("/rtc", relay.enter)
    app.router.add_get("/rtc/validate", _valid)
    runner = web.AppRunner(app)
    await runner.setup()
    site = StampedSite(runner, "127.0.0.1", 0, SystemClock(), connections=relay.connections)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _valid(request: web.Request) -> web.Response:
    return web.Response(text="success")
