"""A run's turns for other programs: JSON lines, CSV, Parquet, Hugging Face datasets, inspect_ai, data frames."""

from live_eval.export.recorded_run import RecordedRun

__all__ = ["RecordedRun"]
