"""Inject faults before a session starts: on TCP connections and on the session's HTTP request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Callable
from typing import cast

from aiohttp import web

from live_eval.clock import Clock
from live_eval.http.encryption import self_signed
from live_eval.reference.faults.catalogue import FaultName, Moment
from live_eval.reference.faults.fault_script import Fault, FaultSchedule, FaultScript
from live_eval.reference.server.authentication import RefusedError
from live_eval.sockets.resets import reset_on_close

__all__ = ["ConnectionFaults", "apply_request_faults"]

_ALERT = bytes.fromhex("15 03 03 00 02 02 28")  # TLS: fatal, handshake_failure
_PLAIN = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
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


class ConnectionFaults:
    """Apply the process's faults to the new connections that the schedule selects."""

    def __init__(self, script: FaultScript, schedule: FaultSchedule) -> None:
        self._script = script
        self._schedule = schedule
        self._tls: ssl.SSLContext | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Create the untrusted certificate, if needed."""
        fault = self._script.get(FaultName.TLS)
        if fault is not None and fault.value == "untrusted":
            self._tls = (await asyncio.to_thread(self_signed, "localhost")).context

    @property
    def opens_s(self) -> float | None:
        """Delay in seconds before the port starts listening; None if it never listens."""
        fault = self._script.get(FaultName.REFUSE)
        if fault is None:
            return 0.0
        return None if fault.value is None else fault.number / 1000

    def receive(self, sock: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        """Serve a new connection, or apply the fault that affects it."""
        script = self._schedule.of_connection(self._script)
        slow, tls = script.get(FaultName.SLOW_ACCEPT), script.get(FaultName.TLS)
        if script.has(FaultName.RESET):
            reset_on_close(sock)
            sock.close()
        elif tls is not None:
            task = asyncio.create_task(self._fail_tls(sock, str(tls.value)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif slow is not None:
            asyncio.get_running_loop().call_later(slow.number / 1000, serve, sock)
        else:
            serve(sock)

    async def _fail_tls(self, sock: socket.socket, how: str) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            if how == "untrusted":
                await loop.connect_accepted_socket(_FixedAnswer, sock, ssl=self._tls)
            else:
                if how == "reset":
                    reset_on_close(sock)
                said = {"alert": _ALERT, "plain": _PLAIN}.get(how, b"")
                await loop.connect_accepted_socket(lambda: _FixedAnswer(said), sock)


class _FixedAnswer(asyncio.Protocol):
    """Respond to any data with fixed bytes, then close."""

    def __init__(self, answer: bytes = b"") -> None:
        self._answer = answer
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # cast, because uvloop's transports do not derive from it

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)
        self._transport.close()


async def apply_request_faults(
    request: web.Request, script: FaultScript, clock: Clock
) -> web.Response | None:
    """Apply a session's faults to its request.

    Returns:
        The response to send instead of a session; None to run the session.

    Raises:
        RefusedError: The request is refused.
        ConnectionError: The connection has ended or is about to end.
    """
    for fault in script:
        match fault.name:
            case FaultName.SLOW_ANSWER:
                await clock.sleep_until(clock.now_ns() + fault.number * 1_000_000)
                if request.transport is None:
                    raise ConnectionResetError("the client has disconnected")
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
                raise ConnectionResetError("connection reset by an injected fault")
    return None


def _say(request: web.Request, answer: bytes) -> None:
    """Send bytes as the entire response, close the connection, and raise `ConnectionError`."""
    assert request.transport is not None
    request.transport.write(answer)
    request.transport.close()
    raise ConnectionResetError("connection closed by an injected fault")


def _retry_after(fault: Fault) -> dict[str, str]:
    return {} if fault.value is None else {"Retry-After": str(math.ceil(fault.number / 1000))}
