"""Faults on the HTTP request that asks for a session."""

from __future__ import annotations

import math

from aiohttp import web

from live_eval.clock import Clock
from live_eval.reference.faults.catalogue import FaultName, Moment
from live_eval.reference.faults.script import Fault, FaultScript
from live_eval.reference.server.authentication import RefusedError
from live_eval.sockets.resets import reset_on_close

__all__ = ["apply_request_faults"]

_ON_PURPOSE = "Refused on purpose."
_CODES = {
    401: "invalid_api_key",
    403: "insufficient_permissions",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_error",
}
_PAGE = b"<!doctype html><title>Welcome</title>"
_NOT_HTTP = b"SSH-2.0-OpenSSH_9.9\r\n"
_BAD_ACCEPT = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: bm90IHdoYXQgeW91IGFza2Vk\r\n\r\n"
)


async def apply_request_faults(
    request: web.Request, script: FaultScript, clock: Clock
) -> web.Response | None:
    """Apply the faults of a session to its request.

    Returns:
        The answer in place of a session; None for a session.

    Raises:
        RefusedError: The request is refused.
        ConnectionError: The connection has ended, or is about to.
    """
    for fault in script:
        match fault.name:
            case FaultName.SLOW_ANSWER:
                await clock.sleep_until(clock.now_ns() + fault.number * 1_000_000)
                if request.transport is None:
                    raise ConnectionResetError("the client has gone")
            case FaultName.STATUS:
                raise RefusedError(fault.number, _CODES.get(fault.number, "on_purpose"), _ON_PURPOSE)
            case FaultName.RATE_LIMIT:
                raise RefusedError(429, _CODES[429], _ON_PURPOSE, headers=_retry_after(fault))
            case FaultName.UNAVAILABLE:
                raise RefusedError(503, _CODES[503], _ON_PURPOSE, headers=_retry_after(fault))
            case FaultName.REDIRECT:
                return web.Response(status=302, headers={"Location": "https://elsewhere.invalid/"})
            case FaultName.NO_UPGRADE:
                return web.Response(body=_PAGE, content_type="text/html")
            case FaultName.NOT_HTTP:
                _say(request, _NOT_HTTP)
            case FaultName.BAD_ACCEPT:
                _say(request, _BAD_ACCEPT)
            case FaultName.RESET if fault.moment is Moment.REQUEST:
                assert request.transport is not None
                reset_on_close(request.transport.get_extra_info("socket"))
                request.transport.abort()
                raise ConnectionResetError("reset on purpose")
    return None


def _say(request: web.Request, answer: bytes) -> None:
    """Answer with these bytes and nothing else, and close.

    Raises:
        ConnectionError: Always.
    """
    assert request.transport is not None
    request.transport.write(answer)
    request.transport.close()
    raise ConnectionResetError("closed on purpose")


def _retry_after(fault: Fault) -> dict[str, str]:
    return {} if fault.value is None else {"Retry-After": str(math.ceil(fault.number / 1000))}
