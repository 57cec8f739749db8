"""Who may use the studio: only the holder of a token, only from pages of the studio itself.

Every request must name this server as its host, so that no other site's name can be rebound to it; every
request needs a token, which the link carries and a cookie keeps; and a request from a page of another
origin is refused. What is served loads nothing from other hosts.

There are two tokens: the owner's opens everything, the listeners' only what is marked with `for_listeners`.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from aiohttp import web

from live_eval.http.hosts import host_of, is_address, is_loopback
from live_eval.studio.answers import refusal
from live_eval.types import Secret

__all__ = ["GUARD", "TOKEN_PARAMETER", "Guard", "for_listeners", "is_listener", "set_headers"]

TOKEN_PARAMETER = "token"
"""Parameter of the link that carries the token."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_T = TypeVar("_T", bound=Callable[..., Any])
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
_HTTP_PORT = 80
_LISTENERS = "listeners"
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
    """Return the name of a link's cookie: browsers share cookies between the ports of a host."""
    return f"live-eval-{who}-{port}"


def for_listeners(handler: _T) -> _T:
    """Let listeners send the requests that a handler answers, too."""
    handler.__dict__["for_listeners"] = True
    return handler


class Guard:
    """Admits requests that carry a token and come from the studio itself.

    Args:
        token: The token of the owner's link, which opens everything.
        host: The address that the studio is bound to.
        listeners: The token of the listeners' link, which opens Listen; None for no such link.
    """

    def __init__(self, token: Secret, host: str = "127.0.0.1", listeners: Secret | None = None) -> None:
        self._token = token.reveal().encode()
        self._listeners = listeners.reveal().encode() if listeners is not None else None
        self._host = host

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer a request, or refuse it."""
        port = _port_of(request)
        if not self.serves(request.headers.get("Host", ""), port):
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
            return refusal(
                request, 403, "origin", "only the studio's own pages may use it, this is another's"
            )
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
        """Return whether a request carries the owner's token."""
        return _equal(request.cookies.get(_cookie_name(_port_of(request)), ""), self._token)

    def serves(self, host: str, port: int) -> bool:
        """Return whether a request's host is a name of this server.

        Args:
            host: The request's header ``Host``.
            port: The port that the request came to.
        """
        named = host_of(host)
        # Browsers leave out the port that is HTTP's own.
        if named is None or (named[1] or _HTTP_PORT) != port:
            return False
        name = named[0]
        if is_loopback(self._host):
            return name in _LOCAL_NAMES
        # Only a name can be rebound to this address, a number cannot.
        return name in (*_LOCAL_NAMES, self._host.lower()) or is_address(name)

    def _welcome(self, request: web.Request, port: int) -> web.StreamResponse:
        """Keep the token of the link in a cookie and take it out of the browser's address."""
        token = request.query[TOKEN_PARAMETER]
        is_owner = _equal(token, self._token)
        if not is_owner and not _equal(token, self._listeners):
            return refusal(request, 401, "token", "this link is of another studio, or of an earlier one")
        response = web.Response(status=303, headers={"Location": "/" if is_owner else "/#/listen"})
        name = _cookie_name(port) if is_owner else _cookie_name(port, _LISTENERS)
        response.set_cookie(name, token, httponly=True, samesite="Strict", path="/")
        return response


GUARD = web.AppKey("guard", Guard)


def is_listener(request: web.Request) -> bool:
    """Return whether a request that has been admitted is a listener's."""
    return not request.app[GUARD].is_owner(request)


def _equal(given: str, token: bytes | None) -> bool:
    # Headers are decoded as UTF-8 with surrogate escapes.
    return token is not None and hmac.compare_digest(given.encode(errors="surrogatepass"), token)


def _port_of(request: web.Request) -> int:
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return int(name[1]) if name else 0


async def set_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every answer has, unless it sets its own."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
