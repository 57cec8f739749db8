"""Decide when a `Turn` is over and whether it failed. Pure."""

from __future__ import annotations

from live_eval.errors import FailureKind
from live_eval.session.capture import no_packet
from live_eval.session.limits import answer_by_ns, unanswered
from live_eval.session.responses import OpenResponse
from live_eval.session.turn import Turn
from live_eval.timing import ResponseStatus, headline_response, is_cut_off
from live_eval.types import Failure, Modality

__all__ = ["end", "is_over"]

_SECOND_NS = 1_000_000_000
_UNREADABLE = (FailureKind.MALFORMED_MESSAGE, FailureKind.MALFORMED_AUDIO)
_NOT_WHOLE = (ResponseStatus.FAILED, ResponseStatus.INCOMPLETE)


def is_over(turn: Turn, at_ns: int, quiet_ns: int = 0) -> bool:
    """Return whether a turn is over; record its failure if it failed.

    Args:
        quiet_ns: Time at which the user has heard all replies so far or, if an answer is expected, all
            replies to earlier turns.
    """
    turn.source.tick(at_ns)
    turn.limit_responses(at_ns)
    done_ns, limits = turn.user.done_ns, turn.limits
    if turn.failure is not None:
        return True
    if done_ns is None:
        return False
    if turn.closed:
        _judge(turn, at_ns, quiet_ns)
        return True
    opened = [response for response in turn.replies if turn.source.is_open(response, at_ns)]
    if opened:
        if (overdue := turn.overdue_of(opened[-1], at_ns)) is not None:
            _fail_without(turn, overdue.kind, overdue.message, at_ns)
        return overdue is not None
    if not turn.expects_answer:
        if at_ns - max(done_ns, quiet_ns) < limits.listen_s * _SECOND_NS:
            return False
    elif (since_ns := turn.waiting_since(done_ns)) is not None:
        if at_ns < answer_by_ns(limits, since_ns, quiet_ns):
            return False
    else:
        waits_s = max(limits.linger_s, limits.transcript_s) if turn.transcripts.pending else limits.linger_s
        if at_ns - (turn.progress_ns or 0) < waits_s * _SECOND_NS:
            return False
    _judge(turn, at_ns, quiet_ns)
    return True


def end(turn: Turn, at_ns: int, *, user_continues: bool = False) -> None:
    """Record the failure, if any, of a turn that ends early.

    Args:
        turn: The turn. An interrupted reply need not be complete.
        user_continues: Whether the next utterance does not wait for the answer, which may then arrive later.
    """
    answer = _answer(turn)
    may_be_partial = turn.user.barge_in_ns is not None or user_continues or not turn.expects_answer
    if answer is None:
        if turn.expects_answer and not user_continues:
            _fail_without(turn, FailureKind.NO_RESPONSE, "the session ended before a response began", at_ns)
    elif answer.status in _NOT_WHOLE:
        _judge_answer(turn, answer, at_ns)
    elif not may_be_partial and is_cut_off(answer.record()):
        _cut_off(turn, answer, "the turn ended before another response", at_ns)
    elif not may_be_partial and answer.status is ResponseStatus.COMPLETED:
        _judge_answer(turn, answer, at_ns)
    _judge_warnings(turn)


def _answer(turn: Turn) -> OpenResponse | None:
    """Return the response that decides about failure: the answer or, if cancelled, a later one; else None."""
    answer, rest, user = None, list(turn.replies), turn.user
    while rest:
        marks = [response.record() for response in rest]
        headline = headline_response(marks, user.onset_ns, user.voice_end_ns, user.barge_in_ns)
        if headline is None:
            break
        answer, rest = rest[headline], rest[headline + 1 :]
        if not is_cut_off(marks[headline], user.barge_in_ns):
            break
    return answer


def _judge(turn: Turn, at_ns: int, quiet_ns: int) -> None:
    """Fail a turn whose requested reply is missing or incomplete; warn about missing transcripts."""
    turn.source.ended()
    limits, media, answer = turn.limits, turn.source.packets, _answer(turn)
    if pending := turn.transcripts.pending:
        late = f"{pending} user items were not transcribed in time"
        turn.warn(FailureKind.TRANSCRIPT_LATE, late, at_ns)
    if not turn.expects_answer:
        if answer is not None and answer.status in _NOT_WHOLE:
            _judge_answer(turn, answer, at_ns)
    elif answer is not None and is_cut_off(answer.record()):
        _cut_off(turn, answer, f"no further response began within {limits.reply_s:g} s", at_ns)
    elif answer is not None:
        _judge_answer(turn, answer, at_ns)
    elif (
        turn.source.continuous
        and media is not None
        and not media.stats.packets
        and quiet_ns <= (turn.user.done_ns or at_ns)  # no earlier reply was still audible
    ):
        _fail_without(
            turn,
            FailureKind.NO_RTP,
            f"no RTP packet from the endpoint within {limits.reply_s:g} s after the user's turn",
            at_ns,
        )
    else:
        did = turn.source.unanswered(heard_speech=turn.speech_at_ns is not None)
        message = unanswered(limits, did, turn.user.done_ns or at_ns, quiet_ns, at_ns)
        _fail_without(turn, FailureKind.NO_RESPONSE, message, at_ns)
    _judge_warnings(turn)


def _judge_answer(turn: Turn, answer: OpenResponse, at_ns: int) -> None:
    name, reason = answer.response_id, answer.reason or "no reason given"
    if answer.status is ResponseStatus.FAILED:
        turn.fail(FailureKind.RESPONSE_FAILED, f"response {name} failed: {reason}", at_ns)
    elif answer.status is ResponseStatus.INCOMPLETE:
        turn.fail(FailureKind.RESPONSE_INCOMPLETE, f"response {name} is incomplete: {reason}", at_ns)
    elif turn.modality is Modality.AUDIO and answer.playback_ns is not None and not answer.chunks:
        turn.fail(FailureKind.NO_RTP, no_packet(name), at_ns)
    elif not (answer.chunks if turn.modality is Modality.AUDIO else answer.text):
        text = f"response {name} completed without {turn.modality.value}"
        _fail_without(turn, FailureKind.EMPTY_REPLY, text, at_ns)


def _cut_off(turn: Turn, answer: OpenResponse, rest: str, at_ns: int) -> None:
    reason = answer.reason or "no reason given"
    message = f"response {answer.response_id} was cut off ({reason}) and {rest}"
    turn.fail(FailureKind.RESPONSE_CANCELLED, message, at_ns)


def _judge_warnings(turn: Turn) -> None:
    """Fail a turn with an unreadable message or chunk because the reply may be incomplete."""
    broken = _first_warning(turn, *_UNREADABLE)
    if broken is not None:
        turn.fail(broken.kind, broken.message, broken.at_ns)


def _fail_without(turn: Turn, kind: FailureKind, message: str, at_ns: int) -> None:
    """Fail a turn for missing data; an earlier parse error takes precedence as the failure."""
    broken, error = _first_warning(turn, *_UNREADABLE), _first_warning(turn, FailureKind.NOT_FATAL_ERROR)
    if error is not None:
        message = f"{message}; an error had been reported: {error.message}"
    if broken is not None and kind is not FailureKind.ENDLESS:
        kind, message, at_ns = broken.kind, f"{broken.message}; later, {message}", broken.at_ns or at_ns
    turn.fail(kind, message, at_ns)


def _first_warning(turn: Turn, *kinds: FailureKind) -> Failure | None:
    return next((warning for warning in turn.warnings if warning.kind in kinds), None)
