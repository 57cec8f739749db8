"""The agent of the reference endpoint in a LiveKit room."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson

from live_eval.reference.engine import events
from live_eval.reference.engine.conversation_items import Item, Part, PartKind, Role
from live_eval.reference.engine.engine import Engine
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.livekit import AGENT, AGENT_TRACK, LiveKitProtocol, agent
from live_eval.reference.protocols.webrtc import TRACK
from live_eval.reference.settings import ReferenceSettings
from live_eval.timing import ResponseStatus

RESPONSE = events.ServerResponse(
    response_id="resp_1",
    item_id="item_1",
    wants_audio=True,
    codec=TRACK.output_codec,
    voice_end=None,
    instructions="",
)


def protocol() -> LiveKitProtocol:
    return LiveKitProtocol(Engine("sess_1", ReferenceSettings(), TRACK), "me")


def rendered(room: LiveKitProtocol, event: events.Event) -> list[Any]:
    return [orjson.loads(message) for message in room.render(event) if isinstance(message, bytes)]


def states(outputs: Any) -> list[str]:
    found = []
    for output in outputs:
        assert isinstance(output, events.SendMessage)
        (participant,) = orjson.loads(output.message)["participants"]
        found.append(participant["attributes"]["lk.agent.state"])
    return found


def text_of(chunk: dict[str, str]) -> str:
    return base64.b64decode(chunk["content"]).decode()


def test_the_agent_listens_once_the_session_has_opened() -> None:
    assert states(protocol().opened()) == ["listening"]


def test_the_states_of_a_turn() -> None:
    room = protocol()
    stopped = rendered(room, events.UserSpeechStopped("item_0", 100))
    assert [each["participants"] for each in stopped] == [[agent("thinking")]]
    started = events.TrackPlayback(events.PlaybackState.STARTED, RESPONSE, 0)
    assert states(room.playback(started)) == ["speaking"]
    stopped_playing = events.TrackPlayback(events.PlaybackState.STOPPED, RESPONSE, 500)
    assert states(room.playback(stopped_playing)) == ["listening"]


def test_a_replys_text_is_one_stream() -> None:
    room = protocol()
    header, first = rendered(room, events.TextPiece(RESPONSE, "It is"))
    (second,) = rendered(room, events.TextPiece(RESPONSE, " ten."))
    (trailer,) = rendered(room, events.ResponseEnded(replace(RESPONSE, status=ResponseStatus.COMPLETED)))
    assert header["type"] == "stream_header"
    assert header["attributes"]["lk.transcribed_track_id"] == AGENT_TRACK
    assert header["participant_identity"] == AGENT
    assert (text_of(first), text_of(second)) == ("It is", " ten.")
    assert {each["stream_id"] for each in (header, first, second, trailer)} == {header["stream_id"]}
    assert trailer["attributes"] == {"lk.transcription_final": "true"}
    assert rendered(room, events.ResponseEnded(RESPONSE)) == [], "it has no text"


def test_the_users_transcript_is_a_stream_of_the_user() -> None:
    item = Item("item_7", Role.USER, [Part(PartKind.AUDIO)])
    header, chunk, trailer = rendered(protocol(), events.InputTranscribed(item, 0, "What time is it?"))
    assert (header["participant_identity"], text_of(chunk)) == ("me", "What time is it?")
    assert header["attributes"] == {"lk.segment_id": "item_7", "lk.transcription_final": "true"}
    assert trailer["type"] == "stream_trailer"
    assert rendered(protocol(), events.InputTranscribed(item, 0, None)) == []


def test_chat_text_is_answered() -> None:
    room = protocol()

    def say(kind: str, **fields: str) -> list[events.Output]:
        return list(room.received(orjson.dumps({"type": kind, "stream_id": "s", **fields}).decode(), 0))

    assert say("stream_header", topic="lk.chat") == []
    assert say("stream_chunk", content=base64.b64encode(b"Hello?").decode()) == []
    outputs = say("stream_trailer")
    assert any(isinstance(output, events.FindReply) for output in outputs)
    assert say("stream_trailer") == []


def test_other_packets_are_ignored() -> None:
    room = protocol()
    assert list(room.received("no JSON", 0)) == []
    assert list(room.received('{"type":"user","payload":"AAAA"}', 0)) == []
    assert list(room.received('{"type":"stream_chunk","stream_id":"s","content":"*"}', 0)) == []


def test_faults() -> None:
    (left,) = rendered(protocol(), Fault(name=FaultName.AGENT_LEAVES))
    assert left["participants"][0]["state"] == "DISCONNECTED"
    (broken,) = protocol().render(Fault(name=FaultName.MALFORMED))
    assert isinstance(broken, bytes)


def test_expiry_closes() -> None:
    assert list(protocol().expired()) == [events.CloseConnection(1000, "session expired")]
