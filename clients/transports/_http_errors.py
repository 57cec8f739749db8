"""Map failures of HTTP connections to failure kinds, without exposing secrets."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any
from urllib.parse import SplitResult, unquote_plus, urlsplit

import orjson

from live_eval.clients._openai_errors import describe, fatal_kind
from live_eval.clients._openai_errors import retry_after_s as told_wait_s
from live_eval.clients.toolkit import Fields, hide_secrets, with_advice
from live_eval.dialect import Dial
from live_eval.errors import ConnectError, FailureKind
from live_eval.http.dates import seconds_until
from live_eval.http.hosts import is_internal

_BODY_CHARACTERS = 300
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_PUBLIC_QUERY = ("auto_subscribe", "model", "protocol")
_PUBLIC_PARAMETERS = ("model_id", "region")
_PUBLIC_HEADERS = ("accept", "content-type", "openai-beta", "user-agent")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
# Open-model servers such as vLLM use the number 404 instead of a string code.
_NAMES_A_MODEL = (400, 404)
_UNKNOWN_MODEL = re.compile(
    r"\bmodel\W{0,3}[\w./:@-]*\W{0,3}\b(?:does not exist|(?:is |was )?not (?:exist|found|supported))"
    r"|\b(?:unknown|invalid|unsupported) model\b",
    re.IGNORECASE,
)
_MISSING = (404, 405, 410)
# Gateways respond to unknown paths as if the key were wrong.
_HINTS = {401: "check the key and", 403: "check the key and", 404: "check"}
_PAYMENT_REQUIRED = 402
_STATUSES = {
    401: FailureKind.AUTHENTICATION,
    _PAYMENT_REQUIRED: FailureKind.SESSION_REFUSED,
    403: FailureKind.AUTHENTICATION,
    429: FailureKind.RATE_LIMITED,
}
_SERVER_ERROR = 500
_OF_THE_REQUEST = (500, 501)  # 502 and above: the service or its network path is down


class Address:
    """The URL of an endpoint; failures show its host and path, but never its query or headers.

    Args:
        dial: The URL and the headers.
        schemes: Allowed URL schemes, the recommended scheme first.

    Raises:
        ConnectError: The URL has another scheme, or a header is invalid in HTTP.
    """

    def __init__(self, dial: Dial, schemes: Collection[str]) -> None:
        self._secrets = _secrets_of(dial)
        self._advice = dial.advice
        self.url = _checked(dial, schemes)
        self.where = f"{self.url.scheme}://{self.url.netloc.rpartition('@')[2]}{self.url.path}"
        """The URL for messages."""

    @property
    def host(self) -> str:
        """The host name."""
        return self.url.hostname or ""

    @property
    def secure(self) -> bool:
        """Whether the scheme uses TLS."""
        return self.url.scheme in ("https", "wss")

    def hide(self, text: str) -> str:
        """Return `text` without secrets."""
        return hide_secrets(text, self._secrets)

    def failure(self, kind: FailureKind, why: str, *, retry_after_s: float | None = None) -> ConnectError:
        """Return a failure of this endpoint, without the secrets in `why`."""
        text = with_advice(self.hide(why), self._advice.get(kind))
        return ConnectError(kind, f"{self.where}: {text}", retry_after_s=retry_after_s)

    def unreachable(self, error: OSError, timeout_s: float) -> ConnectError:
        """Return the failure of a connection attempt; `TimeoutError` means that it exceeded `timeout_s`."""
        if isinstance(error, TimeoutError):
            kind, why = FailureKind.CONNECT_TIMEOUT, f"no connection within {timeout_s:g} s"
        elif isinstance(error, ssl.SSLError):
            kind, why = FailureKind.TLS, f"TLS failed: {error.reason or error}; {self._tls_hint(error)}"
        elif self.secure and isinstance(error, ConnectionResetError | ConnectionAbortedError):
            # A server without TLS may cause this error, but so may a restart, which is temporary.
            kind = FailureKind.CONNECT_FAILED
            why = f"the connection ended during the TLS handshake; {self._no_tls}"
        elif isinstance(error, ConnectionResetError) or error.errno == errno.ECONNRESET:
            kind, why = FailureKind.CONNECT_FAILED, "the connection was reset before a response"
        elif isinstance(error, socket.gaierror):
            kind, why = FailureKind.CONNECT_FAILED, f"cannot resolve the host name: {error.strerror}"
        elif _says_refused(error):
            kind, why = FailureKind.CONNECTION_REFUSED, "connection refused: is the server running?"
        else:
            kind, why = FailureKind.CONNECT_FAILED, f"{type(error).__name__}: {error}"
        return self.failure(kind, why)

    def refused(
        self,
        status: int,
        phrase: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        expected: str,
        otherwise: FailureKind,
        wall_ns: int,
    ) -> ConnectError:
        """Convert an unexpected HTTP status to a failure.

        A known OpenAI error code in the body (unknown model, exhausted quota) takes precedence over the
        status: some services respond with 403 for a missing model. The same applies to a body whose text
        describes an unknown model. A JSON object with status 404 is the service's own answer: for a path that
        names an agent (it has advice), the agent does not exist.

        Args:
            status: The received status.
            phrase: The reason phrase; may be empty.
            headers: The response headers, in any case.
            body: The response body, or its beginning.
            expected: A description of the expected response.
            otherwise: Failure kind for statuses without a specific kind.
            wall_ns: Current time, in nanoseconds since the Unix epoch.
        """
        kind, said = _told(body)
        text = self.hide(" ".join((said or body.decode(errors="replace")).split()))[:_BODY_CHARACTERS]
        moved = self._moved(headers.get("Location") or "") if 300 <= status < 400 else None
        parts = [
            f"expected {expected}, got {' '.join(filter(None, (str(status), phrase)))}",
            moved or "",
            f"{'message' if said else 'body'}: {text}" if text else "",
        ]
        if kind is None and status in _NAMES_A_MODEL and _UNKNOWN_MODEL.search(text):
            kind = FailureKind.UNKNOWN_MODEL
        if kind is None and status == 404 and status in self._advice and _object_in(body):
            kind = FailureKind.SESSION_REFUSED
        if kind in (None, FailureKind.AUTHENTICATION) and status in _HINTS:
            path = self.hide(self.url.path or "/")
            parts.append(f"{_HINTS[status]} the base URL: the request path was {path!r}")
        if status == _PAYMENT_REQUIRED:
            parts.append("check the account's credit")
        if kind is None and (300 <= status < 400 or status in _MISSING):
            kind = FailureKind.HANDSHAKE
        if kind is None and status >= _SERVER_ERROR:
            kind = FailureKind.SERVER_ERROR if status in _OF_THE_REQUEST else FailureKind.UNAVAILABLE
        wait_s = retry_after_s(headers.get("Retry-After"), wall_ns, headers.get("Date"))
        return self.failure(
            kind or _STATUSES.get(status, otherwise),
            with_advice("; ".join(part for part in parts if part), self._advice.get(status)),
            retry_after_s=told_wait_s(said) if wait_s is None else wait_s,
        )

    def _moved(self, location: str) -> str:
        """Return where a redirect leads, and whether to use it: only an internal host may name another."""
        if not location:
            return ""
        url, _, _ = location.partition("?")
        try:
            host = urlsplit(url).hostname or self.host
        except ValueError:
            return "it redirects to an invalid address"
        trusted = not is_internal(host) or is_internal(self.host)
        return f"it redirects to {url}{'; use that as the base URL' if trusted else ', an internal address'}"

    @property
    def _no_tls(self) -> str:
        return f"does the endpoint speak TLS ({self.url.scheme}) on this port?"

    def _tls_hint(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{error.verify_message}: does this machine trust the endpoint's certificate?"
        return self._no_tls


@cache
def system_tls() -> ssl.SSLContext:
    """Return TLS settings with the system's trust store, cached because reading it takes tens of
    milliseconds.
    """
    return ssl.create_default_context()


async def load_system_tls(dial: Dial) -> None:
    """Load the system's trust store outside the event loop if `dial` uses TLS."""
    if dial.url.partition(":")[0].lower() in ("https", "wss"):
        await asyncio.to_thread(system_tls)


