"""Build a conversation, with both sides on one timeline, from the recorded turns of a session.

The user's speech is timed as spoken, from the annotated parts of each recording or else its speech
boundaries. The endpoint's speech is timed as heard, by the playout and audibility rules of
`live_eval.timing`.

On continuous media, responses are the audible segments that the session detected; `segmentation.as_replies`
finds the replies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, Stretch, UserSpeech
from live_eval.audio import Audio, int16_to_float, resample
from live_eval.recording import RunReader, TurnRecord, decoding
from live_eval.recording.record import heard_pieces, on_axis, with_heard
from live_eval.timing import TIMING_VERSION, ResponseRecord, ResponseStatus, greets, is_paced

__all__ = ["both_sides_of", "conversation_of"]

_SECOND_NS = 1_000_000_000
_ROUNDING_NS = 10_000_000  # annotated and streamed lengths are equal within this


def conversation_of(run: RunReader | None, turns: Sequence[TurnRecord]) -> Conversation:
    """Return the conversation of one session's turns, with the responses that the session detected.

    Args:
        run: Run to read audio from if the turns do not store the heard segments; None if they do.
        turns: Turns of the session in order, at least one spoken.

    Returns:
        The conversation. Its lag covers the frames that contain the user's speech or may have affected the
        time of the answer.

    Raises:
        ValueError: None of the turns was spoken.
        StoreError: Audio of a turn is missing.
    """
    spoken = [turn for turn in turns if turn.trace.t0_ns is not None and turn.trace.onset_ns is not None]
    if not spoken:
        raise ValueError(f"expected a session with at least one spoken turn; none of {len(turns)} is")
    user = tuple(map(_user_speech, spoken))
    first_onset_ns = spoken[0].trace.onset_ns
    agent = [
        (_began_ns(marks), _agent_speech(turn, marks))
        for turn in turns
        for marks in _heard_responses(run, turn)
        if not greets(marks, first_onset_ns)
    ]
    agent.sort(key=lambda began: began[0])
    traces = [turn.trace for turn in turns]
    moments = chain(
        (int(at_ns) for trace in traces for at_ns in trace.frame_deadline_ns[-1:]),
        (at_ns for turn in turns for marks in turn.responses for at_ns in _last_moments(marks)),
        (speech.end_ns for speech in user),
        (sound.end_ns for _, speech in agent for sound in speech.sounds[-1:]),
    )
    stops = [at_ns for trace in traces for at_ns in (*trace.speech_stopped_ns, trace.committed_ns)]
    return Conversation(
        start_ns=min(turn.trace.t0_ns for turn in spoken if turn.trace.t0_ns is not None),
        end_ns=max(moments),
        user=user,
        agent=tuple(speech for _, speech in agent),
        speech_started_ns=tuple(sorted(at_ns for trace in traces for at_ns in trace.speech_started_ns)),
        speech_stopped_ns=tuple(sorted(at_ns for at_ns in stops if at_ns is not None)),
        lag_ns=max(map(_lag_ns, spoken)),
        continuous=any(trace.continuous for trace in traces),
    )


def both_sides_of(run: RunReader | None, turns: Sequence[TurnRecord]) -> tuple[NDArray[np.int16], int] | None:
    """Return both sides of a session, for drawing and playback; for the arguments, see `conversation_of`.

    Returns:
        The audio and its sample rate; None if the user's audio is missing. The audio is int16, shape
        (samples, 2), with the user on the left and the endpoint as heard on the right; sample 0 is at the
        conversation's `start_ns`.

    Raises:
        StoreError: Audio of a turn is missing, or the turns are hours apart.
    """
    users = [(turn.trace.t0_ns, sides) for turn in turns if (sides := _user_audio(run, turn)) is not None]
    spoken = [(t0_ns, sides) for t0_ns, sides in users if t0_ns is not None]
    if not spoken:
        return None
    start_ns = min(t0_ns for t0_ns, _ in spoken)
    rates = [marks.rate_hz for turn in turns for marks in turn.responses if marks.rate_hz]
    rate_hz = max([*rates, *(audio.rate_hz for _, audio in spoken)])
    ends_ns = [*(t0_ns for t0_ns, _ in spoken[1:]), None]  # the next utterance cuts off the previous one
    pieces = [
        (0, t0_ns, resample(audio, rate_hz).int16()[: _samples(end_ns, t0_ns, rate_hz)])
        for (t0_ns, audio), end_ns in zip(spoken, ends_ns, strict=True)
    ]
    pieces += [
        (1, at_ns, pcm)
        for turn in turns
        for marks, whole in zip(turn.responses, _audio(run, turn), strict=True)
        for at_ns, pcm in heard_pieces(marks, whole, rate_hz, paced=is_paced(turn.trace, marks))
    ]
    placed = [(side, round((at_ns - start_ns) * rate_hz / _SECOND_NS), pcm) for side, at_ns, pcm in pieces]
    with decoding("the audio of a trial" if run is None else f"{run.path}: the audio of a trial"):
        return on_axis(placed, 2), rate_hz


def _heard_responses(run: RunReader | None, turn: TurnRecord) -> tuple[ResponseRecord, ...]:
    """Return a turn's responses with their audible parts by the current audibility rules."""
    if turn.timing_version == TIMING_VERSION and all(marks.heard_ns is not None for marks in turn.responses):
        return turn.responses
    return with_heard(turn.trace, _audio(run, turn)).responses


