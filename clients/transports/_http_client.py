"""Create aiohttp sessions without redirects, read bounded bodies, and map errors to failures."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler

from live_eval.clients.transports._http_errors import Address, system_tls
from live_eval.clock import Clock
from live_eval.dialect import Dial
from live_eval.errors import ConnectError, FailureKind
from live_eval.http.hosts import is_loopback
from live_eval.impair import Impairment
from live_eval.sockets.impaired import ImpairedStream

_BODY_BYTES = 1 << 20


async def http_session(
    address: Address, clock: Clock, impairment: Impairment | None = None
) -> aiohttp.ClientSession:
    """Return a session for requests to an address; the caller closes it.

    Proxies from the environment are used, except for loopback addresses. An impairment affects the bytes of
    each connection.
    """
    tls = await asyncio.to_thread(system_tls) if address.secure else True
    if impairment is None:
        connector = aiohttp.TCPConnector(ssl=tls)
    else:
        connector = _ImpairedConnector(impairment, clock, ssl=tls)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=not is_loopback(address.host),
        raise_for_status=False,
    )


def request_url(dial: Dial) -> str:
    """Return the URL of a request, without its credentials if a header authenticates."""
    if not any(name.lower() == "authorization" for name in dial.headers):
        return dial.url
    parts = urlsplit(dial.url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


async def read_body(response: aiohttp.ClientResponse, within_s: float | None = None) -> bytes:
    """Return up to 1 MiB of a response body, or what arrives within `within_s` seconds."""
    body = bytearray()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) >= _BODY_BYTES:
                    break
    return bytes(body[:_BODY_BYTES])


def failure_of(error: aiohttp.ClientError | OSError, address: Address, timeout_s: float) -> ConnectError:
    """Return the failure for an aiohttp error; `timeout_s` is the timeout of the request."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return address.unreachable(_as_os_error(error.certificate_error), timeout_s)
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        why = f"the proxy from the environment failed: {error}"
        return address.failure(FailureKind.CONNECT_FAILED, why)
    if isinstance(error, aiohttp.ClientConnectorError):
        return address.unreachable(error.os_error, timeout_s)
    if isinstance(error, OSError):
        return address.unreachable(error, timeout_s)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        why = "expected an HTTP response, but the connection closed before it was complete"
        return address.failure(FailureKind.CONNECT_FAILED, why)
    if isinstance(error, aiohttp.ClientResponseError):
        return address.failure(FailureKind.HANDSHAKE, f"expected an HTTP response: {error.message}")
    return address.failure(FailureKind.CONNECT_FAILED, f"{type(error).__name__}: {error}")


class _ImpairedConnector(aiohttp.TCPConnector):
    """Impair the bytes inside TLS, as the WebSocket transport does."""

    def __init__(self, impairment: Impairment, clock: Clock, **settings: Any) -> None:
        super().__init__(**settings)
        self._impairment = impairment
        self._clock = clock
        self._streams: WeakSet[ImpairedStream] = WeakSet()

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections immediately, including connection attempts."""
        for stream in self._streams:
            stream.abort()
        await super().close(abort_ssl=abort_ssl)

    async def _create_connection(self, *args: Any) -> ResponseHandler:
        # aiohttp's own connectors, such as `UnixConnector`, also override this private method.
        protocol = await super()._create_connection(*args)
        transport = protocol.transport
        if transport is not None:  # None if the connection has already ended
            impaired = ImpairedStream(protocol, self._impairment, self._clock)
            transport.set_protocol(impaired)
            impaired.connection_made(transport)
            self._streams.add(impaired)
        return protocol


def _as_os_error(error: Exception) -> OSError:
    return error if isinstance(error, OSError) else OSError(str(error))
