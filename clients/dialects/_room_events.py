"""Handle agents in a LiveKit room whose events are data packets without a topic: JSON with a type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import orjson
import pybase64

from live_eval.clients.dialects.livekit import LiveKitAgent
from live_eval.clients.toolkit import Fields, Handler, MalformedError, parse_object, send_json
from live_eval.dialect import EndpointSettings, Output

__all__ = ["RoomEvents"]


class RoomEvents(LiveKitAgent):
    """Base class; a subclass fills `events` with handlers by type."""

    events: dict[str, Handler]

    events_before_ready: ClassVar[Collection[str] | None] = None
    """Events that may arrive before the session is ready; others are then ignored. None for any."""
    ignored_events: ClassVar[Collection[str]] = frozenset()
    """Events that need no handling."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers["user"] = self._on_packet

    def answer(self, message: Mapping[str, object]) -> Output:
        """Return the output that sends an event as a data packet."""
        payload = pybase64.b64encode_as_string(orjson.dumps(message))
        return send_json({"type": "user", "payload": payload})

    def _on_packet(self, packet: Fields, at_ns: int) -> list[Output]:
        event = parse_object(packet.need_bytes("payload").decode(errors="replace"))
        name = event.get("type")
        if not isinstance(name, str):
            raise MalformedError("user: expected a string in 'type'")
        handler = self.events.get(name)
        early = self.events_before_ready
        if not self.ready and early is not None and name not in early:
            return []
        if handler is None:
            return [] if name in self.ignored_events else [self.unknown(name)]
        return self.handled(handler, Fields(name, event), at_ns)
