"""Differences between the events of a replay and the recorded events."""

import pytest

from live_eval.cassettes import Expected
from live_eval.cassettes._differences import event_differences

STARTED = Expected(1, "ResponseStarted", {"response_id": "r", "item": 1})


@pytest.mark.parametrize("fields", [{"item": 1, "response_id": "r"}, {"response_id": "r", "item": 1.0}])
def test_equal_events_are_not_listed_next_to_a_difference(fields: dict[str, object]) -> None:
    now = [STARTED, Expected(2, "ReplyText", {"text": "yes"})]
    before = [Expected(1, "ResponseStarted", fields), Expected(2, "ReplyText", {"text": "no"})]
    assert list(event_differences(now, before)) == [
        "text of ReplyText at 0.000000002 s: now 'yes', before 'no'"
    ]
