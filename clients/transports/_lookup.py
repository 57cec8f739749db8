"""Request the address of a WebSocket from an endpoint."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp

from live_eval.clients.transports._http_client import failure_of, http_session, read_body, request_url
from live_eval.clients.transports._http_errors import Address
from live_eval.clock import Clock
from live_eval.dialect import Dial, Lookup
from live_eval.errors import FailureKind
from live_eval.http.hosts import is_internal


async def look_up(dial: Dial, clock: Clock, timeout_s: float) -> Dial:
    """Send a lookup request and return the connection parameters from its response.

    The response is untrusted. It may name another public host, but not one on this machine or its local
    network; a response over TLS must name a TLS address.

    Raises:
        ConnectError: The request failed, or the response is unusable.
    """
    assert dial.lookup is not None
    form, body_json = dial.lookup.form, dial.lookup.json
    address = Address(dial, ("https", "http"))
    try:
        async with (
            await http_session(address, clock) as http,
            http.request(
                "GET" if form is None and body_json is None else "POST",
                request_url(dial),
                data=None if form is None else dict(form),
                json=body_json,
                headers=dial.headers,
                allow_redirects=False,
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
            otherwise=FailureKind.SESSION_REFUSED,
            wall_ns=clock.wall_ns(),
        )
    return found_in(body.decode(errors="replace"), dial.lookup, address)


def found_in(text: str, lookup: Lookup, address: Address) -> Dial:
    """Return the connection parameters in the response to a lookup; see `look_up`.

    Raises:
        ConnectError: The response is unusable.
    """
    try:
        found = lookup.read(text)
        why = _refusal(address, found)
    except ValueError as error:
        why = f"expected {lookup.expected}: {error}"
    if why:
        raise address.failure(FailureKind.HANDSHAKE, why)
    return found


def _refusal(asked: Address, found: Dial) -> str:
    """Return why an address from a response must not be used, or an empty string if it may.

    Raises:
        ValueError: The address cannot be parsed.
    """
    url = urlsplit(found.url)
    host = url.hostname or ""
    named = f"the response names {url.scheme}://{host}"
    if "@" in url.netloc:
        return f"{named} with a login: expected an address without one"
    if asked.secure and url.scheme != "wss":
        return f"{named}: expected wss://, since the request used TLS"
    if host != asked.host and is_internal(host) and not is_internal(asked.host):
        return f"{named}, an internal address: expected the requested host or a public one"
    return ""
