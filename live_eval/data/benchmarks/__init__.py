"""Find, record and load other published benchmarks.

A benchmark is read in its published layout, without conversion. ``live-eval data add`` records the location
of its files in a `RECORD_FILE` per benchmark below `benchmarks_folder`. The benchmark's name, alone or with a
part (``voicebench/openbookqa``), then selects it as a data set.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from live_eval.data._rows import unique
from live_eval.data.benchmarks.catalogue import BENCHMARKS
from live_eval.data.benchmarks.records import (
    FOLDER_VARIABLE,
    RECORD_FILE,
    RecordedBenchmark,
    benchmarks_folder,
    changed_files,
    read_record,
    record_copy,
    write_record,
)
from live_eval.data.benchmarks.specification import BenchmarkPart, BenchmarkSpec
from live_eval.data.dataset import DataKind, DataOptions, DataSet
from live_eval.errors import DataError, UsageError
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import counted, limited
from live_eval.types import Case

__all__ = [
    "BENCHMARKS",
    "FOLDER_VARIABLE",
    "RECORD_FILE",
    "BenchmarkPart",
    "BenchmarkSpec",
    "PlacedBenchmark",
    "RecordedBenchmark",
    "benchmark_named",
    "benchmark_set",
    "benchmarks_folder",
    "changed_files",
    "find_benchmark",
    "find_parts",
    "found_parts",
    "load_benchmark",
    "locate_benchmark",
    "read_parts",
    "read_record",
    "record_copy",
    "write_record",
]

_NAMED = 3
_Name = TypeVar("_Name")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBenchmark:
    """A benchmark or one of its parts at a path.

    Args:
        root: The folder with all parts.
        part: Selected part; empty for all parts that are present.
        read: Function that reads the items.
    """

    spec: BenchmarkSpec
    root: Path
    part: str
    read: Callable[[DataOptions], DataSet]


def find_parts(
    path: Path,
    spec: BenchmarkSpec,
    is_here: Callable[[Path], bool],
    read: Callable[[Path, str, BenchmarkSpec, DataOptions], DataSet],
) -> PlacedBenchmark | None:
    """Return the benchmark at a path, its root or a part's name below it; None for any other path.

    Args:
        is_here: Return whether a part's file or folder (`BenchmarkPart.file`) exists.
        read: Read the items below a root, of one part or, if its name is empty, of all.
    """
    for root, part in ((path, ""), (path.parent, path.name)):
        names = [part] if part else list(spec.parts)
        if any(name in spec.parts and is_here(root / spec.parts[name].file) for name in names):
            return PlacedBenchmark(spec=spec, root=root, part=part, read=partial(read, root, part, spec))
    return None


def read_parts(
    names: Sequence[_Name], read: Callable[[_Name], _T], damaged: dict[_Name, str]
) -> Iterator[tuple[_Name, _T]]:
    """Yield each part or file that can be read, with the result; add reasons for the others to `damaged`.

    Raises:
        DataError: None can be read.
    """
    for name in names:
        try:
            found = read(name)
        except DataError as error:
            damaged[name] = str(error)
            if len(damaged) == len(names):
                raise
        else:
            yield name, found


def benchmark_set(
    spec: BenchmarkSpec,
    root: Path,
    selected: str,
    cases: Sequence[Case],
    counts: Mapping[str, int],
    notes: Sequence[str] = (),
    damaged: Mapping[str, str] = MappingProxyType({}),
) -> DataSet:
    """Return the items of a benchmark, or of its selected part, as a data set.

    Repeated case IDs get a suffix. Notes name missing and incomplete parts.

    Args:
        counts: Number of items of each complete part that was read.
        damaged: Reasons why parts, or other files, cannot be read.
    """
    taken: set[str] = set()
    absent = [name for name in spec.parts if not selected and name not in counts and name not in damaged]
    published = {name: spec.parts[name].items for name in counts}
    other = [
        f"{name} {counts[name]:,} of {items:,}" for name, items in published.items() if counts[name] != items
    ]
    return DataSet(
        name=f"{spec.name}/{selected}" if selected else spec.name,
        root=root,
        kind=DataKind.BENCHMARK,
        cases=tuple(replace(case, case_id=unique(case.case_id, taken)) for case in cases),
        notes=(
            *notes,
            *(
                [f"missing parts: {len(absent)} of {len(spec.parts)} ({limited(absent, ', ', _NAMED)})"]
                if absent
                else []
            ),
            *(
                [
                    f"items read: {sum(counts.values()):,} of {sum(published.values()):,} published; "
                    f"{counted(len(other), 'part')} with another number ({limited(other, ', ', _NAMED)})"
                ]
                if other
                else []
            ),
        ),
        damaged=damaged,
    )


def benchmark_named(name: str) -> tuple[BenchmarkSpec, str]:
    """Return the benchmark and the part that `name` selects; the part is empty for the whole benchmark.

    Raises:
        UsageError: The benchmark or the part is unknown.
    """
    first, _, part = name.partition("/")
    if first not in BENCHMARKS:
        raise UsageError(
            f"unknown benchmark {first!r}{did_you_mean(first, BENCHMARKS)}; "
            f"expected one of {', '.join(BENCHMARKS)}"
        )
    spec = BENCHMARKS[first]
    if part and part.partition("/")[0] not in spec.parts:
        raise UsageError(
            f"{spec.name} has no part {part!r}{did_you_mean(part, spec.parts)}; "
            f"expected one of {', '.join(spec.parts)}"
        )
    return spec, part


def locate_benchmark(name: str) -> Path | None:
    """Return the path of a recorded benchmark or part by name; None if no benchmark has this name.

    Raises:
        DataError: The benchmark or the part is not on this machine.
        UsageError: The part is unknown.
    """
    if name.partition("/")[0] not in BENCHMARKS:
        return None
    spec, part = benchmark_named(name)
    recorded = read_record(spec)
    if recorded is None:
        if os.path.exists(name):
            return None
        command = spec.command(name)
        then = "" if command.startswith("run ") else f"; then use live-eval {command}"
        raise DataError(
            f"{spec.title} is not on this machine: add it (live-eval data add {name}), or record your copy "
            f"(live-eval data add {spec.name} --path FOLDER){then}"
        )
    path = recorded.root / part
    chosen = part.partition("/")[0]
    unconfirmed = not recorded.revision and recorded.parts and chosen not in recorded.parts
    if unconfirmed and spec.forbids_commercial_use(chosen):
        raise DataError(
            f"{name} {spec.prohibition(chosen)}, and only {', '.join(recorded.parts)} "
            f"{'was' if len(recorded.parts) == 1 else 'were'} added: to confirm that your use is not "
            f"commercial, run live-eval data add {name} --path {recorded.root} --noncommercial"
        )
    if find_benchmark(path) is None:
        expected = spec.place_of(chosen) if part else "its files"
        raise DataError(
            f"{recorded.root}: {f'the part {part} of ' if part else ''}{spec.title} is missing: expected "
            f"{expected}; add it (live-eval data add {name})"
        )
    return path


def find_benchmark(path: Path) -> PlacedBenchmark | None:
    """Return the benchmark whose layout matches a path, or None."""
    for spec in BENCHMARKS.values():
        if (placed := _placed(path, spec)) is not None:
            return placed
    return None


def _placed(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    module, _, function = spec.loader.partition(":")
    placed: PlacedBenchmark | None = getattr(importlib.import_module(module), function)(path, spec)
    return placed


def found_parts(spec: BenchmarkSpec, recorded: RecordedBenchmark) -> list[str]:
    """Return the parts in the recorded folder; of a download, those that are complete."""
    complete = recorded.parts if recorded.revision else tuple(spec.parts)
    return [name for name in spec.parts if name in complete and _placed(recorded.root / name, spec)]


def load_benchmark(placed: PlacedBenchmark, options: DataOptions) -> DataSet:
    """Read the items of a benchmark, and note files that have changed since they were added.

    Raises:
        DataError: A file is missing, incomplete or damaged.
        UsageError: The field mapping does not match the data.
    """
    spec = placed.spec
    if options.fields and not spec.fields:
        raise UsageError(
            f"data.fields: the fields of {spec.title} cannot be mapped, got {', '.join(options.fields)}"
        )
    recorded = read_record(spec)
    if recorded is not None and recorded.root.resolve() != placed.root.resolve():
        recorded = None
    try:
        data = placed.read(options)
    except DataError as error:
        if recorded is None or not recorded.revision:
            raise
        changed = changed_files(recorded, _places(spec, recorded, spec.selected(placed.part)))
        if not changed:
            raise
        name = "/".join([spec.name, *(spec.selected(placed.part) if placed.part else [])])
        raise DataError(f"{error}; {recorded.remedy(name)} {limited(changed, ', ', _NAMED)}") from None
    licence = spec.licence_note(placed.part)
    notes = [licence, *filter(None, [spec.unverified]), *data.omissions, *data.notes]
    if options.audio_root is not None and "audio" not in spec.fields:
        notes.append(f"audio_root is ignored: the data of {spec.title} contain no paths of recordings")
    suspects = spec.selected(placed.part) if options.verify else data.damaged
    differences = () if recorded is None else tuple(_differences(spec, recorded, suspects))
    return replace(data, notes=(*notes, *differences), licence=licence, differences=differences)


def _differences(spec: BenchmarkSpec, recorded: RecordedBenchmark, suspects: Iterable[str]) -> Iterator[str]:
    """Yield a note if the files are of another revision, and one if they have changed since they were added.

    Args:
        suspects: Parts, or other files, whose hashes are compared.
    """
    if recorded.revision not in ("", spec.revision):
        yield (
            f"the files are of revision {recorded.revision[:12]}, and live-eval expects "
            f"{spec.revision[:12]}: live-eval data add {spec.name} downloads it"
        )
    changed = changed_files(recorded, _places(spec, recorded, suspects))
    if changed and not recorded.revision:
        yield (
            f"{len(changed)} of {len(recorded.files)} lists of items have changed since this copy was "
            f"added ({limited(changed, ', ', _NAMED)}): results are not comparable with earlier ones; "
            f"{recorded.remedy(spec.name)} the change"
        )
    elif changed:
        yield (
            f"{len(changed)} of {len(recorded.files)} files differ from revision "
            f"{recorded.revision[:12]} ({limited(changed, ', ', _NAMED)}): results are not comparable "
            f"with those of the published data; {recorded.remedy(spec.name)} them"
        )


def _places(spec: BenchmarkSpec, recorded: RecordedBenchmark, names: Iterable[str]) -> list[str]:
    """Return the files and folders of parts; all recorded files if they are not stored by part."""
    parts = list(names)
    if parts and (spec.metadata or not set(parts) <= spec.parts.keys()):
        return list(recorded.files)
    return [spec.place_of(part) for part in parts]
