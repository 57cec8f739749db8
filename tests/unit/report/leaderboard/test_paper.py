"""Published values on the leaderboard."""

from live_eval.report.leaderboard.paper import COLUMNS, PUBLISHED


def test_every_published_value_is_shown() -> None:
    assert len(PUBLISHED) == 13
    assert (
        sum(len(figures) for figures in PUBLISHED.values()) == 13 * len(COLUMNS) - 3 - 4 - 4 - 2 - 4 - 3 + 1
    )
    assert PUBLISHED["GPT-4o-Audio"]["C4"] == 3.42
    assert PUBLISHED["Audio-Flamingo3"]["WER"] == 2.93
    assert "VES" not in PUBLISHED["DeSTA2.5-Audio"]
