"""The engine's outputs: work for its host, and events for the protocol to encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec
from live_eval.reference.engine.conversation import Item, ItemContent
from live_eval.reference.faults.script import Fault
from live_eval.timing import ResponseStatus

__all__ = [
    "AudioPiece",
    "CloseConnection",
    "DetectSpeech",
    "DropUnplayed",
    "Event",
    "FindReply",
    "InputTranscribed",
    "ItemAdded",
    "Output",
    "PlaybackState",
    "Problem",
    "Reaction",
    "RecogniseSpeech",
    "ReplyBegan",
    "ResponseCreated",
    "ResponseEnded",
    "SendMessage",
    "ServerResponse",
    "Silence",
    "TextPiece",
    "TrackPlayback",
    "UserSpeechStarted",
    "UserSpeechStopped",
    "UserUtterance",
    "VoiceEnd",
    "Work",
]

# -- Work for the host ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DetectSpeech:
    """Run the voice detector over these bytes and call `Engine.heard` with the same epoch.

    A new epoch is a new stream: drop the previous epoch's detector state.
    """

    epoch: int
    data: bytes = field(repr=False)
    codec: Codec


@dataclass(frozen=True, slots=True)
class RecogniseSpeech:
    """Recognise the speech of a part of an item; call `Engine.recognised` with the result only if `final`.

    `speech_ms` is the end of the speech on the session's input axis. Requests with the same item and
    `speech_ms` concern the same speech.
    """

    item_id: str
    part: int
    speech_ms: int
    audio: bytes = field(repr=False)
    codec: Codec
    final: bool


@dataclass(frozen=True, slots=True)
class FindReply:
    """Find a reply to what was `said`, oldest first; call `Engine.reply` or `Engine.reply_failed`.

    `instructions` is the system prompt, `speed` the relative speed of the voice. Unless `whole`,
    `Engine.reply` also accepts the reply in pieces.
    """

    response_id: str
    said: tuple[ItemContent, ...]
    instructions: str
    wants_audio: bool
    codec: Codec
    speed: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class DropUnplayed:
    """Drop the unplayed audio of a media track; without a track, do nothing."""


class Reaction(StrEnum):
    """The endpoint's reaction to speech over a reply."""

    STOPPED = "stopped"
    """It stopped the reply."""
    IGNORED = "ignored"
    """It took the speech for a backchannel: the reply continued, without an answer."""
    KEPT_TALKING = "kept_talking"
    """The reply continued; the answer follows it."""
    ENDED = "ended"
    """The reply ended before a reaction was due."""


