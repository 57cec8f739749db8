"""The exceptions of live-eval, and the kinds of turn failures.

::

    LiveEvalError
    ├── UsageError              a flag, a name or a value is invalid (exit status 2)
    │   ├── RunFileError        a run file is invalid
    │   └── PluginError         a client or judge is unknown or cannot be loaded
    ├── DataError               a data set or manifest is invalid
    ├── StoreError              a run folder cannot be written or read
    │   ├── StoreLockedError    another process is writing the run
    │   └── SchemaVersionError  another version wrote the run, with an unknown schema
    ├── JudgeError              a judge cannot run on this machine (no weights, no package)
    └── TurnError               a turn failed, with a FailureKind
        ├── AudioError          a recording cannot be used
        ├── ConnectError        no session could be opened
        └── TransportClosedError  the connection ended
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = [
    "FAILURE_CAUSES",
    "AudioError",
    "ConnectError",
    "DataError",
    "FailureCause",
    "FailureKind",
    "JudgeError",
    "LiveEvalError",
    "PluginError",
    "RunFileError",
    "SchemaVersionError",
    "StoreError",
    "StoreLockedError",
    "TransportClosedError",
    "TurnError",
    "UsageError",
]


class FailureKind(StrEnum):
    """The kind of a turn's failure or, in the last group, of a warning."""

    # The case's data, except its recording.
    CASE_UNUSABLE = "case_unusable"
    # The recording.
    AUDIO_MISSING = "audio_missing"
    AUDIO_UNREADABLE = "audio_unreadable"
    AUDIO_EMPTY = "audio_empty"
    AUDIO_NOT_FINITE = "audio_not_finite"
    AUDIO_RATE = "audio_rate"
    AUDIO_TOO_LONG = "audio_too_long"
    # Opening the session.
    NO_KEY = "no_key"
    AUTHENTICATION = "authentication"
    RATE_LIMITED = "rate_limited"
    BUSY = "busy"
    CONNECTION_REFUSED = "connection_refused"
    CONNECT_FAILED = "connect_failed"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS = "tls"
    HANDSHAKE = "handshake"
    UNAVAILABLE = "unavailable"
    SERVER_ERROR = "server_error"
    SDP_REFUSED = "sdp_refused"
    CODEC_REFUSED = "codec_refused"
    ICE_FAILED = "ice_failed"
    DTLS_FAILED = "dtls_failed"
    # During the session.
    NO_SESSION = "no_session"
    SESSION_REFUSED = "session_refused"
    NO_RESPONSE = "no_response"
    STALLED = "stalled"
    ENDLESS = "endless"
    CLOSED = "closed"
    CHANNEL_CLOSED = "channel_closed"
    NO_RTP = "no_rtp"
    SESSION_EXPIRED = "session_expired"
    UNKNOWN_MODEL = "unknown_model"
    WRONG_RATE = "wrong_rate"
    MESSAGE_TOO_BIG = "message_too_big"
    MALFORMED_MESSAGE = "malformed_message"
    MALFORMED_AUDIO = "malformed_audio"
    ENDPOINT_ERROR = "endpoint_error"
    # The response.
    RESPONSE_FAILED = "response_failed"
    RESPONSE_INCOMPLETE = "response_incomplete"
    RESPONSE_CANCELLED = "response_cancelled"
    TOO_MANY_RESPONSES = "too_many_responses"
    EMPTY_REPLY = "empty_reply"
    # A dialogue ended before this turn.
    DIALOGUE_ENDED = "dialogue_ended"
    # The harness.
    PROCESS_DIED = "process_died"
    INTERNAL = "internal"
    # Warnings: anomalies that do not fail the turn.
    AUDIO_ODD = "audio_odd"
    AUDIO_FORMAT = "audio_format"
    AUDIO_AFTER_DONE = "audio_after_done"
    AUDIO_REPEATED = "audio_repeated"
    UNKNOWN_EVENT = "unknown_event"
    NOT_FATAL_ERROR = "not_fatal_error"
    TRANSCRIPT_LATE = "transcript_late"


class FailureCause(StrEnum):
    """The cause of a failure. Only `ENDPOINT` is a result of the model; scores exclude the other causes."""

    DATA = "data"
    HARNESS = "live-eval"
    NO_SESSION = "no session"
    ENDPOINT = "endpoint"


