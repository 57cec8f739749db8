"""Define timeouts for an endpoint, and the failures that they cause. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from live_eval.errors import FailureKind
from live_eval.session.bounds import TEXT_CHARACTERS
from live_eval.session.responses import OpenResponse
from live_eval.types import Failure

__all__ = ["SessionLimits", "answer_by_ns", "connection_closed", "overdue", "unanswered"]

_SECOND_NS = 1_000_000_000
_TALKS_THROUGH_NS = 2 * _SECOND_NS  # an earlier reply that continues longer has ignored the user's speech


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Timeouts by stage, in seconds.

    Args:
        connect_s: Timeout for the connection.
        ready_s: Timeout for the session to become ready after connecting.
        reply_s: Timeout for a response to begin after the user's turn is over.
        stall_s: Timeout for the next audio or text of a response.
        max_reply_s: Maximum duration of a response, and maximum length of its audio.
        linger_s: Time to wait for late audio or another response after a response has ended.
        transcript_s: Time to wait for the input transcription, which may be slower, after a response has
            ended.
        silence_s: Length of silence that ends a reply on continuous media.
        listen_s: Time to wait for a reaction to an utterance that expects no answer or was talked over.
    """

    connect_s: float = 15.0
    ready_s: float = 15.0
    reply_s: float = 30.0
    stall_s: float = 15.0
    max_reply_s: float = 120.0
    linger_s: float = 0.3
    transcript_s: float = 3.0
    silence_s: float = 1.5
    listen_s: float = 4.0


def connection_closed(code: int | None, reason: str) -> str:
    """Return the message for a connection that ended early; a lost one has a reason but no code."""
    if code is None and reason:
        return reason
    return f"the endpoint closed the connection: code {code}, reason {reason!r}"


def overdue(response: OpenResponse, limits: SessionLimits, at_ns: int, *, on_track: bool) -> Failure | None:
    """Return the failure of an open response that has stalled or lasts too long, or None."""
    if at_ns - response.progress_ns > limits.stall_s * _SECOND_NS:
        what, kind = "no audio or text", FailureKind.STALLED
        if on_track and not response.chunks:
            what, kind = "no RTP packet", FailureKind.NO_RTP
        return Failure(
            kind,
            f"response {response.response_id} stalled: {what} for {limits.stall_s:g} s "
            f"({response.audio_s:.2f} s of audio had arrived)",
            at_ns,
        )
    if response.audio_s > limits.max_reply_s:
        message = f"response {response.response_id} has more than {limits.max_reply_s:g} s of audio"
        return Failure(FailureKind.ENDLESS, message, at_ns)
    if response.characters > TEXT_CHARACTERS:
        message = f"response {response.response_id} has more than {TEXT_CHARACTERS} characters of text"
        return Failure(FailureKind.ENDLESS, message, at_ns)
    if at_ns - response.began_ns > limits.max_reply_s * _SECOND_NS:
        message = f"response {response.response_id} did not end within {limits.max_reply_s:g} s"
        quiet_s = (at_ns - response.progress_ns) / _SECOND_NS
        if limits.max_reply_s <= limits.stall_s and quiet_s > limits.silence_s:  # the response has stalled
            message += f"; no audio or text for the last {quiet_s:.1f} s"
            return Failure(FailureKind.STALLED, message, at_ns)
        return Failure(FailureKind.ENDLESS, message, at_ns)
    return None


def answer_by_ns(limits: SessionLimits, since_ns: int, earlier_until_ns: int) -> int:
    """Return the deadline of a response due since `since_ns`.

    `earlier_until_ns` is the time at which the user heard the last reply to an earlier turn end, or 0. After
    an endpoint has talked over the user, the wait is short because it either answers soon or not at all.
    """
    due_ns = since_ns + round(limits.reply_s * _SECOND_NS)
    if earlier_until_ns - since_ns <= _TALKS_THROUGH_NS:
        return due_ns
    return min(due_ns, earlier_until_ns + round(limits.listen_s * _SECOND_NS))


def unanswered(limits: SessionLimits, did: str, user_done_ns: int, earlier_until_ns: int, at_ns: int) -> str:
    """Return the error message for a turn without a response.

    Args:
        did: What the endpoint did instead of responding.
    """
    talked_ns = earlier_until_ns - user_done_ns
    if talked_ns <= _TALKS_THROUGH_NS:
        return f"no response within {limits.reply_s:g} s after the user's turn; the endpoint {did}"
    quiet_s = (at_ns - earlier_until_ns) / _SECOND_NS
    then = f"no further response began within {quiet_s:.1f} s" if quiet_s >= 0.1 else "was still in progress"
    return (
        "no response to the user's turn: the endpoint talked over it; its earlier reply continued for "
        f"{talked_ns / _SECOND_NS:.1f} s after the turn and {then}"
    )
