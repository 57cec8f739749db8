"""Recognise hosts that refer to this machine, in URLs and in the ``Host`` header."""

from __future__ import annotations

import re
import socket
from collections.abc import Container
from ipaddress import ip_address
from urllib.parse import urlsplit

__all__ = [
    "address_for_others",
    "host_of",
    "is_address",
    "is_any",
    "is_internal",
    "is_local_page",
    "is_loopback",
    "is_rebound",
    "is_url",
]

_ELSEWHERE = ("192.0.2.1", 9)  # reserved for documentation (RFC 5737), so no machine has this address
_HOST = re.compile(r"(?P<name>\[[^]]*\]|[^][:]*)(?::(?P<port>\d{1,5}))?", re.ASCII)


def address_for_others() -> str:
    """Return the address at which other devices on the network can reach this machine.

    This is the source address for the Internet, determined without sending; ``127.0.0.1`` without a network.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_any(host: str) -> bool:
    """Return whether a bind host is a wildcard address (all local interfaces)."""
    return not host or (is_address(host) and ip_address(host).is_unspecified)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is loopback."""
    host = _usual(host)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ip_address(host).is_loopback


def is_internal(host: str) -> bool:
    """Return whether a host is this machine or has an address that is not public.

    >>> [is_internal(host) for host in ("localhost", "10.0.0.7", "169.254.169.254", "example.org", "8.8.8.8")]
    [True, True, True, False, False]
    """
    host = _usual(host)
    return is_loopback(host) or (is_address(host) and not ip_address(host).is_global)


def _usual(host: str) -> str:
    """Return a host in normal form: lower case, without a trailing dot."""
    return host.lower().rstrip(".")


def host_of(header: str) -> tuple[str, int | None] | None:
    """Return the lower-case name and the port of a ``Host`` header; None if the header is malformed.

    >>> host_of("[::1]:8765")
    ('::1', 8765)
    """
    found = _HOST.fullmatch(header)
    name = "" if found is None else _usual(found["name"].strip("[]"))
    if found is None or not name:
        return None
    return name, None if found["port"] is None else int(found["port"])


def is_url(text: str, schemes: Container[str]) -> bool:
    """Return whether a text is a URL with a host and one of these schemes, and a valid port if it has one."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_local_page(origin: str) -> bool:
    """Return whether an ``Origin`` belongs to a web page served by this machine."""
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


def is_rebound(header: str) -> bool:
    """Return whether a request to this machine has another host in its ``Host`` header (DNS rebinding).

    A site can make its own name resolve to this machine, so that its pages count as same-origin. IP addresses
    cannot be rebound.
    """
    found = host_of(header)
    return found is None or not (is_loopback(found[0]) or is_address(found[0]))