@dataclass(slots=True)
class UserUtterance:
    """An utterance of the user, as the endpoint heard it; the host logs it.

    Args:
        number: Its number in the session, from 0.
        onset_ns: Arrival of the message that contains its first sample.
        over: The response in progress at that time, audible or not; empty for none.
        end: Its end; None until then.
        reaction: The endpoint's reaction; None without a response in progress, or while undecided.
    """

    number: int
    onset_ns: int
    over: str = ""
    end: VoiceEnd | None = None
    reaction: Reaction | None = None


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection."""

    code: int
    reason: str


# -- Events --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VoiceEnd:
    """The end of the user's speech, as the endpoint knows it.

    Args:
        at_ns: Arrival of the message that contains it.
        by: How it was found: ``mark``, ``energy``, ``silence``, ``detector`` or ``commit``.
    """

    at_ns: int
    by: str


@dataclass(slots=True)
class ServerResponse:
    """The state of a response.

    Args:
        voice_end: End of the speech that it answers; None without speech.
        instructions: Its system prompt.
        in_conversation: Whether it becomes part of the conversation.
        metadata: Metadata of the client, echoed.
        item: The assistant's item, once the reply has started.
        status: How it ended, or OPEN.
        reason: Why it was cut off; empty if it was not.
        error_code: Code of the failure, if it failed; `error_message` describes it.
        input_text_tokens: An estimate, as are the other token counts; output text includes the transcript.
        output_audio_samples: Reply audio sent so far.
        utterance: Number of the user's utterance that it answers; None if the client requested it.
        talks_over: Whether it started, as scripted, while the user was still speaking.
        resumes: Id of the stopped response that it continues; empty for none.
        number: Its number in the session, from 1.
    """

    response_id: str
    item_id: str
    wants_audio: bool
    codec: Codec
    voice_end: VoiceEnd | None
    instructions: str
    in_conversation: bool = True
    metadata: Mapping[str, str] | None = None
    max_output_tokens: int | None = None
    item: Item | None = None
    status: ResponseStatus = ResponseStatus.OPEN
    reason: str = ""
    error_code: str = ""
    error_message: str = ""
    input_text_tokens: int = 0
    input_audio_tokens: int = 0
    output_text_tokens: int = 0
    output_audio_tokens: int = 0
    output_audio_samples: int = 0
    utterance: int | None = None
    talks_over: bool = False
    resumes: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class UserSpeechStarted:
    """The user started to speak.

    Args:
        item_id: The item that the speech will become.
        audio_ms: Onset on the session's input axis, with prefix padding.
        onset_ns: Arrival of the message that contains its first sample.
    """

    item_id: str
    audio_ms: int
    onset_ns: int


@dataclass(frozen=True, slots=True)
class UserSpeechStopped:
    """The user stopped speaking; `audio_ms` includes the silence that ended the speech."""

    item_id: str
    audio_ms: int


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """A complete item of the user or the system was added; `committed` if the user has just spoken it."""

    item: Item
    previous_id: str | None
    committed: bool = False


@dataclass(frozen=True, slots=True)
class InputTranscribed:
    """The transcript of the user's speech: the text, or None and the reason."""

    item: Item
    part: int
    text: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """A response was created."""

    response: ServerResponse


@dataclass(frozen=True, slots=True)
class ReplyBegan:
    """The reply has started, and the response's item was added."""

    response: ServerResponse
    previous_id: str | None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text of the reply, or transcript of its speech."""

    response: ServerResponse
    text: str


@dataclass(frozen=True, slots=True)
class AudioPiece:
    """A chunk of reply audio.

    Args:
        response: Its response.
        payload: The chunk, encoded by the protocol.
        samples: Its number of samples, at `rate_hz`.
        rate_hz: Its sample rate.
        onset_sample: Index of the reply's first audible sample, or None for silence.
        onset_by: ``constructed``, ``given`` or ``detector``.
        ends: For each known sample of the reply, whether audible sound could end with it.
    """

    response: ServerResponse
    payload: bytes = field(repr=False)
    samples: int
    rate_hz: int
    onset_sample: int | None
    onset_by: str
    ends: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Silence:
    """A silent frame of a continuous stream; `samples` at the session's output rate."""

    samples: int


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """A response ended, with its `status`."""

    response: ServerResponse


@dataclass(frozen=True, slots=True)
class Problem:
    """A request of the client is refused, and the session continues. `message` says what was expected."""

    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class SendMessage:
    """An encoded message of the protocol itself."""

    message: bytes


class PlaybackState(StrEnum):
    """Playback of a response on a media track."""

    STARTED = "started"
    """Its first packet is about to be sent."""
    STOPPED = "stopped"
    """Its last packet has been played."""
    CLEARED = "cleared"
    """The rest was dropped."""


@dataclass(frozen=True, slots=True)
class TrackPlayback:
    """A media track starts or stops playing a response, after `played_ms` of it; the protocol tells the
    client.
    """

    state: PlaybackState
    response: ServerResponse
    played_ms: int


Work: TypeAlias = DetectSpeech | RecogniseSpeech | FindReply | DropUnplayed | UserUtterance | CloseConnection
Event: TypeAlias = (
    UserSpeechStarted
    | UserSpeechStopped
    | ItemAdded
    | InputTranscribed
    | ResponseCreated
    | ReplyBegan
    | TextPiece
    | AudioPiece
    | Silence
    | ResponseEnded
    | Fault
    | Problem
)
Output: TypeAlias = Work | Event | SendMessage
