"""Timestamp UDP datagrams in the kernel, for libraries that create endpoints through the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from live_eval.sockets.stamps import ANCILLARY_BYTES, ArrivalStamps, Stamp

__all__ = ["DatagramDamage", "StampedDatagram", "stamped_datagrams"]

_DATAGRAM_BYTES = 65_536
_MOST_READS = 32


class StampedDatagram(bytes):
    """A datagram and its arrival timestamp."""

    stamp: Stamp


class DatagramDamage(Protocol):
    """An impaired datagram path."""

    def send(self, data: bytes, leave: Callable[[], None]) -> None:
        """Send a datagram by calling `leave`: now, later, twice or never."""
        ...

    def receive(self, datagram: StampedDatagram, deliver: Callable[[StampedDatagram], None]) -> None:
        """Call `deliver` with a datagram, stamped at the call: now, later, twice or never."""
        ...


@contextlib.contextmanager
def stamped_datagrams(stamps: ArrivalStamps, damage: DatagramDamage | None = None) -> Iterator[None]:
    """Make new UDP endpoints deliver datagrams as `StampedDatagram`."""
    # aioice uses only sockets that it creates through the loop, so replace the loop's method.
    methods = vars(asyncio.get_running_loop())
    methods.setdefault("create_datagram_endpoint", _create_datagram_endpoint)
    token = _wanted.set(_Wanted(stamps, damage))
    try:
        yield
    finally:
        _wanted.reset(token)


class _Wanted(NamedTuple):
    stamps: ArrivalStamps
    damage: DatagramDamage | None


_wanted: ContextVar[_Wanted | None] = ContextVar("_wanted", default=None)


async def _create_datagram_endpoint(
    factory: Callable[[], asyncio.DatagramProtocol],
    local_addr: tuple[str, int] | None = None,
    **options: Any,
) -> tuple[asyncio.DatagramTransport, asyncio.DatagramProtocol]:
    """Open a stamping socket if requested and given only a local address, else the loop's own."""
    loop, wanted = asyncio.get_running_loop(), _wanted.get()
    if wanted is None or local_addr is None or options:
        return await type(loop).create_datagram_endpoint(loop, factory, local_addr, **options)
    ((family, kind, proto, _, address), *_) = await loop.getaddrinfo(*local_addr, type=socket.SOCK_DGRAM)
    sock = socket.socket(family, kind, proto)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    protocol = factory()
    return _Datagrams(sock, wanted, protocol), protocol


class _Datagrams(asyncio.DatagramTransport):
    """A UDP socket that drops datagrams which the kernel does not accept immediately."""

    def __init__(self, sock: socket.socket, wanted: _Wanted, protocol: asyncio.DatagramProtocol) -> None:
        super().__init__({"socket": sock, "sockname": sock.getsockname()})
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._stamps, self._damage = wanted
        self._protocol = protocol
        self._closing = False
        sock.setblocking(False)
        self._stamps.enable(sock)
        self._loop.add_reader(sock.fileno(), self._readable)
        protocol.connection_made(self)

    def sendto(self, data: bytes | bytearray | memoryview, addr: Any = None) -> None:
        """Send a datagram directly or through the impaired path."""
        if self._damage is None:
            self._leave(data, addr)
        else:
            self._damage.send(bytes(data), functools.partial(self._leave, data, addr))

    def _leave(self, data: bytes | bytearray | memoryview, addr: Any) -> None:
        if self._closing:
            return
        try:
            self._sock.sendto(data, addr)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._protocol.error_received(error)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close the socket."""
        if not self._closing:
            self._closing = True
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_soon(self._finish)

    def abort(self) -> None:
        self.close()

    def _readable(self) -> None:
        for _ in range(_MOST_READS):
            try:
                data, ancillary, _, address = self._sock.recvmsg(_DATAGRAM_BYTES, ANCILLARY_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._protocol.error_received(error)
                return
            datagram = StampedDatagram(data)
            datagram.stamp = self._stamps.stamp(ancillary)
            if self._damage is None:
                self._protocol.datagram_received(datagram, address)
            else:
                self._damage.receive(datagram, functools.partial(self._deliver, address))
            if self._closing:
                return

    def _deliver(self, address: Any, datagram: StampedDatagram) -> None:
        if not self._closing:
            self._protocol.datagram_received(datagram, address)

    def _finish(self) -> None:
        self._sock.close()
        self._protocol.connection_lost(None)
        self._protocol = asyncio.DatagramProtocol()  # no cycle: the protocol refers to this transport
