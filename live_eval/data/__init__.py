"""Read data sets: EchoMind, EchoMind-Human, other benchmarks, manifests, folders and the bundled sample."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from live_eval.data.benchmarks import find_benchmark, load_benchmark, locate_benchmark
from live_eval.data.check import DataReport, FileCheck, check, check_readable
from live_eval.data.dataset import DataKind, DataOptions, DataSet, select
from live_eval.data.echomind import PARTS, load_echomind, parts_of
from live_eval.data.manifest import MANIFEST_SUFFIXES, load_folder, load_manifest, recordings
from live_eval.data.performing import Consent, PerformedSet, consent_question, direction, performable
from live_eval.data.questions import QUESTION_TYPES
from live_eval.data.taxonomy import ATTRIBUTES, FINE_DIMENSIONS, NEUTRAL, VOCAL_SOUNDS, Attribute, cue_of
from live_eval.errors import DataError
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import limited

__all__ = [
    "ATTRIBUTES",
    "FINE_DIMENSIONS",
    "NEUTRAL",
    "QUESTION_TYPES",
    "SAMPLE",
    "SAMPLE_DIALOGUES",
    "VOCAL_SOUNDS",
    "Attribute",
    "Consent",
    "DataKind",
    "DataOptions",
    "DataReport",
    "DataSet",
    "FileCheck",
    "PerformedSet",
    "check",
    "check_readable",
    "consent_question",
    "cue_of",
    "direction",
    "load",
    "locate",
    "may_leave",
    "performable",
    "sample_path",
    "select",
]

SAMPLE = "sample"
"""Name of the bundled sample on the command line and in run files."""

SAMPLE_DIALOGUES = "sample-dialogues"
"""Name of the bundled dialogues."""

_EXPECTED = (
    "expected EchoMind's root (with data_synthesis or data_human), one of these folders, "
    f"a manifest ({', '.join(MANIFEST_SUFFIXES)}), a folder of recordings, a benchmark of "
    f"`live-eval data list`, or {SAMPLE!r} or {SAMPLE_DIALOGUES!r}"
)


def load(path: Path, options: DataOptions | None = None) -> DataSet:
    """Read a data set of any supported layout.

    `path` is EchoMind's root, its ``data_synthesis`` or ``data_human``, a script_info file, a manifest, the
    folder of another benchmark or one of its parts, or a folder of recordings.

    Raises:
        DataError: The path is not a supported data set, or cannot be read.
        UsageError: The options do not match the data.
    """
    options = options or DataOptions()
    if os.path.isfile(path):  # `Path.is_file` raises if the name is invalid
        if path.suffix.lower() in MANIFEST_SUFFIXES:
            return load_manifest(path, options)
        if parts_of(path):
            return load_echomind(path, options)
        raise DataError(f"{path}: {_EXPECTED}, got another file type")
    if (placed := find_benchmark(path)) is not None:
        return load_benchmark(placed, options)
    if not os.path.isdir(path):
        near = did_you_mean(path.name, [SAMPLE, SAMPLE_DIALOGUES, *_names_beside(path)])
        raise DataError(f"{path}: not found{near}; {_EXPECTED}")
    if parts_of(path) or any((path / f"data_{part}").is_dir() for part in PARTS):
        return load_echomind(path, options)
    if recordings(path):
        return load_folder(path, options)
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    raise DataError(f"{path}: {_EXPECTED}, found {limited(names, ', ', 10) or 'nothing'}")


def locate(name: str) -> Path:
    """Return the path of the bundled sample, its dialogues or a benchmark by name; other names are paths.

    Raises:
        DataError: The benchmark has not been added on this machine.
        UsageError: The benchmark has no such part.
    """
    if name == SAMPLE_DIALOGUES:
        return sample_path() / "dialogues" / "dialogues.jsonl"
    if name == SAMPLE:
        return sample_path()
    return locate_benchmark(name) or Path(name)


def _names_beside(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path.parent))
    except (OSError, ValueError):
        return []


def sample_path() -> Path:
    """Return the folder of the bundled sample, in EchoMind's layout."""
    return Path(str(resources.files("live_eval.data") / "sample"))


def may_leave(recording: Path, run: Path, folders: Iterable[Path] = ()) -> bool:
    """Return whether a recording referenced by a run may be sent to a model or played to listeners.

    An untrusted run can refer to any of the user's files. Only recordings in the run folder, in the bundled
    sample and in the `folders` chosen by the user may leave; links are resolved.
    """
    folder = recording.resolve().parent
    return any(folder.is_relative_to(each.resolve()) for each in (run, sample_path(), *folders))
