"""Hand trials to listeners under names that say nothing, and take their votes."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from live_eval.clock import Clock
from live_eval.errors import StoreError, UsageError
from live_eval.studio.listening.clips import CaseSounds, ListenedSound, case_sounds, reply_clip
from live_eval.studio.listening.plan import ListeningKind, ListeningTest, ListeningTrial
from live_eval.studio.listening.played import why_not_heard
from live_eval.studio.listening.votes import Ballots, VoteFile
from live_eval.text.wording import counted

__all__ = ["GivenTrial", "Opinion", "TrialDesk"]

_OPEN_TRIALS = 16
_LABELS = ("A", "B")
_TIE = "tie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A vote as a browser sends it.

    Args:
        trial: The name under which the trial was given.
        choice: ``A``, ``B`` or, for a preference, ``tie``; empty for ratings.
        ratings: Ratings by score.
        played: What was played of each reply, by its label: begin and end in seconds.
    """

    trial: str
    choice: str = ""
    ratings: Mapping[str, int]
    played: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class GivenTrial:
    """A trial that a listener was given.

    Args:
        name: Its name, drawn at random; the browser knows it by no other.
        file: The test.
        listener: The listener.
        trial: The trial.
        replies: The replies by label, in order: A, B, and X for ABX.
        case: What else there is of the case.
        sounds: Everything to play, by names drawn at random.
        given_ns: When it was given, on the monotonic clock.
    """

    name: str
    file: VoteFile
    listener: str
    trial: ListeningTrial
    replies: Mapping[str, str]
    case: CaseSounds
    sounds: Mapping[str, ListenedSound]
    given_ns: int

    def named(self, clip: ListenedSound | None) -> str | None:
        """Return the name of a clip, or None without one."""
        return next((name for name, found in self.sounds.items() if found is clip), None)


class TrialDesk:
    """Gives trials and takes votes. Call its methods off the event loop.

    The last trials that were given are kept in memory with their sound. One that was pushed out, or given
    before a restart, has to be asked for again.

    Args:
        clock: Says how long a listener had.
        is_shown: Returns whether the studio shows a run. A test may be from somebody else and name others.
    """

    def __init__(self, clock: Clock, is_shown: Callable[[Path], bool]) -> None:
        self._clock = clock
        self._is_shown = is_shown
        self._lock = threading.Lock()
        self._given: OrderedDict[str, GivenTrial] = OrderedDict()

    def next(self, file: VoteFile, listener: str) -> tuple[Ballots, GivenTrial | None]:
        """Enter a listener, and return the votes so far and the listener's next trial; None after the last.

        Asked again before the vote, it is the same trial under the same name. One whose sound is missing is
        passed over.

        Raises:
            StoreError: The test cannot be read, or all trials that are left have lost their sound.
        """
        ballots = file.join(listener, self._now())
        open_trials = ballots.open_trials(listener)
        problem: StoreError | None = None
        for trial in open_trials:
            with self._lock:
                for given in self._given.values():
                    if (given.file.path, given.listener, given.trial) == (file.path, listener, trial):
                        return ballots, given
            try:
                given = self._give(file, ballots.test, listener, trial)
            except StoreError as error:
                problem = problem or error
                continue
            with self._lock:
                self._given[given.name] = given
                while len(self._given) > _OPEN_TRIALS:
                    self._given.popitem(last=False)
            return ballots, given
        if problem is not None:
            lost = counted(len(open_trials), "trial")
            raise StoreError(f"{lost} cannot be played any more; the votes so far are kept: {problem}")
        return ballots, None

    def sound(self, name: str) -> ListenedSound | None:
        """Return the sound with a name; None if it belongs to no trial that is open."""
        with self._lock:
            return next((given.sounds[name] for given in self._given.values() if name in given.sounds), None)

    def given(self, name: str) -> GivenTrial | None:
        """Return the open trial with a name, or None."""
        with self._lock:
            return self._given.get(name)

    def vote(self, given: GivenTrial, opinion: Opinion) -> Ballots:
        """Take a vote.

        Raises:
            UsageError: Something was not heard to its end, or the opinion is none on this trial.
            StoreError: It cannot be written.
        """
        lengths_s = {label: given.sounds[name].seconds for label, name in given.replies.items()}
        elapsed_s = (self._clock.now_ns() - given.given_ns) / 1e9
        ballots = given.file.read()
        answer = _answer(ballots.test, opinion)
        if reason := why_not_heard(lengths_s, opinion.played, elapsed_s):
            raise UsageError(reason)
        ballots = given.file.vote(
            given.listener, given.trial, self._now(), seconds=round(elapsed_s, 3), **answer
        )
        with self._lock:
            self._given.pop(given.name, None)
        return ballots

    def undo(self, file: VoteFile, listener: str) -> Ballots:
        """Take back the last vote of a listener.

        Raises:
            UsageError: There is none.
            StoreError: It cannot be written.
        """
        return file.undo(listener, self._now())

    def _give(self, file: VoteFile, test: ListeningTest, listener: str, trial: ListeningTrial) -> GivenTrial:
        paths = {run.name: file.path.parent / run.path for run in test.runs}
        for path in paths.values():
            if not self._is_shown(path):
                raise StoreError(f"{path}: is not in a folder that this studio shows")
        clips = {
            label: reply_clip(paths[run], trial.case.turn_id)
            for label, run in zip(_LABELS, trial.runs, strict=False)
        }
        if trial.x is not None:
            x = clips[_LABELS[trial.x]]
            clips["X"] = ListenedSound(x.wav, x.seconds)
        case = case_sounds(paths[test.runs[0].name], trial.case.turn_id, test.reference)
        replies = {label: secrets.token_hex(16) for label in clips}
        sounds = {replies[label]: clip for label, clip in clips.items()}
        sounds |= {secrets.token_hex(16): clip for clip in (case.user, case.reference) if clip is not None}
        name = secrets.token_hex(16)
        return GivenTrial(name, file, listener, trial, replies, case, sounds, self._clock.now_ns())

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.wall_ns() / 1e9, UTC).isoformat(timespec="milliseconds")


def _answer(test: ListeningTest, opinion: Opinion) -> dict[str, Any]:
    """Return what a vote says, as `ListenerVote` has it."""
    if test.kind is ListeningKind.RATING:
        wrong = {scale: value for scale, value in opinion.ratings.items() if value not in range(1, 6)}
        if wrong or set(opinion.ratings) != set(test.scales):
            raise UsageError(f"expected a whole number from 1 to 5 for each of {', '.join(test.scales)}")
        return {"ratings": {scale: opinion.ratings[scale] for scale in test.scales}}
    allowed = (*_LABELS, _TIE) if test.kind is ListeningKind.PREFERENCE else _LABELS
    if opinion.choice not in allowed:
        raise UsageError(f"choice: expected one of {', '.join(allowed)}, found {opinion.choice[:40]!r}")
    return {"choice": None if opinion.choice == _TIE else _LABELS.index(opinion.choice)}
