"""Remove secrets by value, in any encoding, and by field name.

Every credential that the process reads (a key, an address, settings) is registered in `SECRETS`, its only
`Redactor`, through which all output passes: the run's database, scores, cassettes and the terminal.

A secret that is short (fewer than eight characters) or may be an ordinary word (fewer than 16 letters, in
lower case or capitalised) is redacted only in addresses, headers and fields with secret names. Redacting it
elsewhere would remove words from transcripts.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

import orjson

from live_eval.redaction.secret_settings import (
    MASK,
    is_address,
    mapped,
    names_secret,
    secrets_in_field,
    secrets_in_queries,
    secrets_in_url,
    texts_in,
    without_logins,
)
from live_eval.redaction.spellings import nested, spellings
from live_eval.text.message_limits import has_too_many_values
from live_eval.types import SHORTEST_SECRET, Secret

__all__ = ["SECRETS", "SECRET_FIELDS", "Concealer", "Redactor", "mask_halves"]

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
"""Names of fields that contain secrets, in any vendor's messages."""

_MAX_WORD = 15
_MAX_FRAGMENT = 1_000
_WORD = re.compile(r"[^\W\d_][a-z]*")
_SECRET_TEXT = re.compile(r"\b(?:sk-[A-Za-z0-9_\-]{16,}|Bearer\s+[A-Za-z0-9_\-.=]{16,})")
# Match only at the start of a word, because starting inside long words would take quadratic time. Three stars
# next to a plain word are emphasis. A masked key has more stars, or stars next to a digit or a symbol.
_HALFMASKED_KEY = re.compile(
    r"(?<![\w*-])(?:(?=[a-zA-Z]*+[\d_-])[\w-]++\*{3,}+[\w-]*+"
    r"|[a-zA-Z]*+\*{3,}+(?=[a-zA-Z]*+[\d_-])[\w-]++|[a-zA-Z]++\*{5,}+[a-zA-Z]*+)"
)
_FOLDERS = ("PWD", "OLDPWD")
"""Environment variables that contain a folder although their names look like "password"."""
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')


def mask_halves(text: str) -> str:
    """Remove logins in addresses, and keys that an endpoint has partly masked."""
    text = without_logins(text)
    return _HALFMASKED_KEY.sub(MASK, text) if MASK in text else text


