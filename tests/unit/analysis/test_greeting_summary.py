"""Greetings are counted separately."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from live_eval.analysis.greeting_summary import greetings_of, summarise_greetings
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseRecord, ResponseStatus
from tests.support.campaigns import a_case
from tests.support.records import TurnPlan, spoken_turn

MS = 1_000_000


def greeted(begins_ms: int, length_ms: int) -> TurnRecord:
    """Return a turn with a greeting: its lead over the user's onset, and its length."""
    turn = spoken_turn(a_case(1), TurnPlan(first_byte_ms=500.0))
    assert turn.trace.onset_ns is not None
    at_ns = turn.trace.onset_ns - begins_ms * MS
    greeting = ResponseRecord(
        response_id="hello",
        created_ns=at_ns,
        done_ns=at_ns + MS,
        status=ResponseStatus.COMPLETED,
        chunk_arrival_ns=np.array([at_ns]),
        chunk_samples=np.array([24 * length_ms + 1]),
        rate_hz=24_000,
    )
    return replace(turn, trace=replace(turn.trace, responses=(greeting, *turn.trace.responses)))


def test_greetings_are_counted_with_their_audible_length() -> None:
    silent = spoken_turn(a_case(2), TurnPlan(first_byte_ms=500.0))
    later = greeted(3_000, 2_000)
    later = replace(later, case=replace(later.case, dialogue_id="d", turn_index=1))
    sessions = list(greetings_of([greeted(3_000, 2_000), silent, later, greeted(1_000, 2_600)]))
    assert [each and (round(each.heard_s, 3), each.spoken_over) for each in sessions] == [
        (2.0, False),
        None,
        (2.6, True),
    ]
    found = summarise_greetings(sessions)
    assert found.as_json() == {"sessions": 3, "greeted": 2, "spoken_over": 1, "median_s": 2.3}
    words = "the endpoint spoke first in 2 of 3 sessions, for 2.3 s (median)"
    assert found.in_words() == f"{words}; the user spoke over 1 of the greetings"
    assert summarise_greetings([None]).in_words() == ""


def test_silence_around_a_greeting_is_not_part_of_it() -> None:
    turn = greeted(3_000, 2_300)
    greeting, *rest = turn.trace.responses
    began_ns = int(greeting.chunk_arrival_ns[0])
    heard_ns = ((began_ns + 300 * MS, began_ns + 1_000 * MS), (began_ns + 1_200 * MS, began_ns + 2_300 * MS))
    responses = (replace(greeting, heard_ns=heard_ns), *rest)
    [found] = greetings_of([replace(turn, trace=replace(turn.trace, responses=responses))])
    assert found is not None
    assert found.heard_s == 2.0
