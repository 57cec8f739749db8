"""The client of a server protocol, and a host that runs its engine's requests. No sockets, no clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import (
    CloseConnection,
    DetectSpeech,
    DropUnplayed,
    FindReply,
    Output,
    RecogniseSpeech,
    SendMessage,
    UserUtterance,
)
from live_eval.reference.protocols.protocol import ServerProtocol

__all__ = ["ProtocolClient"]

_P = TypeVar("_P", bound=ServerProtocol)


class ProtocolClient(Generic[_P]):
    """Parses a protocol's messages and keeps its requests.

    Args:
        protocol: The protocol; it is opened.
    """

    def __init__(self, protocol: _P) -> None:
        self.protocol = protocol
        self.at_ns = 0
        self.epoch = 0
        self.answers: list[FindReply] = []
        self.listens: list[RecogniseSpeech] = []
        self.utterances: list[UserUtterance] = []
        self.closed: CloseConnection | None = None
        self.greeting = self.take(protocol.opened())

    @property
    def engine(self) -> Engine:
        return self.protocol.engine

    def take(self, outputs: Sequence[Output]) -> list[Any]:
        """Carry out the outputs and return the messages that were sent."""
        messages: list[Any] = []
        for output in outputs:
            match output:
                case SendMessage(message=message):
                    messages.append(self.parsed(message))
                case CloseConnection():
                    self.closed = output
                case DetectSpeech(epoch=epoch):
                    self.epoch = epoch
                case RecogniseSpeech():
                    self.listens.append(output)
                case FindReply():
                    messages += self.find(output)
                case DropUnplayed():
                    pass  # no track to clear
                case UserUtterance():
                    self.utterances.append(output)
                case _:
                    messages += self.rendered(output)
        return [message for message in messages if message]

    def rendered(self, event: Any) -> list[Any]:
        """Return the messages of an event of the engine."""
        messages = []
        for rendered in self.protocol.render(event):
            if isinstance(rendered, CloseConnection):
                self.closed = rendered
            else:
                messages.append(self.parsed(rendered))
        return messages

    def parsed(self, message: bytes) -> Any:
        """Return a message as the test reads it."""
        return json.loads(message)

    def find(self, request: FindReply) -> list[Any]:
        """Keep a request for a reply; a subclass may answer it at once."""
        self.answers.append(request)
        return []
