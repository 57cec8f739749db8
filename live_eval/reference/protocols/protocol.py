"""Define the server protocol interface and shared parsing functions. Pure, like the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import orjson
import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.errors import LiveEvalError
from live_eval.reference.engine.conversation_items import Item, Part, PartKind, Role
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import CloseConnection, Event, Output, Problem, TrackPlayback

__all__ = [
    "MOST_MESSAGE_BYTES",
    "START_S",
    "MessageError",
    "ServerProtocol",
    "TextMessage",
    "check_length",
    "decode_audio",
    "parse_json",
    "parse_object",
    "text_message",
]

MOST_MESSAGE_BYTES = 21 * 1024 * 1024
"""Maximum message size: 15 MiB of audio in base64 plus the envelope."""

START_S = 10
"""Time limit for the client to start its session, in seconds after connecting."""

_MAX_AUDIO_BYTES = 15 * 1024 * 1024
_MAX_COMMAND_CHARACTERS = 1024 * 1024
_MAX_VALUES = 20_000


class TextMessage(bytes):
    """A message to send as text in a dialect with binary messages."""


def text_message(message: Mapping[str, Any]) -> TextMessage:
    """Encode a JSON object as a message to send as text."""
    return TextMessage(orjson.dumps(message))


class ServerProtocol(ABC):
    """Base class for one session in one dialect. Invalid client input never raises.

    The host passes model results to the engine directly.
    """

    decoder_delay_samples: ClassVar[int] = 0
    """Decoder delay on the listener's side for codecs with look-ahead, in samples at the output rate."""

    audio_in_base64: ClassVar[bool] = True
    """Whether messages contain audio as base64."""

    reports_stops: ClassVar[bool] = False
    """Whether the client is notified of a stopped reply and drops its unplayed audio."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def opened(self) -> Sequence[Output]:
        """Start the session on an open connection. By default, wait for the client's first message."""
        return ()

    @abstractmethod
    def received(self, message: str | bytes, at_ns: int) -> Sequence[Output]:
        """Handle a message: `str` for a text message, `bytes` for a binary one."""

    def not_started(self) -> Sequence[Output]:
        """Close the session if the client had to start it within `START_S`, and has not."""
        return ()

    def expires_soon(self, left_s: int) -> Sequence[Output]:
        """Announce that the session ends in `left_s` seconds, if the dialect supports this."""
        return ()

    @abstractmethod
    def expired(self) -> Sequence[Output]:
        """Close the session because it has expired; the last output is `CloseConnection`."""

    @abstractmethod
    def render(self, event: Event) -> Sequence[bytes | CloseConnection]:
        """Encode an event as messages, or as `CloseConnection` if the dialect closes instead."""

    def deciding_message(self, event: Event) -> int:
        """Return the index, among the messages from `render`, of the one to which a client reacts."""
        return 0

    def written(self, text: str, role: Role = Role.USER) -> list[Output]:
        """Add a text message to the conversation."""
        return self.engine.add_item(Item(self.engine.new_name("item"), role, [Part(PartKind.TEXT, text)]))

    def interrupted(self) -> list[Output]:
        """Stop the current response, if any, at the client's request."""
        return self.engine.cancel(None) if self.engine.active is not None else []

    @classmethod
    def encode(cls, audio: bytes) -> bytes:
        """Encode a chunk of audio for `AudioPiece.payload`. This method is thread-safe."""
        return pybase64.b64encode(audio) if cls.audio_in_base64 else audio

    def playback(self, playback: TrackPlayback) -> Sequence[Output]:
        """Report playback of a response on a media track; truncate the item of a cleared response.

        Sessions with a media track use Opus (`live_eval.reference.protocols.webrtc.TRACK`).
        """
        return ()


class MessageError(LiveEvalError):
    """Raised when a client message is refused, with the reason in a `Problem`."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(code, message, param)


def parse_json(message: str | bytes) -> Any:
    """Parse a JSON message.

    Raises:
        MessageError: The message contains too many values, or is not valid JSON.
    """
    # Limit the number of values before parsing: every value but the first follows one of these characters.
    # Short messages need no check, because each value takes at least one character.
    if len(message) > _MAX_VALUES:
        text = message if isinstance(message, str) else message.decode("latin-1")
        values = sum(map(text.count, (",", "[", "{")))
        if values > _MAX_VALUES:
            body = f"Expected a message of at most {_MAX_VALUES} values, got {values}."
            raise MessageError("message_too_large", body)
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError as error:
        raise MessageError("invalid_json", f"Expected a JSON object; {error}") from None


def parse_object(message: str | bytes) -> dict[str, Any]:
    """Parse a JSON object; see `parse_json`."""
    given = parse_json(message)
    if not isinstance(given, dict):
        kind = type(given).__name__
        raise MessageError("invalid_type", f"Expected a JSON object, got a {kind}.")
    return given


def check_length(message: str | bytes, kind: object, with_audio: Collection[str]) -> None:
    """Raise `MessageError` if a message without audio has more than 1,048,576 characters."""
    if len(message) > _MAX_COMMAND_CHARACTERS and kind not in with_audio:
        raise MessageError(
            "message_too_large",
            f"Expected a message of at most {_MAX_COMMAND_CHARACTERS} characters without audio, got "
            f"{len(message)}.",
        )


def decode_audio(audio: str, codec: Codec, param: str | None = None) -> bytes:
    """Decode a client's base64 audio; `param` is the parameter that contains it.

    Raises:
        MessageError: The audio is longer than 15 MiB, not base64, or ends within a sample of `codec`.
    """
    if len(audio) > _MAX_AUDIO_BYTES * 4 // 3 + 4:
        body = f"Expected at most {_MAX_AUDIO_BYTES // 1024 // 1024} MiB of audio."
        raise MessageError("invalid_value", body, param)
    try:
        data = pybase64.b64decode(audio, validate=True)
    except ValueError as error:
        raise MessageError("invalid_value", f"Expected audio in base64; {error}.", param) from None
    if codec.name is CodecName.PCM16 and len(data) % 2:
        body = f"Expected whole 16-bit samples, got {len(data)} bytes."
        raise MessageError("invalid_value", body, param)
    return data
