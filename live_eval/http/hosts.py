"""Hosts that mean this machine, as URLs and the header ``Host`` write them."""

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
    """Return whether a host name or address means this machine and is reachable only from it."""
    host = _usual(host)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ip_address(host).is_loopback


def _usual(host: str) -> str:
    """Return a host as it is usually written: case and a dot at the end mean nothing."""
    return host.lower().rstrip(".")


def host_of(header: str) -> tuple[str, int | None] | None:
    """Return the name, in lower case, and the port of a header ``Host``; None if it is not one.

    >>> host_of("[::1]:8765")
    ('::1', 8765)

    Args:
        header: Its value; an IPv6 address stands in brackets.
    """
    found = _HOST.fullmatch(header)
    name = "" if found is None else _usual(found["name"].strip("[]"))
    if found is None or not name:
        return None
    return name, None if found["port"] is None else int(found["port"])


def is_local_page(origin: str) -> bool:
    """Return whether an ``Origin`` is that of a web page which this machine serves."""
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


def is_rebound(header: str) -> bool:
    """Return whether a request to this machine names a host that is not this machine.

    A web page may have the name of its site resolved to this machine (DNS rebinding), and then counts as one
    of our own pages. A number cannot be rebound.

    Args:
        header: The request's header ``Host``.
    """
    found = host_of(header)
    return found is None or not (is_loopback(found[0]) or is_address(found[0]))
