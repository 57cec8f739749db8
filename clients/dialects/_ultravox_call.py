"""Request Ultravox calls and track the user's turns, over WebSocket and WebRTC.

Sources: see `live_eval.clients.dialects.ultravox`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from live_eval.clients.toolkit import (
    NO_TOOL,
    Fields,
    UserTurns,
    given,
    http_url,
    merged,
    refusal_advice,
    refuse_settings,
    said_before,
    stored_agent,
)
from live_eval.dialect import EndpointSettings, InputTranscript, Output
from live_eval.errors import FailureKind

__all__ = ["IGNORED", "JOIN_ADVICE", "CallRequest", "CallTurns", "call_request", "tool_result"]

IGNORED = frozenset(
    {
        "debug",
        "pong",
        "side_generation_completed",
        "side_generation_delta",
        "thread_rejected",
        "thread_spawned",
        "thread_terminated",
    }
)
"""Messages that need no handling; threads do not speak."""
JOIN_ADVICE = "a call must be joined within its joinTimeout, which endpoint.extra can set"
"""Advice for a call that ends before it is joined."""


class CallRequest(NamedTuple):
    """The request that creates a call, with ``endpoint.extra`` merged over its body."""

    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    advice: Mapping[FailureKind | int, str]


def call_request(settings: EndpointSettings, medium: Mapping[str, object]) -> CallRequest:
    """Return the request that creates a call with this medium.

    Raises:
        UsageError: Ultravox does not support these settings, or the base URL is not a URL.
    """
    refuse_settings(
        settings,
        modality="Ultravox calls speak; text output is not supported",
        max_output_tokens="Ultravox has no reply length limit; remove this setting",
    )
    agent_id = stored_agent(settings, "agent_id")
    extra = {name: value for name, value in settings.extra.items() if name != "agent_id"}
    path = f"agents/{quote(agent_id, safe='')}/calls" if agent_id else "calls"
    body: dict[str, Any] = {"medium": medium}
    if agent_id is None:
        said = said_before(settings, "MESSAGE_ROLE_USER", "MESSAGE_ROLE_AGENT")
        body = given(
            systemPrompt=settings.instructions,
            model=settings.model,
            voice=settings.voice,
            languageHint=settings.language,
            vadSettings=dict(settings.turn_detection) or None,
            initialMessages=[{"role": role, "text": text} for role, text in said] or None,
            firstSpeakerSettings={"user": {}},
            medium=medium,
        )
    key = settings.key
    headers = {"X-API-Key": key.reveal()} if key is not None else {}
    check = refusal_advice(settings, "agent_id", "the voice, the model and endpoint.extra")
    advice: dict[FailureKind | int, str] = {400: check, 404: check} if agent_id else {400: check}
    return CallRequest(http_url(settings.base_url, path, {}), merged(body, extra), headers, advice)


def tool_result(call: Fields) -> dict[str, object]:
    """Return the answer to the call of a tool, during which Ultravox suspends the conversation."""
    error = {"errorType": "undefined", "errorMessage": NO_TOOL}
    return {"type": "client_tool_result", "invocationId": call.text("invocationId"), **error}


class CallTurns:
    """The user's turns, which the state ``thinking`` or a transcript reports as accepted, once each.

    Attributes:
        accepted: Whether the present turn was accepted; set to False once it was answered.
    """

    def __init__(self) -> None:
        self.accepted = False
        self._turns = UserTurns()
        self._transcribed = True  # whether the last accepted turn has its transcript

    def accept(self) -> list[Output]:
        """Report the user's turn as accepted, once."""
        if self.accepted:
            return []
        self.accepted, self._transcribed = True, False
        return self._turns.accept()

    def said(self, text: str) -> list[Output]:
        """Report a final transcript, which may arrive after the reply to its turn."""
        outputs = self.accept() if self._transcribed else []
        self._transcribed = True
        return [*outputs, InputTranscript(text, True, self._turns.last)]
