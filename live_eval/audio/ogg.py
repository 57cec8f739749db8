"""Read and write the pages of Ogg-Opus streams, incrementally. Pure.

Unlike in libraries for files, the reader yields a packet as soon as its last byte has arrived, and the writer
puts each packet in a page of its own. Sources: RFC 3533 (Ogg), RFC 7845 (Opus in Ogg).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from live_eval.errors import AudioError, FailureKind

__all__ = ["OggPages", "OggReader", "OggWriter"]

_CAPTURE = b"OggS"
_HEADER = struct.Struct("<4sBBqIIIB")
_CRC_AT = 22
_CONTINUED, _FIRST = 1, 2
_LACING = 255
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class OggPages:
    """Splits a stream into pages, because a page may arrive in several messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def push(self, data: bytes) -> bytes:
        """Add bytes, and return the complete pages; the beginning of the next page is kept.

        Bytes that are not part of a page are returned too; `OggReader` reports them.
        """
        buffer, at = self._buffer + data, 0
        while _CAPTURE.startswith(buffer[at : at + 4]) and (size := _page_size(buffer, at)) is not None:
            at += size
        if not _CAPTURE.startswith(buffer[at : at + 4]):
            at = len(buffer)
        self._buffer = buffer[at:]
        return buffer[:at]


class OggReader:
    """Reads the packets of one logical stream incrementally."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._partial: bytearray | None = None
        self._sequence: int | None = None

    def push(self, data: bytes) -> Iterator[bytes]:
        """Add bytes, and yield the packets that they complete, including header packets.

        The first page of a logical stream resets the reader.

        Raises:
            AudioError: The bytes are not Ogg pages, or a page has a wrong checksum (the bytes up to its end
                are dropped) or is out of order (its packets are yielded first). The reader accepts more bytes
                afterwards.
        """
        self._buffer += data
        while (page := self._page()) is not None:
            yield from self._packets(page)

    def _page(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) >= 4 and buffer[:4] != _CAPTURE:
            begin = bytes(buffer[:8])
            found = buffer.find(_CAPTURE, 1)
            del buffer[: found if found != -1 else len(buffer)]
            raise _broken(f"expected a page that begins with 'OggS', got {begin!r}")
        size = _page_size(buffer, 0)
        if size is None:
            return None
        page = bytes(buffer[:size])
        del buffer[:size]
        stated = int.from_bytes(page[_CRC_AT : _CRC_AT + 4], "little")
        actual = _crc(page[:_CRC_AT] + bytes(4) + page[_CRC_AT + 4 :])
        if stated != actual:
            self._partial = None
            raise _broken(
                f"expected the checksum {stated:#010x} for a page of {size} bytes, got {actual:#010x}"
            )
        return page

    def _packets(self, page: bytes) -> Iterator[bytes]:
        _, version, flags, _, _, sequence, _, segments = _HEADER.unpack_from(page)
        if version != 0:
            raise _broken(f"expected version 0 of Ogg, got {version}")
        if flags & _FIRST:
            self._partial, self._sequence = None, None
        expected, self._sequence = self._sequence, sequence
        if not flags & _CONTINUED or expected is None:
            self._partial = None
        at = _HEADER.size + segments
        packet = self._partial or bytearray()
        skip = bool(flags & _CONTINUED) and self._partial is None
        for lacing in page[_HEADER.size : at]:
            packet += page[at : at + lacing]
            at += lacing
            if lacing < _LACING:
                if not skip:
                    yield bytes(packet)
                packet, skip = bytearray(), False
        self._partial = packet if segments and page[_HEADER.size + segments - 1] == _LACING else None
        if expected is not None and sequence != (expected + 1) & 0xFFFFFFFF:
            raise _broken(f"expected page {expected + 1}, got page {sequence}")


def _page_size(buffer: bytes | bytearray, at: int) -> int | None:
    """Return the size in bytes of the page at an index, or None if it is incomplete."""
    head = at + _HEADER.size
    if len(buffer) < head:
        return None
    lacing = buffer[head : head + buffer[head - 1]]
    end = head + buffer[head - 1] + sum(lacing)
    return end - at if len(lacing) == buffer[head - 1] and len(buffer) >= end else None


class OggWriter:
    """Writes one logical stream, with one packet per page.

    Args:
        serial: Serial number of the stream.
    """

    def __init__(self, serial: int = 1) -> None:
        self._serial = serial
        self._sequence = 0

    def page(self, packet: bytes, granule: int) -> bytes:
        """Return a page that contains one packet.

        Args:
            packet: At most 65,024 bytes.
            granule: Position at the end of the packet; for Opus, in samples at 48 kHz.
        """
        if len(packet) > _LACING * _LACING - 1:
            raise ValueError(f"expected a packet of at most 65024 bytes, got {len(packet)}")
        lacing = bytes([_LACING] * (len(packet) // _LACING) + [len(packet) % _LACING])
        flags = _FIRST if self._sequence == 0 else 0
        header = _HEADER.pack(_CAPTURE, 0, flags, granule, self._serial, self._sequence, 0, len(lacing))
        self._sequence += 1
        page = header + lacing + packet
        return page[:_CRC_AT] + _crc(page).to_bytes(4, "little") + page[_CRC_AT + 4 :]


def _broken(what: str) -> AudioError:
    return AudioError(FailureKind.MALFORMED_AUDIO, f"broken Ogg stream: {what}")


def _crc(data: bytes) -> int:
    """Return the Ogg checksum (RFC 3533, 6): zlib's CRC with reversed bits and without inversions."""
    mirrored = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)
