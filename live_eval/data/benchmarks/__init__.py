"""List other published benchmarks, with their source, licence, parts and loader.

A benchmark is read in its published layout, without conversion. ``live-eval data add`` records the location
of its files in a `RECORD_FILE` per benchmark below `benchmarks_folder`. The benchmark's name, alone or with a
part (``voicebench/openbookqa``), then selects it as a data set.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import platformdirs

from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError, UsageError
from live_eval.files import atomic_text, read_text
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import limited
from live_eval.types import ScoringRule

__all__ = [
    "BENCHMARKS",
    "FOLDER_VARIABLE",
    "RECORD_FILE",
    "BenchmarkPart",
    "BenchmarkSpec",
    "PlacedBenchmark",
    "RecordedBenchmark",
    "benchmark_named",
    "benchmarks_folder",
    "changed_files",
    "find_benchmark",
    "load_benchmark",
    "locate_benchmark",
    "read_record",
    "write_record",
]

FOLDER_VARIABLE = "LIVE_EVAL_BENCHMARKS"
RECORD_FILE = "benchmark.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPart:
    """A part of a benchmark.

    Args:
        items: Number of items that the benchmark publishes.
        rule: Scoring rule of the part's items.
        about: Short description of what the part tests.
    """

    items: int
    rule: ScoringRule
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpec:
    """A published benchmark.

    Args:
        name: Name on the command line.
        title: Name of the benchmark in its paper.
        source: Page on which the benchmark is published.
        repository: Data set on the Hugging Face hub, ``owner/name``, to download the benchmark from; empty if
            live-eval cannot download it.
        revision: Commit of the repository.
        licence: Licence of the recordings and texts.
        noncommercial: Whether the licence forbids commercial use.
        megabytes: Approximate size in MB.
        parts: Parts by name, each a folder of the repository; a benchmark without parts has one with an empty
            name.
        metadata: File that lists the other files, each as ``file_name``; empty if the hub's list is used.
        loader: ``"module:function"`` that finds the benchmark at a path; see `PlacedBenchmark`.
        by_hand: Instructions for getting the files by hand; empty if they are downloaded.
        paper: Paper to cite.
    """

    name: str
    title: str
    source: str
    repository: str = ""
    revision: str = ""
    licence: str
    noncommercial: bool = False
    megabytes: int
    parts: Mapping[str, BenchmarkPart]
    loader: str
    metadata: str = ""
    by_hand: str = ""
    paper: str

    @property
    def items(self) -> int:
        """Number of items of all parts."""
        return sum(part.items for part in self.parts.values())

    @property
    def licence_note(self) -> str:
        """A sentence about the licence, for a run and its pages."""
        note = f"The recordings and reference texts are {self.title}'s, under {self.licence}"
        if self.noncommercial:
            return f"{note}: neither they nor results with them may be used commercially."
        return f"{note}."


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


def _voicebench() -> BenchmarkSpec:
    choice, rating = ScoringRule.CHOICE, ScoringRule.RATING
    return BenchmarkSpec(
        name="voicebench",
        title="VoiceBench",
        source="https://huggingface.co/datasets/hlt-lab/voicebench",
        repository="hlt-lab/voicebench",
        revision="b02edcef1330480be3a11bd6f7434ac32f05ad08",
        licence="Apache-2.0",
        megabytes=9_800,
        parts=MappingProxyType(
            {
                "alpacaeval": BenchmarkPart(items=199, rule=rating, about="open questions"),
                "alpacaeval_full": BenchmarkPart(
                    items=636, rule=rating, about="open questions (in the leaderboard)"
                ),
                "commoneval": BenchmarkPart(items=200, rule=rating, about="open questions, human speech"),
                "wildvoice": BenchmarkPart(items=1_000, rule=rating, about="open questions, human speech"),
                "openbookqa": BenchmarkPart(items=455, rule=choice, about="science, four spoken options"),
                "mmsu": BenchmarkPart(items=3_074, rule=choice, about="twelve domains, four spoken options"),
                "sd-qa": BenchmarkPart(
                    items=553, rule=ScoringRule.REFERENCE, about="facts, human speech of eleven regions"
                ),
                "mtbench": BenchmarkPart(items=46, rule=ScoringRule.NONE, about="two-turn questions"),
                "ifeval": BenchmarkPart(
                    items=345, rule=ScoringRule.INSTRUCTIONS, about="verifiable instructions"
                ),
                "bbh": BenchmarkPart(items=1_000, rule=ScoringRule.BBH, about="reasoning, human speech"),
                "advbench": BenchmarkPart(items=520, rule=ScoringRule.REFUSAL, about="harmful requests"),
            }
        ),
        loader="live_eval.data.benchmarks.voicebench:find",
        paper="Chen et al.: VoiceBench (arXiv 2410.17196)",
    )


def _big_bench_audio() -> BenchmarkSpec:
    part = partial(BenchmarkPart, items=250, rule=ScoringRule.FINAL_ANSWER)
    return BenchmarkSpec(
        name="big-bench-audio",
        title="Big Bench Audio",
        source="https://huggingface.co/datasets/ArtificialAnalysis/big_bench_audio",
        repository="ArtificialAnalysis/big_bench_audio",
        revision="af7bb9c25b015792583ca4da3ee27ec62cb79fe6",
        licence="MIT",
        megabytes=530,
        parts=MappingProxyType(
            {
                "formal_fallacies": part(about="valid or invalid"),
                "navigate": part(about="yes or no"),
                "object_counting": part(about="a number"),
                "web_of_lies": part(about="yes or no"),
            }
        ),
        loader="live_eval.data.benchmarks.big_bench_audio:find",
        metadata="metadata.jsonl",
        paper="Artificial Analysis: Big Bench Audio (2024), after Suzgun et al. (arXiv 2210.09261)",
    )


BENCHMARKS: Mapping[str, BenchmarkSpec] = MappingProxyType(
    {spec.name: spec for spec in (_voicebench(), _big_bench_audio())}
)
"""The known benchmarks by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBenchmark:
    """The location of a benchmark on this machine.

    Args:
        root: Folder with the files.
        revision: Downloaded revision; empty for files that the user supplied.
        parts: Downloaded parts; empty for files that the user supplied.
        files: Size and SHA-256 of each downloaded file, by its path in the folder.
    """

    root: Path
    revision: str = ""
    parts: tuple[str, ...] = ()
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)


