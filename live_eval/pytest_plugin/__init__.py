"""Test a voice endpoint with the pytest fixture `live_eval` (docs/how-to/pytest.md)."""

from live_eval.pytest_plugin.duration import Duration, ms

__all__ = ["Duration", "ms"]
