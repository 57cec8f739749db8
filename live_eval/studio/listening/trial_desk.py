"""Present trials to listeners under random names, and record their votes."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field

from live_eval.clock import Clock
from live_eval.errors import StoreError, UsageError
from live_eval.studio.listening.clips import (
    LOW_ANCHOR_HZ,
    MID_ANCHOR_HZ,
    CaseContext,
    ListeningClip,
    anchor_clip,
    case_context,
    reply_clip,
)
from live_eval.studio.listening.listening_test import (
    ANCHOR,
    HIDDEN_REFERENCE,
    MID_ANCHOR,
    ListeningKind,
    ListeningTest,
    ListeningTrial,
)
from live_eval.studio.listening.votes import OWNER, Ballots, VoteFile
from live_eval.text.wording import counted

__all__ = ["GivenTrial", "Opinion", "TrialDesk", "why_not_heard"]

_Seconds: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_MOST_OPEN = 64
"""The maximum number of open trials; each takes about 4 MB with its audio."""
_LABELS = tuple("ABCDEFGHIJK")
_ANCHORS = MappingProxyType({ANCHOR: LOW_ANCHOR_HZ, MID_ANCHOR: MID_ANCHOR_HZ})
_TIE = "tie"
_MISSED_S = 0.25
"""The tolerance for the ends of replies: browsers report played parts inaccurately or stop slightly early."""
_FASTEST = 1.05
"""The tolerance for deviations of a browser's audio clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A vote as a browser sends it.

    Args:
        trial: Random name of the trial.
        choice: ``A``, ``B`` or, for a preference, ``tie``; empty for ratings.
        ratings: Ratings by scale or, for MUSHRA, by label.
        played: Parts of each reply that were played, by label: start and end in seconds.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    trial: str
    choice: str = ""
    ratings: Mapping[str, int] = field(default_factory=dict)
    played: Mapping[str, Sequence[tuple[_Seconds, _Seconds]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GivenTrial:
    """A trial presented to a listener.

    Args:
        name: Random name, the only identifier sent to the browser.
        replies: Random names of the replies by label, in the order A, B and, for ABX, X.
        sounds: All clips by random name.
        key: Key of the listener's browser; see `VoteFile.join`.
    """

    name: str
    file: VoteFile
    listener: str
    trial: ListeningTrial
    replies: Mapping[str, str]
    case: CaseContext
    sounds: Mapping[str, ListeningClip]
    given_ns: int
    key: str = OWNER

    def named(self, clip: ListeningClip | None) -> str | None:
        """Return the random name of a clip, or None for None."""
        return next((name for name, found in self.sounds.items() if found is clip), None)


class TrialDesk:
    """Presents trials and records votes. Call the methods in a thread, because they block.

    Open trials are kept in memory with their audio. If there are too many, the oldest trial of the browser
    with the most open trials is closed, so that a listener cannot close other listeners' trials. A page must
    request its trial again if the trial was closed or the studio was restarted.

    Args:
        is_shown: Function that returns whether a run is in the studio. It is needed because an untrusted test
            file may refer to other folders.
        recordings: See `case_context`.
        most_open: Maximum number of open trials.
    """

    def __init__(
        self,
        clock: Clock,
        is_shown: Callable[[Path], bool],
        *,
        recordings: Sequence[Path] = (),
        most_open: int = _MOST_OPEN,
    ) -> None:
        self._clock = clock
        self._is_shown = is_shown
        self._recordings = recordings
        self._lock = threading.Lock()
        self._most_open = most_open
        self._given: dict[str, GivenTrial] = {}

    def next(self, file: VoteFile, listener: str, key: str = OWNER) -> tuple[Ballots, GivenTrial | None]:
        """Add a listener, and return the votes and the listener's next trial, or None after the last.

        Until the listener votes, repeated calls return the same trial. Trials without audio are skipped.

        Raises:
            UsageError: See `VoteFile.join`.
            StoreError: The test cannot be read, or no remaining trial has audio.
        """
        ballots = file.join(listener, self._now(), key)
        open_trials = ballots.open_trials(listener)
        problem: StoreError | None = None
        for trial in open_trials:
            with self._lock:
                for given in self._given.values():
                    if (given.file.path, given.listener, given.trial) == (file.path, listener, trial):
                        return ballots, given
            try:
                given = self._give(file, ballots.test, listener, trial, key)
            except StoreError as error:
                problem = problem or error
                continue
            with self._lock:
                self._given[given.name] = given
                while len(self._given) > self._most_open:
                    self._close_one()
            return ballots, given
        if problem is not None:
            lost = counted(len(open_trials), "trial")
            raise StoreError(f"{lost} cannot be played; existing votes are kept: {problem}")
        return ballots, None

    def sound(self, name: str) -> ListeningClip | None:
        """Return the clip with this name, or None if it is not part of an open trial."""
        with self._lock:
            return next((given.sounds[name] for given in self._given.values() if name in given.sounds), None)

    def given(self, name: str) -> GivenTrial | None:
        """Return the open trial with this name, or None."""
        with self._lock:
            return self._given.get(name)

    def vote(self, given: GivenTrial, opinion: Opinion) -> Ballots:
        """Record a vote.

        Raises:
            UsageError: A reply was not played to the end, or the opinion does not match the trial.
            StoreError: The test file cannot be written.
        """
        lengths_s = {label: given.sounds[name].seconds for label, name in given.replies.items()}
        elapsed_s = (self._clock.now_ns() - given.given_ns) / 1e9
        ballots = given.file.read()
        answer = _answer(ballots.test, given.trial, opinion)
        if reason := why_not_heard(lengths_s, opinion.played, elapsed_s):
            raise UsageError(reason)
        ballots = given.file.vote(
            given.listener, given.trial, self._now(), seconds=round(elapsed_s, 3), **answer
        )
        with self._lock:
            self._given.pop(given.name, None)
        return ballots

    def undo(self, file: VoteFile, listener: str, key: str = OWNER) -> Ballots:
        """Undo a listener's last vote; see `VoteFile.undo`."""
        return file.undo(listener, self._now(), key)

    def _close_one(self) -> None:
        """Close the oldest trial of the browser with the most open trials."""
        [(key, _)] = Counter(given.key for given in self._given.values()).most_common(1)
        del self._given[next(name for name, given in self._given.items() if given.key == key)]

    def _give(
        self, file: VoteFile, test: ListeningTest, listener: str, trial: ListeningTrial, key: str
    ) -> GivenTrial:
        paths = {run.name: file.path.parent / run.path for run in test.runs}
        for path in paths.values():
            if not self._is_shown(path):
                raise StoreError(f"{path} is not in one of the studio's folders")
        run, turn_id = paths[test.runs[0].name], trial.case.turn_id
        case = case_context(run, turn_id, test.reference, self._recordings)

        def clip_of(system: str) -> ListeningClip:
            if system in _ANCHORS:
                return anchor_clip(run, turn_id, self._recordings, _ANCHORS[system])
            if system != HIDDEN_REFERENCE:
                return reply_clip(paths[system], turn_id)
            if case.reference is None:
                raise StoreError(f"turn {turn_id!r} has no reference reply")
            return _copy(case.reference)

        clips = {label: clip_of(system) for label, system in zip(_LABELS, trial.runs, strict=False)}
        if trial.x is not None:
            clips["X"] = _copy(clips[_LABELS[trial.x]])
        replies = {label: secrets.token_hex(16) for label in clips}
        sounds = {replies[label]: clip for label, clip in clips.items()}
        sounds |= {secrets.token_hex(16): clip for clip in (case.user, case.reference) if clip is not None}
        name = secrets.token_hex(16)
        return GivenTrial(name, file, listener, trial, replies, case, sounds, self._clock.now_ns(), key)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.wall_ns() / 1e9, UTC).isoformat(timespec="milliseconds")


def _copy(clip: ListeningClip) -> ListeningClip:
    """Return a new clip with the same audio, because a clip's identity determines its random name."""
    return ListeningClip(clip.wav, clip.seconds)


def _answer(test: ListeningTest, trial: ListeningTrial, opinion: Opinion) -> dict[str, Any]:
    """Return the fields of a `ListenerVote` that an opinion determines."""
    if test.kind is ListeningKind.MUSHRA:
        labels = dict(zip(_LABELS, trial.runs, strict=False))
        if set(opinion.ratings) != set(labels) or not all(
            0 <= each <= 100 for each in opinion.ratings.values()
        ):
            raise UsageError(f"expected a whole number from 0 to 100 for each of {', '.join(labels)}")
        if opinion.choice:
            raise UsageError(f"choice: expected none in a MUSHRA test, got {opinion.choice[:40]!r}")
        return {"ratings": {system: opinion.ratings[label] for label, system in labels.items()}}
    if test.kind is ListeningKind.RATING:
        wrong = {scale: value for scale, value in opinion.ratings.items() if value not in range(1, 6)}
        if wrong or set(opinion.ratings) != set(test.scales):
            raise UsageError(f"expected a whole number from 1 to 5 for each of {', '.join(test.scales)}")
        if opinion.choice:
            raise UsageError(f"choice: expected none in a rating test, got {opinion.choice[:40]!r}")
        return {"ratings": {scale: opinion.ratings[scale] for scale in test.scales}}
    if opinion.ratings:
        names = ", ".join(opinion.ratings)
        raise UsageError(f"ratings: expected none in a test of two replies, got {names[:60]!r}")
    pair = _LABELS[:2]
    allowed = (*pair, _TIE) if test.kind is ListeningKind.PREFERENCE else pair
    if opinion.choice not in allowed:
        raise UsageError(f"choice: expected one of {', '.join(allowed)}, got {opinion.choice[:40]!r}")
    return {"choice": None if opinion.choice == _TIE else _LABELS.index(opinion.choice)}


def why_not_heard(
    lengths_s: Mapping[str, float], played: Mapping[str, Sequence[tuple[float, float]]], elapsed_s: float
) -> str:
    """Explain which reply was not played to the end; empty if all were.

    Args:
        lengths_s: Length of each reply by label ("A").
        played: Parts of each reply that the browser reports as played: start and end in seconds.
        elapsed_s: Seconds since the replies were presented; must be at least their total length.

    >>> why_not_heard({"A": 2.0, "B": 1.0}, {"A": [(0.0, 2.0)], "B": [(0.0, 0.5)]}, 9.0)
    'B was not heard to the end: 0.5 of 1.0 s'
    >>> why_not_heard({"A": 2.0}, {"A": [(1.0, 2.0), (0.0, 1.5)]}, 1.0)
    'A lasts 2.0 s, but the vote came after 1.0 s'
    """
    for label, length_s in lengths_s.items():
        heard_s = _covered(played.get(label, ()), length_s)
        if heard_s < length_s - _MISSED_S:
            return f"{label} was not heard to the end: {heard_s:.1f} of {length_s:.1f} s"
    needed_s = sum(lengths_s.values())
    if elapsed_s * _FASTEST < needed_s - _MISSED_S * len(lengths_s):
        last = "lasts" if len(lengths_s) == 1 else "last"
        return f"{' and '.join(lengths_s)} {last} {needed_s:.1f} s, but the vote came after {elapsed_s:.1f} s"
    return ""


def _covered(parts: Sequence[tuple[float, float]], length_s: float) -> float:
    """Return the total time covered by the parts, in seconds."""
    covered = at = 0.0
    for begin, end in sorted(parts):
        begin, end = max(begin, at), min(end, length_s)
        if end > begin:
            covered += end - begin
            at = end
    return covered
