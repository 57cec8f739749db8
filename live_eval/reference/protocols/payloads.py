"""Parse client messages: JSON of bounded size, and audio in base64."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.errors import LiveEvalError
from live_eval.reference.engine.events import Problem

__all__ = ["MOST_MESSAGE_BYTES", "MessageError", "check_length", "decoded", "parsed", "parsed_object"]

MOST_MESSAGE_BYTES = 21 * 1024 * 1024
"""Longest message: 15 MiB of audio in base64, and its envelope."""

_MAX_BYTES = 15 * 1024 * 1024
_MOST_COMMAND_CHARACTERS = 1024 * 1024
_MOST_VALUES = 20_000
# Every value but the first follows one of these. Those inside strings count too.
_BEFORE_VALUES = (",", "[", "{")


class MessageError(LiveEvalError):
    """A client's message is refused, with a `Problem` of this code, message and parameter."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(code, message, param)


def parsed(message: str | bytes) -> Any:
    """Parse a JSON message. If it is long, its values are counted before they are created.

    Raises:
        MessageError: It may contain too many values, or it is not JSON.
    """
    if len(message) > _MOST_VALUES:  # counting takes longer than parsing, and each value needs a character
        text = message if isinstance(message, str) else message.decode("latin-1")
        values = sum(map(text.count, _BEFORE_VALUES))
        if values > _MOST_VALUES:
            body = f"Expected a message of at most {_MOST_VALUES} values, but {values} came."
            raise MessageError("message_too_large", body)
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError as error:
        raise MessageError("invalid_json", f"Expected a JSON object; {error}") from None


def parsed_object(message: str | bytes) -> dict[str, Any]:
    """Parse a message that must be a JSON object; see `parsed`."""
    given = parsed(message)
    if not isinstance(given, dict):
        kind = type(given).__name__
        raise MessageError("invalid_type", f"Expected a JSON object, but it is a {kind}.")
    return given


def check_length(message: str | bytes, kind: object, with_audio: Collection[str]) -> None:
    """Raise `MessageError` for a message of more than 1,048,576 characters that can contain no audio.

    Its kind, as it claims, is `kind`; those of `with_audio` may be longer.
    """
    if len(message) > _MOST_COMMAND_CHARACTERS and kind not in with_audio:
        raise MessageError(
            "message_too_large",
            f"Expected a message of at most {_MOST_COMMAND_CHARACTERS} characters without audio, "
            f"but {len(message)} came.",
        )


def decoded(audio: str, codec: Codec, param: str | None = None) -> bytes:
    """Decode a client's audio.

    Args:
        audio: Base64, of at most 15 MiB.
        codec: How the samples are encoded; all must be complete.
        param: The parameter it came in.

    Raises:
        MessageError: It is too long, not base64, or contains half a sample.
    """
    if len(audio) > _MAX_BYTES * 4 // 3 + 4:
        body = f"Expected at most {_MAX_BYTES // 1024 // 1024} MiB of audio."
        raise MessageError("invalid_value", body, param)
    try:
        data = pybase64.b64decode(audio, validate=True)
    except ValueError as error:
        raise MessageError("invalid_value", f"Expected audio in base64; {error}.", param) from None
    if codec.name is CodecName.PCM16 and len(data) % 2:
        body = f"Expected whole 16-bit samples, but {len(data)} bytes came."
        raise MessageError("invalid_value", body, param)
    return data
