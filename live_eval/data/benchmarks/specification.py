"""Describe a published benchmark and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from live_eval.types import ScoringRule

__all__ = ["BenchmarkPart", "BenchmarkSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPart:
    """A part of a benchmark.

    Args:
        items: Number of items that the benchmark publishes.
        rule: Scoring rule of the part's items.
        about: Short description of what the part tests.
        file: File that lists the part's items, or folder with them, relative to the benchmark's folder.
        language: Language of the recordings.
        hint: What a rating should consider. If it ends with a colon, the item's field ``hint`` follows, as in
            "the speaker's emotion: sad".
        licence: Licence, if it differs from the benchmark's; it permits commercial use.
        second_emotion: Whether the second turn whose ``hint`` is not "neutral" is scored, not the last.
    """

    items: int
    rule: ScoringRule
    about: str
    file: str = ""
    language: str = "en"
    hint: str = ""
    licence: str = ""
    second_emotion: bool = False


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
        noncommercial: Whether the licence forbids commercial use; None if that is unknown.
        megabytes: Approximate published size in MB; None if unknown.
        parts: Parts by name. A downloaded part is a folder of the repository (`place_of`); several parts can
            share one.
        metadata: File that lists the other files, each as ``file_name``; empty if the hub's list is used.
        loader: ``"module:function"`` that finds the benchmark at a path; see `PlacedBenchmark`.
        rated: Whether replies with human ratings are published, to audit judges.
        fields: The benchmark's names of live-eval's fields, each with the spellings to try in order.
        recording: Path of a recording next to its part's file, for items without the field ``audio``; the
            fields ``{id}`` and ``{turn}`` and the file's name without suffix, ``{file}``, are replaced.
        counted: Whether the published numbers of items are verified.
        unverified: A sentence about what could not be verified in the published data; empty if nothing.
        by_hand: Instructions for getting the files by hand; empty if they are downloaded.
        undownloaded: Why live-eval does not download the files; empty if it does.
        paper: Paper to cite.
    """

    name: str
    title: str
    source: str
    repository: str = ""
    revision: str = ""
    licence: str
    noncommercial: bool | None = False
    megabytes: int | None = None
    parts: Mapping[str, BenchmarkPart]
    loader: str
    metadata: str = ""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recording: str = ""
    rated: bool = False
    counted: bool = True
    unverified: str = ""
    by_hand: str = ""
    undownloaded: str = ""
    paper: str

    @property
    def items(self) -> int:
        """Number of items of all parts."""
        return sum(part.items for part in self.parts.values())

    def command(self, name: str) -> str:
        """Return the command that uses the benchmark or its part, without ``live-eval``."""
        if self.rated:
            return f"audit JUDGE --data {name}"
        if self.takes_turns:
            return f"duplex ENDPOINT --probe own --data {name}"
        return f"run ENDPOINT --data {name}"

    @property
    def takes_turns(self) -> bool:
        """Whether the benchmark annotates turn-taking, for ``live-eval duplex``."""
        return all(part.rule is ScoringRule.TURN_TAKING for part in self.parts.values())

    def selected(self, part: str) -> list[str]:
        """Return the names of the parts that a part, a split of a part, or an empty name selects."""
        return [part.partition("/")[0]] if part else list(self.parts)

    def place_of(self, part: str) -> str:
        """Return the file or folder of a part, relative to the benchmark's folder."""
        return self.parts[part].file or part

    def licence_of(self, part: str = "") -> str:
        """Return the licence of a part or split, or of all parts if its name is empty."""
        if part:
            return self.parts[part.partition("/")[0]].licence or self.licence
        other = {each.licence for each in self.parts.values() if each.licence}
        if not other:
            return self.licence
        own = ", ".join(name for name, each in self.parts.items() if not each.licence)
        return f"{self.licence} ({own}) and {' or '.join(sorted(other))} (the other parts)"

    def forbids_commercial_use(self, part: str = "") -> bool | None:
        """Return whether the licence of a part, or of any part, forbids commercial use; None if unknown."""
        if part and self.parts[part.partition("/")[0]].licence:
            return False
        return self.noncommercial

    def prohibition(self, part: str = "") -> str:
        """Return a clause on the licence of a part or of all, which forbids commercial use."""
        licence = self.licence_of(part)
        subject = "which" if licence == self.licence else f"of which {self.licence}"
        return f"is licensed under {licence}, {subject} forbids commercial use"

    def licence_note(self, part: str = "") -> str:
        """Return a sentence on the licence of a part or of all, without a full stop."""
        note = f"The recordings and reference texts are {self.title}'s, under {self.licence_of(part)}"
        forbidden = self.forbids_commercial_use(part)
        if forbidden is None:
            return f"{note}: whether they may be used commercially is unknown"
        if not forbidden:
            return note
        those = "they" if self.licence_of(part) == self.licence else f"those under {self.licence}"
        return f"{note}: neither {those} nor results with them may be used commercially"
