"""A client of the reference endpoint's GA dialect, without a socket or a clock."""

import base64
import json
from typing import Any

from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from live_eval.reference.engine.endpointer import WINDOW_MS
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.reply_plan import WireChunk, WireReply
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import ProtocolClient

SERVER_EVENT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
MS = 1_000_000
VOICED, SILENT = 0.9, 0.0
HALF_SECOND = bytes(24_000)

Json = dict[str, Any]


def wire_reply(text: str = "Hello there, how are you?", chunks: int = 10) -> WireReply:
    payload = base64.b64encode(bytes(4_800))
    return WireReply(text, tuple(WireChunk(payload, 2_400) for _ in range(chunks)), 24_000, 0, "constructed")


class OpenAiClient(ProtocolClient[OpenAiProtocol]):
    """Checks every message against the official SDK's types."""

    def __init__(self, *, waits_for_words: bool = True, model: str = "some-model", **settings: Any) -> None:
        engine = Engine(
            "sess_0123456789abcdef", ReferenceSettings(**settings), waits_for_words=waits_for_words
        )
        self.raw: list[bytes] = []
        super().__init__(OpenAiProtocol(engine, model, expires_at=2_000_000_000))

    def parsed(self, message: bytes) -> Json:
        self.raw.append(message)
        try:
            event: Json = json.loads(message)
        except json.JSONDecodeError:
            return {}
        if event["type"] != "response.interpretive_dance.delta":
            SERVER_EVENT.validate_python(event)
        return event

    def send(self, kind: str, **fields: Any) -> list[Json]:
        return self.text(json.dumps({"type": kind, **fields}))

    def text(self, message: str | bytes) -> list[Json]:
        return self.take(self.protocol.received(message, self.at_ns))

    def append(self, pcm: bytes) -> list[Json]:
        return self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    def speak(self, pattern: list[float]) -> list[Json]:
        """Append audio, one window for each of the detector's speech probabilities."""
        events: list[Json] = []
        for probability in pattern:
            self.at_ns += WINDOW_MS * MS
            events += self.append(bytes(48 * WINDOW_MS))
            events += self.take(self.engine.heard(self.epoch, [probability], self.at_ns))
        return events

    def say(self) -> list[Json]:
        """Speak for 640 ms, until the detector ends the turn."""
        return self.speak([SILENT] * 20 + [VOICED] * 20 + [SILENT] * 16)

    def recognise(self, text: str | None = "hello", reason: str = "") -> list[Json]:
        work = self.listens.pop()
        assert work.final
        return self.take(self.engine.recognised(work.item_id, work.part, text, reason))

    def reply(self, reply: WireReply | None = None) -> list[Json]:
        work = self.answers.pop()
        return self.take(self.engine.reply(work.response_id, reply or wire_reply(), self.at_ns))

    def pass_time(self, until_ns: int | None = None, chunks: int | None = None) -> list[Json]:
        """Run due work, at most `chunks` times."""
        events: list[Json] = []
        while (wake_ns := self.engine.wake_ns) is not None and chunks != 0:
            if until_ns is not None and wake_ns > until_ns:
                break
            self.at_ns = max(self.at_ns, wake_ns)
            events += self.take(self.engine.due(self.at_ns))
            chunks = None if chunks is None else chunks - 1
        return events

    def update(self, **session: Any) -> list[Json]:
        return self.send("session.update", session={"type": "realtime", **session})

    def manual(self) -> None:
        assert types(self.update(audio={"input": {"turn_detection": None}})) == ["session.updated"]


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def only(events: list[Json], kind: str) -> Json:
    (found,) = [event for event in events if event["type"] == kind]
    return found


def error_of(events: list[Json]) -> Json:
    (event,) = events
    assert event["type"] == "error"
    error: Json = event["error"]
    return error


def replying(client: OpenAiClient, chunks: int = 3) -> str:
    """Run a response halfway; return its ID."""
    created = only(client.say(), "response.created")
    client.recognise()
    client.reply()
    client.pass_time(chunks=chunks)
    name: str = created["response"]["id"]
    return name