FAILURE_CAUSES: Mapping[FailureKind, FailureCause] = {
    FailureKind.CASE_UNUSABLE: FailureCause.DATA,
    FailureKind.AUDIO_MISSING: FailureCause.DATA,
    FailureKind.AUDIO_UNREADABLE: FailureCause.DATA,
    FailureKind.AUDIO_EMPTY: FailureCause.DATA,
    FailureKind.AUDIO_NOT_FINITE: FailureCause.DATA,
    FailureKind.AUDIO_RATE: FailureCause.DATA,
    FailureKind.AUDIO_TOO_LONG: FailureCause.DATA,
    FailureKind.PROCESS_DIED: FailureCause.HARNESS,
    FailureKind.INTERNAL: FailureCause.HARNESS,
    # The turn never reached the model because of the account, the address, the network or the load.
    FailureKind.NO_KEY: FailureCause.NO_SESSION,
    FailureKind.AUTHENTICATION: FailureCause.NO_SESSION,
    FailureKind.RATE_LIMITED: FailureCause.NO_SESSION,
    FailureKind.BUSY: FailureCause.NO_SESSION,
    FailureKind.UNKNOWN_MODEL: FailureCause.NO_SESSION,
    FailureKind.CONNECTION_REFUSED: FailureCause.NO_SESSION,
    FailureKind.CONNECT_FAILED: FailureCause.NO_SESSION,
    FailureKind.CONNECT_TIMEOUT: FailureCause.NO_SESSION,
    FailureKind.TLS: FailureCause.NO_SESSION,
    FailureKind.HANDSHAKE: FailureCause.NO_SESSION,
    FailureKind.SDP_REFUSED: FailureCause.NO_SESSION,
    FailureKind.CODEC_REFUSED: FailureCause.NO_SESSION,
    FailureKind.ICE_FAILED: FailureCause.NO_SESSION,
    FailureKind.DTLS_FAILED: FailureCause.NO_SESSION,
    FailureKind.NO_SESSION: FailureCause.NO_SESSION,
    FailureKind.SESSION_REFUSED: FailureCause.NO_SESSION,
    # The endpoint may have received the turn; over HTTP, it is part of the request.
    FailureKind.UNAVAILABLE: FailureCause.ENDPOINT,
    FailureKind.SERVER_ERROR: FailureCause.ENDPOINT,
    FailureKind.NO_RESPONSE: FailureCause.ENDPOINT,
    FailureKind.STALLED: FailureCause.ENDPOINT,
    FailureKind.ENDLESS: FailureCause.ENDPOINT,
    FailureKind.CLOSED: FailureCause.ENDPOINT,
    FailureKind.CHANNEL_CLOSED: FailureCause.ENDPOINT,
    FailureKind.NO_RTP: FailureCause.ENDPOINT,
    FailureKind.SESSION_EXPIRED: FailureCause.ENDPOINT,
    FailureKind.WRONG_RATE: FailureCause.ENDPOINT,
    FailureKind.MESSAGE_TOO_BIG: FailureCause.ENDPOINT,
    FailureKind.MALFORMED_MESSAGE: FailureCause.ENDPOINT,
    FailureKind.MALFORMED_AUDIO: FailureCause.ENDPOINT,
    FailureKind.ENDPOINT_ERROR: FailureCause.ENDPOINT,
    FailureKind.RESPONSE_FAILED: FailureCause.ENDPOINT,
    FailureKind.RESPONSE_INCOMPLETE: FailureCause.ENDPOINT,
    FailureKind.RESPONSE_CANCELLED: FailureCause.ENDPOINT,
    FailureKind.TOO_MANY_RESPONSES: FailureCause.ENDPOINT,
    FailureKind.EMPTY_REPLY: FailureCause.ENDPOINT,
    # Same cause as the earlier turn, if known.
    FailureKind.DIALOGUE_ENDED: FailureCause.ENDPOINT,
}
"""The cause of each kind of failure."""


class LiveEvalError(Exception):
    """The base of live-eval's exceptions."""


class UsageError(LiveEvalError):
    """The caller passed an invalid flag, name or value."""


class RunFileError(UsageError):
    """A run file is invalid; the message contains the key, the line and the allowed values."""


class PluginError(UsageError):
    """A client or judge is unknown or cannot be loaded."""


class DataError(LiveEvalError):
    """A data set or manifest is invalid; the message contains the expected and the actual value."""


class StoreError(LiveEvalError):
    """A run folder cannot be written or read."""


class StoreLockedError(StoreError):
    """Another process is writing this run."""


class SchemaVersionError(StoreError):
    """The run was written with a schema that this version cannot read."""


class JudgeError(LiveEvalError):
    """A judge cannot run on this machine; the message contains the missing requirement."""


class TurnError(LiveEvalError):
    """A turn failed.

    Args:
        message: Expected value, actual value, and location; never contains a secret.
    """

    def __init__(self, kind: FailureKind, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s


class AudioError(TurnError):
    """A recording cannot be used."""


class ConnectError(TurnError):
    """No session could be opened."""


class TransportClosedError(TurnError):
    """Either side ended the connection.

    Args:
        at_ns: Time at which the end was detected, on the session's monotonic clock.
        kind: A more specific kind than `FailureKind.CLOSED`, if available (a refused request, a closed data
            channel, a message that is too big); `reason` is then the complete message.
    """

    def __init__(
        self,
        code: int | None,
        reason: str,
        at_ns: int,
        *,
        kind: FailureKind = FailureKind.CLOSED,
        retry_after_s: float | None = None,
    ) -> None:
        said = f"connection closed: code {code}, reason {reason!r}" if kind is FailureKind.CLOSED else reason
        super().__init__(kind, said, retry_after_s=retry_after_s)
        self.code = code
        self.reason = reason
        self.at_ns = at_ns
