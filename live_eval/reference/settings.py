"""How the reference endpoint is to behave: exact timing, and faults on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from live_eval.errors import UsageError

__all__ = ["BOUNDS", "Cadence", "Fault", "IdleRtp", "ReferenceSettings"]


class Cadence(StrEnum):
    """How fast reply audio leaves once it has begun."""

    BURST = "burst"
    """The first chunk, and two milliseconds later all others as fast as they can be handed over."""
    REALTIME = "realtime"
    """Chunk k, whose audio begins at a, leaves a after the first one."""


class IdleRtp(StrEnum):
    """What a media track carries while nothing is said."""

    SILENCE = "silence"
    """A packet of silence every 20 ms, as from a microphone; a reply begins with the next packet due."""
    NONE = "none"
    """No packet; a reply begins at once."""


class Fault(StrEnum):
    """Something wrong that the endpoint does on purpose, for tests of clients."""

    SILENT = "silent"
    """Hears, but never answers."""
    CLOSE_MID_REPLY = "close_mid_reply"
    """Closes the connection after half of the reply."""
    MALFORMED_JSON = "malformed_json"
    """Sends a message that is not JSON in mid-reply, then goes on."""
    UNKNOWN_EVENT = "unknown_event"
    """Sends an event of a type that nobody knows in mid-reply, then goes on."""
    ERROR_EVENT = "error_event"
    """Sends an error event that is not fatal in mid-reply, then goes on."""
    FAILED_RESPONSE = "failed_response"
    """Ends the response as failed, before any audio."""
    INCOMPLETE_RESPONSE = "incomplete_response"
    """Ends the response as incomplete after half of the reply."""
    AUDIO_AFTER_DONE = "audio_after_done"
    """Sends one more chunk of audio after the response is done."""
    ENDLESS = "endless"
    """Repeats the reply for ever, at the pace of speech."""
    STALL_MID_REPLY = "stall_mid_reply"
    """Sends half of the reply, then nothing, and never ends the response."""
    EMPTY_REPLY = "empty_reply"
    """Completes the response without audio or text."""
    NEVER_READY = "never_ready"
    """Accepts the connection and says nothing at all."""
    REFUSE_401 = "refuse_401"
    """Refuses the handshake: no authority."""
    REFUSE_429 = "refuse_429"
    """Refuses the handshake: too many requests, try again in a second."""
    REFUSE_SDP = "refuse_sdp"
    """Over WebRTC: refuses the offer as if it were no session description."""
    NO_CODEC = "no_codec"
    """Over WebRTC: answers with a codec that nobody offered."""
    BAD_CANDIDATES = "bad_candidates"
    """Over WebRTC: answers with an address at which nobody listens."""
    NO_RTP = "no_rtp"
    """Over WebRTC: announces a reply's audio, and sends no packet in the whole session."""
    DROP_PACKETS = "drop_packets"
    """Over WebRTC: loses every tenth packet of the track."""
    CLOSE_CHANNEL = "close_channel"
    """Over WebRTC: closes the data channel after half of the reply's events, and goes on sending audio;
    elsewhere the same as ``close_mid_reply``."""


BOUNDS: Mapping[str, tuple[int, int]] = {
    "delay_ms": (0, 600_000),
    "lead_silence_ms": (0, 60_000),
    "chunk_ms": (1, 10_000),
    "reply_ms": (1, 600_000),
    "session_limit_s": (1, 86_400),
    "notice_s": (0, 86_400),
}
"""Least and largest value of each number, in the unit of its name."""

_PER_SESSION = (
    "delay_ms",
    "lead_silence_ms",
    "chunk_ms",
    "cadence",
    "reply_ms",
    "fault",
    "idle_rtp",
    "label",
)
_LABEL_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """How sessions are to go. Process-wide, and overridden for one session by the URL's query.

    Args:
        delay_ms: The reply's first chunk leaves this long after the end of the user's speech, or as soon
            as the reply is there where that is later.
        lead_silence_ms: Digital silence before the reply.
        chunk_ms: Length of a chunk of reply audio; on a media track a packet has 20 ms.
        cadence: How fast the chunks leave; on a media track, how fast the events do: its packets always
            leave at the pace of speech.
        calibrate: Load no model: the end of speech is the arrival of a marked sample, the reply a
            constructed signal.
        reply_ms: Length of the constructed reply, its lead silence not counted.
        fault: What to do wrong, or None.
        session_limit_s: The endpoint ends a session after this long.
        notice_s: Dialects that announce the session's end (Gemini's ``goAway``) do so this long before;
            0 for no announcement.
        idle_rtp: What a media track carries while nothing is said.
        label: The client's own name for the session, kept with its truth: not every dialect tells the
            client the endpoint's.

    Raises:
        UsageError: A number is out of bounds, or the label too long.
    """

    delay_ms: int = 0
    lead_silence_ms: int = 0
    chunk_ms: int = 100
    cadence: Cadence = Cadence.BURST
    calibrate: bool = False
    reply_ms: int = 1000
    fault: Fault | None = None
    session_limit_s: int = 3600
    notice_s: int = 60
    idle_rtp: IdleRtp = IdleRtp.SILENCE
    label: str = ""

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"{name}: expected {least} to {most}, but it is {value}")
        if len(self.label) > _LABEL_CHARACTERS:
            raise UsageError(
                f"label: expected at most {_LABEL_CHARACTERS} characters, but it has {len(self.label)}"
            )

    def overridden(self, query: Mapping[str, str]) -> ReferenceSettings:
        """Return these settings with those of one session's URL query, such as ``?delay_ms=200``.

        Args:
            query: What the URL says, ``model`` left out; ``fault=none`` turns a fault off.

        Raises:
            UsageError: A key is unknown or a value is not allowed; the message says what is.
        """
        changes: dict[str, Any] = {}
        for key, value in query.items():
            if key not in _PER_SESSION:
                raise UsageError(
                    f"the query has {key!r}; what a session can set is: {', '.join(_PER_SESSION)}"
                )
            if key == "cadence":
                changes[key] = _member(Cadence, key, value)
            elif key == "idle_rtp":
                changes[key] = _member(IdleRtp, key, value)
            elif key == "label":
                changes[key] = value
            elif key == "fault":
                changes[key] = None if value == "none" else _member(Fault, key, value)
            else:
                changes[key] = _whole_number(key, value)
        return replace(self, **changes)


def _member(kind: type[StrEnum], key: str, value: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{key}: expected one of {', '.join(kind)}, but it is {value!r}") from None


def _whole_number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        least, most = BOUNDS[key]
        raise UsageError(f"{key}: expected a whole number of {least} to {most}, but it is {value!r}")
    return int(value)