class Redactor:
    """A registry of secrets that removes them from text and messages; see the module docstring.

    It also removes logins in addresses and text that looks like a key or bearer token.
    """

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._spellings: tuple[str, ...] = ()
        self._fields: frozenset[str] = SECRET_FIELDS

    def copy(self) -> Redactor:
        """Return an independent copy."""
        return copy.copy(self)  # all members are immutable

    @property
    def fields(self) -> frozenset[str]:
        """Names of fields that contain secrets: `SECRET_FIELDS` and fields in registered settings."""
        return self._fields

    def forget(self) -> None:
        """Remove all registered secrets."""
        self.learn_all(Redactor())

    def learn(self, secret: Secret | str | None) -> None:
        """Register a secret."""
        value = secret.reveal() if isinstance(secret, Secret) else secret or ""
        for one in {value.strip(), unquote(value)} - self._secrets:
            if len(one) < SHORTEST_SECRET or (len(one) <= _MAX_WORD and _WORD.fullmatch(one)):
                continue
            self._secrets |= {one}
            longest_first = sorted({*self._spellings, *spellings(one)}, key=len, reverse=True)
            self._spellings = tuple(longest_first)

    def learn_all(self, other: Redactor) -> None:
        """Replace the registered secrets with those of another redactor."""
        vars(self).update(vars(other))

    def learn_url(self, url: str) -> None:
        """Register an address's login and query, even if it cannot be parsed."""
        for secret in secrets_in_url(url):
            self.learn(secret)

    def learn_settings(self, value: Any, name: str = "") -> None:
        """Register the secrets in settings: addresses, and fields with secret names."""
        if texts := secrets_in_field(name, value):
            self._fields |= {name}
        for text in texts:
            self.learn(text)
            self.learn(text.rpartition(" ")[2])  # the token in "Bearer TOKEN"
        if isinstance(value, str):
            for secret in secrets_in_queries(value):
                self.learn(secret)
        match value:
            case str() if is_address(value, name):
                self.learn_url(value)
            case list() | tuple():
                for inner in value:
                    self.learn_settings(inner)
            case Mapping():
                for field, inner in value.items():
                    self.learn_settings(inner, str(field))

    def learn_environment(self, variables: Mapping[str, str]) -> None:
        """Register the values of environment variables with secret names, such as ``API_KEY``."""
        for name, value in variables.items():
            if names_secret(name) and name not in _FOLDERS:
                self.learn(value)

    def suspects(self, text: str) -> bool:
        """Return whether `text` would change this text. Fast for text without secrets."""
        if not self._secrets and "@" not in text and "sk-" not in text and "Bearer" not in text:
            return False  # the same, faster: every row of a database is checked
        return self.text(text) != text

    def exposed_in(self, value: Any) -> str | None:
        """Return the path of the first text in JSON values that looks like a secret, or None."""
        for path, text in _leaves(value, ()):
            field = next((step for step in reversed(path) if isinstance(step, str)), "")
            if (names_secret(field) and text.strip("*")) or self.suspects(text):
                return ".".join(map(str, path))
        return None

    def text(self, text: str) -> str:
        """Remove secrets from a text; if any secret is escaped, unescape the whole text."""
        text = self.unescaped(text)
        if self._secrets:
            for plain in nested(text):
                if any(secret in plain for secret in self._secrets):
                    return self.text(plain)
        return text

    def unescaped(self, text: str) -> str:
        """Remove the fixed spellings of secrets from a text."""
        for spelling in self._spellings:  # longest first; much faster than one combined pattern
            text = text.replace(spelling, MASK)
        if "sk-" in text or "Bearer" in text:
            text = _SECRET_TEXT.sub(MASK, text)
        return without_logins(text)

    def binary(self, data: bytes) -> bytes:
        """Remove secrets that occur as text in bytes."""
        for spelling in self._spellings:
            data = data.replace(spelling.encode("utf-8", "surrogatepass"), MASK.encode())
        return data

    def values(self, value: Any) -> Any:
        """Remove secrets from strings in JSON values; leave names unchanged."""
        return mapped(value, self.text, lambda name, inner: (name, self.values(inner)))

    def body(self, value: Any) -> Any:
        """Remove secrets from strings, names and secret fields in a message, given as JSON values."""
        return mapped(value, self.text, self._member)

    def _member(self, name: str, value: Any) -> tuple[str, Any]:
        return self.text(str(name)), MASK if value and name in self._fields else self.body(value)

    def series(self, messages: Sequence[Any]) -> list[Any]:
        """Remove secrets that are split across messages, given as JSON values.

        Transcripts arrive in fragments, so the values of a field in all messages of one ``type`` are joined
        for the search. The first fragment of a secret becomes ``***``, and the others are removed. Use `text`
        for secrets within a fragment.
        """
        found = list(messages)
        if not self._secrets:
            return found
        streams: dict[tuple[str, ...], list[tuple[int, tuple[str | int, ...], str]]] = {}
        for number, message in enumerate(messages):
            kind = message.get("type") if isinstance(message, Mapping) else None
            for path, text in _leaves(message, ()):
                if 0 < len(text) <= _MAX_FRAGMENT:
                    name = (str(kind), *("" if isinstance(step, int) else step for step in path))
                    streams.setdefault(name, []).append((number, path, text))
        for pieces in streams.values():
            changed = self._without_split([text for *_, text in pieces])
            for (number, path, before), piece in zip(pieces, changed, strict=True):
                if piece != before:
                    found[number] = _with(found[number], path, piece)
        return found

    def _without_split(self, pieces: Sequence[str]) -> list[str]:
        """Remove secrets that are split across fragments."""
        changed = list(pieces)
        whole = "".join(pieces)
        if len(pieces) < 2 or self.unescaped(whole) == whole:
            return changed
        known = re.compile("|".join([*map(re.escape, self._spellings), _SECRET_TEXT.pattern]))
        starts = [0, *accumulate(map(len, pieces))]
        for match in reversed(list(known.finditer(whole))):
            first, last = (bisect_right(starts, at) - 1 for at in (match.start(), match.end() - 1))
            for number in range(first, last + 1) if first != last else ():
                begin = max(0, match.start() - starts[number])
                end = min(len(pieces[number]), match.end() - starts[number])
                text = changed[number]
                changed[number] = text[:begin] + (MASK if number == first else "") + text[end:]
        return changed


