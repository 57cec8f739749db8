"""Store reviewers' labels and notes in a file next to the run's databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from live_eval.errors import SchemaVersionError, StoreError, UsageError
from live_eval.files import atomic_write, read_regular
from live_eval.recording._lock import WriterLock

__all__ = [
    "NO_REVIEW",
    "REVIEWS_FILE",
    "REVIEWS_LOCK_FILE",
    "Review",
    "ReviewChange",
    "keep_note",
    "keep_review",
    "noted",
    "read_note",
    "read_reviews",
    "review_change",
]

REVIEWS_FILE = "reviews.json"
REVIEWS_LOCK_FILE = ".reviews.lock"
_VERSION = 1
_MOST_BYTES = 1 << 22
_MOST_LABELS = 20
_LONGEST_LABEL = 40
_LONGEST_NOTE = 4_000
_STRICT = ConfigDict(extra="forbid", strict=True)


def _label(text: str) -> str:
    """Return a label with surplus spaces removed."""
    plain = " ".join(text.split())
    if not plain or len(plain) > _LONGEST_LABEL or not plain.isprintable():
        raise ValueError(f"expected a label of 1 to {_LONGEST_LABEL} characters, got {text[:60]!r}")
    return plain


@dataclass(frozen=True, slots=True)
class Review:
    """Reviewers' labels and note on a turn. `labels` are unique and in the order of addition."""

    __pydantic_config__ = _STRICT

    labels: Annotated[list[Annotated[str, AfterValidator(_label)]], Field(max_length=_MOST_LABELS)]
    note: Annotated[str, Field(max_length=_LONGEST_NOTE)] = ""


@dataclass(frozen=True, slots=True)
class ReviewChange:
    """A change to a turn's review. Two pages can change different labels of the same turn.

    Args:
        note: The new note; None to keep the stored one.
    """

    __pydantic_config__ = _STRICT

    add: Annotated[list[Annotated[str, AfterValidator(_label)]], Field(max_length=_MOST_LABELS)] = field(
        default_factory=list
    )
    remove: list[str] = field(default_factory=list)
    note: Annotated[str, Field(max_length=_LONGEST_NOTE)] | None = None

    def of(self, review: Review) -> Review:
        """Apply the change to a review.

        Raises:
            UsageError: The review would have too many labels.
        """
        labels = [each for each in dict.fromkeys([*review.labels, *self.add]) if each not in self.remove]
        if len(labels) > _MOST_LABELS:
            raise UsageError(f"review: expected at most {_MOST_LABELS} labels, got {len(labels)}")
        return Review(labels, review.note if self.note is None else self.note.strip())


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__ = _STRICT

    reviews: int
    turns: dict[str, Review]
    note: Annotated[str, Field(max_length=_LONGEST_NOTE)] = ""


@dataclass(frozen=True, slots=True)
class _Note:
    __pydantic_config__ = _STRICT

    note: Annotated[str, Field(max_length=_LONGEST_NOTE)]


NO_REVIEW = Review([])
_CHANGE = TypeAdapter(ReviewChange)
_FILE = TypeAdapter(_File)
_NOTE = TypeAdapter(_Note)
_WRITING = threading.Lock()


def review_change(body: bytes) -> ReviewChange:
    """Parse a change to a review from JSON.

    Raises:
        UsageError: The JSON is not a valid change.
    """
    try:
        return _CHANGE.validate_json(body)
    except ValidationError as error:
        raise UsageError(f"review: {_first(error)}") from None


def noted(body: bytes) -> str:
    """Parse a note on a run from JSON.

    Raises:
        UsageError: The JSON contains no note.
    """
    try:
        return _NOTE.validate_json(body).note.strip()
    except ValidationError as error:
        raise UsageError(f"note: {_first(error)}") from None


def read_reviews(folder: Path) -> Mapping[str, Review]:
    """Return a run's reviews by turn ID; an empty mapping without reviews.

    Raises:
        StoreError: The file cannot be read.
        SchemaVersionError: The file was written by another version of live-eval.
    """
    return _read(folder).turns


def read_note(folder: Path) -> str:
    """Return the note on a run; see `read_reviews`."""
    return _read(folder).note


def keep_review(folder: Path, turn_id: str, change: ReviewChange) -> None:
    """Change a turn's review; remove it if it becomes empty.

    Raises:
        UsageError: See `ReviewChange.of`.
        StoreLockedError: Another process is writing the reviews.
        StoreError: The file cannot be read or written or would become too large.
        SchemaVersionError: The file was written by another version of live-eval.
    """
    with _changing(folder) as (stored, keep):
        review = change.of(stored.turns.get(turn_id, NO_REVIEW))
        turns = {**stored.turns, turn_id: review}
        if review == NO_REVIEW:
            del turns[turn_id]
        keep(replace(stored, turns=turns))


def keep_note(folder: Path, note: str) -> None:
    """Store the note on a run; see `keep_review`."""
    with _changing(folder) as (stored, keep):
        keep(replace(stored, note=note))


def _read(folder: Path) -> _File:
    path = folder / REVIEWS_FILE
    try:
        data = read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return _File(_VERSION, {})
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        stored = _FILE.validate_json(data)
    except ValidationError as error:
        raise StoreError(f"{path}: invalid reviews: {_first(error)}") from None
    if stored.reviews != _VERSION:
        raise SchemaVersionError(f"{path}: expected reviews version {_VERSION}, got version {stored.reviews}")
    return stored


@contextmanager
def _changing(folder: Path) -> Iterator[tuple[_File, Callable[[_File], None]]]:
    """Lock the reviews; yield them and a function that stores new ones."""
    path = folder / REVIEWS_FILE

    def keep(changed: _File) -> None:
        data = orjson.dumps(asdict(changed))
        if len(data) > _MOST_BYTES:
            raise StoreError(f"{path}: too many reviews: the limit is {_MOST_BYTES:,} bytes")
        try:
            with atomic_write(path) as part:
                part.write_bytes(data)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from None

    with _WRITING, ExitStack() as stack:
        stack.callback(WriterLock(folder / REVIEWS_LOCK_FILE).release)
        yield _read(folder), keep


def _first(error: ValidationError) -> str:
    found = error.errors()[0]
    place = ".".join(str(part) for part in found["loc"])
    return f"{place}: {found['msg']}" if place else str(found["msg"])
