"""Test a voice endpoint with the pytest fixture `live_eval`, and compare durations. See
docs/how-to/pytest.md.
"""

from live_eval.pytest_plugin.duration import Duration, ms

__all__ = ["Duration", "ms"]
