from dataclasses import replace

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import (
    Committed,
    EndpointProblem,
    Event,
    InputTranscript,
    Interrupted,
    RateLimit,
    RateLimits,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind
from live_eval.session.bounds import TEXT_CHARACTERS
from live_eval.session.limits import SessionLimits
from live_eval.session.responses import MOST_RESPONSES
from live_eval.session.turn import Transcripts, Turn
from live_eval.session.verdict import end, is_over
from live_eval.timing import ResponseStatus
from live_eval.types import Modality

S = 1_000_000_000
LIMITS = SessionLimits(reply_s=10, stall_s=5, max_reply_s=60, linger_s=0.3)
PCM = Codec(CodecName.PCM16, 24_000)


def state(modality: Modality = Modality.AUDIO, limits: SessionLimits = LIMITS) -> Turn:
    turn = Turn(limits, modality)
    turn.on_event(SessionReady("s-1", "m-1"), 0)
    return turn


def feed(turn: Turn, *events: tuple[float, Event]) -> None:
    for at_s, event in events:
        turn.on_event(event, round(at_s * S))


def audio(name: str = "r1", ms: int = 100) -> ReplyAudio:
    return ReplyAudio(name, bytes(2 * 24 * ms), PCM)


def done(
    name: str = "r1", status: ResponseStatus = ResponseStatus.COMPLETED, reason: str = ""
) -> ResponseDone:
    return ResponseDone(name, status, reason, Usage(output_tokens=7))


def test_an_ordinary_turn_ends_after_the_linger() -> None:
    turn = state()
    feed(turn, (0.5, SpeechStarted(0)), (2.0, SpeechStopped(1500)), (2.0, Committed("i1")))
    turn.user_done(2 * S)
    feed(turn, (2.3, ResponseStarted("r1")), (2.4, audio()), (2.5, ReplyText("r1", "Hel")))
    feed(turn, (2.5, ReplyText("r1", "lo.")), (2.6, audio()), (2.7, done()))
    assert not is_over(turn, round(2.9 * S))
    assert is_over(turn, round(3.01 * S))
    assert turn.failure is None
    (response,) = turn.responses
    assert response.record.text == "Hello."
    assert response.record.created_ns == round(2.3 * S)
    assert response.record.first_text_ns == round(2.5 * S)
    assert list(response.record.chunk_arrival_ns) == [round(2.4 * S), round(2.6 * S)]
    assert response.record.usage == Usage(output_tokens=7)
    assert (turn.session_id, turn.model, turn.committed_ns) == ("s-1", "m-1", 2 * S)


def test_a_turn_is_not_over_while_the_user_speaks() -> None:
    turn = state()
    feed(turn, (0.2, ResponseStarted("r1")), (0.3, audio()), (0.4, done()))
    assert not is_over(turn, 9 * S)


def test_a_complete_text_replaces_its_fragments() -> None:
    turn = state()
    feed(turn, (1, ReplyText("r1", "Helo")), (2, ReplyText("r1", "Hello.", final=True)))
    feed(turn, (3, ReplyText("r1", "And")), (4, ReplyText("r1", "And more.", final=True)))
    assert turn.responses[0].record.text == "Hello. And more."


def test_the_input_transcript_is_assembled_by_item() -> None:
    turn = state()
    feed(turn, (1, InputTranscript("I ca", False, "a")), (1, InputTranscript("n't", False, "a")))
    assert turn.transcripts.text is None, "a piece is not what was heard"
    feed(turn, (2, InputTranscript("I can't.", True, "a")), (2, InputTranscript("late", False, "a")))
    feed(turn, (3, InputTranscript(" Really. ", True, "b")))
    assert turn.transcripts.text == "I can't. Really."


def test_after_a_response_that_the_user_cut_off_another_is_awaited() -> None:
    turn = state()
    feed(turn, (1, SpeechStarted()), (2, SpeechStopped()), (2.1, ResponseStarted("r1")), (2.2, audio()))
    feed(turn, (2.5, SpeechStarted()), (2.5, Interrupted("r1")))
    feed(turn, (2.6, done("r1", ResponseStatus.CANCELLED, "turn_detected")))
    turn.user_done(4 * S)
    assert not is_over(turn, 5 * S)
    feed(turn, (5, SpeechStopped()), (5.1, ResponseStarted("r2")), (5.2, audio("r2")), (5.3, done("r2")))
    assert is_over(turn, 6 * S)
    assert turn.failure is None
    assert [response.record.response_id for response in turn.responses] == ["r1", "r2"]
    assert turn.responses[0].record.interrupted_ns == round(2.5 * S)


def test_another_response_may_follow_an_answer_that_the_endpoint_cancelled() -> None:
    turn = state()
    turn.user_speaks(0, 2 * S)
    turn.user_done(2 * S)
    feed(turn, (2.6, audio("r1")), (2.7, done("r1", ResponseStatus.CANCELLED)))
    assert not is_over(turn, 5 * S)
    feed(turn, (6, ResponseStarted("r2")), (6, audio("r2")), (6.1, done("r2")))
    assert is_over(turn, 7 * S)
    assert turn.failure is None


def test_a_barge_in_does_not_restore_a_response_that_was_cut_off_earlier() -> None:
    turn = state()
    turn.user_speaks(0, 3 * S)
    feed(turn, (1, audio("r1")), (1.5, done("r1", ResponseStatus.CANCELLED)))
    turn.user_done(3 * S)
    feed(turn, (3.6, audio("r2")), (5, Interrupted("r2")), (5, done("r2", ResponseStatus.FAILED)))
    turn.user.barge_in_ns = round(4.9 * S)
    end(turn, round(5.1 * S))
    assert turn.failure is not None
    assert "r2" in turn.failure.message


def test_a_reply_before_the_user_continued_is_kept_if_none_follows() -> None:
    turn = state()
    feed(turn, (2, SpeechStopped()), (2.1, ResponseStarted("r1")), (2.2, audio()), (2.3, done()))
    feed(turn, (3, SpeechStarted()))
    turn.user_done(4 * S)
    assert not is_over(turn, 13 * S)
    assert is_over(turn, 14 * S)
    assert turn.failure is None


@pytest.mark.parametrize("told", [True, False])
def test_after_a_greeting_the_answer_is_awaited(told: bool) -> None:
    turn = state()
    feed(turn, (0.1, ResponseStarted("hi")), (0.2, audio("hi")), (0.4, done("hi")))
    turn.user_speaks(1 * S, 2 * S)
    if told:
        feed(turn, (1.1, SpeechStarted()), (2.3, SpeechStopped()))
    turn.user_done(2 * S)
    assert not is_over(turn, 4 * S)
    feed(turn, (5, ResponseStarted("r1")), (5.1, audio()), (5.2, done()))
    assert not is_over(turn, round(5.4 * S))
    assert is_over(turn, 6 * S)
    assert turn.failure is None


def test_a_greeting_is_not_an_answer() -> None:
    turn = state()
    feed(turn, (0.1, ResponseStarted("hi")), (0.2, audio("hi")), (0.4, done("hi")))
    turn.user_speaks(1 * S, 2 * S)
    turn.user_done(2 * S)
    assert not is_over(turn, 11 * S)
    assert is_over(turn, 12 * S)
    assert kind_of(turn) is FailureKind.NO_RESPONSE


def test_an_endpoint_that_leaves_after_its_greeting_has_not_answered() -> None:
    turn = state()
    feed(turn, (0.1, ResponseStarted("hi")), (0.2, audio("hi")), (0.4, done("hi")))
    turn.user_speaks(1 * S, 2 * S)
    turn.user_done(2 * S)
    turn.close("gone", 3 * S)
    assert kind_of(turn) is FailureKind.CLOSED


def test_a_greeting_that_the_user_speaks_over_is_followed_by_the_answer() -> None:
    turn = state()
    feed(turn, (0.1, ResponseStarted("hi")), (0.2, audio("hi")))
    turn.user_speaks(1 * S, 2 * S)
    feed(turn, (1.4, done("hi")))
    turn.user_done(2 * S)
    assert not is_over(turn, 4 * S)
    feed(turn, (5, ResponseStarted("r1")), (5.1, audio()), (5.2, done()))
    assert is_over(turn, 6 * S)
    assert turn.failure is None


def kind_of(turn: Turn) -> FailureKind:
    assert turn.failure is not None
    return turn.failure.kind


@pytest.mark.parametrize("heard", [True, False])
def test_a_silent_endpoint(heard: bool) -> None:
    turn = state()
    if heard:
        feed(turn, (1, SpeechStarted()))
    turn.user_done(2 * S)
    assert not is_over(turn, 11 * S)
    assert is_over(turn, 12 * S)
    assert kind_of(turn) is FailureKind.NO_RESPONSE
    assert turn.failure is not None
    assert ("heard speech" in turn.failure.message) is heard


def test_a_response_that_stalls() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (3, ResponseStarted("r1")), (4, audio(ms=250)))
    assert not is_over(turn, 9 * S)
    assert is_over(turn, 9 * S + 1)
    assert kind_of(turn) is FailureKind.STALLED
    assert turn.failure is not None
    assert "0.25 s of audio" in turn.failure.message


