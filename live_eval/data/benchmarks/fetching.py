"""Download a benchmark's files at its pinned revision.

The names, sizes and hashes of the files in a part's folder are from the hub's file list for the revision, or
from the benchmark's metadata file; a commit pins all of them. Files are resumed, checked and renamed as in
`live_eval.weights.fetching`. Each part is recorded when it is complete, so an interrupted download loses no
complete part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_eval.clock import Clock, SystemClock
from live_eval.data.benchmarks import (
    BenchmarkSpec,
    RecordedBenchmark,
    benchmarks_folder,
    read_record,
    write_record,
)
from live_eval.data.benchmarks.voicebench import splits_of
from live_eval.errors import DataError, StoreLockedError, UsageError
from live_eval.files import read_text
from live_eval.redaction import mask_halves
from live_eval.text.suggestions import did_you_mean
from live_eval.weights import HUB, WeightsFile, file_sha256
from live_eval.weights.fetching import MOST_REDIRECTS, Download, FetchProgress, published_at

if TYPE_CHECKING:
    import requests

__all__ = ["fetch_benchmark", "files_folder"]

_MOST_LIST_BYTES = 8 << 20
_MOST_FILE_BYTES = 8 << 30
_RESUME = "; complete files are kept, and the next data add resumes the download"


@dataclass(frozen=True, slots=True)
class _Published:
    """A file of the repository; its size and hash are None if unknown."""

    name: str
    size: int | None = None
    sha256: str | None = None


def files_folder(spec: BenchmarkSpec) -> Path:
    """Return the folder of downloaded files, which depends on the revision."""
    return benchmarks_folder() / spec.name / spec.revision[:12]


def fetch_benchmark(
    spec: BenchmarkSpec,
    parts: Sequence[str],
    *,
    split: str = "",
    again: bool = False,
    progress: FetchProgress | None = None,
    planned: Callable[[str, int, int], None] | None = None,
    clock: Clock | None = None,
) -> RecordedBenchmark:
    """Download missing files of a benchmark's parts, resuming partial downloads.

    A recorded part whose files are complete needs no network, because a revision never changes.

    Args:
        parts: Names of the parts.
        split: A split that the part must have.
        again: Whether to check the hashes of complete files and replace changed files.
        progress: Callback for received data.
        planned: Callback with each part's folder, its number of files, and the number already downloaded.
        clock: Clock for the pauses between attempts.

    Returns:
        The benchmark with all parts downloaded so far.

    Raises:
        DataError: The download failed, or a file has a wrong hash; the message contains the reason.
        UsageError: The part has no such split, the folder cannot be written, or ``HF_ENDPOINT`` is not a URL.
        StoreLockedError: Another process is downloading the benchmark.
    """
    import requests
    from filelock import FileLock, Timeout

    folder = files_folder(spec)
    places = dict.fromkeys(map(spec.place_of, parts))
    session = requests.Session()
    session.max_redirects = MOST_REDIRECTS
    name = f"{spec.name}/{parts[0]}" if len(parts) == 1 else spec.name
    door = _Door(spec, name, folder, session, progress or (lambda *_: None), clock or SystemClock())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{spec.name}.lock"), timeout=0):
            record = _recorded(spec, folder)
            for place in places:
                inside = tuple(name for name in spec.parts if spec.place_of(name) == place)
                files = [] if again else _recorded_files(spec, record, place, inside)
                if not files or not all(_is_here(folder, file, record, check=False) for file in files):
                    files = list(door.files_of(place, record))
                if split:
                    _check_split(spec, parts[0], split, [file.name for file in files])
                wanted = [file for file in files if not _is_here(folder, file, record, check=again)]
                if planned is not None:
                    planned(place, len(files), len(files) - len(wanted))
                for file in wanted:
                    door.fetch(file, folder / file.name, most_bytes=file.size or _MOST_FILE_BYTES)
                facts = {file.name: _facts(folder / file.name, file, record) for file in files}
                done = tuple(dict.fromkeys((*record.parts, *inside)))
                record = replace(record, parts=done, files={**record.files, **facts})
                write_record(spec, record)
    except Timeout:
        raise StoreLockedError(f"{folder}: another process is downloading {spec.title}") from None
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}{_RESUME}") from error
    return record


def _recorded(spec: BenchmarkSpec, folder: Path) -> RecordedBenchmark:
    """Return the record of earlier downloads of this revision, or an empty one."""
    try:
        found = read_record(spec)
    except DataError:  # the record is damaged or its folder is missing
        found = None
    if found is not None and found.revision == spec.revision and found.root.resolve() == folder.resolve():
        return found
    return RecordedBenchmark(root=folder, revision=spec.revision)


def _recorded_files(
    spec: BenchmarkSpec, record: RecordedBenchmark, place: str, parts: Sequence[str]
) -> list[_Published]:
    """Return the files in the folder of parts that were downloaded before; empty if they were not."""
    if not set(parts) <= set(record.parts):
        return []
    return [
        _Published(name, size, sha256)
        for name, (size, sha256) in record.files.items()
        if spec.metadata or name.startswith(f"{place}/")
    ]


def _check_split(spec: BenchmarkSpec, part: str, split: str, files: Sequence[str]) -> None:
    # Several parts in one table cannot be split by the names of tables.
    splits = [] if spec.parts[part].file else splits_of([Path(name) for name in files])
    if split not in splits:
        raise UsageError(
            f"{spec.name}/{part} has no split {split!r}{did_you_mean(split, splits)}; "
            f"expected one of {', '.join(splits) or 'none'}"
        )


def _is_here(folder: Path, file: _Published, record: RecordedBenchmark, *, check: bool) -> bool:
    path = folder / file.name
    if not path.is_file():
        return False
    size, sha256 = record.files.get(file.name, (file.size, file.sha256))
    known = file.sha256 or sha256
    if size is not None and path.stat().st_size != size:
        return False
    # Recorded files were checked when they were downloaded.
    return (file.name in record.files and not check) or known in (None, file_sha256(path))


def _facts(path: Path, file: _Published, record: RecordedBenchmark) -> tuple[int, str]:
    size = path.stat().st_size
    known = record.files.get(file.name)
    if known is not None and known[0] == size:
        return known
    return size, file.sha256 or file_sha256(path)


@dataclass(frozen=True, slots=True)
class _Door:
    """Download the files of one benchmark; `name` is the benchmark or part that the user named."""

    spec: BenchmarkSpec
    name: str
    folder: Path
    session: requests.Session
    progress: FetchProgress
    clock: Clock

    def files_of(self, place: str, record: RecordedBenchmark) -> Iterator[_Published]:
        """Yield the files in a folder of the repository.

        Raises:
            DataError: The list cannot be downloaded, or is not a list of files.
        """
        if self.spec.metadata:
            yield from self._files_in_metadata(record)
            return
        where = f"{HUB}/api/datasets/{self.spec.repository}/tree/{self.spec.revision}/{place}"
        listed = self._read(where, f".{place}.json")
        found = [
            _Published(str(entry["path"]), int(entry["size"]), (entry.get("lfs") or {}).get("oid"))
            for entry in listed
            if isinstance(entry, dict) and entry.get("type") == "file"
        ]
        if not found:
            raise DataError(
                f"{_asked(where)}: expected files of {self.spec.title} in the folder {place}, found none"
            )
        yield from found

    def _files_in_metadata(self, record: RecordedBenchmark) -> Iterator[_Published]:
        name = self.spec.metadata
        path = self.folder / name
        if not _is_here(self.folder, _Published(name), record, check=True):
            self.fetch(_Published(name), path, most_bytes=_MOST_LIST_BYTES)
        yield _Published(name)
        for line in read_text(path).splitlines():
            if line.strip():
                try:
                    stated = json.loads(line)["file_name"]
                except (ValueError, KeyError, TypeError):
                    raise DataError(f"{path}: expected objects with file_name, got {line[:80]!r}") from None
                if not _stays_inside(stated):
                    raise DataError(f"{path}: the path {stated!r:.80} is outside the benchmark's folder")
                yield _Published(stated)

    def _read(self, url: str, name: str) -> list[Any]:
        part = self.folder / name
        try:
            self._download(WeightsFile(name=name, url=url), part, _MOST_LIST_BYTES, None)
            listed: Any = json.loads(read_text(part))
        except ValueError:
            listed = None
        finally:
            part.unlink(missing_ok=True)
        if not isinstance(listed, list):
            raise DataError(f"{_asked(url)}: expected a list of files, got something else")
        for entry in listed:
            stated = entry.get("path") if isinstance(entry, dict) else None
            if not _stays_inside(stated):
                raise DataError(f"{_asked(url)}: the path {stated!r:.80} is outside the benchmark's folder")
        return listed

    def fetch(self, file: _Published, path: Path, *, most_bytes: int) -> None:
        """Download a file, unless it is complete."""
        path.parent.mkdir(parents=True, exist_ok=True)
        url = f"{HUB}/datasets/{self.spec.repository}/resolve/{self.spec.revision}/{file.name}"
        part = path.with_name(f"{path.name}.part")
        self._download(WeightsFile(name=file.name, url=url), part, most_bytes, file.sha256)
        if file.size is not None and part.stat().st_size != file.size:
            found = part.stat().st_size
            part.unlink()
            raise DataError(f"{_asked(url)}: expected {file.size} bytes, got {found}, which were discarded")
        part.replace(path)

    def _download(self, file: WeightsFile, part: Path, most_bytes: int, sha256: str | None) -> None:
        Download(
            session=self.session,
            file=file,
            url=published_at(file),
            part=part,
            most_bytes=most_bytes,
            progress=self.progress,
            what=f"a file of {self.spec.title}",
            instead=f"live-eval data add {self.name} --path FOLDER",
            error=DataError,
        ).fetch(
            sha256,
            self.clock,
            f"the publisher's file differs from that of the pinned revision {self.spec.revision[:12]}; to "
            f"try again, run live-eval data add {self.name}",
        )


def _asked(url: str) -> str:
    """Return the URL that was requested, which may be a mirror's, for messages."""
    return mask_halves(published_at(WeightsFile(name="", url=url)))


def _stays_inside(name: object) -> bool:
    return isinstance(name, str) and bool(name) and "\0" not in name and _is_plain(Path(name))


def _is_plain(path: Path) -> bool:
    return not path.is_absolute() and ".." not in path.parts and "\\" not in str(path)
