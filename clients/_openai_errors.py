"""Map errors from OpenAI-like endpoints to session failures."""

from __future__ import annotations

import re

from live_eval.clients.toolkit import Fields
from live_eval.errors import FailureKind

_BETA_REFUSED = "beta_api_shape_disabled"

# Errors that end the session, by `code`, or by `type` if there is no code.
_FATAL: dict[str, FailureKind] = {
    "account_deactivated": FailureKind.AUTHENTICATION,
    "authentication_error": FailureKind.AUTHENTICATION,
    "insufficient_permissions": FailureKind.AUTHENTICATION,
    "invalid_api_key": FailureKind.AUTHENTICATION,
    "invalid_authentication": FailureKind.AUTHENTICATION,
    "permission_error": FailureKind.AUTHENTICATION,
    "billing_hard_limit_reached": FailureKind.RATE_LIMITED,
    "insufficient_quota": FailureKind.RATE_LIMITED,
    "resource_exhausted": FailureKind.RATE_LIMITED,
    "session_limit_reached": FailureKind.BUSY,
    "rate_limit_error": FailureKind.RATE_LIMITED,
    "rate_limit_exceeded": FailureKind.RATE_LIMITED,
    "DeploymentNotFound": FailureKind.UNKNOWN_MODEL,
    "InvalidApiKey": FailureKind.AUTHENTICATION,
    "ModelNotFound": FailureKind.UNKNOWN_MODEL,
    "Throttling": FailureKind.RATE_LIMITED,
    "invalid_model": FailureKind.UNKNOWN_MODEL,
    "model_not_found": FailureKind.UNKNOWN_MODEL,
    "session_expired": FailureKind.SESSION_EXPIRED,
    _BETA_REFUSED: FailureKind.SESSION_REFUSED,
}
# Vendors use different codes for the session limit, but all mention it in the message.
_EXPIRED = re.compile(
    r"maximum (session )?duration|session[\w ]{0,20} (expired|timed out|time limit)|会话(已)?(超时|过期)",
    re.IGNORECASE,
)
_WAIT = re.compile(
    r"try again in (?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?", re.IGNORECASE
)


def fatal_kind(code: str | None, error_type: str | None = None, said: str = "") -> FailureKind | None:
    """Return the failure kind of an error that always ends the session, else None; `said` is the error
    message.
    """
    kind = _FATAL.get(code or "") or _FATAL.get(error_type or "")
    return kind or (FailureKind.SESSION_EXPIRED if _EXPIRED.search(said) else None)


def refusal_kind(error_type: str | None) -> FailureKind:
    """Return the failure kind of another error before the session is ready: a bad request fails again."""
    refused = error_type == "invalid_request_error"
    return FailureKind.SESSION_REFUSED if refused else FailureKind.NO_SESSION


def error_in(reason: str) -> str | None:
    """Return the fatal error in a close reason, or None if it contains none.

    OpenAI closes with code 3000 or 4000 and the reason ``TYPE.CODE``, such as
    ``invalid_request_error.invalid_api_key``.
    """
    return next((word for word in re.findall(r"\w+", reason) if word in _FATAL), None)


def hint(code: str | None) -> str:
    """Return advice to append to an error message; may be empty."""
    if code != _BETA_REFUSED:
        return ""
    return " (this endpoint no longer supports the beta dialect: use the GA dialect, --endpoint openai)"


def describe(error: Fields) -> str:
    """Format an error object (`type`, `code`, `message`, `param`); empty if all fields are missing."""
    code, message = error.text("code") or error.text("type"), error.text("message")
    param = error.text("param")
    words = ": ".join(part for part in (code, message) if part)
    return words + (f" (at {param})" if param else "") + hint(code)


def retry_after_s(message: str) -> float | None:
    """Return the delay in seconds that a rate-limit message requests, or None.

    >>> retry_after_s("Rate limit reached. Please try again in 1m2.5s. Visit …")
    62.5
    """
    found = _WAIT.search(message)
    if found is None:
        return None
    days, hours, minutes, rest, unit = found.groups()
    if not any((days, hours, minutes, rest)):
        return None
    seconds = float(rest or 0) / (1000 if unit and unit.lower() == "ms" else 1)
    return float(days or 0) * 86_400 + float(hours or 0) * 3_600 + float(minutes or 0) * 60 + seconds
