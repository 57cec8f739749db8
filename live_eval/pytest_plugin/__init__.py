"""The fixture `live_eval` for tests of a voice endpoint, and durations to compare with (docs/pytest.md)."""

from live_eval.pytest_plugin.duration import Duration, ms

__all__ = ["Duration", "ms"]
