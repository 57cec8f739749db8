"""Check a data set: its contents, missing parts and unreadable files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from live_eval.audio import MAX_RECORDING_S, read_audio, recording_s
from live_eval.audio.parquet import recording_exists
from live_eval.data.dataset import DataKind, DataSet
from live_eval.data.questions import QUESTION_TYPES
from live_eval.data.taxonomy import ATTRIBUTES, FINE_DIMENSIONS
from live_eval.errors import AudioError, DataError, FailureKind, TurnError
from live_eval.speech.boundaries import annotated_boundaries
from live_eval.text.wording import counted, limited
from live_eval.types import Case, CoarseDimension

__all__ = ["DataReport", "FileCheck", "Published", "check", "check_readable"]

Role = Literal["recording", "reference", "clean"]
_Count = TypeVar("_Count")

_NO_CUE = "(none)"
_UNKNOWN = "(unknown)"
_PLACES = {name: place for place, name in enumerate((*CoarseDimension, *FINE_DIMENSIONS, *ATTRIBUTES))}

# EchoMind's published counts of scripts and conversation instances, in total and in the human part.
_SCRIPTS = {"synthesis": 1_137, "human": 491}
_CASES = {"synthesis": 3_356, "human": 1_453}
_TOPICS = 17
_QUESTIONS = {"understanding": 4_576, "reasoning": 4_747}
_WHOLE = 0.9
# Mixing at a different sample rate drops the last samples.
_ALIGNED_NS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The result of reading one file: its contents, or the reason why it is unusable."""

    path: Path
    role: Role  # streamed recording, spoken reference reply, or clean take of a mix
    case_id: str  # the first case that uses the file
    kind: FailureKind | None = None
    message: str = ""
    rate_hz: int | None = None
    channels: int | None = None
    format: str | None = None  # container format, libsndfile's name
    subtype: str | None = None  # encoding, libsndfile's name
    duration_ns: int | None = None
    notes: tuple[str, ...] = ()  # warnings

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        fields = asdict(self)
        duration_ns = fields.pop("duration_ns")
        duration_ms = None if duration_ns is None else round(duration_ns / 1e6, 3)
        return {**fields, "path": str(self.path), "duration_ms": duration_ms}


