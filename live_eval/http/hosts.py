"""Recognise hosts that refer to this machine, in URLs and in the ``Host`` header."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

__all__ = ["host_of", "is_address", "is_local_page", "is_loopback", "is_rebound"]

_HOST = re.compile(r"(?P<name>\[[^]]*\]|[^][:]*)(?::(?P<port>\d{1,5}))?", re.ASCII)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is loopback."""
    host = _usual(host)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ip_address(host).is_loopback


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


def is_local_page(origin: str) -> bool:
    """Return whether an ``Origin`` belongs to a web page served by this machine."""
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


def is_rebound(header: str) -> bool:
    """Return whether a request to this machine has another host in its ``Host`` header (DNS rebinding).

    A site may make its name resolve to this machine, so that its pages count as same-origin. An address
    cannot be rebound.
    """
    found = host_of(header)
    return found is None or not (is_loopback(found[0]) or is_address(found[0]))