def _user_speech(turn: TurnRecord) -> UserSpeech:
    trace, case = turn.trace, turn.case
    assert trace.t0_ns is not None
    assert trace.onset_ns is not None
    end_ns = trace.voice_end_ns if trace.voice_end_ns is not None else trace.onset_ns
    sounds = [Stretch(trace.onset_ns, end_ns)]
    if case.parts:
        first_ns, last_ns = case.parts[0].onset_ns, case.parts[-1].end_ns
        # The recording may not have been streamed in real time.
        speed = (last_ns - first_ns) / max(1, end_ns - trace.onset_ns)
        speed = 1.0 if abs((last_ns - first_ns) - (end_ns - trace.onset_ns)) <= _ROUNDING_NS else speed
        sounds = [
            Stretch(
                trace.onset_ns + round((part.onset_ns - first_ns) / speed),
                trace.onset_ns + round((part.end_ns - first_ns) / speed),
            )
            for part in case.parts
        ]
    return UserSpeech(kind=case.speech, sounds=tuple(sounds), text=case.text or "", case_id=case.case_id)


def _agent_speech(turn: TurnRecord, marks: ResponseRecord) -> AgentSpeech:
    reported = not turn.trace.continuous  # on continuous media, the marks are derived from audio energy
    cancelled_ns = marks.interrupted_ns
    if cancelled_ns is None and marks.status is ResponseStatus.CANCELLED and reported:
        cancelled_ns = marks.done_ns
    return AgentSpeech(
        response_id=marks.response_id,
        sounds=tuple(Stretch(start_ns, end_ns) for start_ns, end_ns in marks.heard_ns or ()),
        created_ns=marks.created_ns if reported else None,
        cancelled_ns=cancelled_ns,
        completed=reported and cancelled_ns is None and marks.status is ResponseStatus.COMPLETED,
        discarded_ns=marks.discarded_ns or 0,
        text=marks.text or "",
    )


def _began_ns(marks: ResponseRecord) -> int:
    """Return the time of a response's first event or audio, or 0."""
    arrivals = marks.chunk_arrival_ns[:1].tolist()
    signs = (marks.created_ns, marks.first_text_ns, marks.done_ns, *arrivals)
    return min((at_ns for at_ns in signs if at_ns is not None), default=0)


def _last_moments(marks: ResponseRecord) -> Iterator[int]:
    yield from marks.chunk_arrival_ns[-1:].tolist()
    if marks.done_ns is not None:
        yield marks.done_ns


def _lag_ns(turn: TurnRecord) -> int:
    trace = turn.trace
    assert trace.onset_ns is not None
    due_ns, late_ns = trace.frame_deadline_ns, trace.frame_sent_ns - trace.frame_deadline_ns
    until_ns = trace.voice_end_ns if trace.voice_end_ns is not None else trace.onset_ns
    in_speech = (due_ns > trace.onset_ns) & (due_ns <= until_ns)
    return max(turn.timing.lag_ns, int(late_ns[in_speech].max(initial=0)))


def _audio(run: RunReader | None, turn: TurnRecord) -> Sequence[NDArray[np.int16]]:
    """Return the audio of each response in a turn, as received."""
    if run is not None and not turn.audio:
        return run.audio(turn)
    return turn.audio or [np.empty(0, np.int16)] * len(turn.responses)


def _user_audio(run: RunReader | None, turn: TurnRecord) -> Audio | None:
    """Return the user's side of a turn, starting at `t0_ns`; None if there is no audio."""
    both, rate_hz = turn.both_sides, turn.both_rate_hz
    if both is None and run is not None and (stored := run.both_sides(turn.turn_id)) is not None:
        both, rate_hz = stored
    return None if both is None or rate_hz is None else Audio(int16_to_float(both[:, 0]), rate_hz)


def _samples(end_ns: int | None, start_ns: int, rate_hz: int) -> int | None:
    return None if end_ns is None else max(0, round((end_ns - start_ns) * rate_hz / _SECOND_NS))
