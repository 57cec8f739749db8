"""Messages for the log: without secrets, and with the size of their audio."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from live_eval.redaction import SECRET_FIELDS, SECRETS, mask_halves
from live_eval.types import Secret

_RAW_CHARACTERS = 500
_SHOWN_CHARACTERS = 4_000
_DEPTH = 24
_RAW_SECRET = re.compile(rf'("(?:{"|".join(sorted(SECRET_FIELDS))})"\s*:\s*")[^"]*')
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")


def hide_secrets(text: str, secrets: Collection[str]) -> str:
    """Return `text` without secrets, logins in URLs, and keys that the endpoint half masked.

    Args:
        text: The text; only its first 4,000 characters are returned.
        secrets: The secrets, the longest first.
    """
    for secret in secrets:  # before the text is cut: half a secret would not be found
        text = text.replace(secret, "***")
    return mask_halves(SECRETS.text(text))[:_SHOWN_CHARACTERS]


def redact_raw(text: str, key: Secret | None) -> dict[str, Any]:
    """Return the beginning of a message that cannot be parsed."""
    begin = SECRETS.text(key.redact(text) if key is not None else text)[:_RAW_CHARACTERS]
    begin = _RAW_SECRET.sub(r"\1***", begin)
    begin = _BASE64_RUN.sub(lambda run: f"({len(run.group())} characters of base64)", begin)
    return {"raw": begin.encode(errors="replace").decode(), "characters": len(text)}


def redact_object(
    event: dict[str, Any],
    key: Secret | None,
    audio_fields: Collection[str],
    secret_fields: Collection[str] = (),
) -> dict[str, Any]:
    """Return a copy of a message for the log.

    Args:
        event: The message.
        key: The session's key.
        audio_fields: Names of fields that hold audio in base64.
        secret_fields: Names of fields that hold secrets, apart from the usual ones.

    Returns:
        The copy: audio becomes ``{"bytes": n}``; secret fields and every occurrence of the key become
        ``***``.
    """
    rules = _Rules(key or Secret(""), audio_fields, {*SECRET_FIELDS, *secret_fields})
    return rules.members(event, _DEPTH - 1)


class _Rules(NamedTuple):
    """What the log may not show."""

    key: Secret
    audio_fields: Collection[str]
    secret_fields: Collection[str]

    def members(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        return {self.key.redact(name): self.member(name, item, depth) for name, item in fields.items()}

    def member(self, name: str, value: object, depth: int) -> object:
        if name in self.audio_fields and isinstance(value, str):
            return {"bytes": len(value) * 3 // 4 - value[-2:].count("=")}
        return "***" if name in self.secret_fields and value else self.copied(value, depth)

    def copied(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self.key.redact(value)
        if not isinstance(value, dict | list):
            return value
        if depth == 0:
            return "(nested too deeply to be logged)"
        if isinstance(value, list):
            return [self.copied(item, depth - 1) for item in value]
        return self.members(value, depth - 1)
