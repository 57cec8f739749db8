"""Control access to the studio: require a token, and refuse requests from other sites' pages.

Every request must name this server as its host, which prevents DNS rebinding, and contain a token, which is
moved from the link to a cookie. Requests from pages with a different origin are refused. The studio's pages
load nothing from other hosts.

The owner's token grants full access; the listeners' token grants access only to handlers marked with
`for_listeners`. A listener's browser also receives a random cookie that identifies it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from aiohttp import web

from live_eval.http.hosts import host_of, is_address, is_loopback
from live_eval.studio.answers import refusal
from live_eval.types import Secret

__all__ = [
    "GUARD",
    "TOKEN_PARAMETER",
    "Guard",
    "browser_key",
    "for_listeners",
    "is_listener",
    "set_headers",
]

TOKEN_PARAMETER = "token"
"""The query parameter of the link that contains the token."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_T = TypeVar("_T", bound=Callable[..., Any])
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LISTENERS = "listeners"
_BROWSER_COOKIE = "live-eval-browser"
_BROWSER_COOKIE_AGE_S = 365 * 86_400
_NEVER_CHANGES = ("GET", "HEAD")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; frame-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def _cookie_name(port: int, who: str = "studio") -> str:
    """Return a cookie name that includes the port, because browsers share cookies across a host's ports."""
    return f"live-eval-{who}-{port}"


def for_listeners(handler: _T) -> _T:
    """Mark a handler as open to listeners."""
    handler.__dict__["for_listeners"] = True
    return handler


class Guard:
    """Admits only requests that have a token and are from the studio's own pages.

    Args:
        host: The studio's bind address.
        listeners: Token of listeners; None to admit no listeners.
    """

    def __init__(self, token: Secret, host: str = "127.0.0.1", listeners: Secret | None = None) -> None:
        self._token = token.reveal().encode()
        self._listeners = listeners.reveal().encode() if listeners is not None else None
        self._host = host

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Handle a request, or refuse it."""
        port = _port_of(request)
        if not self.serves(request.headers.get("Host", ""), port, request.scheme):
            return refusal(
                request,
                403,
                "host",
                f"expected the address that live-eval studio printed, with port {port}; to reach it through "
                "a tunnel, forward the same port",
            )
        origin = request.headers.get("Origin")
        changes = request.method not in _NEVER_CHANGES
        if (origin is not None or changes) and origin != f"{request.scheme}://{request.headers['Host']}":
            return refusal(request, 403, "origin", "only the studio's own pages may send requests")
        if request.path == "/" and TOKEN_PARAMETER in request.query:
            return self._welcome(request, port)
        given = request.cookies.get(_cookie_name(port, _LISTENERS), "")
        if self.is_owner(request):
            return await handler(request)
        if not _equal(given, self._listeners):
            return refusal(request, 401, "token", "open the link that live-eval studio printed")
        if not getattr(request.match_info.handler, "for_listeners", False):
            return refusal(request, 403, "listener", "this link opens listening tests only")
        return await handler(request)

    def is_owner(self, request: web.Request) -> bool:
        """Return whether a request contains the owner's token."""
        return _equal(request.cookies.get(_cookie_name(_port_of(request)), ""), self._token)

    def serves(self, host: str, port: int, scheme: str = "http") -> bool:
        """Return whether a request's host and port refer to this server."""
        named = host_of(host)
        # Browsers omit the default port.
        if named is None or (named[1] or _DEFAULT_PORTS[scheme]) != port:
            return False
        name = named[0]
        if is_loopback(self._host):
            return name in _LOCAL_NAMES
        # DNS names can be rebound to this address; numeric addresses cannot.
        return name in (*_LOCAL_NAMES, self._host.lower()) or is_address(name)

    def _welcome(self, request: web.Request, port: int) -> web.StreamResponse:
        """Move the token from the link into a cookie, and redirect to the page."""
        token = request.query[TOKEN_PARAMETER]
        is_owner = _equal(token, self._token)
        if not is_owner and not _equal(token, self._listeners):
            return refusal(request, 401, "token", "this link belongs to another studio, or to an earlier one")
        response = web.Response(status=303, headers={"Location": "/" if is_owner else "/#/listen"})
        name = _cookie_name(port) if is_owner else _cookie_name(port, _LISTENERS)
        response.set_cookie(name, token, httponly=True, samesite="Strict", path="/", secure=request.secure)
        if not is_owner:
            own = request.cookies.get(_BROWSER_COOKIE) or secrets.token_hex(16)
            response.set_cookie(
                _BROWSER_COOKIE,
                own,
                max_age=_BROWSER_COOKIE_AGE_S,
                httponly=True,
                samesite="Strict",
                path="/",
                secure=request.secure,
            )
        return response


GUARD = web.AppKey("guard", Guard)


def is_listener(request: web.Request) -> bool:
    """Return whether an admitted request is from a listener."""
    return not request.app[GUARD].is_owner(request)


def browser_key(request: web.Request) -> str | None:
    """Return a hash of the cookie that the link set in a listener's browser; None without a cookie.

    The hash can be stored safely, because the cookie cannot be derived from it.
    """
    own = request.cookies.get(_BROWSER_COOKIE)
    return hashlib.sha256(own.encode(errors="surrogatepass")).hexdigest() if own else None


def _equal(given: str, token: bytes | None) -> bool:
    # Headers are decoded as UTF-8 with surrogate escapes.
    return token is not None and hmac.compare_digest(given.encode(errors="surrogatepass"), token)


def _port_of(request: web.Request) -> int:
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return int(name[1]) if name else 0


async def set_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the default security headers to a response."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
