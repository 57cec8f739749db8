"""The WebSocket routes: the dialect of each path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import CloseConnection
from live_eval.reference.protocols.gemini import GEMINI_CONFIG, GEMINI_REFUSALS, GeminiProtocol, SessionStore
from live_eval.reference.protocols.moshi import (
    MOSHI_CONFIG,
    MOSHI_PARAMETERS,
    MOST_FRAME_BYTES,
    MoshiProtocol,
)
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.protocols.openai_beta import OpenAiBetaProtocol
from live_eval.reference.protocols.openai_live import OpenAiLiveProtocol
from live_eval.reference.protocols.openai_session import MODEL
from live_eval.reference.protocols.protocol import MOST_MESSAGE_BYTES, ServerProtocol
from live_eval.reference.server.authentication import KEY_PARAMETER

__all__ = ["MODEL", "ROUTES", "Route", "SessionRequest"]


class SessionRequest(NamedTuple):
    """The request for a session, before its first message.

    Args:
        query: The URL parameters.
        stored_sessions: Sessions that can be resumed.
        expires_at: When the session expires, in seconds since the Unix epoch.
    """

    query: Mapping[str, str]
    stored_sessions: SessionStore
    expires_at: int

    @property
    def model(self) -> str:
        """The requested model."""
        return self.query.get("model") or MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A WebSocket route.

    Args:
        dialect: The name of its client (``--endpoint``).
        path: The path, as an aiohttp pattern.
        protocol: Makes the protocol of a session.
        config: Initial settings of its sessions.
        header: A required header, in lower case, and the text that it must contain.
        parameters: URL parameters of the dialect; all others are the endpoint's.
        subprotocols: WebSocket subprotocols that clients may offer.
        binary: Whether the endpoint sends binary messages.
        most_bytes: Longest message; a longer one closes the connection with code 1009.
        exclusive: Whether there is one session at a time; other clients wait, connected.
        refusals: Close codes, by HTTP status, for clients that are refused after the handshake; others are
            refused during it.
    """

    dialect: str
    path: str
    protocol: Callable[[Engine, SessionRequest], ServerProtocol]
    config: EngineConfig = field(default_factory=EngineConfig)
    header: tuple[str, str] | None = None
    parameters: frozenset[str] = frozenset()
    subprotocols: tuple[str, ...] = ()
    binary: bool = False
    most_bytes: int = MOST_MESSAGE_BYTES
    exclusive: bool = False
    refusals: Mapping[int, CloseConnection] = field(default_factory=dict)

    def suits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request's headers (with case-insensitive names) select this dialect."""
        return self.header is None or self.header[1] in headers.get(self.header[0], "")


ROUTES = (
    Route(
        dialect="openai-beta",
        path="/v1/realtime",
        protocol=lambda engine, opening: OpenAiBetaProtocol(engine, opening.model, opening.expires_at),
        header=("openai-beta", "realtime=v1"),
        parameters=frozenset({"model"}),
        subprotocols=("realtime",),
    ),
    Route(
        dialect="openai",
        path="/v1/realtime",
        protocol=lambda engine, opening: OpenAiProtocol(engine, opening.model, opening.expires_at),
        parameters=frozenset({"model"}),
        subprotocols=("realtime",),
    ),
    Route(
        dialect="gemini-live",
        path="/ws/google.ai.generativelanguage.{version:v1|v1beta|v1alpha}.GenerativeService.BidiGenerateContent",
        protocol=lambda engine, opening: GeminiProtocol(engine, opening.stored_sessions),
        config=GEMINI_CONFIG,
        parameters=frozenset({KEY_PARAMETER, "alt"}),
        binary=True,
        refusals=GEMINI_REFUSALS,
    ),
    Route(
        dialect="openai-live",
        path="/v1/live/sessions",
        protocol=lambda engine, opening: OpenAiLiveProtocol(engine, opening.expires_at),
    ),
    Route(
        dialect="moshi",
        path="/api/chat",
        protocol=lambda engine, opening: MoshiProtocol(engine),
        config=MOSHI_CONFIG,
        parameters=MOSHI_PARAMETERS,
        binary=True,
        most_bytes=MOST_FRAME_BYTES,
        exclusive=True,
    ),
)
"""All routes. If several share a path, the first one that matches the request's headers is used."""