def test_a_reply_that_stops_has_stalled_even_with_a_short_maximum() -> None:
    limits = replace(LIMITS, max_reply_s=4)
    stopped = state(limits=limits)
    stopped.user_done(2 * S)
    feed(stopped, (3, audio(ms=250)))
    assert is_over(stopped, 7 * S + 1)
    assert kind_of(stopped) is FailureKind.STALLED
    flowing = state(limits=limits)
    flowing.user_done(2 * S)
    feed(flowing, *((second, audio(ms=10)) for second in range(3, 8)))
    assert is_over(flowing, 7 * S + 1)
    assert kind_of(flowing) is FailureKind.ENDLESS


def test_a_response_is_endless_by_its_audio_or_its_duration() -> None:
    by_audio = state()
    by_audio.user_done(2 * S)
    feed(by_audio, (3, audio(ms=61_000)))
    assert is_over(by_audio, 3 * S)
    assert kind_of(by_audio) is FailureKind.ENDLESS
    assert by_audio.failure is not None
    assert "has more than 60 s of audio" in by_audio.failure.message
    by_time = state()
    by_time.user_done(2 * S)
    for second in range(3, 70):
        feed(by_time, (second, audio(ms=10)))
        if is_over(by_time, second * S):
            break
    assert second == 64
    assert kind_of(by_time) is FailureKind.ENDLESS
    assert by_time.failure is not None
    assert "did not end within 60 s" in by_time.failure.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (ResponseStatus.FAILED, FailureKind.RESPONSE_FAILED),
        (ResponseStatus.INCOMPLETE, FailureKind.RESPONSE_INCOMPLETE),
    ],
)
def test_a_response_that_did_not_complete(status: ResponseStatus, kind: FailureKind) -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (3, audio()), (4, done("r1", status, "max_output_tokens")))
    assert is_over(turn, 5 * S)
    assert kind_of(turn) is kind
    assert turn.failure is not None
    assert "max_output_tokens" in turn.failure.message


