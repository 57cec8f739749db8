"""The server's side of Ultravox calls in a LiveKit room. No sockets, no clock."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.livekit import LIVEKIT_CONFIG
from live_eval.reference.protocols.protocol import MessageError
from live_eval.reference.protocols.ultravox import CallStore
from live_eval.reference.protocols.ultravox_room import UltravoxRoomProtocol
from live_eval.reference.settings import ReferenceSettings


def protocol(call: dict[str, Any]) -> UltravoxRoomProtocol:
    store = CallStore()
    created = store.get(store.create(json.dumps(call).encode()))
    assert created is not None
    assert created.in_room
    return UltravoxRoomProtocol(Engine("sess_1", ReferenceSettings(), LIVEKIT_CONFIG), created)


def opened(message: bytes) -> Any:
    return json.loads(base64.b64decode(json.loads(message)["payload"]))


def test_a_call_begins_with_packets_and_keeps_the_formats_of_the_room() -> None:
    room = protocol({"systemPrompt": "Be brief.", "medium": {"webRtc": {}}})
    sent = [opened(output.message) for output in room.opened() if isinstance(output, events.SendMessage)]
    assert sent == [
        {"type": "call_started", "callId": "sess_1"},
        {"type": "state", "state": "listening"},
    ]
    assert room.engine.config.instructions == "Be brief."
    assert room.engine.config.output_codec == LIVEKIT_CONFIG.output_codec


def test_the_client_hangs_up() -> None:
    room = protocol({"medium": {"webRtc": {}}})
    room.opened()
    payload = base64.b64encode(b'{"type":"hang_up"}').decode()
    (closed,) = room.received(json.dumps({"type": "user", "payload": payload}), 0)
    assert isinstance(closed, events.CloseConnection)


@pytest.mark.parametrize("medium", [{}, {"webRtc": {}, "serverWebSocket": {"inputSampleRate": 48_000}}])
def test_a_call_has_one_medium(medium: dict[str, Any]) -> None:
    with pytest.raises(MessageError, match="serverWebSocket or webRtc"):
        CallStore().create(json.dumps({"medium": medium}).encode())
