"""Create access tokens for LiveKit rooms.

Source: https://docs.livekit.io/home/get-started/authentication/ and livekit-api 1.2
(``livekit.api.access_token``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

import orjson

from live_eval.clients.toolkit import given

__all__ = ["access_token", "is_token", "participant_claims"]

_DEVELOPMENT_KEY = "devkey"  # of ``livekit-server --dev``
_VALID_S = 600  # for joining: a session outlives its token
_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")


def is_token(key: str) -> bool:
    """Return whether a key is a token rather than an API secret."""
    return _TOKEN.fullmatch(key) is not None


def participant_claims(
    identity: str, room: str, agent_name: str | None, metadata: str | None
) -> dict[str, Any]:
    """Return the claims of a participant that publishes and subscribes, and dispatches the named agent."""
    grants = dict.fromkeys(("roomJoin", "canPublish", "canSubscribe", "canPublishData"), True)
    agent = given(agentName=agent_name, metadata=metadata)
    config = {"roomConfig": {"agents": [agent]}} if agent else {}
    return {"sub": identity, "name": identity, "video": {"room": room, **grants}, **config}


def access_token(api_key: str | None, secret: str, claims: Mapping[str, Any], wall_ns: int) -> str:
    """Return a token (RFC 7519, HMAC-SHA256) that is valid for ten minutes.

    Without an API key, it is signed for a server in its development mode.

    >>> access_token("devkey", "secret", {"sub": "me"}, 0).partition(".")[0]
    'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9'
    """
    header = {"alg": "HS256", "typ": "JWT"}
    body = {"iss": api_key or _DEVELOPMENT_KEY, "exp": wall_ns // 1_000_000_000 + _VALID_S, **claims}
    signed = b".".join(_encoded(orjson.dumps(part)) for part in (header, body))
    return b".".join((signed, _encoded(hmac.digest(secret.encode(), signed, hashlib.sha256)))).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