def test_only_cancelled_responses() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (3, audio()), (4, done("r1", ResponseStatus.CANCELLED, "turn_detected")))
    assert not is_over(turn, 13 * S)
    assert is_over(turn, 14 * S)
    assert kind_of(turn) is FailureKind.RESPONSE_CANCELLED


@pytest.mark.parametrize("modality", list(Modality))
def test_a_reply_without_the_requested_modality_is_empty(modality: Modality) -> None:
    turn = state(modality)
    turn.user_done(2 * S)
    other = ReplyText("r1", "words") if modality is Modality.AUDIO else audio()
    feed(turn, (3, other), (4, done()))
    assert is_over(turn, 5 * S)
    assert kind_of(turn) is FailureKind.EMPTY_REPLY


def test_a_fatal_problem_ends_the_turn_at_once_and_the_first_failure_stays() -> None:
    turn = state()
    feed(turn, (1, EndpointProblem(FailureKind.SESSION_EXPIRED, "60 minutes", True, retry_after_s=3.0)))
    feed(turn, (2, EndpointProblem(FailureKind.CLOSED, "closed", True)))
    assert is_over(turn, 1 * S)
    assert kind_of(turn) is FailureKind.SESSION_EXPIRED
    assert turn.retry_after_s == 3.0


def test_minor_problems_are_warnings_and_unknown_types_are_reported_once() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2, UnknownEvent("new.thing")), (2, UnknownEvent("new.thing")), (2, UnknownEvent("other")))
    feed(turn, (3, audio()), (3, done()))
    feed(turn, (3.1, audio()), (3.1, EndpointProblem(FailureKind.AUDIO_AFTER_DONE, "late audio", False)))
    assert is_over(turn, 5 * S)
    assert turn.failure is None
    kinds = [warning.kind for warning in turn.warnings]
    assert kinds == [FailureKind.UNKNOWN_EVENT, FailureKind.UNKNOWN_EVENT, FailureKind.AUDIO_AFTER_DONE]
    assert len(turn.responses[0].chunks) == 2


