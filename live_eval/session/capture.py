"""Define the data captured during a turn: its messages, and its replies as they arrived.

`live_eval.recording.record.finish` converts a capture to the stored record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec
from live_eval.audio.rtp import MediaStats
from live_eval.dialect import RateLimit
from live_eval.session.preroll import Preroll
from live_eval.timing import ResponseRecord, TurnTrace
from live_eval.types import Failure

__all__ = ["CapturedResponse", "LoggedMessage", "TurnCapture", "no_packet"]


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A stored message in either direction, with audio replaced by its size and secrets removed.

    Args:
        at_ns: Time at which the message arrived or was passed to the transport.
        direction: ``in`` from the endpoint or ``out`` to it.
        body: The message as a JSON object.
    """

    at_ns: int
    direction: Literal["in", "out"]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """A response as it arrived.

    Args:
        record: Timestamps of the response; `finish` corrects the number of samples in each chunk.
        chunks: The audio that arrived at each of `record.chunk_arrival_ns`: bytes in `codec`, or samples if
            the session had to decode it (int16 mono, shape (samples,), at the codec's rate).
        concealed: Number of samples concealed as silence before each chunk, if a media track lost packets;
            empty without loss.
        preroll: The first chunks, if they arrived on a media track before the event that announced the
            response; otherwise None.
        codec: Encoding of the bytes; None without audio.
    """

    record: ResponseRecord
    chunks: Sequence[bytes | NDArray[np.int16]] = field(default=(), repr=False)
    concealed: Sequence[int] = field(default=(), repr=False)
    preroll: Preroll | None = None
    codec: Codec | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnCapture:
    """Everything that a session captured during one turn.

    Args:
        trace: Timestamps of the turn; `finish` adds the responses' timestamps.
        wire: The responses as they arrived, in start order; empty in a record.
        log: Every message with its timestamp, in order, except user audio, for which only frame times are
            stored. Empty in a record read from disk.
        heard_text: The endpoint's transcript of the user's speech, or None.
        rate_limits: The endpoint's rate limits, as last reported.
        wall_ns: Nanoseconds since the Unix epoch at `trace.dial_ns`: the session's only wall-clock anchor.
        late_speech_frames: Number of speech frames sent more than a frame late to catch up.
        skipped_silence_frames: Number of silence frames skipped to catch up.
        failure: Why the turn failed; None if it ended normally.
        retry_after_s: Retry delay requested by the endpoint, in seconds, or None; not stored.
        warnings: Anomalies that did not fail the turn.
        media: Packet statistics of the media track; None without a track.
    """

    trace: TurnTrace
    wire: Sequence[CapturedResponse] = field(default=(), repr=False)
    log: Sequence[LoggedMessage] = field(default=(), repr=False)
    heard_text: str | None = None
    rate_limits: tuple[RateLimit, ...] = ()
    session_id: str | None = None
    model: str | None = None
    wall_ns: int
    late_speech_frames: int = 0
    skipped_silence_frames: int = 0
    failure: Failure | None = None
    retry_after_s: float | None = None
    warnings: tuple[Failure, ...] = ()
    media: MediaStats | None = None


def no_packet(response_id: str) -> str:
    """Return the error message for a response that was announced as playing but has no packets."""
    return f"response {response_id} began and ended without an audio packet"
