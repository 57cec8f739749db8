"""How long to wait for a response, and the message if none arrives."""

import pytest

from live_eval.session.limits import SessionLimits, answer_by_ns, unanswered

S = 1_000_000_000
LIMITS = SessionLimits(reply_s=30, listen_s=4)


@pytest.mark.parametrize(
    ("earlier_until_s", "by_s"),
    [
        (0, 40),
        (9, 40),
        (12, 40),  # it stopped after a delay
        (12.5, 16.5),
        (25, 29),
        (39, 40),
    ],
)
def test_an_endpoint_that_talks_through_the_user_answers_soon_or_not_at_all(
    earlier_until_s: float, by_s: float
) -> None:
    assert answer_by_ns(LIMITS, 10 * S, round(earlier_until_s * S)) == by_s * S


@pytest.mark.parametrize(
    ("earlier_until_s", "at_s", "words"),
    [
        (0, 40, "no response within 30 s after the user's turn; the endpoint reported no speech"),
        (
            25,
            29,
            "its earlier reply continued for 15.0 s after the turn "
            "and no further response began within 4.0 s",
        ),
        (40, 40, "its earlier reply continued for 30.0 s after the turn and was still in progress"),
    ],
)
def test_the_message_of_a_missing_response_describes_the_earlier_reply(
    earlier_until_s: int, at_s: int, words: str
) -> None:
    found = unanswered(LIMITS, "reported no speech", 10 * S, earlier_until_s * S, at_s * S)
    assert found.endswith(words)