def test_a_malformed_message_fails_the_turn_at_its_end_and_keeps_the_reply() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2.5, EndpointProblem(FailureKind.MALFORMED_MESSAGE, "expected JSON, came '{'", False)))
    feed(turn, (3, audio()), (3, done()))
    assert not is_over(turn, 3 * S)
    assert is_over(turn, 4 * S)
    assert kind_of(turn) is FailureKind.MALFORMED_MESSAGE
    assert len(turn.responses[0].chunks) == 1


@pytest.mark.parametrize("events", [(), ((3, ResponseStarted("r1")),), ((3, done()),)])
def test_a_parse_error_is_the_reason_of_a_missing_response(events: tuple[tuple[float, Event], ...]) -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2.5, EndpointProblem(FailureKind.MALFORMED_MESSAGE, "expected JSON, came '{'", False)))
    feed(turn, *events)
    assert is_over(turn, 14 * S)
    assert kind_of(turn) is FailureKind.MALFORMED_MESSAGE
    assert turn.failure is not None
    assert turn.failure.message.startswith("expected JSON, came '{'; later, ")
    assert turn.failure.at_ns == round(2.5 * S)


def test_a_missing_response_names_an_earlier_error() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2.5, EndpointProblem(FailureKind.NOT_FATAL_ERROR, "the model is overloaded", False)))
    assert is_over(turn, 14 * S)
    assert kind_of(turn) is FailureKind.NO_RESPONSE
    assert turn.failure is not None
    assert turn.failure.message.endswith(
        "reported no speech; an error had been reported: the model is overloaded"
    )


def test_an_endless_reply_takes_precedence_over_a_parse_error() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2.5, EndpointProblem(FailureKind.MALFORMED_MESSAGE, "expected JSON, came '{'", False)))
    feed(turn, (3, audio(ms=61_000)))
    assert is_over(turn, 3 * S)
    assert kind_of(turn) is FailureKind.ENDLESS


def test_rate_limits_are_the_latest() -> None:
    turn = state()
    feed(turn, (1, RateLimits((RateLimit("requests", 10, 9, 1.0),))))
    feed(turn, (2, RateLimits((RateLimit("requests", 10, 8, 1.0),))))
    assert [limit.remaining for limit in turn.rate_limits] == [8]


def test_a_connection_that_ends_after_the_answer_is_not_a_failure() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (3, audio()), (3.1, done()))
    turn.close("closed: code 1000", round(3.2 * S))
    assert is_over(turn, round(3.2 * S))
    assert turn.failure is None


@pytest.mark.parametrize("spoken", [True, False])
def test_a_connection_that_ends_before_the_answer_is_a_failure(spoken: bool) -> None:
    turn = state()
    if spoken:
        turn.user_done(2 * S)
        feed(turn, (3, audio()))
    turn.close("closed: code 1011", 4 * S)
    assert is_over(turn, 4 * S)
    assert kind_of(turn) is FailureKind.CLOSED


def test_the_heard_duration_follows_playout() -> None:
    turn = state()
    feed(turn, (3, audio(ms=100)), (3.01, audio(ms=100)))
    assert turn.heard_ms("r1", round(3.15 * S)) == 150
    assert turn.heard_ms("r1", round(9 * S)) == 200
    assert turn.heard_ms("nobody", 9 * S) == 0


def test_an_empty_transcript_differs_from_a_missing_one() -> None:
    turn = state()
    feed(turn, (1, InputTranscript("", True, "a")))
    assert turn.transcripts.text == ""


def transcribing() -> Turn:
    turn = Turn(LIMITS, Modality.AUDIO, transcribes=True)
    feed(turn, (0, SessionReady()), (2, Committed("a")))
    turn.user_done(2 * S)
    feed(turn, (3, audio()), (3, done()))
    return turn


