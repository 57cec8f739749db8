"""Define the updates of a live conversation, one type per kind, and their queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from live_eval.analysis.latency.waterfall import REPLY_PARTS, waterfall_of
from live_eval.recording import TurnRecord
from live_eval.types import Failure

__all__ = [
    "AudioSide",
    "DeviceChanged",
    "EchoDetected",
    "FromEndpoint",
    "HeardChanged",
    "LatencyMeasured",
    "Levels",
    "QuickScores",
    "RecordStored",
    "SpeechDetected",
    "StandingChanged",
    "State",
    "StateChanged",
    "TakeAsked",
    "TakeChecked",
    "TakeRepeated",
    "TakeUnheard",
    "TranscriptPiece",
    "Update",
    "UpdateQueue",
    "Voted",
    "Xruns",
]

_DURATION = "complete"  # not a latency: it depends on the reply's length


class AudioSide(StrEnum):
    """A side of a conversation: the user or the reply."""

    USER = "user"
    REPLY = "reply"


class State(StrEnum):
    """The state of a conversation."""

    LAUNCHING = "launching"
    """The endpoint is being launched on this machine, and loads its models."""
    STARTING = "starting"
    """The endpoint is being dialled."""
    TALKING = "talking"
    """The session is ready, and the user may speak."""
    RECORDING = "recording"
    """A person performs a take; no session runs."""
    CHECKING = "checking"
    """A take has ended and is checked."""
    CHECKED = "checked"
    """A take was checked, and the person accepts, repeats or skips it."""
    DISCONNECTED = "disconnected"
    """The session has ended by itself; `LiveConversation.reconnect` begins another."""
    SCORING = "scoring"
    """The conversation is stored but not fully scored; `LiveConversation.stop` skips the missing scores."""
    ENDED = "ended"
    """The conversation has ended, with nothing in progress."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The state of the conversation changed.

    Args:
        failure: Failure that ended the session; None if nothing failed.
    """

    state: State
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """The peak levels of both sides in dBFS, at least -90.

    They are sent about 20 times a second, and when a voice begins or ends.

    Args:
        user: Microphone level before muting.
        reply: Level of the reply as heard.
        muted: Whether the microphone is muted, by the user or during a reply (half-duplex).
        replying: Whether a reply has become audible, and its rest is audible or still arriving.
        audible: Whether the user's voice is audible, unlike in pauses.
        user_bands: Spectrum of the microphone audio; see `live_eval.live.voice_bands`. Empty for silence,
            and unless the conversation has ``spectra``.
        reply_bands: Spectrum of the reply.
    """

    user: float
    reply: float
    muted: bool = False
    replying: bool = False
    audible: bool = False
    user_bands: tuple[float, ...] = ()
    reply_bands: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeechDetected:
    """The local detector found the start or end of the user's speech.

    Args:
        speaking: Whether the user is speaking.
        barge_in: Whether the user is speaking over a reply.
    """

    speaking: bool
    barge_in: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptPiece:
    """A piece of one side's transcript.

    Args:
        text: The piece; with `final`, the whole text of its part.
        final: Whether the piece replaces the previous ones.
    """

    side: AudioSide
    text: str
    final: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LatencyMeasured:
    """A reply finished playing, or a turn failed. The update is repeated if a value changes.

    Args:
        number: Turn number, from 1.
        record: The turn so far; late events may still be added to the stored record.
        after_ns: Time from the end of the reply as heard, or of the turn, to this update.
    """

    number: int
    record: TurnRecord
    after_ns: int

    @property
    def waterfall(self) -> dict[str, int]:
        """The duration of each step in nanoseconds; empty for a turn without timestamps."""
        return waterfall_of(self.record) or {}

    @property
    def reply_steps(self) -> dict[str, int]:
        """The waterfall from the end of the user's speech, without session setup and reply duration."""
        waterfall = self.waterfall
        return {name: waterfall[name] for name in REPLY_PARTS if name in waterfall and name != _DURATION}

    @property
    def values(self) -> tuple[object, ...]:
        """The displayed values except the error bar; an update with unchanged values is not repeated."""
        timing = self.record.timing
        return self.record.failure, self.waterfall, timing.voice_to_voice.ns, timing.barge_in_stop.ns


@dataclass(frozen=True, slots=True, eq=False)
class RecordStored:
    """A turn was stored."""

    record: TurnRecord


@dataclass(frozen=True, slots=True)
class QuickScores:
    """A turn's scores from one judge, or from several after `merged`.

    Args:
        scores: Scores by name (`judge.output`).
        problems: Reasons for missing scores, by judge.
        judge: Name of the judge; empty for several judges.
        seconds: Judging time in seconds, including loading the judge.
        late: Whether the scores arrived after the end of the next reply.
        number: Number of the turn in the conversation.
    """

    turn_id: str
    scores: Mapping[str, float | str]
    problems: Mapping[str, str] = field(default_factory=dict)
    judge: str = ""
    seconds: float = 0.0
    late: bool = False
    number: int = 0

    def merged(self, shown: QuickScores | None) -> QuickScores:
        """Return the scores of the newer turn, or both judges' scores of the same turn."""
        if shown is None or shown.number < self.number:
            return self
        if shown.number > self.number:
            return shown
        return QuickScores(
            self.turn_id,
            {**shown.scores, **self.scores},
            {**shown.problems, **self.problems},
            seconds=shown.seconds + self.seconds,
            late=self.late,
            number=self.number,
        )


