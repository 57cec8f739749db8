"""Handle the event envelope of OpenAI's dialects: parse client events and number server events. Sans-I/O."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import orjson

from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import Output, Problem, SendMessage
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.openai_schema import ClientEvent, validated
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol, check_length, parse_object

__all__ = ["ClientEventProtocol"]

_ERROR_ON_PURPOSE = Problem("reference_fault", "This endpoint reports an error on purpose.")


class ClientEventProtocol(ServerProtocol):
    """Base class of dialects whose JSON events have a ``type`` and an ``event_id`` (optional for clients)."""

    client_events: ClassVar[Mapping[str, type[ClientEvent]]]
    with_audio: ClassVar[Collection[str]]
    """Client events that may contain audio."""
    family: ClassVar[str]
    """First words of the server event types that belong to replies."""
    spellings: ClassVar[Mapping[str, str]] = {}
    """A derived dialect's event type names, by their names in the GA dialect."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._sent = 0

    def received(self, message: str | bytes, at_ns: int) -> Sequence[Output]:
        """Handle a client event; respond to an invalid event with an ``error`` event."""
        event_id: str | None = None
        try:
            if isinstance(message, bytes):
                raise MessageError("invalid_value", "Expected a text message, got a binary one.")
            given = parse_object(message)
            check_length(message, given.get("type"), self.with_audio)
            named = given.get("event_id")
            event_id = named[:512] if isinstance(named, str) else None
            outputs = self._handle(validated(given, self.client_events), at_ns)
        except MessageError as error:
            outputs = [error.problem]
        return [
            SendMessage(self._error(output, event_id)) if isinstance(output, Problem) else output
            for output in outputs
        ]

    @abstractmethod
    def _handle(self, event: ClientEvent, at_ns: int) -> Sequence[Output]:
        """Execute an event, or raise `MessageError`."""

    @abstractmethod
    def _error(
        self, problem: Problem, event_id: str | None = None, kind: str = "invalid_request_error"
    ) -> bytes:
        """Encode an ``error`` event with the ID of the client event that caused the error."""

    def _event_id(self) -> str:
        self._sent += 1
        return f"event_{self.engine.session_id[-12:]}{self._sent:06d}"

    def _encode(self, kind: str, **fields: Any) -> bytes:
        """Encode a server event of type `kind`."""
        return orjson.dumps({"type": self.spellings.get(kind, kind), "event_id": self._event_id(), **fields})

    def _say(self, kind: str, **fields: Any) -> SendMessage:
        return SendMessage(self._encode(kind, **fields))

    def _fault(self, fault: Fault) -> bytes:
        """Encode a fault as a message in this dialect."""
        match fault.name:
            case FaultName.MALFORMED:
                return b'{"type":"%b.output_audio.delta","delta":' % self.family.encode()
            case FaultName.UNKNOWN_EVENT:
                return self._encode(f"{self.family}.interpretive_dance.delta", delta="pirouette")
        return self._error(_ERROR_ON_PURPOSE, kind="server_error")
