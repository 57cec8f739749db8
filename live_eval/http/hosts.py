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
    """Return whether a host name or address is a loopback one."""
    host = _usual(host)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ip_address(host).is_loopback


def _usual(host: str) -> str:
    """Return a host in its usual form: lower case, without a final dot."""
    return host.lower().rstrip(".")


def host_of(header: str) -> tuple[str, int | None] | None:
    """Return the name, in lower case, and the port of a header ``Host``; None if it is malformed.

    >>> host_of("[::1]:8765")
    ('::1', 8765)
    """
    found = _HOST.fullmatch(header)
    name = "" if found is None else _usual(found["name"].strip("[]"))
    if found is None or not name:
        return None
    return name, None if found["port"] is None else int(found["port"])


def is_local_page(origin: str) -> bool:
    """Return whether an ``Origin`` belongs to a web page of this machine."""
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


def is_rebound(header: str) -> bool:
    """Return whether the header ``Host`` of a request to this machine names another host (DNS rebinding).

    A site may let its name resolve to this machine, so that its pages count as ours. An address cannot be
    rebound.
    """
    found = host_of(header)
    return found is None or not (is_loopback(found[0]) or is_address(found[0]))