@dataclass(frozen=True, slots=True)
class Published:
    """The benchmark's published count, and the count in this data set."""

    what: str
    expected: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReport:
    """The result of `check`."""

    dataset: DataSet
    files: tuple[FileCheck, ...]  # every file used by a case, without duplicates, in data order
    published: tuple[Published, ...] = ()  # empty unless this is the whole benchmark

    @property
    def problems(self) -> list[Case]:
        """The cases with invalid data."""
        return [case for case in self.dataset.cases if case.problem is not None]

    @property
    def question_problems(self) -> list[Case]:
        """The questions with invalid data."""
        return [case for case in self.dataset.questions if case.problem is not None]

    @property
    def keyless(self) -> list[Case]:
        """The questions without an answer key, which are asked but not scored."""
        return [
            case
            for case in self.dataset.questions
            if case.problem is None and case.question is not None and case.question.answer is None
        ]

    @property
    def unreadable(self) -> list[FileCheck]:
        """The files that cannot be used."""
        return [file for file in self.files if file.kind is not None]

    @property
    def apart(self) -> list[Case]:
        """The questions whose recording has no conversation and therefore no related reply."""
        recordings = {case.audio_path for case in self.dataset.cases}
        return [
            case
            for case in self.dataset.questions
            if case.problem is None and case.audio_path not in recordings
        ]

    @property
    def ok(self) -> bool:
        """Whether everything can be run, asked and read, and no file has changed since it was added."""
        data = self.dataset
        incomplete = data.unread or data.damaged or data.differences
        return not (self.problems or self.question_problems or self.unreadable or incomplete)

    @property
    def failures(self) -> dict[str, int]:
        """The number of unusable files, by failure kind."""
        return dict(Counter(str(file.kind) for file in self.unreadable))

    @property
    def scripts(self) -> int:
        """The number of scripts; a script and its human version count once."""
        return len({case.script_id for case in self.dataset.cases})

    def counts(self, attribute: str) -> dict[str, int]:
        """Count cases by an attribute (``variant``, ``topic``, ``source``, ``language``)."""
        return dict(Counter(str(getattr(case, attribute) or _NO_CUE) for case in self.dataset.cases))

    def question_types(self) -> dict[str, dict[str, int]]:
        """Count questions by task and type: the paper's types first, then other types in the data.

        Questions that cannot be asked are included; unreadable entries count as ``(unknown)``.
        """
        if not self.dataset.questions:
            return {}
        counts: dict[str, dict[str, int]] = {}
        for task, kinds in QUESTION_TYPES.items():
            asked = [case.question for case in self.dataset.questions if case.task is task]
            found = Counter(question.kind if question is not None else _UNKNOWN for question in asked)
            others = sorted(set(found) - set(kinds))
            counts[task.value] = {kind: found[kind] for kind in (*kinds, *others)}
        return counts

    def cues(self) -> dict[str, dict[str, dict[str, int]]]:
        """Count cases by vocal cue: coarse dimension, fine dimension, attribute.

        Neutral cases and those without a cue count as ``(none)``, unknown labels as ``(unknown)``.
        """
        tree: dict[str, dict[str, dict[str, int]]] = {}
        for case in self.dataset.cases:
            cue = case.cue
            if cue is None:
                coarse, fine, name = _NO_CUE, _NO_CUE, _NO_CUE
            elif cue.coarse is None:
                coarse = fine = _NO_CUE if cue.attribute else _UNKNOWN
                name = cue.name
            else:
                coarse, fine, name = str(cue.coarse), cue.fine or _NO_CUE, cue.name
            leaf = tree.setdefault(coarse, {}).setdefault(fine, {})
            leaf[name] = leaf.get(name, 0) + 1
        return {
            coarse: {fine: _in_order(names) for fine, names in _in_order(fines).items()}
            for coarse, fines in _in_order(tree).items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        dataset = self.dataset
        return {
            "name": dataset.name,
            "root": str(dataset.root),
            "kind": dataset.kind,
            "ok": self.ok,
            "fingerprint": dataset.fingerprint,
            "scripts": self.scripts,
            "cases": len(dataset.cases),
            "variants": self.counts("variant"),
            "sources": self.counts("source"),
            "topics": self.counts("topic"),
            "cues": self.cues(),
            "questions": dataset.question_counts,
            "question_types": self.question_types(),
            "questions_without_key": len(self.keyless),
            "questions_apart": len(self.apart),
            "questions_unread": {str(task): list(problems) for task, problems in dataset.unread.items()},
            "damaged": dict(dataset.damaged),
            "differences": list(dataset.differences),
            "published": [asdict(count) for count in self.published],
            "problems": [
                {"case_id": case.case_id, "problem": case.problem}
                for case in (*self.problems, *self.question_problems)
            ],
            "failures": self.failures,
            "files": [file.as_json() for file in self.files],
            "notes": list(dataset.notes),
        }


def check(
    dataset: DataSet, *, max_s: float = MAX_RECORDING_S, on_file: Callable[[int, int], None] | None = None
) -> DataReport:
    """Read every file of a data set, up to `max_s` seconds of each.

    `on_file` is called after each file with the number of files done and the total.
    """
    wanted = _files_of((*dataset.cases, *dataset.questions))
    files: dict[Path, FileCheck] = {}
    # Decoding releases the GIL. With more threads, the disk would be the bottleneck.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for done, file in enumerate(pool.map(partial(_check_file, max_s=max_s), wanted), 1):
            files[file.path] = file
            if on_file is not None:
                on_file(done, len(wanted))
    dataset = replace(
        dataset,
        cases=tuple(_check_annotation(case, files) for case in dataset.cases),
        questions=tuple(_check_annotation(case, files) for case in dataset.questions),
    )
    for case in dataset.cases:
        if (note := _misalignment(case, files)) is not None:
            mix = files[case.audio_path]
            files[case.audio_path] = replace(mix, notes=(*mix.notes, note))
    return DataReport(dataset=dataset, files=tuple(files.values()), published=_published(dataset))


def check_readable(dataset: DataSet, cases: Sequence[Case], *, max_s: float) -> None:
    """Check that at least one recording of the selected cases is usable; each unusable one fails a turn.

    Args:
        cases: Selected cases.
        max_s: Maximum length of a recording in seconds.

    Raises:
        DataError: None of the recordings can be used; the message lists the files.
    """
    reasons: dict[Path, str] = {}
    for case in cases:
        if case.problem is not None or not recording_exists(case.audio_path):
            continue  # already reported when the data set was read
        if case.audio_path not in reasons:
            reasons[case.audio_path] = _why_unreadable(case.audio_path, max_s)
        if not reasons[case.audio_path]:
            return
    if reasons:
        listed = limited(list(reasons.values()), "\n  ")
        raise DataError(
            f"{dataset.root}: cannot read any of {counted(len(reasons), 'recording')}:\n  {listed}"
        )


def _why_unreadable(recording: Path, max_s: float) -> str:
    try:
        recording_s(recording, max_s=max_s)
    except AudioError as error:
        return error.message
    return ""


def _in_order(counts: Mapping[str, _Count]) -> dict[str, _Count]:
    """Sort in taxonomy order, with unknown names last."""
    return dict(sorted(counts.items(), key=lambda item: _PLACES.get(item[0], len(_PLACES))))


def _files_of(cases: Sequence[Case]) -> list[FileCheck]:
    named: list[tuple[Role, Path | None, Case]] = [
        *(("recording", case.audio_path, case) for case in cases if case.problem is None),
        *(("reference", case.reference_audio_path, case) for case in cases),
        *(("clean", case.clean_audio_path, case) for case in cases),
    ]
    files: dict[Path, FileCheck] = {}
    for role, path, case in named:
        if path is not None:
            files.setdefault(path, FileCheck(path=path, role=role, case_id=case.case_id))
    return list(files.values())


def _check_file(file: FileCheck, *, max_s: float) -> FileCheck:
    try:
        read = read_audio(file.path, max_s=max_s)
    except AudioError as error:
        return replace(file, kind=error.kind, message=error.message)
    return replace(
        file,
        rate_hz=read.audio.rate_hz,
        channels=read.channels,
        format=read.format,
        subtype=read.subtype,
        duration_ns=read.audio.duration_ns,
        notes=read.notes,
    )


def _check_annotation(case: Case, files: Mapping[Path, FileCheck]) -> Case:
    """Return a case, with a problem if annotated speech lies outside its recording."""
    if case.boundaries is None or case.problem is not None:
        return case
    duration_ns = files[case.audio_path].duration_ns
    try:
        if duration_ns is not None:
            annotated_boundaries(case.boundaries, duration_ns)
    except TurnError as error:
        return replace(case, problem=error.message)
    return case


def _misalignment(case: Case, files: Mapping[Path, FileCheck]) -> str | None:
    """Return a note if a mix and its clean take cannot be aligned because their lengths differ, or None."""
    if case.clean_audio_path is None or case.problem is not None:
        return None
    mix_ns, clean_ns = files[case.audio_path].duration_ns, files[case.clean_audio_path].duration_ns
    if mix_ns is None or clean_ns is None or abs(mix_ns - clean_ns) <= _ALIGNED_NS:
        return None
    return (
        f"lasts {mix_ns / 1e6:.0f} ms, but its clean take {case.clean_audio_path.name} lasts "
        f"{clean_ns / 1e6:.0f} ms: they cannot be aligned"
    )


def _published(dataset: DataSet) -> tuple[Published, ...]:
    """Compare counts with the benchmark's counts, for each nearly complete part."""
    if dataset.kind is not DataKind.ECHOMIND:
        return ()
    counts: list[Published] = []
    for source, expected in _SCRIPTS.items():
        cases = [case for case in dataset.cases if case.source == source]
        scripts = len({case.script_id for case in cases})
        if scripts < _WHOLE * expected:
            continue
        counts.append(Published(f"{source} scripts", expected, scripts))
        counts.append(Published(f"{source} recordings", _CASES[source], len(cases)))
    if any(count.what == "synthesis scripts" for count in counts):
        topics = {case.topic for case in dataset.cases if case.topic}
        counts.append(Published("topics", _TOPICS, len(topics)))
        counts.extend(
            Published(f"{name} questions", expected, dataset.question_counts.get(name, 0))
            for name, expected in _QUESTIONS.items()
        )
    return tuple(counts)
