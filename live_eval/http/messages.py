"""Find the end of messages on an HTTP/1.1 connection (RFC 9112, 6). Pure.

A proxy that forwards exactly one message must agree with its peer on the message's end. Ambiguous messages
are rejected: several lengths, a length and a transfer coding, a coding other than ``chunked``, bare line
feeds, spaces before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

__all__ = ["HEAD_ENDS", "Body", "FramingError", "Head"]

HEAD_ENDS = b"\r\n\r\n"
"""The end of the headers."""

_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\0]*)")
_LENGTH = re.compile(rb"\d{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*)?\r\n")
_MOST_LINE_BYTES = 8 << 10
_MOST_TRAILERS = 100

_Line: TypeAlias = Literal["size", "end", "trailer"]


class FramingError(ValueError):
    """The end of a message is ambiguous."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a message, as sent.

    Args:
        fields: Header names in lower case, with their values.
        lines: Header lines, one per field.
    """

    line: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    lines: tuple[bytes, ...]

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a head, including `HEAD_ENDS`.

        Raises:
            FramingError: A line is not a header.
        """
        line, *lines = data.removesuffix(HEAD_ENDS).split(b"\r\n")
        found = [_FIELD.fullmatch(each) for each in lines]
        fields = tuple((each[1].lower(), each[2].strip(b" \t")) for each in found if each is not None)
        if len(fields) < len(lines) or b"\n" in line or b"\r" in line:
            raise FramingError("expected header lines of the form NAME: VALUE")
        return cls(line, fields, tuple(lines))

    @property
    def version(self) -> bytes:
        """The version in a request line or status line."""
        parts = self.line.split(b" ")
        return parts[0] if parts[0].startswith(b"HTTP/") else parts[-1]

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of a header."""
        return [value for each, value in self.fields if each == name]

    def lists(self, name: bytes, item: bytes) -> bool:
        """Return whether a header with comma-separated items contains an item, ignoring case."""
        items = b",".join(self.values(name)).lower().split(b",")
        return item in [each.strip() for each in items]

    def write(self, without: Sequence[bytes], *lines: bytes) -> bytes:
        """Return the head without some headers and with additional lines."""
        kept = [each for (name, _), each in zip(self.fields, self.lines, strict=True) if name not in without]
        return b"\r\n".join((self.line, *kept, *lines)) + HEAD_ENDS


class Body:
    """Find the end of a message body as its bytes arrive.

    Args:
        length: Length of the body in bytes; None if it is chunked.
    """

    def __init__(self, length: int | None) -> None:
        self._remaining = length or 0  # remaining bytes of the body or the current chunk
        self._chunked = length is None
        self._expected: _Line = "size"
        self._line = b""
        self._trailers = 0
        self._ended = length == 0

    @classmethod
    def after(cls, head: Head) -> Self | None:
        """Return the body that follows a head.

        Returns:
            The body; None if the head has neither a length nor a coding.

        Raises:
            FramingError: The length in the head is ambiguous.
        """
        lengths, codings = head.values(b"content-length"), head.values(b"transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise FramingError("expected one Content-Length or one Transfer-Encoding")
        if codings:
            if codings[0].lower() != b"chunked" or head.version != b"HTTP/1.1":
                raise FramingError("expected the Transfer-Encoding chunked, and HTTP/1.1")
            return cls(None)
        if lengths:
            if not _LENGTH.fullmatch(lengths[0]):
                raise FramingError("expected Content-Length to be a number")
            return cls(int(lengths[0]))
        return None

    @property
    def ended(self) -> bool:
        """Whether the complete body has arrived."""
        return self._ended

    def take(self, data: bytes) -> bytes:
        """Return the bytes that belong to the body; any others follow it.

        Raises:
            FramingError: A chunk is malformed.
        """
        at = 0
        while at < len(data) and not self._ended:
            if self._remaining > 0:
                step = min(self._remaining, len(data) - at)
                self._remaining -= step
                self._ended = self._remaining == 0 and not self._chunked
            else:
                step = self._read(data[at : at + _MOST_LINE_BYTES])
            at += step
        return data[:at]

    def _read(self, data: bytes) -> int:
        """Read the available bytes of a line between chunks, and return their number."""
        end = data.find(b"\n") + 1
        step = end or len(data)
        self._line += data[:step]
        if len(self._line) > _MOST_LINE_BYTES:
            raise FramingError(f"expected lines of at most {_MOST_LINE_BYTES} bytes between chunks")
        if end:
            line, self._line = self._line, b""
            self._read_line(line)
        return step

    def _read_line(self, line: bytes) -> None:
        match self._expected:
            case "size":
                if (chunk := _CHUNK.fullmatch(line)) is None:
                    raise FramingError("expected the length of a chunk in hexadecimal")
                self._remaining = int(chunk[1], 16)
                self._expected = "end" if self._remaining else "trailer"
            case "end":
                if line != b"\r\n":
                    raise FramingError("expected a line end after a chunk")
                self._expected = "size"
            case "trailer":
                self._trailers += 1
                if not _TRAILER.fullmatch(line) or self._trailers > _MOST_TRAILERS:
                    raise FramingError(f"expected at most {_MOST_TRAILERS} trailers NAME: VALUE")
                self._ended = line == b"\r\n"
