"""Export the turns of a run for other programs.

::

    columns.py        the columns: names, types, meanings with units
    table.py          one row per turn, the basis of every format
    rows.py           JSON lines, CSV
    arrow.py          Arrow types, a Parquet file, a data frame
    hugging_face.py   a folder with audio for datasets.load_dataset
    inspect_log.py    a log for inspect_ai
    recorded_run.py   a run in a notebook, opened by live_eval.open_run
"""

from live_eval.export.recorded_run import RecordedRun

__all__ = ["RecordedRun"]
