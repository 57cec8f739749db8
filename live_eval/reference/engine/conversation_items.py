"""Store the items of one session's conversation, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from live_eval.audio import Codec, CodecName

__all__ = [
    "MOST_BYTES",
    "MOST_ITEMS",
    "Item",
    "ItemContent",
    "ItemHistory",
    "ItemStatus",
    "Part",
    "PartKind",
    "Role",
    "sample_bytes",
    "words",
]


MOST_ITEMS = 2_000
"""Maximum number of items in a conversation."""

MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of a conversation: 23 minutes of speech at 24 kHz."""


class Role(StrEnum):
    """The author of an item."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class PartKind(StrEnum):
    """The kind of a part: written or spoken."""

    TEXT = "text"
    AUDIO = "audio"


class ItemStatus(StrEnum):
    """The status of an item: whether it is complete."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


@dataclass(slots=True)
class Part:
    """A part of an item.

    Args:
        kind: Written or spoken.
        text: Text; None before speech is recognised or if recognition failed.
        audio: The user's speech as received, encoded with `codec`.
        codec: Encoding of `audio`.
        audio_ms: Duration of the speech.
        pending: Whether recognition is in progress.
    """

    kind: PartKind
    text: str | None = None
    audio: bytes = field(default=b"", repr=False)
    codec: Codec | None = None
    audio_ms: int = 0
    pending: bool = False

    @classmethod
    def speech(cls, audio: bytes, codec: Codec, text: str | None = None) -> Part:
        """Create a part from the user's speech."""
        audio_ms = len(audio) // sample_bytes(codec) * 1000 // codec.rate_hz
        return cls(PartKind.AUDIO, text, audio, codec, audio_ms)


@dataclass(slots=True)
class Item:
    """A message in the conversation.

    `talked_over` is set if the user spoke before the whole message could have been heard.
    """

    item_id: str
    role: Role
    parts: list[Part]
    status: ItemStatus = ItemStatus.COMPLETED
    talked_over: bool = False


@dataclass(frozen=True, slots=True)
class ItemContent:
    """The content of an item that the responder needs.

    Args:
        role: The author of the item.
        text: The text; None if unknown.
        speech: The user's speech as received, in pieces.
    """

    role: Role
    text: str | None
    cut_off: bool = False
    speech: tuple[tuple[bytes, Codec], ...] = field(default=(), repr=False, compare=False)


class ItemHistory:
    """A conversation's items in spoken order, limited to `MOST_ITEMS` and `MOST_BYTES`.

    `append` drops the oldest items if necessary, so check `has_room` before adding a client's items.
    """

    def __init__(self, *, most_items: int = MOST_ITEMS, most_bytes: int = MOST_BYTES) -> None:
        self._items: list[Item] = []
        self._most_items, self._most_bytes = most_items, most_bytes

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last_id(self) -> str | None:
        """The ID of the last item, or None."""
        return self._items[-1].item_id if self._items else None

    def get(self, item_id: str) -> Item | None:
        """Return the item with this ID, or None."""
        return next((item for item in self._items if item.item_id == item_id), None)

    def has_room(self, item: Item) -> bool:
        """Return whether an item fits without dropping other items."""
        return len(self._items) < self._most_items and self._bytes() + _size(item) <= self._most_bytes

    def append(self, item: Item) -> str | None:
        """Append an item, dropping the oldest if necessary; return the previous item's ID, or None."""
        previous = self.last_id
        self._items.append(item)
        while len(self._items) > 1 and self._is_too_large():
            del self._items[0]
        return previous

    def insert(self, item: Item, after: str | None) -> None:
        """Insert an item after the item with the ID `after`, or at the start if it is None."""
        index = 0
        if after is not None:
            index = 1 + next(i for i, other in enumerate(self._items) if other.item_id == after)
        self._items.insert(index, item)

    def remove(self, item: Item) -> None:
        """Remove an item."""
        self._items.remove(item)

    def _is_too_large(self) -> bool:
        return len(self._items) > self._most_items or self._bytes() > self._most_bytes

    def _bytes(self) -> int:
        return sum(map(_size, self._items))


def _size(item: Item) -> int:
    return sum(len(part.audio) + len(part.text or "") for part in item.parts)


def words(items: Iterable[Item]) -> tuple[ItemContent, ...]:
    """Return the contents of items, oldest first."""
    said: list[ItemContent] = []
    for item in items:
        texts = [part.text for part in item.parts if part.text is not None]
        text = " ".join(texts) if texts or not item.parts else None
        speech = tuple(
            (part.audio, part.codec) for part in item.parts if part.audio and part.codec is not None
        )
        cut_off = item.talked_over or item.status is ItemStatus.INCOMPLETE
        said.append(ItemContent(item.role, text, cut_off, speech))
    return tuple(said)


def sample_bytes(codec: Codec) -> int:
    """Return the number of bytes per sample on the wire."""
    return 2 if codec.name is CodecName.PCM16 else 1
