"""Map Amazon Bedrock's exceptions for Nova Sonic to failure kinds.

The names are in Bedrock's API reference (InvokeModelWithBidirectionalStream) or among the errors of every AWS
service. Bedrock has no name for an unknown model; the texts are those that its users report
(https://github.com/aws-samples/amazon-bedrock-workshop/issues/315). A ``ValidationException`` names a request
that would fail again, except for the texts after which livekit-plugins-aws 1.8 opens a new session, and for
timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from live_eval.errors import FailureKind

__all__ = ["failure_kind"]

_TRANSIENT = re.compile(r"RST_STREAM|System instability|Please retry|timed? ?out", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile(r"\bmodel (?:identifier|ID) is (?:invalid|not supported)")
_KINDS: Mapping[str, FailureKind] = MappingProxyType(
    {
        "AccessDeniedException": FailureKind.AUTHENTICATION,
        "ExpiredTokenException": FailureKind.AUTHENTICATION,
        "InvalidSignatureException": FailureKind.AUTHENTICATION,
        "UnrecognizedClientException": FailureKind.AUTHENTICATION,
        "InternalServerException": FailureKind.SERVER_ERROR,
        "ModelNotReadyException": FailureKind.UNAVAILABLE,
        "ResourceNotFoundException": FailureKind.UNKNOWN_MODEL,
        "ServiceQuotaExceededException": FailureKind.BUSY,
        "ServiceUnavailableException": FailureKind.UNAVAILABLE,
        "ThrottlingException": FailureKind.RATE_LIMITED,
    }
)


def failure_kind(name: str, text: str, *, old: bool) -> FailureKind:
    """Return the kind of an exception.

    Args:
        name: The exception's name.
        text: Its message.
        old: Whether the connection has nearly reached its time limit, after which Bedrock reports a time-out.
    """
    if name == "ValidationException" and _UNKNOWN_MODEL.search(text):
        return FailureKind.UNKNOWN_MODEL
    if name == "ValidationException" and not _TRANSIENT.search(text):
        return FailureKind.SESSION_REFUSED
    if name == "ModelTimeoutException" and old:
        return FailureKind.SESSION_EXPIRED
    return _KINDS.get(name, FailureKind.ENDPOINT_ERROR)
