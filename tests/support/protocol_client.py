"""A client for a server protocol, and a host that executes its engine's requests. No sockets, no clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from live_eval.audio import frames_of
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
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.protocols.protocol import ServerProtocol
from live_eval.reference.server.client_session import packer

__all__ = ["ProtocolClient", "SpeakingClient", "types_of"]

_MS = 1_000_000
_P = TypeVar("_P", bound=ServerProtocol)


class ProtocolClient(Generic[_P]):
    """Parses a protocol's messages and stores its requests.

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
        """Store a request for a reply; a subclass may answer it immediately."""
        self.answers.append(request)
        return []


class SpeakingClient(ProtocolClient[_P]):
    """Receives a tone of 400 ms as every reply, and advances a clock.

    Attributes:
        at_ms: The current time.
    """

    at_ms = 0

    def find(self, request: FindReply) -> list[Any]:
        """Answer with the tone."""
        super().find(request)
        wire = packer(self.protocol, request.codec).pack(GeneratedReply("A tone.", calibration_reply(400), 0))
        return self.take(self.engine.reply(request.response_id, wire, self.at_ms * _MS))

    def say(self, message: object) -> list[Any]:
        """Send text, bytes, or an object as JSON; return the responses and all due messages."""
        given = message if isinstance(message, str | bytes) else json.dumps(message)
        messages = self.take(self.protocol.received(given, self.at_ms * _MS))
        while self.engine.wake_ns is not None and self.engine.wake_ns <= self.at_ms * _MS:
            messages += self.take(self.engine.due(self.at_ms * _MS))
        return messages

    def heard(self, pcm: bytes) -> object:
        """Return the message with a frame of the user's audio."""
        raise NotImplementedError

    def speak(self) -> list[Any]:
        """Send the calibration's speech in frames of 20 ms, then silence; return the messages in response."""
        config = self.engine.config
        rate_hz, frame = config.input_codec.rate_hz, config.input_codec.rate_hz // 50
        speech = calibration_speech(400, rate_hz, 20, lossy=config.lossy_input).audio.int16()
        messages = []
        for pcm in [*frames_of(speech, frame), *[bytes(2 * frame)] * 60]:
            self.at_ms += 20
            messages += self.say(self.heard(pcm))
        return messages


def types_of(messages: Sequence[Any]) -> list[str]:
    """Return the messages' types, with ``bytes`` for binary messages, without repetitions."""
    named = ["bytes" if isinstance(each, bytes) else each["type"] for each in messages]
    return [kind for place, kind in enumerate(named) if named[place - 1 : place] != [kind]]
