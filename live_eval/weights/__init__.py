"""Find and check judge weights that are not in a package. A judge never downloads weights.

Each set of weights has a folder in `weights_folder`, with a `RECORD_FILE` that lists its files and their
SHA-256. ``live-eval weights fetch`` downloads the files (`live_eval.weights.fetching`);
``live-eval weights add`` records existing files. Known hashes are in the specification; unknown hashes are
recorded when files are first added and checked afterwards. Files with other hashes are rejected.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from live_eval.errors import JudgeError, UsageError
from live_eval.files import atomic_text, open_regular, read_regular

__all__ = [
    "FOLDER_VARIABLE",
    "HUB",
    "RECORD_FILE",
    "FoundWeights",
    "WeightsFile",
    "WeightsSpec",
    "add_weights",
    "chosen_weights",
    "file_sha256",
    "find_weights",
    "hub_files",
    "package_folder",
    "packaged_file",
    "recorded_hashes",
    "recorded_weights",
    "weights_at",
    "weights_folder",
    "write_record",
]

HUB = "https://huggingface.co"
FOLDER_VARIABLE = "LIVE_EVAL_WEIGHTS"
RECORD_FILE = "weights.json"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFile:
    """A file in a set of weights.

    Args:
        name: Path within the weights folder, with forward slashes.
        sha256: Hash of the file; None to record the hash when the file is first downloaded or added.
    """

    name: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSpec:
    """A published set of weights.

    Args:
        licence: Licence of the weights; shown before the download.
        source: The page on which the weights are published.
    """

    name: str
    title: str
    files: tuple[WeightsFile, ...]
    licence: str
    source: str
    megabytes: int

    @property
    def pinned(self) -> bool:
        """Whether the hash of every file is known in advance."""
        return all(file.sha256 is not None for file in self.files)


def hub_files(
    repository: str, revision: str, names: Iterable[str] | Mapping[str, str]
) -> tuple[WeightsFile, ...]:
    """Return the weights files of a model on the Hugging Face hub.

    Args:
        repository: ``owner/name``.
        revision: The commit, which pins the contents of the files.
        names: Paths within the repository, or a mapping from path to SHA-256.
    """
    hashes = names if isinstance(names, Mapping) else dict.fromkeys(names)
    return tuple(
        WeightsFile(name=name, url=f"{HUB}/{repository}/resolve/{revision}/{name}", sha256=sha256)
        for name, sha256 in hashes.items()
    )


@dataclass(frozen=True, slots=True)
class FoundWeights:
    """Weights found on this machine.

    Args:
        path: Path of the file, or of the folder if there are several files.
        sha256: Hash of the file; for several files, the hash of their names and hashes.
    """

    path: Path
    sha256: str


def weights_folder() -> Path:
    """Return the folder for all weights: ``$LIVE_EVAL_WEIGHTS``, or the user's data folder."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("live-eval", appauthor=False) / "weights"


def find_weights(spec: WeightsSpec) -> FoundWeights:
    """Check the hashes of recorded weights, and return the weights.

    Raises:
        JudgeError: The weights are missing, or a file has a wrong hash; the message describes the fix.
    """
    kept = _kept_files(spec)
    if kept is None:
        raise JudgeError(
            f"no weights {spec.name} (live-eval weights fetch {spec.name}, or add {spec.name} PATH)"
        )
    for path, sha256 in kept.values():
        _checked(path, sha256, spec)
    return _found(spec, kept)


def recorded_weights(spec: WeightsSpec) -> FoundWeights | None:
    """Return the recorded weights without hashing their files; None if nothing is recorded.

    Raises:
        JudgeError: The record is damaged or a file is missing; the message describes the fix.
    """
    kept = _kept_files(spec)
    return None if kept is None else _found(spec, kept)


def recorded_hashes(spec: WeightsSpec) -> dict[str, str]:
    """Return all recorded hashes, even of missing files; an empty dict if the record cannot be read."""
    try:
        return {name: sha256 for name, (_, sha256) in (_read_record(spec) or {}).items()}
    except JudgeError:
        return {}


def chosen_weights(value: str, spec: WeightsSpec, *, any_hash: bool = False) -> FoundWeights:
    """Return the weights selected by a judge option.

    Args:
        value: The name of `spec`, or the path of the user's own weights.
        any_hash: Whether the user's own weights may differ from the published weights.

    Raises:
        JudgeError: The weights are missing, or a file has a wrong hash; the message describes the fix.
    """
    return find_weights(spec) if value == spec.name else weights_at(Path(value), spec, any_hash=any_hash)


