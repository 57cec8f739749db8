"""The server's side of ElevenLabs Agents in a LiveKit room. No sockets, no clock."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from live_eval.reference.engine import events
from live_eval.reference.engine.conversation_items import Item, Role
from live_eval.reference.engine.engine import Engine
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.elevenlabs_room import ElevenLabsRoomProtocol
from live_eval.reference.protocols.livekit import LIVEKIT_CONFIG
from live_eval.reference.settings import ReferenceSettings

BEGIN = {"type": "conversation_initiation_client_data"}


def protocol() -> ElevenLabsRoomProtocol:
    return ElevenLabsRoomProtocol(Engine("sess_1", ReferenceSettings(), LIVEKIT_CONFIG))


def packet(event: object) -> str:
    payload = base64.b64encode(json.dumps(event).encode()).decode()
    return json.dumps({"type": "user", "payload": payload})


def opened(message: bytes) -> Any:
    found = json.loads(message)
    assert (found["type"], found["participant_identity"]) == ("user", "agent-live-eval")
    return json.loads(base64.b64decode(found["payload"]))


def sent(outputs: Iterable[events.Output]) -> list[Any]:
    return [opened(output.message) for output in outputs if isinstance(output, events.SendMessage)]


def test_a_conversation_begins_with_the_first_packet() -> None:
    begun = sent(protocol().received(packet(BEGIN), 0))
    assert [each["type"] for each in begun] == ["conversation_initiation_metadata", "ping"]
    assert begun[0]["conversation_initiation_metadata_event"]["conversation_id"] == "sess_1"


def test_other_packets_are_ignored() -> None:
    room = protocol()
    for message in ("", '{"type":"user","payload":7}', '{"type":"user","payload":"*"}', '{"type":"metrics"}'):
        assert list(room.received(message, 0)) == []


def test_an_invalid_event_ends_the_conversation() -> None:
    room = protocol()
    room.received(packet(BEGIN), 0)
    said, closed = room.received(packet({"type": "pirouette"}), 0)
    assert isinstance(closed, events.CloseConnection)
    assert sent([said])[0]["error_event"]["error_type"] == "invalid_message"


def test_the_agent_leaves() -> None:
    (fault,) = parse_faults("agent_leaves")
    assert fault.name is FaultName.AGENT_LEAVES
    (update,) = protocol().render(fault)
    assert isinstance(update, bytes)
    assert json.loads(update)["participants"][0]["state"] == "DISCONNECTED"


def test_a_transcript_is_a_packet() -> None:
    (said,) = protocol().render(events.InputTranscribed(Item("item_1", Role.USER, []), 0, "Hello."))
    assert isinstance(said, bytes)
    event = {"user_transcript": "Hello.", "event_id": 1}
    assert opened(said) == {"type": "user_transcript", "user_transcription_event": event}
