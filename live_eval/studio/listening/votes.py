"""Read and write the append-only file of a listening test: plan, listeners and votes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from live_eval.errors import SchemaVersionError, StoreError, StoreLockedError, UsageError
from live_eval.files import private_folder, private_opener, read_regular
from live_eval.recording import own_folder, sync_folder
from live_eval.studio.listening.listening_test import (
    LISTENING_VERSIONS_READ,
    ListenedCase,
    ListeningKind,
    ListeningTest,
    ListeningTrial,
    trials_for,
)

__all__ = ["FOLDER", "OWNER", "Ballots", "ListenerVote", "VoteFile"]

FOLDER = "listening"
"""The name of the folder for listening tests, next to the runs."""

OWNER = ""
"""The key of the studio's owner, who can act for any listener."""

_LOCK_TIMEOUT_S = 5.0
_MOST_BYTES = 1 << 26  # a vote is about 300 bytes
_MOST_LISTENERS = 1_000
_MOST_OF_A_BROWSER = 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerVote:
    """A listener's vote on one trial.

    Args:
        vote: Number of the vote in the file, from 1.
        runs: Runs of the presented replies, A first.
        x: Index of X's run in `runs`, for ABX.
        choice: Index of the chosen reply's run in `runs`; None for a tie or ratings.
        seconds: Seconds from the presentation of the replies to the vote.
        at: Time of the vote, ISO 8601 in UTC.
    """

    vote: int
    listener: str
    case_id: str
    turn_id: str
    script_id: str
    runs: tuple[str, ...]
    x: int | None = None
    choice: int | None = None
    ratings: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    at: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The trial's key; see `ListeningTrial.key`."""
        return self.turn_id, self.runs[0] if len(self.runs) == 1 else ""


@dataclass(frozen=True, slots=True)
class _Joined:
    joined: str
    at: str = ""
    key: str = OWNER


@dataclass(frozen=True, slots=True)
class _Undone:
    undone: int
    at: str = ""


_TEST = TypeAdapter(ListeningTest)
_VOTE = TypeAdapter(ListenerVote)
_JOINED = TypeAdapter(_Joined)
_UNDONE = TypeAdapter(_Undone)


@dataclass(frozen=True, slots=True)
class Ballots:
    """The contents of a test file.

    Args:
        keys: Key of each listener, in order of joining; see `VoteFile.join`.
        votes: Valid votes in order, excluding undone ones.
        last: Highest vote number, including undone ones.
        size: Total length of the complete lines in bytes.
    """

    test: ListeningTest
    keys: Mapping[str, str]
    votes: tuple[ListenerVote, ...]
    last: int
    size: int

    @property
    def listeners(self) -> tuple[str, ...]:
        """The listeners in order of joining."""
        return tuple(self.keys)

    def of(self, listener: str) -> list[ListenerVote]:
        """Return a listener's votes."""
        return [vote for vote in self.votes if vote.listener == listener]

    def open_trials(self, listener: str) -> list[ListeningTrial]:
        """Return a listener's remaining trials in order."""
        done = {vote.key for vote in self.of(listener)}
        trials = trials_for(self.test, self.listeners.index(listener))
        return [trial for trial in trials if trial.key not in done]


