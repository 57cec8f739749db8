"""What a listening test asks, and in which order each listener is asked. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from live_eval.errors import UsageError
from live_eval.judging import OutputSpec, score_name
from live_eval.registry import installed_judges

__all__ = [
    "LISTENING_SCHEMA_VERSION",
    "ListenedCase",
    "ListenedRun",
    "ListeningKind",
    "ListeningTest",
    "ListeningTrial",
    "ReferenceKind",
    "rating_scales",
    "trials_for",
]

LISTENING_SCHEMA_VERSION = 1

# Position of the first run, and which reply X is: in a block of four, each combination once.
_BLOCK = ((False, 0), (False, 1), (True, 0), (True, 1))


class ListeningKind(StrEnum):
    """What a listener is asked."""

    PREFERENCE = "ab"
    """Which of two replies is better."""
    IDENTITY = "abx"
    """Which of two replies a third one is."""
    RATING = "rating"
    """Ratings of single replies."""


class ReferenceKind(StrEnum):
    """What a listener hears and reads of a case apart from the replies."""

    NONE = "none"
    USER = "user"
    """What the user said and how: words, cue and recording."""
    REPLY = "reply"
    """That, and the data's reference reply."""


@dataclass(frozen=True, slots=True)
class ListenedRun:
    """A run of a listening test.

    Args:
        name: The name of its folder.
        path: Its folder, relative to that of the test.
    """

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ListenedCase:
    """A turn that all runs of a test have."""

    case_id: str
    turn_id: str
    script_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningTest:
    """The first line of a test's file.

    Args:
        kind: What listeners are asked.
        runs: The runs: two, or for ratings one or two.
        cases: What the runs are compared on.
        scales: For ratings, the scores that people give (``rubric.c4``).
        reference: What listeners get apart from the replies.
        seed: Seed of the order.
        created: When it was made, ISO 8601 in UTC.
        listening: Version of the file's format.

    Raises:
        UsageError: There are too few or too many runs, two share a name, a path is none, or the scales do not
            suit the kind.
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
        expected = (1, 2) if is_rating else (2,)
        if len(self.runs) not in expected:
            raise UsageError(f"expected {' or '.join(map(str, expected))} runs, found {len(self.runs)}")
        if len(names) < len(self.runs):
            raise UsageError(f"both runs are named {names.pop()!r}, by which votes name runs: rename one")
        if any("\0" in run.path for run in self.runs):
            raise UsageError("runs: expected paths, found one with a NUL character")
        if is_rating != bool(self.scales) or len(set(self.scales)) < len(self.scales):
            wanted = "some, each once" if is_rating else "none"
            raise UsageError(f"scales: expected {wanted}, found {', '.join(self.scales) or 'none'}")

    @property
    def trials(self) -> int:
        """How many trials a listener has."""
        return len(self.cases) * (len(self.runs) if self.kind is ListeningKind.RATING else 1)


@dataclass(frozen=True, slots=True)
class ListeningTrial:
    """One question to a listener.

    Args:
        case: The case.
        runs: The names of the runs whose replies are presented, in this order (A, then B).
        x: For ABX, the place in `runs` of the reply that X is.
    """

    case: ListenedCase
    runs: tuple[str, ...]
    x: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The identity of a listener's trial: the turn, and for a rating the run."""
        return self.case.turn_id, self.runs[0] if len(self.runs) == 1 else ""


def trials_for(test: ListeningTest, listener: int) -> tuple[ListeningTrial, ...]:
    """Return the trials of a listener in their order, the same ones at every call.

    Cases come in random order. In every four trials, each run is A in two, and in ABX each reply is X in two.
    Listeners come in pairs: the second one hears the cases in reverse order and everything the other way
    round, so that over both each case is heard in both positions.

    For ratings, all cases are heard once before one is heard again, from the other run.

    Args:
        test: The test.
        listener: Which listener, from 0 in the order in which they joined.
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
    """Yield whether the runs are swapped and which reply is X, for each trial, in balanced blocks."""
    for _ in range(count // 4):
        yield from draw.sample(_BLOCK, 4)
    (swapped, x), (other, y) = draw.sample(_BLOCK, 1)[0], (draw.random() < 0.5, draw.randrange(2))
    yield from [(swapped, x), (not swapped, 1 - x), (other, y)][: count % 4]


def rating_scales() -> dict[str, OutputSpec]:
    """Return the scores that people can give too, by name: those of the installed judges with anchors."""
    return {
        score_name(spec.name, output.name): output
        for spec in installed_judges()
        for output in spec.outputs
        if output.by_people is not None
    }
