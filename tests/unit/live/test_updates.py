"""The queue of updates."""

from live_eval.live.updates import Levels, State, StateChanged, Update, UpdateQueue, Xruns


async def test_unread_levels_are_dropped_and_the_end_ends_reading() -> None:
    queue = UpdateQueue(most_unread=2)
    expected: list[Update] = [
        Levels(-20.0, -30.0),
        Levels(-21.0, -31.0),
        Xruns(input=1),
        StateChanged(State.ENDED),
    ]
    unread: list[Update] = [Levels(-22.0, -32.0)]
    for update in expected[:2] + unread + expected[2:]:
        queue.put(update)
    assert [update async for update in queue.read()] == expected
