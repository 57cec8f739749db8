"""Ask an endpoint's webhook for the address of its WebSocket."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp

from live_eval.clients.transports._http_client import failure_of, http_session, read_body, request_url
from live_eval.clients.transports._http_errors import Address
from live_eval.clock import Clock
from live_eval.dialect import Dial
from live_eval.errors import FailureKind
from live_eval.http.hosts import is_internal


async def look_up(dial: Dial, clock: Clock, timeout_s: float) -> Dial:
    """POST the form of a dial's lookup, and return the connection parameters from the response.

    The response is untrusted: it may name another host, but not one that only this machine or its network can
    reach, and a webhook with TLS must name an address with TLS.

    Raises:
        ConnectError: The request failed, or the response is unusable.
    """
    assert dial.lookup is not None
    address = Address(dial, ("https", "http"))
    try:
        async with (
            await http_session(address, clock) as http,
            http.post(
                request_url(dial), data=dict(dial.lookup.form), headers=dial.headers, allow_redirects=False
            ) as response,
        ):
            body = await read_body(response)
    except (aiohttp.ClientError, OSError) as error:
        raise failure_of(error, address, timeout_s) from None
    if not 200 <= response.status < 300:
        raise address.refused(
            response.status,
            response.reason or "",
            response.headers,
            body,
            expected=f"{dial.lookup.expected} with HTTP status 200",
            otherwise=FailureKind.HANDSHAKE,
            wall_ns=clock.wall_ns(),
        )
    try:
        found = dial.lookup.read(body.decode(errors="replace"))
        why = _refusal(address, found)
    except ValueError as error:
        why = f"expected {dial.lookup.expected}: {error}"
    if why:
        raise address.failure(FailureKind.HANDSHAKE, why)
    return found


def _refusal(webhook: Address, found: Dial) -> str:
    """Return the reason why an address from a response must not be dialled; empty if it may.

    Raises:
        ValueError: The address cannot be parsed.
    """
    url = urlsplit(found.url)
    host = url.hostname or ""
    named = f"the webhook names {url.scheme}://{host}"
    if "@" in url.netloc:
        return f"{named} with a login: expected an address without one"
    if webhook.secure and url.scheme != "wss":
        return f"{named}: expected wss://, since the webhook uses TLS"
    if host != webhook.host and is_internal(host) and not is_internal(webhook.host):
        return f"{named}, an internal address: expected the webhook's host or a public one"
    return ""
