"""Imitate a service with a protocol similar to OpenAI's, to test its dialect."""

import json
from typing import Any

from live_eval.dialect import Dialect, EndpointSettings, Output, Send
from live_eval.types import Secret

BASE = EndpointSettings(base_url="wss://h/v1", model="m", voice="v", key=Secret("k-4711"))


def say(dialect: Dialect, kind: str, **fields: object) -> list[Output]:
    """Send an event to the dialect and return its outputs."""
    return list(dialect.received(json.dumps({"type": kind, **fields}), 0))


def session_of(dialect: Dialect) -> dict[str, Any]:
    """Return the session settings that the dialect requests."""
    sent = [*dialect.opened(0), *say(dialect, "session.created", session={})]
    (update,) = [json.loads(out.message) for out in sent if isinstance(out, Send)]
    session: dict[str, Any] = update["session"]
    return session


def ready(dialect: Dialect) -> Dialect:
    """Return a dialect whose session is ready."""
    session_of(dialect)
    say(dialect, "session.updated", session={})
    return dialect
