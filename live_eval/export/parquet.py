"""Write the table of turns as one Parquet file."""

from __future__ import annotations

from pathlib import Path

from live_eval.export.arrow import needed, record_batches, turn_schema
from live_eval.export.table import ExportTable
from live_eval.files import atomic_write

__all__ = ["write_parquet"]


def write_parquet(table: ExportTable, path: Path) -> int:
    """Write one row for each turn; the file's metadata holds the run's manifest.

    Returns:
        How many rows were written.

    Raises:
        UsageError: pyarrow is not installed.
        OSError: The file cannot be written.
    """
    parquet = needed("pyarrow.parquet")
    count = 0
    with atomic_write(path, links=True) as part, parquet.ParquetWriter(part, turn_schema(table)) as writer:
        for batch in record_batches(table):
            writer.write_batch(batch)
            count += batch.num_rows
    return count
