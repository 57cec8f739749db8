"""Handle the events of ElevenLabs Agents that are the same over WebSocket and WebRTC.

Message shapes follow ElevenLabs' SDKs; see `live_eval.clients.dialects.elevenlabs`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from live_eval.clients.toolkit import (
    NO_TOOL,
    EventDialect,
    Fields,
    Handler,
    UserTurns,
    given,
    merged,
    refuse_settings,
)
from live_eval.dialect import EndpointProblem, EndpointSettings, Output, SpeechStarted
from live_eval.errors import FailureKind, UsageError

__all__ = [
    "ADDRESS_OPTIONS",
    "BEFORE_READY",
    "IGNORED",
    "PATH",
    "ElevenLabsEvents",
    "address_query",
    "agent_advice",
    "initiation",
]

PATH = "convai/conversation"
IGNORED = frozenset(
    {
        "agent_chat_response_part",
        "agent_reasoning_response_part",
        "agent_response_metadata",
        "agent_tool_request",
        "agent_tool_response",
        "agent_tool_response_full_payload",
        "agent_typing",
        "asr_initiation_metadata",
        "context_usage",
        "guardrail_triggered",
        "internal_tentative_agent_response",
        "internal_turn_probability",
        "mcp_connection_status",
        "mcp_tool_call",
        "rich_content",
        "vad_score",
    }
)
"""Events that need no handling."""
BEFORE_READY = frozenset({"conversation_initiation_metadata", "ping", "error", "client_error"})
"""Events that may arrive before the conversation begins."""
ADDRESS_OPTIONS = ("agent_id", "environment")
"""Fields of ``endpoint.extra`` that are part of the address."""

_NAME_AGENT = "set endpoint.extra.agent_id to the ID of the agent"
_CHECK_AGENT = "check endpoint.extra.agent_id, and that the agent is at this address"
_EXPIRED = re.compile(r"max_duration|transport_receive_timeout", re.IGNORECASE)
_OVERRIDE = re.compile("override", re.IGNORECASE)
_UNKNOWN_AGENT = re.compile(r"agent.{0,100}(?:does not exist|not.found)", re.IGNORECASE | re.DOTALL)
_PRIVATE = re.compile(r"must be authenticated|unauthori[sz]ed", re.IGNORECASE)
_BUSY = re.compile(r"concurren|quota|rate.limit|too many", re.IGNORECASE)
_CONTRACT = re.compile(r"code 1008\b|missing_dynamic_variable|missing_fields|value_error", re.IGNORECASE)
_CHECK_EXTRA = "check endpoint.extra (a prompt may need dynamic_variables) and the agent's configuration"
_GIVE_KEY = "a private agent needs a key: set ELEVENLABS_API_KEY"
_ALLOW = "allow overrides in the agent's security settings, or pass no prompt, model, voice and language"


class ElevenLabsEvents(EventDialect):
    """Base class that handles events about transcripts and the agent's state; a subclass sends messages."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._turns = UserTurns()
        self._user_speaks = False
        self.events: dict[str, Handler] = {
            "agent_response": self._on_response,
            "agent_response_correction": self._on_correction,
            "user_transcript": self._on_transcript,
            "tentative_user_transcript": self._on_tentative,
            "ping": self._on_ping,
            "client_tool_call": self._on_tool_call,
            "error": self._on_error,
            "client_error": self._on_error,
        }
        """Handlers by type."""

    def answer(self, message: Mapping[str, object]) -> Output:
        """Return the output that sends a message."""
        raise NotImplementedError

    def said(self, text: str, at_ns: int) -> list[Output]:
        """Return the outputs for a text of the agent, without spaces around it."""
        raise NotImplementedError

    def corrected(self, original: str, text: str) -> list[Output]:
        """Return the outputs for the spoken part of a text of the agent; none if the text is unknown."""
        raise NotImplementedError

    def user_began(self) -> list[Output]:
        """Return the start of the user's speech, if it was not reported yet."""
        started: list[Output] = [] if self._user_speaks else [SpeechStarted()]
        self._user_speaks = True
        return started

    def _on_response(self, event: Fields, at_ns: int) -> list[Output]:
        self._user_speaks = False
        text = event.child("agent_response_event").need_text("agent_response").strip()
        return self.said(text, at_ns) if text else []

    def _on_correction(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("agent_response_correction_event")
        original = found.need_text("original_agent_response").strip()
        corrected = self.corrected(original, found.need_text("corrected_agent_response").strip())
        return corrected or [self.warning("ignored a correction of a text that the agent has not sent")]

    def _on_tentative(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("tentative_user_transcription_event")
        return self.user_began() if (found.text("user_transcript") or "").strip() else []

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.child("user_transcription_event").need_text("user_transcript").strip()
        self._user_speaks = False
        return self._turns.said(text)

    def _on_ping(self, event: Fields, at_ns: int) -> list[Output]:
        pong = {"type": "pong", "event_id": event.child("ping_event").integer("event_id")}
        return [self.answer(pong)]

    def _on_tool_call(self, event: Fields, at_ns: int) -> list[Output]:
        call = event.child("client_tool_call")
        result = {"tool_call_id": call.text("tool_call_id"), "result": NO_TOOL, "is_error": True}
        return self.tool_called(call.text("tool_name"), self.answer({"type": "client_tool_result", **result}))

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("error_event")
        said = (found.text(name) for name in ("error_type", "message", "reason", "debug_message"))
        self.last_error = self.clean(": ".join(filter(None, said))) or "an error without details"
        code = found.integer("code")
        return [self.warning(self.last_error, None if code is None else str(code))]

    def with_advice(self, problem: EndpointProblem, *, named: bool) -> EndpointProblem:
        """Return the problem for the end of a conversation, with advice.

        Args:
            named: Whether the settings name an agent.
        """
        text = problem.message
        if _EXPIRED.search(text):
            return EndpointProblem(FailureKind.SESSION_EXPIRED, text, fatal=True)
        if self.ready:
            return problem
        for reason, kind, advice in (
            (_UNKNOWN_AGENT, FailureKind.SESSION_REFUSED, agent_advice(named)),
            (_PRIVATE, FailureKind.AUTHENTICATION, _GIVE_KEY),
            (_OVERRIDE, FailureKind.SESSION_REFUSED, _ALLOW),
            (_BUSY, FailureKind.RATE_LIMITED, "check the account's limits"),
            (_CONTRACT, FailureKind.SESSION_REFUSED, _CHECK_EXTRA if named else _NAME_AGENT),
        ):
            if reason.search(text):
                return EndpointProblem(kind, f"{text}; {advice}", fatal=True)
        return problem if named else replace(problem, message=f"{text}; {_NAME_AGENT}")


def agent_advice(named: bool) -> str:
    """Return advice for a missing agent; `named` is whether the settings name one."""
    return _CHECK_AGENT if named else _NAME_AGENT


def address_query(settings: EndpointSettings) -> dict[str, str]:
    """Return the query parameters of the address.

    Raises:
        UsageError: One of them is not text.
    """
    found = {name: settings.extra[name] for name in ADDRESS_OPTIONS if name in settings.extra}
    for name, value in found.items():
        if not isinstance(value, str):
            raise UsageError(f"endpoint.extra.{name}: expected text, got {value!r}")
    return found


def initiation(settings: EndpointSettings, options: Collection[str] = ()) -> dict[str, Any]:
    """Return the client's first message, with the user's ``extra`` merged over it.

    Args:
        options: Fields of ``extra``, in addition to `ADDRESS_OPTIONS`, that are not part of the message.

    Raises:
        UsageError: ElevenLabs does not support these settings.
    """
    refuse_settings(
        settings,
        modality="ElevenLabs agents speak; text output is not supported",
        turn_detection="the agent's configuration sets the turn model; remove this setting",
        max_output_tokens="the agent's configuration limits replies; remove this setting",
    )
    prompt = given(prompt=settings.instructions, llm=settings.model)
    agent = given(prompt=prompt or None, language=settings.language)
    voice = given(voice_id=settings.voice)
    override = given(agent=agent or None, tts=voice or None)
    others = (*ADDRESS_OPTIONS, *options)
    extra = {name: value for name, value in settings.extra.items() if name not in others}
    asked = merged(given(conversation_config_override=override or None), extra)
    return {"type": "conversation_initiation_client_data", **asked}
