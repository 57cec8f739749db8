"""Convert LiveKit's protobuf messages to and from JSON, which dialects send and receive.

A ``SignalRequest``, ``SignalResponse`` or ``DataPacket`` has one member that carries its content. Its JSON is
that member's (https://protobuf.dev/programming-guides/json, with the names of the ``.proto`` files), with the
member's name as ``type``. A packet also has its sender, ``participant_identity``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from live_eval.errors import PluginError
from live_eval.extras import install_command

__all__ = ["MessageModules", "as_json", "from_json", "load_protocol", "with_member"]


class MessageModules(NamedTuple):
    """The modules of ``livekit-protocol``."""

    rtc: Any
    models: Any


def load_protocol() -> MessageModules:
    """Return the protobuf modules.

    Raises:
        PluginError: The package is not installed.
    """
    try:
        from livekit.protocol import models, rtc
    except ImportError as error:
        raise PluginError(
            f"LiveKit rooms need the package livekit-protocol: {install_command('livekit')} ({error})"
        ) from None
    return MessageModules(rtc, models)


def as_json(message: Any) -> str | None:
    """Return a signal or a packet as JSON; None if it has no content, or only a number or a text."""
    from google.protobuf.json_format import MessageToDict

    packed = MessageToDict(message, preserving_proto_field_name=True)
    (oneof,) = {name for name in message.DESCRIPTOR.oneofs_by_name if not name.startswith("_")}
    kind = message.WhichOneof(oneof)
    content = packed.get(kind)
    if not isinstance(content, dict):
        return None
    sender = packed.get("participant_identity")
    whole = content | ({"participant_identity": sender} if sender else {}) | {"type": kind}
    return orjson.dumps(whole).decode()


def from_json(text: str | bytes, *kinds: Any) -> Any:
    """Return the message with this JSON, of the first of these classes that has such a member.

    Raises:
        ValueError: The JSON is not such a message.
    """
    content = orjson.loads(text)
    if not isinstance(content, dict) or not isinstance(member := content.pop("type", None), str):
        raise ValueError("expected a JSON object with a string in 'type'")
    kind = next((each for each in kinds if member in each.DESCRIPTOR.fields_by_name), None)
    if kind is None:
        raise ValueError(f"unknown message {member!r}")
    sender = content.pop("participant_identity", None)
    return with_member(kind, member, content, **({"participant_identity": sender} if sender else {}))


def with_member(kind: Any, member: str, content: Mapping[str, object], **others: str) -> Any:
    """Return the message of a class with this content; a description of SDP has a ``type`` of its own.

    Raises:
        ValueError: The class has no such member, or the member has other content.
    """
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        return ParseDict({member: content, **others}, kind())
    except ParseError as error:
        raise ValueError(str(error)) from None
