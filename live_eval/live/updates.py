"""What a live conversation reports: one type for each kind of update, and their queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from live_eval.analysis.latency.waterfall import REPLY_PARTS
from live_eval.recording import TurnRecord
from live_eval.types import Failure

__all__ = [
    "EchoHeard",
    "Levels",
    "QuickScores",
    "SoundSide",
    "SpeechDetected",
    "State",
    "StateChanged",
    "TranscriptPiece",
    "TurnFigures",
    "TurnFinished",
    "TurnKept",
    "Update",
    "UpdateQueue",
    "Xruns",
]


class SoundSide(StrEnum):
    """Who speaks."""

    USER = "user"
    REPLY = "reply"


class State(StrEnum):
    """What the conversation is doing."""

    STARTING = "starting"
    """The endpoint is launched or dialled."""
    TALKING = "talking"
    """The session is ready: the user may speak."""
    DISCONNECTED = "disconnected"
    """The session has ended by itself; `LiveConversation.reconnect` begins another."""
    SCORING = "scoring"
    """The conversation is over and stored, but not yet scored: `LiveConversation.stop` skips that."""
    ENDED = "ended"
    """The conversation is over, and nothing is under way any more."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The conversation's state has changed.

    Args:
        state: The new state.
        failure: Why the session ended; None where nothing failed.
    """

    state: State
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """How loud both sides are, about 20 times a second: peaks in dBFS, at least -90.

    Args:
        user: The microphone, before it is muted.
        reply: The reply, as it is heard.
        muted: Whether the microphone is muted, by the user or while a reply sounds (half-duplex).
    """

    user: float
    reply: float
    muted: bool = False


@dataclass(frozen=True, slots=True)
class SpeechDetected:
    """The user has begun or ended to speak, as the local detector finds.

    Args:
        speaking: Whether they speak now.
        barge_in: Whether they speak over a reply.
    """

    speaking: bool
    barge_in: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptPiece:
    """A piece of what a side says.

    Args:
        side: Who says it.
        text: The piece; with `final`, the whole text of its part.
        final: Whether it replaces the pieces before it.
    """

    side: SoundSide
    text: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """What is shown of a turn, apart from how uncertain it is.

    Args:
        failure: Why the turn failed.
        waterfall: As in `TurnFinished`.
        voice_to_voice_ns: The latency of the reply; None where it has none.
        barge_in_stop_ns: From the user's voice over the reply to the reply's last sound.
    """

    failure: Failure | None
    waterfall: Mapping[str, int]
    voice_to_voice_ns: int | None
    barge_in_stop_ns: int | None


@dataclass(frozen=True, slots=True, eq=False)
class TurnFinished:
    """A reply has been heard to its end, or a turn has failed. It comes again if its figures have changed.

    Args:
        number: The turn's number, from 1.
        record: The turn so far; what comes late may still be added to what is stored.
        waterfall: What each step added, in nanoseconds, by step; empty where the turn has no times.
        after_ns: How long after the end of the reply, as heard, or of the turn the figures were there.
    """

    number: int
    record: TurnRecord
    waterfall: Mapping[str, int]
    after_ns: int

    @property
    def figures(self) -> TurnFigures:
        """What is shown of the turn."""
        timing = self.record.timing
        return TurnFigures(
            self.record.failure, self.waterfall, timing.voice_to_voice.ns, timing.barge_in_stop.ns
        )

    @property
    def reply_steps(self) -> dict[str, int]:
        """The waterfall from the end of the user's speech on: without the session's setup."""
        return {name: self.waterfall[name] for name in REPLY_PARTS if name in self.waterfall}


@dataclass(frozen=True, slots=True, eq=False)
class TurnKept:
    """A turn has been stored.

    Args:
        record: As stored.
    """

    record: TurnRecord


@dataclass(frozen=True, slots=True)
class QuickScores:
    """Scores of a turn.

    Args:
        turn_id: The turn.
        scores: By name, as `judge.output`.
        problems: Why judges gave none, by judge.
    """

    turn_id: str
    scores: Mapping[str, float | str]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EchoHeard:
    """The microphone hears the reply: use headphones, or half-duplex.

    Args:
        delay_ms: From the reply, as heard by a listener without device delay, to its echo.
        correlation: How much of the microphone's sound it explains, 0 to 1.
    """

    delay_ms: float
    correlation: float


@dataclass(frozen=True, slots=True)
class Xruns:
    """Samples were missing or dropped somewhere. Counts since the conversation began.

    Args:
        input: The microphone's device dropped samples.
        output: The loudspeaker's device had to wait for samples.
        underruns: Frames of the user's speech that were not there in time.
        overruns: Times that captured samples were dropped since nobody asked for them.
    """

    input: int = 0
    output: int = 0
    underruns: int = 0
    overruns: int = 0

    def __bool__(self) -> bool:
        return bool(self.input or self.output or self.underruns or self.overruns)


Update: TypeAlias = (
    StateChanged
    | Levels
    | SpeechDetected
    | TranscriptPiece
    | TurnFinished
    | TurnKept
    | QuickScores
    | EchoHeard
    | Xruns
)


class UpdateQueue:
    """Queues updates for one reader.

    Args:
        most_unread: Levels are dropped while more updates are unread.
    """

    def __init__(self, most_unread: int = 1_000) -> None:
        self._most_unread = most_unread
        self._updates: asyncio.Queue[Update] = asyncio.Queue()

    def put(self, update: Update) -> None:
        """Add an update."""
        if not isinstance(update, Levels) or self._updates.qsize() < self._most_unread:
            self._updates.put_nowait(update)

    async def read(self) -> AsyncIterator[Update]:
        """Yield the updates, up to the end of the conversation."""
        while True:
            update = await self._updates.get()
            yield update
            if isinstance(update, StateChanged) and update.state is State.ENDED:
                return