SECRETS = Redactor()
"""The secrets of this process."""


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    match value:
        case str():
            yield path, value
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from _leaves(inner, (*path, index))
        case Mapping():
            for name, inner in value.items():
                yield from _leaves(inner, (*path, str(name)))


def _with(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    """Return a value with the text at `path` replaced."""
    if not path:
        return text
    step, *rest = path
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    changed = {
        name: _with(inner, tuple(rest), text) if str(name) == str(step) else inner for name, inner in members
    }
    return changed if isinstance(value, Mapping) else list(changed.values())


class Concealer:
    """Redact one session's messages without changing other content, including audio.

    Replaces secrets in `SECRETS`, the session's key, partly masked keys, and the values of fields with secret
    names (also where they occur later) by ``***``. Removes logins in addresses. Returns a message without
    secrets byte for byte.
    """

    def __init__(self, key: Secret | None) -> None:
        self._secrets = SECRETS.copy()
        self._secrets.learn(key)
        field = '"(?:' + "|".join(map(re.escape, sorted(self._secrets.fields))) + r')"\s*:\s*'
        self._field = re.compile(f'({field})(?:"(?:[^"\\\\]|\\\\.)*"|.*$)', re.DOTALL)

    def series(self, messages: Sequence[Any]) -> list[Any]:
        """Remove secrets that are split across messages; see `Redactor.series`."""
        return self._secrets.series(messages)

    def message(self, message: str | bytes) -> str | bytes:
        """Remove secrets from a sent or received message; binary messages may be JSON too."""
        if isinstance(message, str):
            return self.text(message)
        if message.lstrip().startswith((b"{", b"[")):
            try:
                return self.text(message.decode()).encode()
            except UnicodeDecodeError:
                pass
        return self._secrets.binary(message)

    def text(self, text: str) -> str:
        """Remove secrets from a text, which may be JSON."""
        if has_too_many_values(text):  # parsing would need too much memory
            plain = _LITERAL.sub(self._literal, self._secrets.unescaped(mask_halves(text)))
            return self._field.sub(rf'\1"{MASK}"', plain)
        plain = self._plain(text)
        has_field = self._field.search(text) is not None
        if plain == text and not has_field and "\\" not in text:
            return text
        try:  # names and secrets may contain escapes
            value = orjson.loads(text)
            masked = self._masked(value)
        except (orjson.JSONDecodeError, RecursionError):
            return self._field.sub(rf'\1"{MASK}"', plain)
        if masked == value:
            return text
        try:
            if orjson.loads(plain) == masked:  # keeps the original formatting
                return plain
        except orjson.JSONDecodeError:
            pass
        return orjson.dumps(masked).decode()

    def _literal(self, literal: re.Match[str]) -> str:
        """Remove escaped secrets from a JSON string."""
        written = literal[0]
        if "\\" not in written:
            return written
        try:
            text = orjson.loads(written)
        except orjson.JSONDecodeError:
            return written
        plain = self._plain(text)
        changed = plain != text or plain in self._secrets.fields
        return orjson.dumps(plain).decode() if changed else written

    def _plain(self, text: str) -> str:
        # In this order, "sess_KEY" becomes "sess_***", as in the run's database, instead of "***".
        return self._secrets.text(mask_halves(text))

    def _masked(self, value: Any) -> Any:
        return mapped(value, self._plain, self._member)

    def _member(self, name: str, value: Any) -> tuple[str, Any]:
        if name not in self._secrets.fields or not value:
            return self._plain(name), self._masked(value)
        for text in texts_in(value):
            self._secrets.learn(text)
        return name, MASK