@dataclass(frozen=True, slots=True)
class TakeAsked:
    """A person is asked for a take, and the microphone starts recording.

    Args:
        number: Number of the take, from 1.
        total: Number of takes in the performance.
        text: The script.
        direction: Direction for the delivery, as in "Say this …".
        attempt: Number of the attempt at this take, from 1.
    """

    number: int
    total: int
    text: str
    direction: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class TakeChecked:
    """A take was checked; the person accepts, repeats or skips it.

    Args:
        heard: Transcript from the recogniser; None without a recogniser.
        level_dbfs: Active speech level, in dBFS.
        seconds: Duration of the speech, in seconds.
        problems: Reasons to repeat the take.
        notes: Remarks that do not require repeating the take.
        usable: Whether the take can be accepted.
    """

    heard: str | None
    level_dbfs: float
    seconds: float
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class TakeUnheard:
    """No speech has been detected since the take began, which was several seconds ago.

    Args:
        level_dbfs: Peak level so far, in dBFS.
    """

    level_dbfs: float


@dataclass(frozen=True, slots=True)
class TakeRepeated:
    """An accepted take is streamed again, to compare different styles with repeats of one recording.

    Args:
        number: Number of the repeated take, from 1.
        total: Number of takes to repeat.
    """

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class EchoDetected:
    """The microphone picks up the reply, so the user needs headphones or half-duplex.

    Args:
        delay_ms: Time from the reply, as heard without device delay, to its echo.
        correlation: Correlation of the microphone with the reply, 0 to 1.
    """

    delay_ms: float
    correlation: float


@dataclass(frozen=True, slots=True)
class Xruns:
    """Samples were missing or dropped. Counts cover the whole conversation.

    Args:
        input: Number of times that the microphone device dropped samples.
        output: Number of times that the output device had to wait for samples.
        underruns: Number of user frames that were not available in time.
        overruns: Number of times that captured samples were dropped because the session had stopped reading.
    """

    input: int = 0
    output: int = 0
    underruns: int = 0
    overruns: int = 0

    def __bool__(self) -> bool:
        return bool(self.input or self.output or self.underruns or self.overruns)


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """A side's audio device was lost, or works again.

    Args:
        problem: Why it was lost; empty if it works again.
    """

    side: AudioSide
    problem: str


@dataclass(frozen=True, slots=True)
class HeardChanged:
    """The user now hears another endpoint.

    Args:
        place: Place of the endpoint; None if all are heard in turn.
    """

    place: int | None


@dataclass(frozen=True, slots=True)
class StandingChanged:
    """One of several endpoints listens, thinks or speaks now, or is missing.

    Args:
        place: Place of the endpoint in the order of presentation, from 0.
        state: See `live_eval.live.standings.Standing.in_words`.
    """

    place: int
    state: str


@dataclass(frozen=True, slots=True)
class Voted:
    """A vote was cast on the replies to a turn.

    Args:
        number: Turn number; None if no turn has two replies yet, or the chosen reply is missing.
        winner: Place of the best reply; None for a tie.
        wins: Number of turns won by each endpoint.
    """

    number: int | None
    winner: int | None
    wins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FromEndpoint:
    """An update of one of several simultaneous conversations.

    Args:
        place: Place of the endpoint in the order of presentation, from 0.
    """

    place: int
    update: Update


Update: TypeAlias = (
    StateChanged
    | Levels
    | SpeechDetected
    | TranscriptPiece
    | LatencyMeasured
    | RecordStored
    | QuickScores
    | TakeAsked
    | TakeChecked
    | TakeRepeated
    | TakeUnheard
    | EchoDetected
    | Xruns
    | DeviceChanged
    | HeardChanged
    | StandingChanged
    | Voted
    | FromEndpoint
)


class UpdateQueue:
    """A queue of updates for one reader.

    Args:
        most_unread: Maximum number of unread updates; beyond it, levels are dropped.
    """

    def __init__(self, most_unread: int = 1_000) -> None:
        self._most_unread = most_unread
        self._updates: asyncio.Queue[Update] = asyncio.Queue()

    def put(self, update: Update) -> None:
        """Add an update."""
        if not isinstance(update, Levels) or self._updates.qsize() < self._most_unread:
            self._updates.put_nowait(update)

    async def read(self) -> AsyncIterator[Update]:
        """Yield the updates until the conversation has ended."""
        while True:
            update = await self._updates.get()
            yield update
            if isinstance(update, StateChanged) and update.state is State.ENDED:
                return
