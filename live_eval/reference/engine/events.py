"""Define the engine's outputs: work for its host and events for the protocol to encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec
from live_eval.reference.engine.conversation_items import Item, ItemContent
from live_eval.reference.faults.fault_script import Fault
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

    A new epoch starts a new stream, for which the detector state is reset.
    """

    epoch: int
    data: bytes = field(repr=False)
    codec: Codec


@dataclass(frozen=True, slots=True)
class RecogniseSpeech:
    """Recognise part of an item, and call `Engine.recognised` if `final`; otherwise, cache the result.

    `speech_ms` is the end of the speech on the session's input timeline. Requests with the same item and
    `speech_ms` refer to the same speech.
    """

    item_id: str
    part: int
    speech_ms: int
    audio: bytes = field(repr=False)
    codec: Codec
    final: bool


@dataclass(frozen=True, slots=True)
class FindReply:
    """Generate a reply to the items in `said`, oldest first, then call `Engine.reply` or
    `Engine.reply_failed`.

    `instructions` is the system prompt, and `speed` is the voice's relative speed. Unless `whole` is set, the
    reply may be passed to `Engine.reply` in pieces.
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
    """Drop a media track's unplayed audio; this has no effect without a track."""


class Reaction(StrEnum):
    """The endpoint's reaction to speech over a reply."""

    STOPPED = "stopped"
    """The endpoint stopped the reply."""
    IGNORED = "ignored"
    """The endpoint treated the speech as a backchannel: the reply continued, without a response."""
    KEPT_TALKING = "kept_talking"
    """The reply continued, and a response to the speech follows."""
    ENDED = "ended"
    """The reply ended before the endpoint reacted."""


@dataclass(slots=True)
class UserUtterance:
    """A user utterance as received by the endpoint, for the host to log.

    Args:
        number: Number of the utterance in the session, from 0.
        onset_ns: Arrival time of the message with its first sample.
        over: ID of the response in progress at the onset, audible or not; empty if none.
        end: End of the utterance; None while the user is speaking.
        reaction: The endpoint's reaction; None if it has not reacted or no response was in progress.
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
    """The end of the user's speech as determined by the endpoint.

    Args:
        at_ns: Arrival time of the message with the end of speech.
        by: Detection method: ``mark``, ``energy``, ``silence``, ``detector`` or ``commit``.
    """

    at_ns: int
    by: str


@dataclass(slots=True)
class ServerResponse:
    """The state of a response.

    Args:
        voice_end: End of the speech that the response answers; None without speech.
        instructions: System prompt.
        in_conversation: Whether the response becomes part of the conversation.
        metadata: Client metadata, echoed in the response's events.
        item: The assistant's item, once the reply has started.
        status: Final status, or OPEN.
        reason: Reason for an interruption; empty if there was none.
        error_code: Error code of a failed response, described by `error_message`.
        input_text_tokens: Estimated number of tokens, like the other token counts; output text includes the
            transcript.
        output_audio_samples: Number of reply audio samples sent so far.
        utterance: Number of the user utterance that the response answers; None if the client requested the
            response.
        talks_over: Whether the response started during the user's speech, as configured.
        resumes: ID of the stopped response that this response continues; empty for none.
        number: Number of the response in the session, from 1.
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
        item_id: ID of the item that will contain the speech.
        audio_ms: Onset on the session's input timeline, including prefix padding.
        onset_ns: Arrival time of the message with the first sample.
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
    """A complete user or system item was added; `committed` means that it contains speech that just ended."""

    item: Item
    previous_id: str | None
    committed: bool = False


@dataclass(frozen=True, slots=True)
class InputTranscribed:
    """The user's speech was transcribed: the text, or None with a reason."""

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
    """The reply has started, and the response's item has been added."""

    response: ServerResponse
    previous_id: str | None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the reply's text or of its transcript."""

    response: ServerResponse
    text: str


@dataclass(frozen=True, slots=True)
class AudioPiece:
    """A chunk of reply audio.

    Args:
        payload: The chunk, encoded by the protocol.
        samples: Number of samples, at `rate_hz`.
        onset_sample: Index of the reply's first audible sample, or None for silence.
        onset_by: Source of the onset: ``constructed``, ``given`` or ``detector``.
        ends: For each known sample of the reply, whether audible output could end with it.
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
    """A silent frame of a continuous stream, with `samples` at the session's output rate."""

    samples: int


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """A response ended, with its `status`."""

    response: ServerResponse


@dataclass(frozen=True, slots=True)
class Problem:
    """A refused client request, which does not end the session; `message` describes the expected value."""

    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class SendMessage:
    """An encoded protocol message."""

    message: bytes


class PlaybackState(StrEnum):
    """The playback state of a response on a media track."""

    STARTED = "started"
    """The first packet is about to be sent."""
    STOPPED = "stopped"
    """The last packet has been played."""
    CLEARED = "cleared"
    """The remaining audio of the response was dropped."""


@dataclass(frozen=True, slots=True)
class TrackPlayback:
    """A playback change of a response on a media track; `played_ms` is the duration played so far."""

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
