"""Remove secrets from settings and addresses, and extract them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, unquote_plus, urlsplit, urlunsplit

__all__ = [
    "MASK",
    "host_of",
    "is_address",
    "mapped",
    "names_secret",
    "public_settings",
    "public_url",
    "secrets_in_field",
    "secrets_in_queries",
    "secrets_in_url",
    "texts_in",
    "without_logins",
]

MASK = "***"
"""Replacement for a secret."""

_PUBLIC_QUERY = frozenset({"api-version", "deployment", "model"})
"""Query parameters whose values are never secrets."""

_SECRET_WORDS = frozenset(
    {"auth", "authorization", "bearer", "cookie", "credential", "credentials", "jwt", "passphrase", "passwd"}
    | {"otp", "password", "passwords", "pat", "pem", "psk", "pwd", "secret", "secrets", "signature"}
)
_SECRET_ENDS = frozenset({"key", "keys", "pass", "sig", "token", "tokens"})
_AFTER_THE_END = frozenset({"v", "value"})
_KEY_IDS = (["access", "key", "id"], ["api", "key", "id"])
_JOINED = re.compile(
    "(?:access|api|auth|bearer|client|master|priv|private|refresh|secret|session|signing)(?:key|token)s?"
)
_WORDS = re.compile(r"[A-Za-z]?[a-z]+(?:[-_. ][A-Za-z]?[a-z]+)*")
_LOGIN = re.compile(r'//[^/@\s"]+@')
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_QUERY_SECRET = re.compile(r"([?&])([\w.-]{1,60})=([^\s&;#\"']+)")
"""Pattern of a query parameter, also in text that is not a URL, such as a model name."""
_ICE = re.compile(r"((?:stun|turn)s?:)(?!//)(\S+)", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Return whether a field with this name contains a secret.

    >>> [names_secret(name) for name in ("apiKey", "auth_header", "api-key-v2", "key_variable", "monkey")]
    [True, True, True, False, False]
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    words = re.findall("[^\\W\\d_]+", snake)
    if words == ["headers"] or words[-3:] in _KEY_IDS or not _SECRET_WORDS.isdisjoint(words):
        return True
    if any(map(_JOINED.fullmatch, words)):
        return True
    while words and words[-1] in _AFTER_THE_END:
        words.pop()
    return bool(words) and words[-1] in _SECRET_ENDS


def secrets_in_field(name: str, value: Any) -> list[str]:
    """Return the strings in a field with a secret name. A number, as in ``max_tokens``, is not a secret."""
    texts = texts_in(value) if names_secret(name) else []
    return [text for text in texts if not (name.endswith("tokens") and text.lstrip("-").isdigit())]


def texts_in(value: Any) -> list[str]:
    """Return every string and integer in JSON values as strings, without names."""
    match value:
        case bool() | None | "":
            return []
        case str() | int():
            return [str(value)]
        case list() | tuple():
            return [text for inner in value for text in texts_in(inner)]
        case Mapping():
            return [text for inner in value.values() for text in texts_in(inner)]
    return []


def public_settings(value: Any) -> Any:
    """Return settings, as JSON values, that are safe to show.

    Query values and fields with secret names become ``***``; logins are removed from addresses.
    """
    return mapped(value, _public_text, _public_member)


def _public_text(text: str, *, is_url: bool = False) -> str:
    text = _QUERY_SECRET.sub(_masked_parameter, text)
    if ice := _ICE.fullmatch(text):
        login, at, place = ice[2].rpartition("@")
        return f"{ice[1]}{MASK if login else ''}{at}{place}"
    return public_url(text) if is_url or _URL.fullmatch(text) else without_logins(text)


def _masked_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}={MASK}" if names_secret(found[2]) else found[0]


def _public_member(name: str, value: Any) -> tuple[str, Any]:
    if secrets_in_field(name, value):
        return name, MASK
    if isinstance(value, str):
        return name, _public_text(value, is_url=is_address(value, name))
    return name, public_settings(value)


def mapped(value: Any, text: Callable[[str], str], member: Callable[[str, Any], tuple[str, Any]]) -> Any:
    """Return JSON values with `text` applied to every string, and `member` to every object member."""
    match value:
        case str():
            return text(value)
        case list() | tuple():
            return [mapped(inner, text, member) for inner in value]
        case Mapping():
            return dict(member(name, inner) for name, inner in value.items())
    return value


def is_address(text: str, name: str = "") -> bool:
    """Return whether a setting is an address, according to its value or its name."""
    return bool(name.lower().endswith("url") or _URL.fullmatch(text) or _ICE.fullmatch(text))


def public_url(url: str) -> str:
    """Return a URL that is safe to show, without login and fragment and with masked query values.

    >>> public_url("wss://me:secret@host:8000/v1?key=1")
    'wss://host:8000/v1?key=***'
    >>> public_url("ws://me:secret#@host/v1")
    'ws://host/v1'
    """
    parts = _parsed(url)
    if parts is None:
        scheme, _, place = _unparsed(url)
        name, colon, port = place.partition(":")
        if colon and not port.partition("/")[0].isdigit():  # more likely a login than a port
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
    return re.split("[:/]", _unparsed(url)[2])[0] if parts is None else parts.netloc.rpartition("@")[2]


def without_logins(text: str) -> str:
    """Remove logins from addresses in a text."""
    return _LOGIN.sub("//", text) if "@" in text else text


def secrets_in_queries(text: str) -> Iterator[str]:
    """Yield the values of query parameters with secret names, also in text that is not an address.

    >>> list(secrets_in_queries("gpt-realtime?api_key=sk-123&voice=a"))
    ['sk-123']
    """
    for parameter in _QUERY_SECRET.finditer(text):
        if names_secret(parameter[2]):
            yield unquote_plus(parameter[3])


def secrets_in_url(url: str) -> Iterator[str]:
    """Yield an address's login and secret query values, even if it cannot be parsed."""
    ice, parts = _ICE.fullmatch(url), _parsed(url)
    if ice is not None:
        login = ice[2].rpartition("@")[0]
    elif parts is not None:
        login = parts.netloc.rpartition("@")[0]
    else:
        login = _unparsed(url)[1]
        yield from filter(_no_words, re.split(r"[/?#:@&=]", login))
    user, _, password = login.partition(":")
    yield from (login, password)  # Basic authentication sends the whole login
    if _no_words(user):
        yield user
    for pair in url.partition("?")[2].partition("#")[0].split("&"):
        name, _, value = pair.partition("=")
        plain = unquote_plus(value)
        if names_secret(name) or (name not in _PUBLIC_QUERY and _no_words(plain)):
            yield plain


def _no_words(text: str) -> bool:
    return not _WORDS.fullmatch(text)


def _parsed(url: str) -> SplitResult | None:
    """Return a URL's parts; None if it cannot be parsed, in which case any part may be a login."""
    try:
        parts = urlsplit(url)
        good = bool(parts.hostname) and parts.port != 0 and "@" not in parts.fragment
    except ValueError:
        return None
    return parts if good else None


def _unparsed(url: str) -> tuple[str, str, str]:
    """Return the scheme, possible login, and host with path of an unparsable URL."""
    scheme, slashes, rest = url.partition("//")
    login, _, place = (rest if slashes else url).rpartition("@")
    return scheme + slashes if slashes else "", login, re.split(r"[?#]", place)[0]
