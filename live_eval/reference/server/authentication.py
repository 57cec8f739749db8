"""Authenticate clients and format refusals."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

import orjson
from aiohttp import web

from live_eval.errors import LiveEvalError
from live_eval.http.hosts import is_local_page, is_rebound
from live_eval.types import Secret

__all__ = [
    "KEY_PARAMETER",
    "SIGNATURE_PARAMETER",
    "TOKEN_PARAMETER",
    "RefusedError",
    "authenticate",
    "conversation_signature",
    "refused",
    "room_token",
]

KEY_PARAMETER = "key"
"""URL parameter in which Gemini's clients send the key."""

TOKEN_PARAMETER = "access_token"
"""URL parameter in which LiveKit's clients in browsers send the token."""

SIGNATURE_PARAMETER = "conversation_signature"
"""URL parameter of the signed addresses of ElevenLabs and Ultravox, with the `conversation_signature`."""

_KEY_HEADERS = ("x-goog-api-key", "api-key", "xi-api-key", "x-api-key")
_SCHEMES = ("bearer", "token")  # Deepgram uses "token"
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}}


class RefusedError(LiveEvalError):
    """Raised to refuse a client with this HTTP status, OpenAI's ``error.code``, and headers."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = {**_HEADERS.get(status, {}), **(headers or {})}


def authenticate(request: web.Request, token: Secret | None) -> None:
    """Check that a client presents the token in the form of any dialect, or raise `RefusedError`.

    Without a token, only web pages from other origins are refused, including those that use DNS rebinding.
    """
    if token is not None:
        wanted = token.reveal().encode()
        # Headers are decoded as UTF-8 with surrogate escapes.
        presented = (given.encode(errors="surrogatepass") for given in _presented(request))
        signature = request.query.get(SIGNATURE_PARAMETER, "").encode(errors="surrogatepass")
        if not (
            _is_signed(request, wanted)
            or any(_is_signed_token(given, wanted) for given in _presented(request))
            or hmac.compare_digest(signature, conversation_signature(token).encode())
            or any(hmac.compare_digest(given, wanted) for given in presented)
        ):
            raise RefusedError(401, "invalid_api_key", "Incorrect bearer token.")
        return
    # Web pages from other origins, open in a local browser, must not use the server.
    origin = request.headers.get("Origin")
    if origin is not None and not is_local_page(origin):
        raise RefusedError(403, "origin", "Web pages from other origins require a token.")
    host = request.headers.get("Host", "")
    if is_rebound(host):
        message = (
            f"Expected localhost or an IP address as the host, got {host[:100]!r}; other names require "
            "a token."
        )
        raise RefusedError(403, "host", message)


def conversation_signature(token: Secret) -> str:
    """Return a signature that admits the holder of a signed URL without the token."""
    return hmac.new(token.reveal().encode(), SIGNATURE_PARAMETER.encode(), hashlib.sha256).hexdigest()


def room_token(token: Secret | None, claims: Mapping[str, object]) -> str:
    """Return a LiveKit token (RFC 7519, HMAC-SHA256) with these claims, signed with the endpoint's token."""
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    signed = b".".join(base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=") for part in parts)
    secret = token.reveal().encode() if token is not None else b""
    return b".".join((signed, _signature(signed, secret))).decode()


def refused(refusal: RefusedError) -> web.Response:
    """Return a refusal as an HTTP response."""
    kind = "requests" if refusal.status == 429 else "invalid_request_error"
    problem = {"type": kind, "code": refusal.code, "message": str(refusal), "param": None}
    return web.Response(
        status=refusal.status,
        body=orjson.dumps({"error": problem}),
        content_type="application/json",
        headers=refusal.headers,
    )


def _is_signed(request: web.Request, token: bytes) -> bool:
    """Return whether the request has a valid Twilio signature: the HMAC-SHA1 of its URL."""
    given = request.headers.get("X-Twilio-Signature", "").encode(errors="surrogatepass")
    scheme = "wss" if request.secure else "ws"
    digest = hmac.digest(token, f"{scheme}://{request.host}{request.raw_path}".encode(), hashlib.sha1)
    return hmac.compare_digest(given, base64.b64encode(digest))


def _is_signed_token(given: str, secret: bytes) -> bool:
    """Return whether a value is one of LiveKit's tokens (RFC 7519), signed with the token as the secret."""
    signed, _, signature = given.encode(errors="surrogatepass").rpartition(b".")
    return hmac.compare_digest(signature, _signature(signed, secret))


def _signature(signed: bytes, secret: bytes) -> bytes:
    return base64.urlsafe_b64encode(hmac.digest(secret, signed, hashlib.sha256)).rstrip(b"=")


def _presented(request: web.Request) -> list[str]:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    found = [given.strip()] if scheme.lower() in _SCHEMES else []
    found += [request.headers[name] for name in _KEY_HEADERS if name in request.headers]
    return [*found, *request.query.getall(KEY_PARAMETER, []), *request.query.getall(TOKEN_PARAMETER, [])]
