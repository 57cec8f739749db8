"""Access tokens for LiveKit rooms. LiveKit's own verifier reads them in tests/e2e/test_livekit_sdk.py."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest

from live_eval.clients.dialects._livekit_token import access_token, is_token

WALL_NS = 1_764_300_000_000_000_000
SECRET = "s" * 32


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_token_has_the_claims_and_expires() -> None:
    head, body, _ = access_token(None, SECRET, {"sub": "me", "video": {"room": "r"}}, WALL_NS).split(".")
    assert decoded(head) == {"alg": "HS256", "typ": "JWT"}
    assert decoded(body) == {"iss": "devkey", "exp": 1_764_300_600, "sub": "me", "video": {"room": "r"}}


def test_the_signature_is_that_of_the_secret() -> None:
    signed, _, signature = access_token("devkey", SECRET, {}, WALL_NS).rpartition(".")
    digest = hmac.digest(SECRET.encode(), signed.encode(), hashlib.sha256)
    assert signature == base64.urlsafe_b64encode(digest).decode().rstrip("=")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (access_token("devkey", SECRET, {"sub": "me"}, WALL_NS), True),
        (SECRET, False),
        ("secret", False),
        ("eyJ.a", False),
        ("APIabc.def.ghi", False),
    ],
)
def test_a_token_is_not_a_secret(key: str, expected: bool) -> None:
    assert is_token(key) is expected