class VoteFile:
    """The file of a listening test. Call the methods in a thread, because they block.

    Each change acquires a lock, reads the file, appends a line, and waits until the line is on disk. A line
    that a crash left incomplete was never acknowledged, so it is ignored and overwritten by the next line.

    Args:
        most_listeners: Maximum number of listeners.
        most_of_a_browser: Maximum number of listeners per browser, except the owner's.
        most_bytes: Maximum size. Larger files would be refused on reading, so changes that exceed it are
            refused.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_listeners: int = _MOST_LISTENERS,
        most_of_a_browser: int = _MOST_OF_A_BROWSER,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self.path = path
        self._most_listeners = most_listeners
        self._most_of_a_browser = most_of_a_browser
        self._most_bytes = most_bytes

    @classmethod
    def create(cls, folder: Path, test: ListeningTest) -> VoteFile:
        """Create a test file in a folder, named after the test's kind and a number.

        Raises:
            StoreError: The file cannot be written.
        """
        line = orjson.dumps(_TEST.dump_python(test, mode="json"))  # fails before the file exists
        try:
            own_folder(folder.parent, private_folder(folder))
            for number in range(1, 10_000):
                path = folder / f"{test.kind.value}-{number}.jsonl"
                try:
                    with open(path, "xb", opener=private_opener) as file:
                        _write(file.fileno(), line)
                except FileExistsError:
                    continue
                sync_folder(folder)
                return cls(path)
        except OSError as error:
            raise StoreError(f"cannot write {folder}: {error.strerror}") from None
        raise StoreError(f"{folder} contains too many listening tests")

    def read(self) -> Ballots:
        """Return the contents of the file.

        Raises:
            StoreError: The file is missing or damaged.
            SchemaVersionError: The file was written by another version of live-eval.
        """
        try:
            data = read_regular(self.path, self._most_bytes)
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from None
        return _ballots(self.path, data)

    def join(self, listener: str, at: str, key: str = OWNER) -> Ballots:
        """Add a listener, unless the listener has already joined with this key.

        Args:
            at: The current time, ISO 8601 in UTC.
            key: Secret that identifies the listener's browser; `OWNER` for the studio's owner.

        Raises:
            UsageError: The listener has joined with another key, or the test or browser has the maximum
                number of listeners.
            StoreError: The file cannot be read or written.
        """
        ballots = self.read()
        if listener not in ballots.keys:
            with self._changing() as ballots:
                if listener not in ballots.keys:
                    if len(ballots.keys) >= self._most_listeners:
                        raise UsageError(
                            f"listener: this test has reached its limit of {self._most_listeners:,} "
                            "listeners; to continue, create another test"
                        )
                    if key != OWNER and list(ballots.keys.values()).count(key) >= self._most_of_a_browser:
                        raise UsageError(
                            f"listener: this browser has reached its limit of {self._most_of_a_browser} "
                            "listeners; use one of their names"
                        )
                    size = self._add(ballots, _JOINED.dump_python(_Joined(listener, at, key)))
                    ballots = replace(ballots, keys={**ballots.keys, listener: key}, size=size)
        self._check_key(ballots, listener, key)
        return ballots

    def vote(self, listener: str, trial: ListeningTrial, at: str, **given: Any) -> Ballots:
        """Add a vote.

        Args:
            given: Further fields of the `ListenerVote`: `choice` or `ratings`, and `seconds`.

        Raises:
            UsageError: The listener has already voted on this trial.
            StoreError: The file cannot be read or written.
        """
        with self._changing() as ballots:
            if any(vote.key == trial.key for vote in ballots.of(listener)):
                raise UsageError(f"{listener} has already voted on this trial; undo the vote to change it")
            case = asdict(trial.case)
            vote = ListenerVote(
                vote=ballots.last + 1, listener=listener, runs=trial.runs, x=trial.x, at=at, **case, **given
            )
            self._add(ballots, _VOTE.dump_python(vote, mode="json"))
            return self.read()

    def undo(self, listener: str, at: str, key: str = OWNER) -> Ballots:
        """Undo a listener's last valid vote and reopen its trial.

        Args:
            at: The current time, ISO 8601 in UTC.
            key: See `join`.

        Raises:
            UsageError: The listener has no valid vote, or has joined with another key.
            StoreError: The file cannot be read or written.
        """
        with self._changing() as ballots:
            votes = ballots.of(listener)
            if not votes:
                raise UsageError(f"there is no vote of {listener} to undo")
            self._check_key(ballots, listener, key)
            self._add(ballots, _UNDONE.dump_python(_Undone(votes[-1].vote, at)))
            return self.read()

    @contextmanager
    def _changing(self) -> Iterator[Ballots]:
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_LOCK_TIMEOUT_S)
        try:
            with lock:
                yield self.read()
        except Timeout:
            raise StoreLockedError(f"{self.path} is being written by another process") from None
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror or error}") from None

    @staticmethod
    def _check_key(ballots: Ballots, listener: str, key: str) -> None:
        if key not in (OWNER, ballots.keys[listener]):
            raise UsageError(f"listener: the name {listener!r} is already used in another browser")

    def _add(self, ballots: Ballots, line: Mapping[str, Any]) -> int:
        """Append a line and return the file's new size in bytes."""
        data = orjson.dumps(line)
        size = ballots.size + len(data) + 1
        if size > self._most_bytes:
            raise UsageError(
                f"this test is full: the limit is {self._most_bytes:,} bytes of votes; to continue, "
                "create another test"
            )
        with open(self.path, "r+b", opener=private_opener) as file:
            file.truncate(ballots.size)
            file.seek(0, os.SEEK_END)
            file.flush()
            _write(file.fileno(), data)
        return size


