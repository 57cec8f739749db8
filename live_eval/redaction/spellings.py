"""Compute the spellings of a secret in text: plain, and as encoded in messages and logs."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote_plus

__all__ = ["nested", "spellings"]

_BACKSLASHED = re.compile(r"\\+(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)


def spellings(secret: str) -> frozenset[str]:
    """Return the fixed spellings of a secret: plain, JSON, HTML, percent-encoding, hexadecimal and base64.

    Args:
        secret: At least eight bytes in UTF-8, since the base64 digits of shorter secrets are too common.

    >>> "c2VjcmV0LTEyM" in spellings("secret-123")  # base64.b64encode(b"secret-123") is c2VjcmV0LTEyMw==
    True
    """
    data = secret.encode("utf-8", "surrogatepass")
    found = {
        secret,
        json.dumps(secret)[1:-1],
        html.escape(secret),
        quote(data, safe=""),
        data.hex(),
        data.hex().upper(),
    }
    for before in range(3):  # possible offsets within a group of three bytes
        found.update(_within_base64(data, before))
    return frozenset(found)


def _within_base64(data: bytes, before: int) -> tuple[str, str]:
    """Return the base64 digits that depend only on `data`, after `before` bytes, in both alphabets."""
    first, past = -(-8 * before // 6), 8 * (before + len(data)) // 6
    digits = base64.b64encode(bytes(before) + data).decode()[first:past]
    return digits, digits.replace("+", "-").replace("/", "_")


def _decodings(text: str) -> Iterator[str]:
    """Yield versions of the text, each with one kind of escape resolved."""
    if "%" in text:
        yield unquote_plus(text)
    if "&" in text:
        yield html.unescape(text)
    if "\\" in text:
        yield _BACKSLASHED.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else found[3]


def nested(text: str) -> Iterator[str]:
    """Yield versions of the text with escapes resolved once and twice."""
    for plain in _decodings(text):
        yield plain
        if plain != text:
            yield from _decodings(plain)
