"""Which dialect is spoken at which path, over WebSocket: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from live_eval.reference.engine import Engine, EngineConfig
from live_eval.reference.face import Face
from live_eval.reference.openai_face import OpenAiFace
from live_eval.reference.openai_session import MODEL

__all__ = ["MODEL", "ROUTES", "Opening", "Route"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is known of a session before its first message.

    Args:
        query: The parameters of its URL.
        expires_at: When the session ends, in seconds since the Unix epoch.
    """

    query: Mapping[str, str]
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way in.

    Args:
        dialect: Its name, as a client's ``--endpoint`` would be.
        path: The path, as aiohttp writes patterns.
        base: What a client's base URL has in front of its own part of the path.
        face: Makes a session's face.
        config: What its sessions begin with.
        header: A header that must be there, in lower case, and what it must hold.
        parameters: Parameters of the URL that belong to the dialect; all others are the endpoint's own.
        subprotocols: WebSocket subprotocols that clients may offer.
        binary: Whether the endpoint's messages leave as binary ones.
    """

    dialect: str
    path: str
    base: str
    face: Callable[[Engine, Opening], Face]
    config: EngineConfig = field(default_factory=EngineConfig)
    header: tuple[str, str] | None = None
    parameters: frozenset[str] = frozenset()
    subprotocols: tuple[str, ...] = ()
    binary: bool = False

    def suits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request's headers, case ignored in their names, ask for this dialect."""
        return self.header is None or self.header[1] in headers.get(self.header[0], "")


def _openai(engine: Engine, opening: Opening) -> Face:
    return OpenAiFace(engine, opening.query.get("model") or MODEL, opening.expires_at)


ROUTES = (
    Route(
        dialect="openai",
        path="/v1/realtime",
        base="/v1",
        face=_openai,
        parameters=frozenset({"model"}),
        subprotocols=("realtime",),
    ),
)
"""Every dialect. Of several at one path, the first that suits the request's headers is spoken."""
