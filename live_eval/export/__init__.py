"""A run's turns for other programs.

::

    columns.py        the columns: names, types, meanings with units
    table.py          one row for each turn; everything below is made of these rows
    rows.py           JSON lines, CSV
    arrow.py          the rows in Arrow's types
    parquet.py        one Parquet file
    hugging_face.py   a folder for datasets.load_dataset, with the audio
    inspect_log.py    a log for inspect_ai
    recorded_run.py   a data frame, by live_eval.open_run
"""

from live_eval.export.recorded_run import RecordedRun

__all__ = ["RecordedRun"]
