import pytest

from live_eval.text.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("45s", 45), ("10m", 600), ("1h30m", 5400), ("1h 5s", 3605)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10 minutes", "10mm", "-5m", "1h-2s", "5 x"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        seconds_of(text)
