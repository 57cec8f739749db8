"""The endpoint of OpenAI Realtime, as events for its dialect."""

from __future__ import annotations

import json
from typing import Any

import pybase64

from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Output,
)
from live_eval.types import Secret

BASE = "wss://api.openai.com/v1"


KEY = "sk-proj-1a2b3c"


MS = 1_000_000


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        self.dialect = OpenAIRealtime(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        if ready:
            self.say("session.created", session={"id": "sess_1", "model": "m-1"})
            self.say("session.updated", session={"id": "sess_1", "model": "m-1"})

    def say(self, name: str, at_ms: int = 0, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": name, **fields}), at_ms * MS))

    def audio(self, samples: int = 480, at_ms: int = 0, item: str = "item_1", part: int = 0) -> list[Output]:
        delta = pybase64.b64encode_as_string(bytes(2 * samples))
        return self.say(
            "response.output_audio.delta",
            at_ms,
            response_id="r1",
            item_id=item,
            content_index=part,
            delta=delta,
        )

    def done(self, status: str = "completed", response_id: str = "r1", **fields: Any) -> list[Output]:
        return self.say("response.done", response={"id": response_id, "status": status, **fields})

    def create(self, response_id: str = "r1") -> list[Output]:
        return self.say("response.created", response={"id": response_id})

    def error(self, **error: Any) -> list[Output]:
        return self.say("error", error=error)


def problem(outputs: list[Output]) -> EndpointProblem:
    (found,) = (output for output in outputs if isinstance(output, EndpointProblem))
    return found
