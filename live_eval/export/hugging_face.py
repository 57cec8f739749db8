"""Write a run as a folder for Hugging Face's ``load_dataset``: Parquet files and a dataset card.

The files have the columns of the turn table. Audio paths are replaced by the content of the FLAC files, in
the format of the ``Audio`` feature of the ``datasets`` library.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_eval.analysis.licences import licences_of
from live_eval.errors import UsageError
from live_eval.export.arrow import needed, record_batches, turn_schema
from live_eval.export.columns import ExportColumn
from live_eval.export.table import ExportTable
from live_eval.files import atomic_text, private_file, private_folder
from live_eval.recording import own_bytes, part_of, text_of
from live_eval.text.wording import markdown_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_dataset"]

SPLIT = "test"
"""The only split, because a run is test data."""

_AUDIO = ("reply_audio", "both_sides_audio")
_PART = ".live-eval-export.part"

_CARD = """\
---
configs:
- config_name: default
  data_files:
  - split: {split}
    path: data/{split}-*.parquet
task_categories:
- audio-to-audio
tags:
- live-eval
---
# {name}

{turns} turns of a run of [live-eval](https://pypi.org/project/live-eval/), with {endpoint}, recorded on
{started_at}. The run's manifest is JSON in the Parquet files' metadata, under `live_eval.run`.

{licence}

| column | type | meaning |
|---|---|---|
{columns}
"""


_LICENCE = "The audio of both sides contains the data set's recordings, under their licence."


def write_dataset(
    table: ExportTable, folder: Path, *, shard_bytes: int = 500_000_000, rows_at_once: int = 20
) -> int:
    """Write the turns and their audio to a new folder, and return the number of turns.

    Args:
        shard_bytes: Size of a Parquet file after which a new file is started.
        rows_at_once: Maximum number of turns in memory with their audio.

    Raises:
        UsageError: The folder is not empty, or pyarrow is not installed.
        OSError: A file cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(path.name != _PART for path in folder.iterdir())):
        raise UsageError(f"{folder}: expected a new or empty folder")
    schema = _schema(table)
    with _atomic_folder(folder) as part:
        batches = _with_audio(table, schema, rows_at_once)
        turns = _write_shards(batches, schema, private_folder(part / "data"), shard_bytes)
        with atomic_text(part / "README.md") as file:
            file.write(_card(table, turns))
    return turns


@contextlib.contextmanager
def _atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; move its contents to `folder` on success, and delete them otherwise."""
    is_new = not folder.exists()
    # Place the temporary folder inside `folder`, which may be the working folder, a link or a mount point.
    part = private_folder(folder) / _PART
    shutil.rmtree(part, ignore_errors=True)  # from an export that was killed
    try:
        part.mkdir(mode=0o700)
        yield part
        for path in sorted(part.iterdir()):
            path.rename(folder / path.name)
        part.rmdir()
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _write_shards(batches: Iterator[pa.RecordBatch], schema: pa.Schema, data: Path, shard_bytes: int) -> int:
    """Write the turns as Parquet files, and return the number of turns."""
    parquet = needed("pyarrow.parquet")
    paths = (private_file(data / f"{SPLIT}-{number:05}.parquet") for number in itertools.count())
    writer = parquet.ParquetWriter(next(paths), schema)
    turns = size = 0
    try:
        for batch in batches:
            if size > shard_bytes:
                writer.close()
                writer, size = parquet.ParquetWriter(next(paths), schema), 0
            writer.write_batch(batch)
            turns += batch.num_rows
            size += batch.nbytes
    finally:
        writer.close()
    return turns


def _schema(table: ExportTable) -> pa.Schema:
    pa = needed("pyarrow")
    schema = turn_schema(table)
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for name in _AUDIO:
        index = schema.get_field_index(name)
        schema = schema.set(index, schema.field(index).with_type(audio))
    features = {"info": {"features": {name: {"_type": "Audio"} for name in _AUDIO}}}
    return schema.with_metadata({**schema.metadata, b"huggingface": json.dumps(features).encode()})


def _with_audio(table: ExportTable, schema: pa.Schema, rows_at_once: int) -> Iterator[pa.RecordBatch]:
    """Yield the table's batches, with audio instead of paths."""
    pa = needed("pyarrow")
    for batch in record_batches(table, rows_at_once=rows_at_once):
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in _AUDIO:
            files = [_audio(table.run.path, path) for path in arrays[name].to_pylist()]
            arrays[name] = pa.array(files, schema.field(name).type)
        yield pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


def _audio(run: Path, path: str | None) -> dict[str, Any] | None:
    """Read an audio file in the format of ``datasets``; None if it is missing or too large for a turn."""
    content = None if path is None else own_bytes(run, run / path)
    return None if path is None or content is None else {"bytes": content, "path": Path(path).name}


def _card(table: ExportTable, turns: int) -> str:
    run = table.run
    endpoint = part_of(run.manifest, "endpoint")
    asked = [text_of(endpoint, "name"), text_of(endpoint, "model")]
    rows = [(column.name, _type_in_words(column), column.meaning) for column in table.columns]
    return _CARD.format(
        split=SPLIT,
        name=run.path.resolve().name,
        turns=turns,
        endpoint=" ".join(text for text in asked if text) or "an endpoint",
        started_at=run.started_at,
        licence=" ".join([_LICENCE, *(f"{markdown_text(each)}." for each in licences_of([run.manifest]))]),
        columns="\n".join(f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in rows),
    )


def _type_in_words(column: ExportColumn) -> str:
    if column.name in _AUDIO:
        return "FLAC audio"
    return "list of records" if isinstance(column.kind, tuple) else column.kind
