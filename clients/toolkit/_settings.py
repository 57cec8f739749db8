"""Build a session's URL and check its settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson

from live_eval.dialect import EndpointSettings
from live_eval.errors import UsageError
from live_eval.http.hosts import is_url
from live_eval.redaction import public_url

_WEBSOCKET = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_BARE = re.compile(r"[\w.-]+(:\d+)?(/[\w./-]*)?")
"""A URL without scheme, credentials or query."""
_HTTP = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_DEFAULTS = EndpointSettings(base_url="")
_OF_AGENT = (
    ("instructions", "the prompt"),
    ("language", "the language"),
    ("model", "the model"),
    ("turn_detection", "the detector"),
    ("voice", "the voice"),
)


def refuse_settings(settings: EndpointSettings, **reasons: str) -> None:
    """Reject settings that an endpoint does not support.

    Args:
        settings: The session settings.
        reasons: The reason why a field must keep its default, by field name.

    Raises:
        UsageError: One of these fields differs from its default.
    """
    for name, reason in reasons.items():
        if getattr(settings, name) != getattr(_DEFAULTS, name):
            raise UsageError(f"{'turns.mode' if name == 'turn_mode' else f'endpoint.{name}'}: {reason}")


def stored_agent(settings: EndpointSettings, name: str) -> str | None:
    """Return the ID of the stored agent in the field `name` of ``endpoint.extra``; None if it names none.

    Raises:
        UsageError: The ID is not text, or the settings change what the agent determines.
    """
    agent_id = settings.extra.get(name)
    if agent_id is None:
        return None
    if not (isinstance(agent_id, str) and agent_id):
        raise UsageError(f"endpoint.extra.{name}: expected text, got {agent_id!r}")
    sets = f"the stored agent in endpoint.extra.{name} sets"
    refuse_settings(settings, **{field: f"{sets} {what}; remove one of them" for field, what in _OF_AGENT})
    if settings.transcription_model not in (None, "built-in"):
        raise UsageError(f"endpoint.transcription_model: {sets} the recogniser; remove one of them")
    return agent_id


def refusal_advice(settings: EndpointSettings, agent: str, otherwise: str) -> str:
    """Return what to check if a session is refused: a stored agent's ID in ``extra``, or `otherwise`."""
    return f"check {f'endpoint.extra.{agent}' if isinstance(settings.extra.get(agent), str) else otherwise}"


def with_advice(text: str, advice: str | None) -> str:
    """Return a failure's message, with what the user can do about it.

    >>> with_advice("the session was refused", "check endpoint.voice")
    'the session was refused; check endpoint.voice'
    """
    return f"{text}; {advice}" if advice else text


def said_before(settings: EndpointSettings, user: str, assistant: str) -> list[tuple[str, str]]:
    """Return the earlier turns' texts in order, each after its role: `user` or `assistant`."""
    return [said for turn in settings.history for said in ((user, turn.text), (assistant, turn.reply))]


def bearer_header(settings: EndpointSettings) -> dict[str, str]:
    """Return the authentication header; empty if there is no key."""
    key = settings.key
    return {"Authorization": f"Bearer {key.reveal()}"} if key is not None else {}


def websocket_url(base_url: str, path: str, query: Mapping[str, str]) -> str:
    """Return a WebSocket URL under a base URL.

    Args:
        base_url: ``ws``, ``wss``, ``http`` or ``https``; its path and query are kept.
        path: Path to append to the base URL's path, unless already present at its end; empty for none.
        query: Query parameters to set.

    Raises:
        UsageError: The base URL is not a URL; the message contains neither credentials nor query.

    >>> websocket_url("http://127.0.0.1:8000/v1/", "realtime", {"model": "m"})
    'ws://127.0.0.1:8000/v1/realtime?model=m'
    """
    return _url(base_url, path, query, _WEBSOCKET)


def http_url(base_url: str, path: str, query: Mapping[str, str]) -> str:
    """Return the HTTP URL of a resource; see `websocket_url`.

    >>> http_url("wss://api.openai.com/v1", "realtime/calls", {})
    'https://api.openai.com/v1/realtime/calls'
    """
    return _url(base_url, path, query, _HTTP)


def _url(base_url: str, path: str, query: Mapping[str, str], schemes: Mapping[str, str]) -> str:
    if not is_url(base_url, schemes):
        scheme, _, rest = base_url.partition(":")
        if _BARE.fullmatch(base_url):
            guess = f"{schemes['ws']}://{base_url}"
        elif scheme in schemes and _BARE.fullmatch(rest.lstrip("/")):
            guess = f"{scheme}://{rest.lstrip('/')}"
        else:
            guess = ""
        found = base_url if guess else public_url(base_url)
        near = f" (did you mean {guess}?)" if guess and guess != base_url else ""
        raise UsageError(
            f"endpoint.base_url {found!r}: expected an address such as {schemes['wss']}://HOST/v1"
            f"{_port_hint(base_url)}{near}"
        )
    parts = urlsplit(base_url)
    folder = parts.path.rstrip("/")
    whole = f"{folder}/{path}"
    if not path or folder.endswith(f"/{path}"):
        whole = folder if path else parts.path
    kept = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query
    ]
    return urlunsplit((schemes[parts.scheme], parts.netloc, whole, urlencode([*kept, *query.items()]), ""))


def _port_hint(url: str) -> str:
    try:
        port = urlsplit(url).port
    except ValueError:
        return " with a port of 1 to 65535"
    return " with a port of 1 to 65535" if port == 0 else ""


def query_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return ``endpoint.extra`` as query parameters.

    Raises:
        UsageError: A value is neither text nor a number.
    """
    for name, value in extra.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"endpoint.extra.{name}: expected text or a number as query parameter")
    return {name: str(value) for name, value in extra.items()}


def check_extra(
    extra: Mapping[str, Any], options: Collection[str], objects: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return ``endpoint.extra`` if it contains only these options, which are text except for `objects`.

    An integer is the text of its digits.

    Raises:
        UsageError: It contains another option or another value.
    """
    for name, value in extra.items():
        if name not in options:
            raise UsageError(f"endpoint.extra.{name}: unknown option; expected one of {', '.join(options)}")
        if name not in objects and not (_is_integer(value) or (isinstance(value, str) and value)):
            raise UsageError(f"endpoint.extra.{name}: expected text, got {value!r}")
    return with_digits(extra)


def with_digits(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return these values with each integer as the text of its digits."""
    return {name: str(value) if _is_integer(value) else value for name, value in values.items()}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def in_json(value: object) -> str:
    """Return a value as the user writes it.

    >>> in_json({"encoding": "audio/pcm"})
    '{"encoding":"audio/pcm"}'
    """
    return orjson.dumps(value).decode()


def given(**fields: Any) -> dict[str, Any]:
    """Return the arguments that are set: neither None nor the empty string.

    >>> given(voice=None, prompt="", rate=24_000)
    {'rate': 24000}
    """
    return {name: value for name, value in fields.items() if value is not None and value != ""}
