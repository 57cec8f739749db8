"""Convert the turn table to Apache Arrow: record batches, a Parquet file, a data frame."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_eval.errors import UsageError
from live_eval.export.columns import ExportColumn
from live_eval.export.table import ExportTable
from live_eval.extras import install_command
from live_eval.files import atomic_write
from live_eval.redaction import SECRETS
from live_eval.text.mappings import flattened

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["data_frame", "needed", "record_batches", "turn_schema", "write_parquet"]

_MANIFEST_KEY = b"live_eval.run"
"""The schema metadata key of the run's description in JSON."""


def needed(package: str, extra: str = "export") -> Any:
    """Import a package that belongs to an extra.

    Raises:
        UsageError: The package is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UsageError(
            f"this export needs the package {package.partition('.')[0]} ({error}): {install_command(extra)}"
        ) from None


def turn_schema(table: ExportTable) -> pa.Schema:
    """Return the schema of the table, with meanings of the fields and the run's manifest as metadata."""
    pa = needed("pyarrow")
    fields = [
        pa.field(column.name, _type(column), metadata={"description": column.meaning})
        for column in table.columns
    ]
    return pa.schema(fields, metadata={_MANIFEST_KEY: json.dumps(_run(table)).encode()})


def record_batches(table: ExportTable, *, rows_at_once: int = 200) -> Iterator[pa.RecordBatch]:
    """Yield the rows as record batches with `turn_schema`."""
    pa = needed("pyarrow")
    schema = turn_schema(table)
    records = [column for column in table.columns if column.is_records]
    rows = (_flat(row, records) for row in table.rows())
    while batch := list(islice(rows, rows_at_once)):
        yield pa.RecordBatch.from_pylist(batch, schema)


def data_frame(table: ExportTable) -> pd.DataFrame:
    """Return the table as a data frame with Arrow types, in which missing values are ``<NA>``."""
    pa, pandas = needed("pyarrow"), needed("pandas")
    whole = pa.Table.from_batches(record_batches(table), turn_schema(table))
    frame: pd.DataFrame = whole.to_pandas(types_mapper=pandas.ArrowDtype)
    return frame


def write_parquet(table: ExportTable, path: Path) -> int:
    """Write the table as a Parquet file, and return the number of rows.

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


def _run(table: ExportTable) -> dict[str, Any]:
    run = table.run
    return {
        "name": run.path.resolve().name,
        "state": run.state,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "manifest": SECRETS.values(dict(run.manifest)),
    }


def _type(column: ExportColumn) -> Any:
    pa = needed("pyarrow")
    match column.kind:
        case "text" | "json":
            return pa.string()
        case "texts":
            return pa.list_(pa.string())
        case "integer":
            return pa.int64()
        case "number":
            return pa.float64()
        case "numbers":
            return pa.list_(pa.float64())
        case "boolean":
            return pa.bool_()
        case "time":
            return pa.timestamp("us", tz="UTC")
        case fields:
            return pa.list_(pa.struct([pa.field(field.name, _type(field)) for field in fields]))


def _flat(row: Mapping[str, Any], records: Iterable[ExportColumn]) -> dict[str, Any]:
    """Return the values of a row by column name, with JSON mappings as text."""
    flat = dict(flattened(row))
    for column in records:
        assert isinstance(column.kind, tuple)
        as_text = [field.name for field in column.kind if field.kind == "json"]
        flat[column.name] = [
            {**record, **{name: json.dumps(record[name]) for name in as_text}} for record in flat[column.name]
        ]
    return flat
