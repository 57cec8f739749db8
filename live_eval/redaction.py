"""What must not be kept of a message: secrets by their value, and by the name of their field."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import orjson

from live_eval.types import Secret

__all__ = ["SECRET_FIELDS", "conceal"]

SECRET_FIELDS = frozenset(
    {"api_key", "authorization", "client_secret", "handle", "headers", "newHandle", "new_handle"}
)
"""Fields that hold secrets by their name, in messages of any vendor."""

_MASK = "***"
_HOLDS_ONE = re.compile(r'"(?:' + "|".join(sorted(SECRET_FIELDS)) + r')"\s*:')


def conceal(message: str | bytes, key: Secret | None) -> str | bytes:
    """Return a message as it may be kept whole: the key, and what lies in secret fields, become ``***``.

    Args:
        message: A message of either direction; JSON in binary is read as JSON too.
        key: The session's key, or None.
    """
    if isinstance(message, bytes):
        if not message.lstrip().startswith(b"{"):
            return message.replace(key.reveal().encode(), _MASK.encode()) if key and key.reveal() else message
        try:
            return str(conceal(message.decode(), key)).encode()
        except UnicodeDecodeError:
            return message
    text = key.redact(message) if key is not None else message
    if not _HOLDS_ONE.search(text):
        return text
    try:
        return orjson.dumps(_masked(orjson.loads(text), SECRET_FIELDS)).decode()
    except (orjson.JSONDecodeError, RecursionError):
        return _MASK


def _masked(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _MASK if name in names and inner else _masked(inner, names) for name, inner in value.items()
        }
    return [_masked(inner, names) for inner in value] if isinstance(value, list) else value
