"""Store measurements of this machine in the user's data folder, for later runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, TypeAdapter, ValidationError

from live_eval.errors import DataError
from live_eval.files import atomic_text, read_regular

__all__ = ["MachineRecords"]

T = TypeVar("T", bound=BaseModel)

_LOCK_S = 10.0
_MAX_BYTES = 1 << 24


class MachineRecords(Generic[T]):
    """The stored records of one type, such as calibrations.

    Args:
        file_name: File name in the user's data folder.
        variable: Environment variable that overrides the path.
    """

    def __init__(self, kind: type[T], file_name: str, variable: str) -> None:
        self._records = TypeAdapter(list[kind])  # type: ignore[valid-type]
        self._file_name = file_name
        self._variable = variable

    def read(self) -> list[T]:
        """Return the stored records. An unreadable file counts as empty, and `keep` replaces it."""
        try:
            return self._records.validate_json(read_regular(self._path(), _MAX_BYTES, links=True))
        except (OSError, ValidationError):
            return []

    def keep(self, record: T, key: Callable[[T], object]) -> Path:
        """Store a record, replacing any with the same key; return the file.

        Raises:
            DataError: The file cannot be written.
        """
        path = self._path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_S)
            with lock, atomic_text(path, links=True) as file:
                others = [each for each in self.read() if key(each) != key(record)]
                kept = self._records.dump_python([*others, record], mode="json")
                file.write(json.dumps(kept, indent=2) + "\n")
        except (OSError, Timeout) as error:
            raise DataError(f"cannot write {path}: {error}") from None
        return path

    def _path(self) -> Path:
        chosen = os.environ.get(self._variable)
        if chosen:
            return Path(chosen)
        from platformdirs import user_data_path

        return user_data_path("live-eval", appauthor=False) / self._file_name
