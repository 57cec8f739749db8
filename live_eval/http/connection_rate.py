"""Limit the rate of new connections per address. Pure."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

__all__ = ["ConnectionRate"]

_MOST_ADDRESSES = 4_096
_IPV6_NETWORK_BYTES = 8  # one customer usually has at least a /64


class ConnectionRate:
    """Limit the rate of new connections per address.

    Loopback addresses are exempt: since all clients on this machine share one address, one client could block
    the others.

    Args:
        per_s: Average number of new connections per second.
        burst: Maximum number of new connections in a burst.
    """

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._interval_ns = round(1e9 / per_s)
        self._ahead_ns = (burst - 1) * self._interval_ns
        self._next_ns: OrderedDict[bytes, int] = OrderedDict()  # the least recently seen address first

    def admits(self, address: str, at_ns: int) -> bool:
        """Return whether an address may connect at `at_ns`, which must not decrease; count it if so."""
        client = ip_address(address)
        if isinstance(client, IPv6Address) and client.ipv4_mapped is not None:
            client = client.ipv4_mapped
        if client.is_loopback:
            return True
        key = client.packed[:_IPV6_NETWORK_BYTES]
        next_ns = max(self._next_ns.get(key, at_ns), at_ns)
        if next_ns - at_ns > self._ahead_ns:
            return False
        self._next_ns[key] = next_ns + self._interval_ns
        self._next_ns.move_to_end(key)
        if len(self._next_ns) > _MOST_ADDRESSES:
            self._next_ns.popitem(last=False)
        return True
