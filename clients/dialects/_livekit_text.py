"""Read texts of a LiveKit room: text streams with the topic ``lk.transcription``, and packets for the log.

The agent's text follows its voice, in pieces; the user's text is replaced until it is final.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import pybase64

from live_eval.clients.toolkit import Fields
from live_eval.dialect import InputTranscript, Output, StreamText

__all__ = ["TextStreams", "unpacked"]

_FINAL = "lk.transcription_final"
_SEGMENT = "lk.segment_id"
_TOPIC = "lk.transcription"
_MOST_STREAMS = 64
_PACKED = {"user": "payload", "stream_chunk": "content"}


@dataclass(slots=True)
class _Stream:
    """A text stream that has not ended."""

    segment: str
    is_user: bool
    final: bool
    text: str = ""


class TextStreams:
    """The text streams of a session that have not ended; `piece` and `ended` are handlers of their events."""

    def __init__(self) -> None:
        self._open: dict[str, _Stream] = {}

    def began(self, event: Fields, user: str) -> None:
        """Keep track of a stream if it is a transcript.

        Args:
            event: The stream's header.
            user: The user's identity.
        """
        name, attributes = event.need_name("stream_id"), event.child("attributes")
        if event.text("topic") == _TOPIC and len(self._open) < _MOST_STREAMS:
            is_user = event.text("participant_identity") == user
            final = attributes.text(_FINAL) == "true"
            self._open[name] = _Stream(attributes.text(_SEGMENT) or name, is_user, final)

    def piece(self, event: Fields, at_ns: int) -> list[Output]:
        """Return the agent's text, or keep the user's until it is final."""
        stream = self._open.get(event.need_name("stream_id"))
        if stream is None or "content" not in event:
            return []
        text = event.need_bytes("content").decode(errors="replace")
        if stream.is_user:
            stream.text += text
            return []
        return [StreamText(text)] if text else []

    def ended(self, event: Fields, at_ns: int) -> list[Output]:
        """Return the user's text if it is final."""
        stream = self._open.pop(event.need_name("stream_id"), None)
        if stream is None or not stream.is_user:
            return []
        final = stream.final or event.child("attributes").text(_FINAL) == "true"
        return [InputTranscript(stream.text, True, stream.segment)] if final else []


def unpacked(message: str) -> str:
    """Return a message with the text or JSON in its packet, so that secrets are found in it.

    Of a packet that is nested too deeply to be written again, only the length is returned.
    """
    try:
        packet = orjson.loads(message)
        name = _PACKED[packet["type"]]
        text = pybase64.b64decode(packet[name], validate=True).decode(errors="replace")
    except (ValueError, KeyError, TypeError):
        return message
    try:
        packet[name] = orjson.loads(text)
    except orjson.JSONDecodeError:
        packet[name] = text
    try:
        return orjson.dumps(packet).decode()
    except orjson.JSONEncodeError:
        return orjson.dumps({"characters": len(message)}).decode()
