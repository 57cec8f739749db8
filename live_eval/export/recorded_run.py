"""Read a run in a notebook, with its turns as a data frame."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_eval.export.arrow import data_frame
from live_eval.export.table import ExportTable
from live_eval.recording import RunReader

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RecordedRun"]


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run. It keeps no files open; audio paths in `turns` are relative to `path`."""

    path: Path

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest of the run: versions, run file, endpoint settings, seed, machine."""
        with RunReader.open(self.path) as run:
            return run.manifest

    @cached_property
    def turns(self) -> pd.DataFrame:
        """The turns, including failed ones, with the columns of ``live-eval export --format parquet``.

        Warns:
            UserWarning: The scores cannot be read, so their columns are missing.

        Raises:
            UsageError: pandas or pyarrow is not installed.
        """
        with RunReader.open(self.path) as run:
            table = ExportTable(run)
            if table.scores.unread:
                warnings.warn(f"{self.path}: {table.scores.unread}", stacklevel=2)
            return data_frame(table)