def _write(fd: int, line: bytes) -> None:
    """Write a line and wait until it is on disk."""
    data = line + b"\n"
    while data:
        data = data[os.write(fd, data) :]
    os.fsync(fd)


def _ballots(path: Path, data: bytes) -> Ballots:
    lines = data.split(b"\n")[:-1]  # data after the last newline was never acknowledged
    if not lines:
        raise StoreError(f"{path}: expected a listening test, got an empty file")
    rows = [_json(f"{path}:{number}", line) for number, line in enumerate(lines, 1)]
    version = rows[0].get("listening")
    if isinstance(version, int) and version not in LISTENING_VERSIONS_READ:
        raise SchemaVersionError(
            f"{path}: expected listening test version {' or '.join(map(str, LISTENING_VERSIONS_READ))}, got "
            f"version {version}"
        )
    test = _read(_TEST, f"{path}:1", rows[0])
    keys: dict[str, str] = {}
    votes: dict[int, ListenerVote] = {}
    last = 0
    for number, row in enumerate(rows[1:], 2):
        where = f"{path}:{number}"
        if "joined" in row:
            joined = _read(_JOINED, where, row)
            keys.setdefault(joined.joined, joined.key)
        elif "undone" in row:
            votes.pop(_read(_UNDONE, where, row).undone, None)
        else:
            vote = _read(_VOTE, where, row)
            if problem := _problem(test, vote):
                raise StoreError(f"{where}: {problem}")
            votes[vote.vote] = vote
            last = max(last, vote.vote)
    return Ballots(test, keys, _known(path, votes, keys), last, data.rfind(b"\n") + 1)


def _problem(test: ListeningTest, vote: ListenerVote) -> str:
    """Explain why a vote does not match its test; empty if it does."""
    is_rating, is_identity = test.kind is ListeningKind.RATING, test.kind is ListeningKind.IDENTITY
    is_mushra, systems = test.kind is ListeningKind.MUSHRA, test.systems
    if ListenedCase(vote.case_id, vote.turn_id, vote.script_id) not in test.cases:
        return f"the test has no case {vote.case_id!r}"
    heard = set(vote.runs)
    places = tuple(range(len(systems) if is_mushra else 1 if is_rating else 2))
    if len(vote.runs) != len(places) or len(heard) != len(places) or not heard <= set(systems):
        many = "all" if is_mushra else "one" if is_rating else "both"
        return f"runs: expected {many} of {', '.join(sorted(systems))}"
    if vote.x not in (places if is_identity else (None,)):
        return f"x: expected {'0 or 1' if is_identity else 'none'}, got {vote.x}"
    allowed = (None,) if is_rating or is_mushra else places if is_identity else (None, *places)
    if vote.choice not in allowed:
        return f"choice: expected one of {', '.join(map(str, allowed))}, got {vote.choice}"
    scales = set(systems) if is_mushra else set(test.scales) if is_rating else set()
    lowest, highest = (0, 100) if is_mushra else (1, 5)
    if set(vote.ratings) != scales or not all(lowest <= value <= highest for value in vote.ratings.values()):
        return (
            f"ratings: expected {lowest} to {highest} for each of {', '.join(sorted(scales)) or 'no scale'}"
        )
    return ""


def _known(
    path: Path, votes: Mapping[int, ListenerVote], listeners: Collection[str]
) -> tuple[ListenerVote, ...]:
    for vote in votes.values():
        if vote.listener not in listeners:
            raise StoreError(f"{path}: vote {vote.vote} is by {vote.listener!r}, who did not join")
    return tuple(votes.values())


def _json(where: str, line: bytes) -> Mapping[str, Any]:
    try:
        row = orjson.loads(line)
    except ValueError as error:
        raise StoreError(f"{where}: expected JSON: {error}") from None
    if not isinstance(row, dict):
        raise StoreError(f"{where}: expected a JSON object, got a {type(row).__name__}")
    return row


def _read(adapter: TypeAdapter[_T], where: str, row: Mapping[str, Any]) -> _T:
    try:
        return adapter.validate_python(row)
    except UsageError as error:
        raise StoreError(f"{where}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{where}: {place}: {first['msg']}") from None
