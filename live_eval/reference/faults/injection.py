"""Apply a session's faults to its events, messages and connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from live_eval.reference.engine.events import (
    AudioPiece,
    CloseConnection,
    Event,
    Silence,
    UserSpeechStarted,
    UserSpeechStopped,
)
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault, FaultScript
from live_eval.reference.protocols.protocol import ServerProtocol

__all__ = ["DeltaFaults", "FaultyChannel", "SessionFaults"]

_T = TypeVar("_T")

_NO_CODE = 1006  # no close frame: RFC 6455, 7.4.1
_BAD_UTF8 = bytes([0x81, 4]) + b"\xff\xfe\xfd\xfc"  # a complete text frame
_BAD_FRAME = bytes([0x83, 2]) + b"no"  # opcode 3 is reserved: RFC 6455, 5.2
_NO_BASE64 = b"*not*base64*"
_NO_OPUS = b"\xff"  # code 3 without the frame count byte: RFC 6716, 3.2.5
_NO_OGG = b"not an Ogg page"


class FaultyChannel(Protocol):
    """A connection with the operations that faults need."""

    async def send(self, message: bytes) -> int:
        """Send a message and return the send time."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close the connection."""
        ...

    def drop(self, *, reset: bool) -> None:
        """End the connection without a close frame, with or without a TCP `reset`."""
        ...

    async def send_raw(self, data: bytes) -> None:
        """Write bytes into the message stream, if the transport has one."""
        ...


class DeltaFaults(Generic[_T]):
    """Drop, duplicate and reorder deltas or packets, as the session's faults specify."""

    def __init__(self, script: FaultScript) -> None:
        self._script = script
        self._number = 0
        self._withheld: list[_T] = []

    def __bool__(self) -> bool:
        return any(map(self._script.has, (FaultName.DUPLICATE, FaultName.MISSING, FaultName.REORDER)))

    def push(self, delta: Sequence[_T], turn: int | None = None) -> list[_T]:
        """Return the messages or packets to send for the next delta, in order.

        Args:
            delta: Messages or packets of the delta.
            turn: Number of the delta's reply, from 1; None for any.
        """
        self._number += 1
        if self._hits(FaultName.MISSING, turn):
            return []
        late, self._withheld = self._withheld, []
        if self._hits(FaultName.REORDER, turn):
            self._withheld = list(delta)
            return late
        times = 2 if self._hits(FaultName.DUPLICATE, turn) else 1
        return [*list(delta) * times, *late]

    def flush(self) -> list[_T]:
        """Return the withheld messages or packets, so that later deltas do not overtake them."""
        late, self._withheld = self._withheld, []
        return late

    def _hits(self, name: FaultName, turn: int | None) -> bool:
        fault = self._script.get(name)
        if fault is None or (turn is not None and fault.turn not in (None, turn)):
            return False
        return self._number % fault.number == 0


class SessionFaults:
    """Apply the faults of one session.

    `live_eval.reference.server.signalling` drops, duplicates and reorders the packets of a media track.

    Args:
        on_track: Whether the session's reply audio is sent on a media track.
    """

    def __init__(self, script: FaultScript, protocol: ServerProtocol, *, on_track: bool) -> None:
        self._script = script
        self._protocol = protocol
        self._on_track = on_track
        self._deltas: DeltaFaults[bytes | CloseConnection] = DeltaFaults(script)
        self._pieces = 0
        self._corrupts = False
        self._pace = script.pace

    def altered(self, event: Event) -> Event:
        """Return an event with its timestamps or audio altered by faults."""
        match event:
            case UserSpeechStarted() | UserSpeechStopped() if self._pace != 1.0:
                return replace(event, audio_ms=round(event.audio_ms * self._pace))
            case AudioPiece(response=response) if corrupt := self._script.in_reply(response.number).get(
                FaultName.CORRUPT_AUDIO
            ):
                self._pieces += 1
                self._corrupts = self._pieces % corrupt.number == 0
                if self._corrupts and (self._on_track or self._protocol.audio_in_base64):
                    return replace(event, payload=_NO_OPUS if self._on_track else _NO_BASE64)
        return event

    def late(self, event: Event) -> Sequence[bytes | CloseConnection]:
        """Return the withheld messages that must precede an event's messages."""
        return () if isinstance(event, AudioPiece | Silence) else self._deltas.flush()

    def rendered(self, event: Event) -> Sequence[bytes | CloseConnection]:
        """Return the messages of an event."""
        messages = self._protocol.render(event)
        if not isinstance(event, AudioPiece | Silence):
            return messages
        if self._corrupts and not self._protocol.audio_in_base64:  # this protocol encodes audio in `render`
            self._corrupts = False
            messages = [each[:1] + _NO_OGG for each in messages if isinstance(each, bytes)]
        if not self._deltas:
            return messages
        return self._deltas.push(messages, event.response.number if isinstance(event, AudioPiece) else None)

    async def strike(self, fault: Fault, channel: FaultyChannel) -> bool:
        """Apply a fault to the connection; return False if it needs a protocol message instead."""
        match fault.name:
            case FaultName.RESET:
                channel.drop(reset=True)
            case FaultName.CLOSE if fault.number == _NO_CODE:
                channel.drop(reset=False)
            case FaultName.CLOSE:
                await channel.close(fault.number, "this endpoint closes on purpose")
            case FaultName.BAD_UTF8:
                await channel.send_raw(_BAD_UTF8)
            case FaultName.BAD_FRAME:
                await channel.send_raw(_BAD_FRAME)
            case FaultName.HUGE:
                unknown = replace(fault, name=FaultName.UNKNOWN_EVENT, value=None)
                for message in self._protocol.render(unknown):
                    if isinstance(message, bytes):  # padding with spaces keeps JSON valid
                        await channel.send(type(message)(message.ljust(fault.number)))
            case _:
                return False
        return True
