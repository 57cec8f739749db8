"""Implement the agent in a LiveKit room. Sans-I/O.

Sources: livekit-protocol 1.1.29 and livekit-agents 1.8.9 (``livekit.agents.voice.room_io``). The agent
reports its state as an attribute, and both transcripts as text streams. Messages are the JSON of signals and
packets (`live_eval.webrtc.livekit_messages`). Text on the topic ``lk.chat`` interrupts the agent, which
answers it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol, parse_object
from live_eval.reference.protocols.webrtc import DECODER_DELAY_SAMPLES, TRACK, truncated

__all__ = ["AGENT", "AGENT_SID", "AGENT_TRACK", "LIVEKIT_CONFIG", "LiveKitProtocol", "agent", "agent_left"]

LIVEKIT_CONFIG = replace(TRACK, transcribe=True)
"""Audio formats of a room, whose agent transcribes the user."""

AGENT = "agent-live-eval"
"""The identity of the agent."""
AGENT_SID = "PA_agent"
AGENT_TRACK = "TR_agent"

_CHAT, _TRANSCRIPTION = "lk.chat", "lk.transcription"
_MOST_CHATS = 16
_CLOSE_NORMAL = 1000


def agent(
    state: str, *, name: str = "", connection: str = "ACTIVE", reason: str = "UNKNOWN_REASON"
) -> dict[str, Any]:
    """Return the description of the agent as a participant (``ParticipantInfo``).

    Args:
        name: The name by which the agent was dispatched; empty if it joins every room.
    """
    return {
        "sid": AGENT_SID,
        "identity": AGENT,
        "kind": "AGENT",
        "state": connection,
        "disconnect_reason": reason,
        "attributes": {"lk.agent.name": name, "lk.agent.state": state},
        "tracks": [
            {"sid": AGENT_TRACK, "type": "AUDIO", "name": "roomio_audio", "source": "MICROPHONE"},
        ],
    }


def agent_left(name: str = "") -> bytes:
    """Return the update that reports that the agent has left after an error."""
    return _update(agent("listening", name=name, connection="DISCONNECTED", reason="AGENT_ERROR"))


class LiveKitProtocol(ServerProtocol):
    """One session with the agent.

    Args:
        identity: The client's identity.
        name: See `agent`.
    """

    audio_in_base64: ClassVar[bool] = False
    decoder_delay_samples = DECODER_DELAY_SAMPLES

    def __init__(self, engine: Engine, identity: str, name: str = "") -> None:
        super().__init__(engine)
        self._identity = identity
        self._name = name
        self._streams = 0
        self._open: dict[str, str] = {}  # the stream of each response's text
        self._chunks: dict[str, int] = {}  # the number of its chunks so far: clients drop a repeated index
        self._chats: dict[str, bytes] = {}

    def opened(self) -> Sequence[events.Output]:
        """Report that the agent listens."""
        return [events.SendMessage(self._state("listening"))]

    def expired(self) -> Sequence[events.Output]:
        """Close the session because it has expired."""
        return [events.CloseConnection(_CLOSE_NORMAL, "session expired")]

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Collect the client's text; ignore any other packet."""
        try:
            packet = parse_object(message)
        except MessageError:
            return ()
        stream = str(packet.get("stream_id", ""))
        match packet.get("type"):
            case "stream_header" if packet.get("topic") == _CHAT and len(self._chats) < _MOST_CHATS:
                self._chats[stream] = b""
            case "stream_chunk" if stream in self._chats:
                self._chats[stream] += base64.b64decode(packet.get("content", ""))
            case "stream_trailer" if stream in self._chats:
                text = self._chats.pop(stream).decode(errors="replace")
                return [*self.interrupted(), *self.written(text), *self.engine.respond(at_ns)]
        return ()

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.UserSpeechStopped():
                return (self._state("thinking"),)
            case events.InputTranscribed(item=item, text=str(text)):
                stream = self._new_stream()
                attributes = {"lk.segment_id": item.item_id, "lk.transcription_final": "true"}
                begin = self._header(stream, attributes, self._identity)
                return begin, _chunk(stream, text, self._identity), _trailer(stream, {}, self._identity)
            case events.TextPiece(response=response, text=text):
                return self._text(response.response_id, text)
            case events.ResponseEnded(response=response):
                stream = self._open.pop(response.response_id, "")
                self._chunks.pop(response.response_id, None)
                return (_trailer(stream, {"lk.transcription_final": "true"}, AGENT),) if stream else ()
            case Fault(name=FaultName.MALFORMED):
                return (b'{"type":"stream_chunk","stream_id":"ST_0","content":"AAA',)
            case Fault(name=FaultName.AGENT_LEAVES):
                return (agent_left(self._name),)
            case _:
                return ()

    def playback(self, playback: events.TrackPlayback) -> Sequence[events.Output]:
        """Report the agent's state; truncate a cleared response."""
        truncated(self.engine, playback)
        speaks = playback.state is events.PlaybackState.STARTED
        return [events.SendMessage(self._state("speaking" if speaks else "listening"))]

    def _state(self, state: str) -> bytes:
        return _update(agent(state, name=self._name))

    def _text(self, response_id: str, text: str) -> Sequence[bytes]:
        self._chunks[response_id] = index = self._chunks.get(response_id, -1) + 1
        stream = self._open.get(response_id)
        if stream is not None:
            return (_chunk(stream, text, AGENT, index),)
        stream = self._open[response_id] = self._new_stream()
        attributes = {
            "lk.segment_id": response_id,
            "lk.transcription_final": "false",
            "lk.transcribed_track_id": AGENT_TRACK,
        }
        return self._header(stream, attributes, AGENT), _chunk(stream, text, AGENT)

    def _new_stream(self) -> str:
        self._streams += 1
        return f"ST_{self._streams}"

    def _header(self, stream: str, attributes: dict[str, str], sender: str) -> bytes:
        return _packet(
            "stream_header",
            stream,
            sender,
            topic=_TRANSCRIPTION,
            mime_type="text/plain",
            attributes=attributes,
            text_header={"operation_type": "CREATE"},
        )


def _packet(kind: str, stream: str, sender: str, **fields: object) -> bytes:
    return orjson.dumps({"type": kind, "participant_identity": sender, "stream_id": stream, **fields})


def _chunk(stream: str, text: str, sender: str, index: int = 0) -> bytes:
    return _packet(
        "stream_chunk", stream, sender, chunk_index=index, content=base64.b64encode(text.encode()).decode()
    )


def _trailer(stream: str, attributes: dict[str, str], sender: str) -> bytes:
    return _packet("stream_trailer", stream, sender, attributes=attributes)


def _update(participant: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": "update", "participants": [participant]})