def retry_after_s(value: str | None, wall_ns: int, date: str | None = None) -> float | None:
    """Return the delay in seconds from `Retry-After` (RFC 9110, 10.2.3: seconds or a date).

    Args:
        value: The header; None if it is missing.
        wall_ns: Current time, in nanoseconds since the Unix epoch.
        date: The response's `Date` header; it replaces `wall_ns`, because the local clock may be wrong.

    >>> retry_after_s("2", 0)
    2.0
    """
    if value is None:
        return None
    if _SECONDS.fullmatch(value.strip()):
        return float(value)  # infinity if there are hundreds of digits
    left_s = seconds_until(value, wall_ns, date)
    return None if left_s is None else max(0.0, left_s)


def _told(body: bytes) -> tuple[FailureKind | None, str]:
    """Return the failure kind and the message in an OpenAI error body (``{"error": {…}}``)."""
    found = _object_in(body).get("error")
    if not isinstance(found, dict):
        return None, ""
    error = Fields("error", found)
    return fatal_kind(error.text("code"), error.text("type")), describe(error)


def _object_in(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response body; an empty one if it is anything else."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _checked(dial: Dial, schemes: Collection[str]) -> SplitResult:
    try:
        url = urlsplit(dial.url)
        port_is_number = url.port is None or url.port > 0
    except ValueError:
        raise ConnectError(FailureKind.CONNECT_FAILED, "cannot parse the URL") from None
    if url.scheme not in schemes or not url.hostname or not port_is_number:
        raise ConnectError(
            FailureKind.CONNECT_FAILED,
            f"expected a URL such as {next(iter(schemes))}://HOST/PATH, got scheme {url.scheme!r} and host "
            f"{url.hostname!r}",
        )
    for name, value in dial.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ConnectError(
                FailureKind.AUTHENTICATION,
                f"header {name!r} contains a character that HTTP does not allow (a line break in the key?)",
            )
    return url


def _secrets_of(dial: Dial) -> tuple[str, ...]:
    """Return the secrets to redact, longest first."""
    found = set[str]()
    for name, value in dial.headers.items():
        if name.lower() not in _PUBLIC_HEADERS:
            found.update((value, value.rpartition(" ")[2]))
    found.update(value for name, value in dial.sdk.items() if name not in _PUBLIC_PARAMETERS)
    address, _, query = dial.url.partition("?")
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name not in _PUBLIC_QUERY:
            found.update((value, unquote_plus(value)))
    login = address.partition("//")[2].partition("/")[0].rpartition("@")[0]
    found.update(login.split(":"))
    return tuple(sorted((value for value in found if value.strip()), key=len, reverse=True))


def _says_refused(error: OSError) -> bool:
    """Return whether all addresses refused the connection; asyncio merges their errors into one message."""
    if isinstance(error, ConnectionRefusedError):
        return True
    text = str(error)
    refusals = text.count(f"[Errno {errno.ECONNREFUSED}]")
    return error.errno is None and 0 < refusals == text.count("[Errno ")