def benchmarks_folder() -> Path:
    """Return the folder for all benchmarks: ``$LIVE_EVAL_BENCHMARKS``, or the user's data folder."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return platformdirs.user_data_path("live-eval", appauthor=False) / "benchmarks"


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
            f"expected one of {', '.join(filter(None, spec.parts)) or 'no part'}"
        )
    return spec, part


def locate_benchmark(name: str) -> Path | None:
    """Return the path of a recorded benchmark or part by name; None if no benchmark has this name.

    Raises:
        DataError: The benchmark is not on this machine.
        UsageError: The part is unknown.
    """
    if name.partition("/")[0] not in BENCHMARKS:
        return None
    spec, part = benchmark_named(name)
    recorded = read_record(spec)
    if recorded is None:
        if os.path.exists(name):
            return None
        raise DataError(
            f"{spec.title} is not on this machine: add it (live-eval data add {name}), or record your copy "
            f"(live-eval data add {spec.name} --path FOLDER)"
        )
    return recorded.root / part


def find_benchmark(path: Path) -> PlacedBenchmark | None:
    """Return the benchmark whose layout matches a path, or None."""
    for spec in BENCHMARKS.values():
        module, _, function = spec.loader.partition(":")
        placed: PlacedBenchmark | None = getattr(importlib.import_module(module), function)(path, spec)
        if placed is not None:
            return placed
    return None


def load_benchmark(placed: PlacedBenchmark, options: DataOptions) -> DataSet:
    """Read the items of a benchmark, and note files that differ from the download.

    Raises:
        DataError: A file is missing, incomplete or damaged.
        UsageError: The field mapping does not match the data.
    """
    data = placed.read(options)
    recorded = read_record(placed.spec)
    notes = [placed.spec.licence_note, *data.notes]
    if recorded is not None and recorded.root.resolve() == placed.root.resolve():
        changed = changed_files(recorded)
        if changed:
            notes.append(
                f"{len(changed)} of {len(recorded.files)} files differ from revision "
                f"{recorded.revision[:12]} ({limited(changed, ', ', 3)}): results are not comparable with "
                f"those of the published data; live-eval data add {placed.spec.name} --again restores them"
            )
    return replace(data, notes=tuple(notes), licence=placed.spec.licence_note)


def changed_files(recorded: RecordedBenchmark) -> list[str]:
    """Return the downloaded files that are missing or have a different size."""
    changed = []
    for name, (size, _) in recorded.files.items():
        path = recorded.root / name
        if not path.is_file() or path.stat().st_size != size:
            changed.append(name)
    return changed


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
        "licence": spec.licence,
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
