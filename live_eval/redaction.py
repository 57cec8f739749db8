"""What must not be kept of a message: secrets by their value, and by the name of their field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from live_eval.types import Secret

__all__ = ["SECRET_FIELDS", "Concealer", "mask_halves"]

SECRET_FIELDS = frozenset(
    {
        "access_token",
        "api_key",
        "authorization",
        "client_secret",
        "handle",
        "headers",
        "newHandle",
        "new_handle",
        "resume_token",
    }
)
"""Fields that hold secrets by their name, in messages of any vendor."""

_MASK = "***"
_LEAST_CHARACTERS = 8
_FIELD = '"(?:' + "|".join(sorted(SECRET_FIELDS)) + r')"\s*:\s*'
_HOLDS_ONE = re.compile(_FIELD)
_BROKEN = re.compile(f'({_FIELD})(?:"(?:[^"\\\\]|\\\\.)*"|.*$)', re.DOTALL)
# Tried at the beginnings of words alone: else it would take quadratic time on long ones.
_HALF_MASKED_KEY = re.compile(r"(?<![\w-])[\w-]*\*{3,}[\w-]*")
_LOGIN = re.compile(r'//[^/@\s"]+@')


def mask_halves(text: str) -> str:
    """Return text without logins in addresses, and without keys that an endpoint masked by half."""
    if "@" in text:
        text = _LOGIN.sub("//", text)
    return _HALF_MASKED_KEY.sub(_MASK, text) if _MASK in text else text


class Concealer:
    """Makes messages of one session such that they may be kept whole, audio included.

    The key, and what lies in fields that hold secrets by their name, become ``***``; so do keys that were
    masked by half, logins in addresses, and every later occurrence of what lay in such a field. A message
    that holds none of it stays as it is, to the byte.

    Args:
        key: The session's key, or None.
    """

    def __init__(self, key: Secret | None) -> None:
        self._known = [key.reveal()] if key is not None and key.reveal() else []

    def message(self, message: str | bytes) -> str | bytes:
        """Return a message of either direction; JSON in binary is read as JSON too."""
        if isinstance(message, str):
            return self.text(message)
        if message.lstrip().startswith((b"{", b"[")):
            try:
                return self.text(message.decode()).encode()
            except UnicodeDecodeError:
                pass
        for secret in self._known:
            message = message.replace(secret.encode(), _MASK.encode())
        return message

    def text(self, text: str) -> str:
        """Return a text, which may be JSON."""
        text = self._plain(text)
        holds_one = _HOLDS_ONE.search(text) is not None
        if not holds_one and "\\" not in text:
            return text
        try:  # names and secrets may be written with escapes
            value = orjson.loads(text)
            masked = self._masked(value)
        except (orjson.JSONDecodeError, RecursionError):
            return _BROKEN.sub(rf'\1"{_MASK}"', text) if holds_one else text
        return text if masked == value else orjson.dumps(masked).decode()

    def _plain(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, _MASK)
        return mask_halves(text)

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self._plain(value)
            case list():
                return [self._masked(inner) for inner in value]
            case dict():
                return {self._plain(name): self._member(name, inner) for name, inner in value.items()}
        return value

    def _member(self, name: str, value: Any) -> Any:
        if name not in SECRET_FIELDS or not value:
            return self._masked(value)
        _each_text(value, self._learn)
        return _MASK

    def _learn(self, secret: str) -> None:
        if len(secret) >= _LEAST_CHARACTERS and secret not in self._known:
            self._known.append(secret)
            self._known.sort(key=len, reverse=True)


def _each_text(value: Any, tell: Callable[[str], None]) -> None:
    match value:
        case str():
            tell(value)
        case list():
            for inner in value:
                _each_text(inner, tell)
        case dict():
            for inner in value.values():
                _each_text(inner, tell)
