"""Remove secrets, by their value in any encoding and by the name of their field.

The process has one `Redactor`, `SECRETS`. It learns every credential where it enters (a key from the
environment, an address, settings). Everything that leaves passes through it: the run's database, scores,
cassettes and the terminal.

A short secret (fewer than eight characters) or one that may be an ordinary word (fewer than 16 letters, in
lower case or capitalised) is hidden only in its place: in an address, a header or a field named as a secret.
It is not searched for elsewhere, because transcripts would lose words. All others are.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit, urlunsplit

import orjson

from live_eval.redaction.spellings import escapable, nested, spellings
from live_eval.text.messages import has_too_many_values
from live_eval.types import Secret

__all__ = [
    "MASK",
    "PUBLIC_QUERY",
    "SECRETS",
    "SECRET_FIELDS",
    "Concealer",
    "Redactor",
    "host_of",
    "mask_halves",
    "public_settings",
    "public_url",
]

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
"""Names of fields that hold secrets, in messages of any vendor."""

PUBLIC_QUERY = frozenset({"api-version", "api_version", "deployment", "model"})
"""Query parameters whose values are never secrets."""

MASK = "***"
"""What stands in place of a secret."""

_LEAST_CHARACTERS = 8
_LONGEST_WORD = 15
_LONGEST_PIECE = 1_000
_SECRET_NAME = re.compile(
    r"(?:^|[_\-\s.])(?:"
    r"(?:auth|authorization|bearer|secrets?|passwords?|passwd|passphrase|pwd|credentials?|cookie|jwt|pat|pem|signature)\d*"
    r"(?=$|[_\-\s.])"
    r"|(?:pass|sig)$|access[_\-]?key[_\-]?id$|(?:key|token)s?(?:[_\-\s.]?(?:v?\d+|value|pem|secret))*$)",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(r"\b(?:sk-[A-Za-z0-9_\-]{16,}|Bearer\s+[A-Za-z0-9_\-.=]{16,})")
_WORD = re.compile(r"[^\W\d_][a-z]*")
_WORDS = re.compile(r"[A-Za-z]?[a-z]+(?:[-_. ][A-Za-z]?[a-z]+)*")
# Matches only at the beginning of a word: otherwise it takes quadratic time on long ones.
# Three stars around plain words are emphasis; in a key they stand next to a digit or a sign, or are more.
_HALFMASKED_KEY = re.compile(
    r"(?<![\w*-])(?:(?=[a-zA-Z]*+[\d_-])[\w-]++\*{3,}+[\w-]*+"
    r"|[a-zA-Z]*+\*{3,}+(?=[a-zA-Z]*+[\d_-])[\w-]++|[a-zA-Z]++\*{5,}+[a-zA-Z]*+)"
)
_FOLDERS = ("PWD", "OLDPWD")
"""Environment variables that are named as passwords, and name folders."""
_LOGIN = re.compile(r'//[^/@\s"]+@')
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_ICE = re.compile(r"((?:stun|turn)s?:)(?!//)(\S+)", re.IGNORECASE)


def mask_halves(text: str) -> str:
    """Return text without logins in addresses, and without keys that an endpoint masked only in part."""
    text = _without_logins(text)
    return _HALFMASKED_KEY.sub(MASK, text) if MASK in text else text


def _without_logins(text: str) -> str:
    return _LOGIN.sub("//", text) if "@" in text else text


# -- Addresses -----------------------------------------------------------------------------------------


def _parsed(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it is not one, so that any part of it may hold a login."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) and (parts.port is None or parts.port > 0) and "@" not in parts.fragment
    except ValueError:
        return None
    return parts if good else None


def _broken(url: str) -> tuple[str, str, str]:
    """Return scheme, possible login and place of a URL that cannot be parsed."""
    scheme, slashes, rest = url.partition("//")
    login, _, place = (rest if slashes else url).rpartition("@")
    return scheme + slashes if slashes else "", login, re.split(r"[?#]", place)[0]


def public_url(url: str) -> str:
    """Return a URL safe to show: no login, no fragment, query values hidden.

    >>> public_url("wss://me:secret@host:8000/v1?key=1")
    'wss://host:8000/v1?key=***'
    >>> public_url("ws://me:secret#@host/v1")
    'ws://host/v1'
    """
    parts = _parsed(url)
    if parts is None:
        scheme, _, place = _broken(url)
        name, colon, port = place.partition(":")
        if colon and not port.partition("/")[0].isdigit() and not place.startswith("["):  # rather a login
            place = f"{name}:{MASK}"
        return scheme + place
    query = "&".join(f"{pair.partition('=')[0]}={MASK}" for pair in parts.query.split("&") if pair)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=query, fragment=""))


def host_of(url: str) -> str:
    """Return the host and port of a URL.

    >>> host_of("wss://me:secret@host:8000/v1?key=1")
    'host:8000'
    """
    parts = _parsed(url)
    return re.split("[:/]", _broken(url)[2])[0] if parts is None else parts.netloc.rpartition("@")[2]


def _public_address(text: str) -> str:
    """Return a setting that may be an address, safe to show."""
    if ice := _ICE.fullmatch(text):
        login, at, place = ice[2].rpartition("@")
        return f"{ice[1]}{MASK if login else ''}{at}{place}"
    return public_url(text) if _URL.fullmatch(text) else _without_logins(text)


def _names_secret(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return name in SECRET_FIELDS or name.lower() == "headers" or _SECRET_NAME.search(snake) is not None


def public_settings(value: Any) -> Any:
    """Return settings safe to show, as JSON values: fields named as secrets become ``***``.

    Addresses keep neither login nor query values.
    """
    return _mapped(value, _public_address, _public_setting)


def _public_setting(name: str, value: Any) -> tuple[str, Any]:
    if _secrets_of(str(name), value):
        return name, MASK
    return name, public_url(value) if _is_url(str(name), value) else public_settings(value)


def _mapped(value: Any, text: Callable[[str], str], member: Callable[[str, Any], tuple[str, Any]]) -> Any:
    """Return JSON values with `text` applied to every text, and `member` to every member of an object."""
    match value:
        case str():
            return text(value)
        case list() | tuple():
            return [_mapped(inner, text, member) for inner in value]
        case Mapping():
            return dict(member(name, inner) for name, inner in value.items())
    return value


def _secrets_of(name: str, value: Any) -> list[str]:
    """Return the texts of a field that is named as a secret; the number of ``max_tokens`` is none."""
    texts = _texts(value) if _names_secret(name) else []
    return [text for text in texts if not (name.endswith("tokens") and text.lstrip("-").isdigit())]


def _is_url(name: str, value: Any) -> bool:
    return isinstance(value, str) and name.lower().endswith("url")


def _texts(value: Any) -> list[str]:
    """Return every text (or number) within a value, without field names."""
    match value:
        case bool() | None:
            return []
        case str() | int():
            return [str(value)] if value != "" else []
        case list() | tuple():
            return [text for inner in value for text in _texts(inner)]
        case Mapping():
            return [text for inner in value.values() for text in _texts(inner)]
    return []


# -- Secrets that are known ----------------------------------------------------------------------------


class Redactor:
    """Learn secrets, and remove them from text and messages.

    The module's docstring says which secrets are searched for. Anything that looks like a key or a bearer
    token, and logins in addresses, are removed too.
    """

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()
        self._spellings: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._fields: frozenset[str] = SECRET_FIELDS

    def copy(self) -> Redactor:
        """Return an independent copy."""
        return copy.copy(self)  # everything in it is immutable

    @property
    def fields(self) -> frozenset[str]:
        """Names of fields that hold secrets: `SECRET_FIELDS`, and those of learned settings."""
        return self._fields

    def forget(self) -> None:
        """Forget everything."""
        self.learn_all(Redactor())

    def learn(self, secret: Secret | str | None) -> None:
        """Learn a secret."""
        value = secret.reveal() if isinstance(secret, Secret) else secret or ""
        for one in {value.strip(), unquote(value)} - {*self._secrets}:
            if len(one) < _LEAST_CHARACTERS or (len(one) <= _LONGEST_WORD and _WORD.fullmatch(one)):
                continue
            self._secrets = (*self._secrets, one)
            known = {*self._spellings, *spellings(one)}
            self._spellings = tuple(sorted(known, key=len, reverse=True))
            self._pattern = None

    def learn_all(self, other: Redactor) -> None:
        """Learn what another one knows, instead of what this one knew."""
        vars(self).update(vars(other))

    def learn_url(self, url: str) -> None:
        """Learn the login and the query of an address, even of one that cannot be parsed."""
        if ice := _ICE.fullmatch(url):
            self._learn_login(ice[2].rpartition("@")[0])
            return
        parts = _parsed(url)
        if parts is None:
            login = _broken(url)[1]
            self._learn_login(login)
            for piece in re.split(r"[/?#:@&=]", login):
                self._learn_if_no_words(piece)
        else:
            self._learn_login(parts.netloc.rpartition("@")[0])
        for pair in url.partition("?")[2].partition("#")[0].split("&"):
            name, _, value = pair.partition("=")
            if _names_secret(name):
                self.learn(value)
                self.learn(unquote_plus(value))
            elif name not in PUBLIC_QUERY:
                self._learn_if_no_words(unquote_plus(value))

    def learn_settings(self, value: Any) -> None:
        """Learn the secrets in settings: addresses, and fields named as secrets."""
        match value:
            case str():
                if _URL.fullmatch(value) or _ICE.fullmatch(value):
                    self.learn_url(value)
            case list() | tuple():
                for inner in value:
                    self.learn_settings(inner)
            case Mapping():
                for name, inner in value.items():
                    if texts := _secrets_of(str(name), inner):
                        self._fields |= {str(name)}
                    for text in texts:
                        self.learn(text)
                        self.learn(text.rpartition(" ")[2])  # of "Bearer …"
                    if _is_url(str(name), inner):
                        self.learn_url(inner)
                    else:
                        self.learn_settings(inner)

    def learn_environment(self, variables: Mapping[str, str]) -> None:
        """Learn the values of environment variables named as a key, a token or the like."""
        for name, value in variables.items():
            if _names_secret(name) and name not in _FOLDERS:
                self.learn(value)

    def _learn_login(self, login: str) -> None:
        user, colon, password = login.partition(":")
        self.learn(password)
        if colon:
            self._learn_if_no_words(user)
            self.learn(login)  # as Basic authentication sends it
        else:
            self.learn(user)

    def _learn_if_no_words(self, value: str) -> None:
        if not _WORDS.fullmatch(value):
            self.learn(value)

    def suspects(self, text: str) -> bool:
        """Return whether `self.text` would change the text; fast if it would not."""
        return (
            any(spelling in text for spelling in self._spellings)
            or bool(self._decoded(text))
            or (("sk-" in text or "Bearer" in text) and _SECRET_TEXT.search(text) is not None)
            or ("@" in text and _LOGIN.search(text) is not None)
        )

    def exposed_in(self, value: Any) -> str | None:
        """Return the path of the first text in JSON values that seems to be a secret, or None."""
        for path, text in _leaves(value, ()):
            field = next((step for step in reversed(path) if isinstance(step, str)), "")
            if (_names_secret(field) and text.strip("*")) or self.suspects(text):
                return ".".join(map(str, path))
        return None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for spelling in self._spellings:  # longest first; much faster than one pattern of all
            text = text.replace(spelling, MASK)
        if self._decoded(text):
            text = self._known().sub(MASK, text)
            if plain := self._decoded(text):  # encoded twice: the result stays decoded
                text = self.text(plain)
        if "sk-" in text or "Bearer" in text:
            text = _SECRET_TEXT.sub(MASK, text)
        return _without_logins(text)

    def _decoded(self, text: str) -> str:
        """Return the text with escapes resolved so that a secret shows; empty if none does."""
        if not self._secrets:
            return ""
        shows = (plain for plain in nested(text) if any(secret in plain for secret in self._secrets))
        return next(shows, "")

    def _known(self) -> re.Pattern[str]:
        if self._pattern is None:
            longest_first = sorted(self._secrets, key=len, reverse=True)
            parts = [*map(re.escape, self._spellings), *map(escapable, longest_first), _SECRET_TEXT.pattern]
            self._pattern = re.compile("|".join(parts))
        return self._pattern

    def binary(self, data: bytes) -> bytes:
        """Return bytes without the secrets that they contain as text."""
        for spelling in self._spellings:
            data = data.replace(spelling.encode("utf-8", "surrogatepass"), MASK.encode())
        return data

    def values(self, value: Any) -> Any:
        """Return JSON values without secrets in their texts; field names stay."""
        return _mapped(value, self.text, lambda name, inner: (name, self.values(inner)))

    def body(self, value: Any) -> Any:
        """Return a message, as JSON values, without secrets in texts, names and secret fields."""
        return _mapped(value, self.text, self._member)

    def _member(self, name: str, value: Any) -> tuple[str, Any]:
        return self.text(str(name)), MASK if value and name in self._fields else self.body(value)

    def series(self, messages: Sequence[Any]) -> list[Any]:
        """Return messages, as JSON values, without secrets that are spread over several of them.

        A transcript comes in pieces, so the values of one field in all messages of one ``type`` are read
        together. The first piece of a secret becomes ``***`` and the others disappear. A secret within one
        piece is left to `text`.
        """
        found = list(messages)
        if not self._secrets:
            return found
        streams: dict[tuple[str, ...], list[tuple[int, tuple[str | int, ...], str]]] = {}
        for number, message in enumerate(messages):
            kind = message.get("type") if isinstance(message, Mapping) else None
            for path, text in _leaves(message, ()):
                if 0 < len(text) <= _LONGEST_PIECE:
                    name = (str(kind), *("" if isinstance(step, int) else step for step in path))
                    streams.setdefault(name, []).append((number, path, text))
        for pieces in streams.values():
            changed = self._apart([text for *_, text in pieces])
            for (number, path, _), piece in zip(pieces, changed, strict=True):
                if piece is not None:
                    found[number] = _with(found[number], path, piece)
        return found

    def _apart(self, pieces: Sequence[str]) -> list[str | None]:
        """Return the new text of each piece that a secret crosses, and None for the others."""
        changed: list[str | None] = [None] * len(pieces)
        whole = "".join(pieces)
        if len(pieces) < 2 or not self.suspects(whole):
            return changed
        starts = [0, *accumulate(map(len, pieces))]
        for match in reversed(list(self._known().finditer(whole))):
            first, last = (bisect_right(starts, at) - 1 for at in (match.start(), match.end() - 1))
            for number in range(first, last + 1) if first != last else ():
                before = changed[number]
                text = pieces[number] if before is None else before
                begin = max(0, match.start() - starts[number])
                end = min(len(pieces[number]), match.end() - starts[number])
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
    if isinstance(value, Mapping):
        return {
            name: _with(inner, tuple(rest), text) if str(name) == step else inner
            for name, inner in value.items()
        }
    return [_with(inner, tuple(rest), text) if at == step else inner for at, inner in enumerate(value)]


# -- Messages of a session -----------------------------------------------------------------------------


class Concealer:
    """Remove secrets from the messages of one session, which are otherwise kept whole, audio included.

    Everything in `SECRETS`, the session's key and the values of fields named as secrets become ``***``; so do
    partly masked keys, logins in addresses, and later occurrences of such a field's value. A message without
    any of these stays the same, to the byte.

    Args:
        key: The session's key, or None.
    """

    def __init__(self, key: Secret | None) -> None:
        self._secrets = SECRETS.copy()
        self._secrets.learn(key)
        field = '"(?:' + "|".join(map(re.escape, sorted(self._secrets.fields))) + r')"\s*:\s*'
        self._holds_one = re.compile(field)
        self._broken = re.compile(f'({field})(?:"(?:[^"\\\\]|\\\\.)*"|.*$)', re.DOTALL)

    def series(self, messages: Sequence[Any]) -> list[Any]:
        """Return messages without secrets spread over several of them; see `Redactor.series`."""
        return self._secrets.series(messages)

    def message(self, message: str | bytes) -> str | bytes:
        """Return a message of either direction without secrets; binary JSON is read as JSON too."""
        if isinstance(message, str):
            return self.text(message)
        if message.lstrip().startswith((b"{", b"[")):
            try:
                return self.text(message.decode()).encode()
            except UnicodeDecodeError:
                pass
        return self._secrets.binary(message)

    def text(self, text: str) -> str:
        """Return a text, which may be JSON, without secrets."""
        plain = self._plain(text)
        if has_too_many_values(text):
            plain = _LITERAL.sub(self._literal, plain)
            return self._broken.sub(rf'\1"{MASK}"', plain)
        holds_one = self._holds_one.search(text) is not None
        if plain == text and not holds_one and "\\" not in text:
            return text
        try:  # names and secrets may be written with escapes
            value = orjson.loads(text)
            masked = self._masked(value)
        except (orjson.JSONDecodeError, RecursionError):
            return self._broken.sub(rf'\1"{MASK}"', plain) if holds_one else plain
        if masked == value:
            return text
        try:
            if orjson.loads(plain) == masked:  # written as it was
                return plain
        except orjson.JSONDecodeError:
            pass
        return orjson.dumps(masked).decode()

    def _literal(self, literal: re.Match[str]) -> str:
        """Return a JSON string without secrets written with escapes."""
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
        # In this order "sess_KEY" becomes "sess_***", as in the run's database, and not "***".
        return self._secrets.text(mask_halves(text))

    def _masked(self, value: Any) -> Any:
        return _mapped(value, self._plain, self._member)

    def _member(self, name: str, value: Any) -> tuple[str, Any]:
        if name not in self._secrets.fields or not value:
            return self._plain(name), self._masked(value)
        for text in _texts(value):
            self._secrets.learn(text)
        return self._plain(name), MASK
