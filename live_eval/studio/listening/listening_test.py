"""Define the plan of a listening test, and order each listener's trials. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from live_eval.errors import UsageError
from live_eval.judging import OutputSpec, score_name
from live_eval.registry import installed_judges
from live_eval.text.wording import alternatives

__all__ = [
    "ANCHOR",
    "HIDDEN_REFERENCE",
    "LISTENING_SCHEMA_VERSION",
    "LISTENING_VERSIONS_READ",
    "MID_ANCHOR",
    "ListenedCase",
    "ListenedRun",
    "ListeningKind",
    "ListeningTest",
    "ListeningTrial",
    "ReferenceKind",
    "rating_scales",
    "trials_for",
]

LISTENING_SCHEMA_VERSION = 2
LISTENING_VERSIONS_READ = (1, LISTENING_SCHEMA_VERSION)
"""Version 1 had only the low anchor."""

HIDDEN_REFERENCE = "(hidden reference)"
ANCHOR = "(anchor)"
MID_ANCHOR = "(mid anchor)"
"""ITU-R BS.1534-3 requires a low anchor and a mid-range anchor."""
_MOST_RUNS = 8  # BS.1534 recommends at most 12 signals per trial

# The position of the first run and the identity of X: a block of four contains each combination once.
_BLOCK = ((False, 0), (False, 1), (True, 0), (True, 1))


class ListeningKind(StrEnum):
    """The question that a listening test asks."""

    PREFERENCE = "ab"
    """Asks which of two replies is better."""
    IDENTITY = "abx"
    """Asks which of two replies is X."""
    RATING = "rating"
    """Asks for ratings of single replies."""
    MUSHRA = "mushra"
    """Asks to rate all replies to a case, a hidden reference and anchors, 0 to 100 (ITU-R BS.1534)."""


class ReferenceKind(StrEnum):
    """The context that listeners receive with a reply."""

    NONE = "none"
    USER = "user"
    """The user's text, cue and recording."""
    REPLY = "reply"
    """The user's side and the data set's reference reply."""


@dataclass(frozen=True, slots=True)
class ListenedRun:
    """A run in a listening test: its folder name, and its path relative to the test's folder."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ListenedCase:
    """A case of a test, for which every run has a turn."""

    case_id: str
    turn_id: str
    script_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningTest:
    """The plan of a listening test, the first line of its file.

    Args:
        runs: Two runs; one or two for ratings, one to eight for MUSHRA.
        scales: Scores to rate (such as ``rubric.c4``); empty unless the test asks for ratings.
        created: Creation time, ISO 8601 in UTC.
        listening: Version of the file format.

    Raises:
        UsageError: The number of runs is wrong, two runs share a name, a path is invalid, or the scales do
            not match the kind.
    """

    kind: ListeningKind
    runs: tuple[ListenedRun, ...]
    cases: tuple[ListenedCase, ...]
    scales: tuple[str, ...] = ()
    reference: ReferenceKind = ReferenceKind.USER
    seed: int = 0
    created: str = ""
    listening: int = LISTENING_SCHEMA_VERSION

    def __post_init__(self) -> None:
        is_rating, names = self.kind is ListeningKind.RATING, {run.name for run in self.runs}
        is_mushra = self.kind is ListeningKind.MUSHRA
        expected = range(1, _MOST_RUNS + 1) if is_mushra else (1, 2) if is_rating else (2,)
        if len(self.runs) not in expected:
            raise UsageError(f"expected {alternatives(list(map(str, expected)))} runs, got {len(self.runs)}")
        if reserved := names & {HIDDEN_REFERENCE, ANCHOR, MID_ANCHOR}:
            raise UsageError(f"runs: the name {min(reserved)!r} is reserved")
        if is_mushra and self.reference is not ReferenceKind.REPLY:
            raise UsageError("reference: a MUSHRA test requires 'reply', the reference reply")
        if len(names) < len(self.runs):
            (name, _), *_ = Counter(run.name for run in self.runs).most_common()
            raise UsageError(
                f"several runs are named {name!r}, but votes identify runs by name: rename all but one"
            )
        if any("\0" in run.path for run in self.runs):
            raise UsageError("runs: expected paths, got one with a NUL character")
        if is_rating != bool(self.scales) or len(set(self.scales)) < len(self.scales):
            wanted = "some, each once" if is_rating else "none"
            raise UsageError(f"scales: expected {wanted}, got {', '.join(self.scales) or 'none'}")

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the compared systems: the runs and, for MUSHRA, the hidden reference and anchors."""
        names = tuple(run.name for run in self.runs)
        if self.kind is not ListeningKind.MUSHRA:
            return names
        anchors = (ANCHOR, MID_ANCHOR) if self.listening > 1 else (ANCHOR,)
        return (*names, HIDDEN_REFERENCE, *anchors)

    @property
    def trials(self) -> int:
        """The number of trials per listener."""
        return len(self.cases) * (len(self.runs) if self.kind is ListeningKind.RATING else 1)


