"""Test a voice endpoint with the fixture `live_eval`, and compare durations (docs/how-to/pytest.md)."""

from live_eval.pytest_plugin.duration import Duration, ms

__all__ = ["Duration", "ms"]
