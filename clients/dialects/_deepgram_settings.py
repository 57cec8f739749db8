"""The ``Settings`` of Deepgram's Voice Agent.

Source: deepgram-sdk 7.17 (``agent/v1/types``, ``types/deepgram_listen_provider_v2``), and
https://developers.deepgram.com/docs/voice-agent-force-end-turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.clients.toolkit import given, in_json, merged, refuse_settings, said_before, stored_agent
from live_eval.dialect import EndpointSettings
from live_eval.errors import UsageError
from live_eval.types import TurnMode

__all__ = ["RATE_HZ", "agent_settings"]

RATE_HZ = 24_000
_AUDIO = {
    "input": {"encoding": "linear16", "sample_rate": RATE_HZ},
    "output": {"encoding": "linear16", "sample_rate": RATE_HZ, "container": "none"},
}
_FLUX = "flux"
_MANUAL = {"eot_threshold": 1, "eot_timeout_ms": 60_000}  # the service also ends idle turns, so the maximum


def agent_settings(settings: EndpointSettings) -> dict[str, Any]:
    """Return the ``Settings`` to send, with the user's ``extra`` merged over them.

    Raises:
        UsageError: The Voice Agent does not support these settings.
    """
    asked = merged({"audio": _AUDIO, **_agent(settings)}, settings.extra)
    if asked["audio"] != _AUDIO:
        raise UsageError(f"endpoint.extra.audio: expected {in_json(_AUDIO)} (the formats in use) or no value")
    return asked


def _agent(settings: EndpointSettings) -> dict[str, Any]:
    """Return the field ``agent``; an empty dictionary if it names a stored agent."""
    refuse_settings(
        settings,
        modality="the Voice Agent always speaks; text output is not supported",
        max_output_tokens="the Voice Agent has no reply length limit; remove this setting",
    )
    if not isinstance(settings.extra.get("agent"), Mapping) and stored_agent(settings, "agent") is not None:
        refuse_settings(settings, turn_mode="the stored agent's detector ends turns; remove this setting")
        return {}
    speak = given(type="deepgram", model=settings.voice, version=_version(settings.voice))
    agent = given(
        listen={"provider": _listener(settings)},
        think=given(provider=given(type="open_ai", model=settings.model), prompt=settings.instructions),
        context=_context(settings),
        speak={"provider": speak},
    )
    return {"agent": agent}


def _version(model: str | None) -> str | None:
    """Return the version of a recogniser or voice, if it is not the default."""
    return "v2" if _FLUX in (model or "") else None


def _listener(settings: EndpointSettings) -> dict[str, Any]:
    """Return the settings of the recogniser and of its detector."""
    heard, detection, language = settings.transcription_model, settings.turn_detection, settings.language
    if settings.turn_mode is TurnMode.MANUAL:
        heard, detection = heard or f"{_FLUX}-general-en", {**_MANUAL, **detection}
        if _version(heard) is None:
            text = f"{_FLUX}-general-en or {_FLUX}-general-multi for manual turns, got {heard}"
            raise UsageError(f"endpoint.transcription_model: expected {text}")
    version = _version(heard)
    listener = given(type="deepgram", model=heard, version=version)
    if language is not None and version is None:
        listener["language"] = language
    elif language is not None and f"{heard}".endswith("-multi"):
        listener["language_hints"] = [language]
    elif language is not None and not f"{heard}".endswith(f"-{language.partition('-')[0]}"):
        raise UsageError(f"endpoint.language: {heard} does not hear {language}; try {_FLUX}-general-multi")
    return {**listener, **detection}


def _context(settings: EndpointSettings) -> dict[str, Any] | None:
    """Return the earlier turns of the dialogue; None if there are none."""
    said = said_before(settings, "user", "assistant")
    messages = [{"type": "History", "role": role, "content": text} for role, text in said]
    return {"messages": messages} if messages else None
