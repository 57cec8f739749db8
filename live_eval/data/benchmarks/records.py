"""Record where a benchmark is on this machine, and find files that have changed since it was added."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from live_eval.audio.parquet import TABLE_SUFFIX
from live_eval.data.benchmarks.specification import BenchmarkSpec
from live_eval.errors import DataError, UsageError
from live_eval.files import atomic_text, read_text
from live_eval.weights import file_sha256

__all__ = [
    "FOLDER_VARIABLE",
    "RECORD_FILE",
    "RecordedBenchmark",
    "benchmarks_folder",
    "changed_files",
    "read_record",
    "record_copy",
    "write_record",
]

FOLDER_VARIABLE = "LIVE_EVAL_BENCHMARKS"
RECORD_FILE = "benchmark.json"
_MOST_HASHED_BYTES = 64 << 20
"""Hashing a larger table each time it is loaded would delay every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBenchmark:
    """The location of a benchmark on this machine.

    Args:
        root: Folder with the files.
        revision: Downloaded revision; empty for files that the user supplied.
        parts: Downloaded parts, or the parts of the user's copy that were added by name; empty for a whole
            copy.
        files: Size and SHA-256 of each downloaded file, or of the lists and tables of items in the user's
            copy, by path in the folder.
    """

    root: Path
    revision: str = ""
    parts: tuple[str, ...] = ()
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def remedy(self, name: str) -> str:
        """Return the command for changed files of a benchmark or its part, and the verb for what it does."""
        command = f"live-eval data add {name}"
        return f"{command} --again restores" if self.revision else f"{command} --path {self.root} accepts"


def benchmarks_folder() -> Path:
    """Return the folder for all benchmarks: ``$LIVE_EVAL_BENCHMARKS``, or the user's data folder."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return platformdirs.user_data_path("live-eval", appauthor=False) / "benchmarks"


def changed_files(
    recorded: RecordedBenchmark, suspects: Sequence[str] = (), *, hashed_bytes: int = _MOST_HASHED_BYTES
) -> list[str]:
    """Return the recorded files that are missing or have a different size or, in some cases, hash.

    Args:
        suspects: Files, or folders of files, whose hashes are compared.
        hashed_bytes: Size up to which the hashes of other files are compared, too.
    """
    inside = tuple(f"{name}/" for name in suspects)
    changed = []
    for name, (size, sha256) in recorded.files.items():
        path = recorded.root / name
        if not path.is_file() or path.stat().st_size != size:
            changed.append(name)
            continue
        hashed = size <= hashed_bytes or name in suspects or name.startswith(inside)
        if hashed and file_sha256(path) != sha256:
            changed.append(name)
    return changed


def record_copy(spec: BenchmarkSpec, part: str, root: Path) -> list[str]:
    """Record the user's copy of a part or of all parts; return the files changed since they were last added.

    The record keeps the parts of the same copy that were added before.

    Raises:
        UsageError: The record cannot be written.
    """
    try:
        before = read_record(spec)
    except DataError:  # the record is damaged or its folder is missing
        before = None
    if before is not None and (before.revision or before.root.resolve() != root.resolve()):
        before = None
    added = spec.selected(part)
    files = _files_of(spec, root, added)
    whole = not part
    changed: list[str] = []
    if before is not None:
        changed = [path for path, facts in files.items() if before.files.get(path, facts) != facts]
        files = {**before.files, **files}
        whole = whole or not before.parts
        added = list(dict.fromkeys((*before.parts, *added)))
    parts = () if whole else tuple(added)
    write_record(spec, RecordedBenchmark(root=root.absolute(), parts=parts, files=files))
    return changed


def _files_of(spec: BenchmarkSpec, root: Path, parts: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of the lists and tables of the items of parts, by path below `root`."""
    places = [root / spec.place_of(name) for name in parts]
    if spec.metadata:
        places.append(root / spec.metadata)
    paths = [path for place in places for path in (place, *sorted(place.glob(f"*{TABLE_SUFFIX}")))]
    return {
        path.relative_to(root).as_posix(): (path.stat().st_size, file_sha256(path))
        for path in dict.fromkeys(paths)
        if path.is_file()
    }


def read_record(spec: BenchmarkSpec) -> RecordedBenchmark | None:
    """Return the location of a benchmark, or None if it has not been added.

    Raises:
        DataError: The record is damaged, or its folder is missing.
    """
    path = _record_file(spec)
    if not path.is_file():
        return None
    again = f"add it again (live-eval data add {spec.name})"
    try:
        stored: Any = json.loads(read_text(path))
        found = RecordedBenchmark(
            root=path.parent / str(stored["root"]),
            revision=str(stored["revision"]),
            parts=tuple(map(str, stored["parts"])),
            files={str(name): (int(size), str(sha256)) for name, (size, sha256) in stored["files"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path}: damaged record of {spec.title}: {again}") from None
    if not found.root.is_dir():
        raise DataError(f"{found.root}: missing folder of {spec.title}: {again}")
    return found


def write_record(spec: BenchmarkSpec, record: RecordedBenchmark) -> None:
    """Record the location of a benchmark; folders below `benchmarks_folder` are stored as relative paths.

    Raises:
        UsageError: The record cannot be written.
    """
    path = _record_file(spec)
    root = record.root
    stored = {
        "root": str(root.relative_to(path.parent) if root.is_relative_to(path.parent) else root.absolute()),
        "revision": record.revision,
        "parts": list(record.parts),
        "files": {name: list(facts) for name, facts in sorted(record.files.items())},
        "licence": spec.licence_of(),
        "source": spec.source,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(path) as file:
            json.dump(stored, file, indent=1)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _record_file(spec: BenchmarkSpec) -> Path:
    return benchmarks_folder() / spec.name / RECORD_FILE