def weights_at(path: Path, spec: WeightsSpec | None = None, *, any_hash: bool = False) -> FoundWeights:
    """Hash the user's own weights and return them.

    Args:
        spec: The published weights, whose files are required; None to accept any files.
        any_hash: Whether file hashes may differ from `spec`.

    Raises:
        JudgeError: A file is missing, or its hash differs from `spec`.
    """
    if spec is not None:
        paths = {file.name: _within(path, file, spec) for file in spec.files}
        hashes = {
            file.name: _checked(paths[file.name], None if any_hash else file.sha256, spec)
            for file in spec.files
        }
        return FoundWeights(path if len(paths) > 1 else paths[spec.files[0].name], _overall(hashes))
    # Skip names that begin with a dot (.git, .cache), because tools change them independently of the model.
    names = [file.relative_to(path) for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
    hashes = {
        name.as_posix(): _checked(path / name, None)
        for name in names
        if not any(part.startswith(".") for part in name.parts)
    }
    return FoundWeights(path, _overall(hashes) if hashes else _checked(path, None))


def add_weights(spec: WeightsSpec, path: Path) -> FoundWeights:
    """Record the user's existing files without moving them.

    Args:
        path: Path of the file, or of the folder with all files.

    Raises:
        JudgeError: A file is missing, or its hash differs from the specification.
        UsageError: The record cannot be written.
    """
    # Keep links, because files in the hub's own cache are links into a blobs folder.
    write_record(spec, {file.name: _within(path, file, spec).absolute() for file in spec.files})
    return find_weights(spec)


def write_record(spec: WeightsSpec, paths: Mapping[str, Path]) -> None:
    """Record the paths and hashes of weights files; paths in the weights folder are stored relative to it.

    Args:
        paths: Paths of the files in `spec`, by file name.

    Raises:
        JudgeError: A file is missing, or its hash differs from the specification.
        UsageError: The record cannot be written.
    """
    record = _record_file(spec)
    files = {}
    for each in spec.files:
        path = paths[each.name]
        kept = path.relative_to(record.parent) if path.is_relative_to(record.parent) else path
        files[each.name] = {"path": kept.as_posix(), "sha256": _checked(path, each.sha256, spec)}
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(record) as file:
            json.dump({"files": files, "licence": spec.licence, "source": spec.source}, file, indent=2)
    except OSError as error:
        raise UsageError(f"cannot write {record}: {error.strerror or error}") from error


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed top-level package, or None, without importing it."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def packaged_file(package: str, name: str, sha256: str, *, install: str) -> Path:
    """Return the path of a file in an installed package, after checking its hash.

    Args:
        name: Path of the file within the package, with forward slashes.
        sha256: Required hash of the file.
        install: Installation instructions, for the error message.

    Raises:
        JudgeError: The package is not installed, or the file is missing or has another hash.
    """
    folder = package_folder(package)
    if folder is None:
        raise JudgeError(f"the package {package} is not installed: {install}")
    path = folder / name
    try:
        found = file_sha256(path)
    except OSError as error:
        raise JudgeError(f"cannot read the weights at {path}: {error.strerror or error}") from error
    if found != sha256:
        raise JudgeError(f"{path}: expected weights with SHA-256 {sha256}, got {found}; reinstall {package}")
    return path


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. A file is read again only if it has changed.

    Raises:
        OSError: The file cannot be read.
    """
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    with open_regular(path, links=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record_file(spec: WeightsSpec) -> Path:
    return weights_folder() / spec.name / RECORD_FILE


def _kept_files(spec: WeightsSpec) -> dict[str, tuple[Path, str]] | None:
    """Return the path and hash of each recorded file; None if nothing is recorded.

    All files must exist. A hash in the specification takes precedence over the recorded hash.
    """
    recorded = _read_record(spec)
    if recorded is None:
        return None
    kept_files = {}
    for file in spec.files:
        path, sha256 = recorded.get(file.name, (_record_file(spec).parent / file.name, ""))
        if not (sha256 and path.is_file()):
            raise JudgeError(f"{path}: expected a file of the weights {spec.name}; {_again(spec)}")
        kept_files[file.name] = (path, file.sha256 or sha256)
    return kept_files


def _read_record(spec: WeightsSpec) -> dict[str, tuple[Path, str]] | None:
    record = _record_file(spec)
    if not record.is_file():
        return None
    try:
        files: Any = json.loads(read_regular(record, _MOST_BYTES))["files"]
        return {name: (record.parent / kept["path"], str(kept["sha256"])) for name, kept in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise JudgeError(f"{record}: expected a record of the weights {spec.name}; {_again(spec)}") from error


def _again(spec: WeightsSpec) -> str:
    return f"fetch or add them again (live-eval weights fetch {spec.name})"


def _within(path: Path, file: WeightsFile, spec: WeightsSpec) -> Path:
    """Return the path of a weights file; `path` is the file itself or the folder with all files."""
    found = path / file.name if path.is_dir() else path
    if not found.is_file() or (len(spec.files) > 1 and not path.is_dir()):
        wanted = ", ".join(file.name for file in spec.files)
        what = "a file" if len(spec.files) == 1 else "a folder"
        missing = f"found no {found.name}" if path.exists() else "the path does not exist"
        raise JudgeError(f"{path}: expected {what} with the weights {spec.name} ({wanted}), but {missing}")
    return found


def _checked(path: Path, sha256: str | None, spec: WeightsSpec | None = None) -> str:
    what = f"the weights {spec.name}" if spec is not None else "the weights"
    try:
        found = file_sha256(path)
    except OSError as error:
        raise JudgeError(f"cannot read {what} at {path}: {error.strerror or error}") from error
    if sha256 is not None and found != sha256:
        raise JudgeError(f"{path}: expected {what} with SHA-256 {sha256}, got {found}")
    return found


def _overall(hashes: Mapping[str, str]) -> str:
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()


def _found(spec: WeightsSpec, kept: Mapping[str, tuple[Path, str]]) -> FoundWeights:
    """Return the file, or the folder that contains all files under their names."""
    sha256 = _overall({name: sha256 for name, (_, sha256) in kept.items()})
    first = kept[spec.files[0].name][0]
    if len(spec.files) == 1:
        return FoundWeights(first, sha256)
    folder = first.parents[len(Path(spec.files[0].name).parts) - 1]
    if any(kept[file.name][0] != folder / file.name for file in spec.files):
        raise JudgeError(f"{_record_file(spec)}: expected all files in one folder; {_again(spec)}")
    return FoundWeights(folder, sha256)