@dataclass(frozen=True, slots=True)
class ListeningTrial:
    """One question for a listener.

    Args:
        runs: Runs of the presented replies, A first; for MUSHRA, all `systems`.
        x: Index of X's run in `runs`, for ABX.
    """

    case: ListenedCase
    runs: tuple[str, ...]
    x: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The key of a listener's trial: the turn and, for ratings, the run."""
        return self.case.turn_id, self.runs[0] if len(self.runs) == 1 else ""


def trials_for(test: ListeningTest, listener: int) -> tuple[ListeningTrial, ...]:
    """Return a listener's trials in order.

    Cases are in a random order, which is reproducible. The order of A and B, and the identity of X, are
    balanced in blocks of four trials. Every second listener gets the reverse case order with A, B and X
    swapped, so that each pair of listeners hears each case in both positions.

    For MUSHRA, the systems are in random order. For ratings, every case appears once before any is repeated
    with the other run.

    Args:
        listener: Number of the listener from 0, in order of joining.
    """
    pair, mirrored = divmod(listener, 2)
    draw = random.Random(f"{test.seed}/{pair}")
    cases = list(test.cases)
    draw.shuffle(cases)
    states = list(_balanced(len(cases), draw))
    if mirrored:
        cases.reverse()
        states = [(not swapped, 1 - x) for swapped, x in reversed(states)]
    names = tuple(run.name for run in test.runs)
    if test.kind is ListeningKind.MUSHRA:
        systems = test.systems
        return tuple(ListeningTrial(case, tuple(draw.sample(systems, len(systems)))) for case in cases)
    if test.kind is ListeningKind.RATING:
        return tuple(
            ListeningTrial(case, (names[(part + swapped) % len(names)],))
            for part in range(len(names))
            for case, (swapped, _) in zip(cases, states, strict=True)
        )
    return tuple(
        ListeningTrial(
            case, names[::-1] if swapped else names, x if test.kind is ListeningKind.IDENTITY else None
        )
        for case, (swapped, x) in zip(cases, states, strict=True)
    )


def _balanced(count: int, draw: random.Random) -> Iterator[tuple[bool, int]]:
    """Yield for each trial, balanced in blocks, whether the runs are swapped and which reply is X."""
    for _ in range(count // 4):
        yield from draw.sample(_BLOCK, 4)
    (swapped, x), (other, y) = draw.sample(_BLOCK, 1)[0], (draw.random() < 0.5, draw.randrange(2))
    yield from [(swapped, x), (not swapped, 1 - x), (other, y)][: count % 4]


def rating_scales() -> dict[str, OutputSpec]:
    """Return the scores that people can rate, by name: outputs of installed judges that have anchors."""
    return {
        score_name(spec.name, output.name): output
        for spec in installed_judges()
        for output in spec.outputs
        if output.by_people is not None
    }
