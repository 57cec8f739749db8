"""The endpoint of Gemini Live, as messages for its dialect."""

from __future__ import annotations

import json
from typing import Any

import pybase64

from live_eval.clients.dialects.gemini_live import GeminiLive
from live_eval.dialect import (
    EndpointSettings,
    Output,
)
from live_eval.types import Secret
from tests.support.dialects import sent

BASE = "wss://generativelanguage.googleapis.com"


KEY = "AIzaSy-conformance-key"


MS = 1_000_000


FRAME = bytes(range(64)) * 10


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, base: str = BASE, key: str = KEY, **settings: Any) -> None:
        self.dialect = GeminiLive(EndpointSettings(base_url=base, key=Secret(key), **settings))
        self.setup = sent(self.dialect.opened(0))[0]["setup"]
        if ready:
            self.say({"setupComplete": {}})

    def say(self, message: dict[str, Any], at_ms: int = 0) -> list[Output]:
        return list(self.dialect.received(json.dumps(message), at_ms * MS))

    def content(self, at_ms: int = 0, **fields: Any) -> list[Output]:
        return self.say({"serverContent": fields}, at_ms)

    def audio(self, samples: int = 480, at_ms: int = 0, mime: str = "audio/pcm;rate=24000") -> list[Output]:
        data = pybase64.b64encode_as_string(bytes(2 * samples))
        return self.content(at_ms, modelTurn={"parts": [{"inlineData": {"mimeType": mime, "data": data}}]})

    def handle(self, handle: str = "handle-1", at_ms: int = 0) -> list[Output]:
        return self.say({"sessionResumptionUpdate": {"newHandle": handle, "resumable": True}}, at_ms)

    def go_away(self, left: str, at_ms: int = 0) -> list[Output]:
        return self.say({"goAway": {"timeLeft": left}}, at_ms)

    def frame(self) -> list[Any]:
        return sent(self.dialect.frame(FRAME, 0))

    def moves(self, at_ms: int) -> list[Output]:
        return list(self.dialect.timer("move to a new connection", at_ms * MS))


def of(kind: type, outputs: Any) -> Any:
    (output,) = [output for output in outputs if isinstance(output, kind)]
    return output