def test_a_requested_transcript_is_awaited() -> None:
    turn = transcribing()
    assert not is_over(turn, 4 * S)
    feed(turn, (5, InputTranscript("hello", True, "a")))
    assert is_over(turn, 5 * S)
    assert (turn.transcripts.text, turn.failure, turn.warnings) == ("hello", None, [])


def test_a_missing_transcript_is_a_warning() -> None:
    turn = transcribing()
    feed(turn, (4, InputTranscript("hel", False, "a")))
    assert is_over(turn, 6 * S)
    assert (turn.transcripts.text, turn.failure) == (None, None)
    assert [warning.kind for warning in turn.warnings] == [FailureKind.TRANSCRIPT_LATE]


def test_an_empty_chunk_is_neither_first_byte_nor_reply() -> None:
    turn = state()
    turn.user_done(2 * S)
    feed(turn, (2.5, ReplyAudio("r1", b"", PCM)), (3, done()))
    assert is_over(turn, 4 * S)
    assert kind_of(turn) is FailureKind.EMPTY_REPLY


def test_a_reply_that_was_cut_off_without_a_successor_is_not_an_answer() -> None:
    turn = state()
    feed(turn, (2, SpeechStopped()), (2.1, ResponseStarted("r1")), (2.2, audio()), (2.3, done()))
    feed(turn, (3, SpeechStarted()), (3, Interrupted("r1")))
    turn.user_done(4 * S)
    assert is_over(turn, 14 * S)
    assert kind_of(turn) is FailureKind.RESPONSE_CANCELLED


def test_a_failed_transcription_is_not_awaited() -> None:
    turn = transcribing()
    feed(turn, (3.1, InputTranscript("", False, "a", failed=True)))
    assert is_over(turn, round(3.4 * S))
    assert (turn.transcripts.text, turn.warnings) == (None, [])


def test_a_turn_with_too_many_responses_keeps_the_first_and_fails() -> None:
    turn = state()
    for number in range(20_000):
        feed(turn, (1, ResponseStarted(f"r{number}")), (1, audio(f"r{number}", 1)))
    assert len(turn.responses) == MOST_RESPONSES
    assert is_over(turn, 2 * S)
    assert kind_of(turn) is FailureKind.TOO_MANY_RESPONSES
    assert turn.failure is not None
    assert f"more than {MOST_RESPONSES} responses" in turn.failure.message


def test_a_reply_with_too_much_text_keeps_the_first_and_fails() -> None:
    turn = state()
    feed(turn, (1, ResponseStarted("r")))
    for _ in range(1_000):
        feed(turn, (1, ReplyText("r", "word " * 1_000)))
    turn.user_done(1 * S)
    assert is_over(turn, 2 * S)
    assert kind_of(turn) is FailureKind.ENDLESS
    (response,) = turn.responses
    assert len(response.record.text or "") == TEXT_CHARACTERS


def test_a_transcript_in_endless_pieces_is_truncated() -> None:
    transcripts = Transcripts(awaited=False, pieces_count=True)
    for _ in range(1_000):
        transcripts.add(InputTranscript("words" * 1_000, False, "i"))
    assert len(transcripts.text or "") == TEXT_CHARACTERS


def test_the_first_warnings_of_each_kind_are_kept() -> None:
    turn = state()
    for number in range(20_000):
        feed(turn, (1, UnknownEvent(f"x{number}")))
    feed(turn, (1, EndpointProblem(FailureKind.MALFORMED_MESSAGE, "no JSON", False)))
    assert len(turn.warnings) == 21
    assert turn.warnings[19].message.endswith("(further warnings of this kind are dropped)")


def test_long_names_are_cut_wherever_they_are_asked_for() -> None:
    turn, name = Turn(LIMITS, Modality.AUDIO), "r" * 1_000_000
    feed(turn, (0, SessionReady(name, name)), (1, ResponseStarted(name)), (2, audio(name, 100)))
    assert turn.session_id is not None
    assert len(turn.session_id) == 200
    assert turn.owns(ReplyAudioDone(name))
    assert turn.heard_ms(name, 10 * S) == 100
    assert [len(response.record.response_id) for response in turn.responses] == [200]
