"""The nouns of the project: cases, cues, boundaries, failures. Data only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from live_eval.errors import FailureKind

__all__ = [
    "Anchor",
    "AnchorKind",
    "Case",
    "CoarseDimension",
    "Cue",
    "Failure",
    "Modality",
    "OnGreeting",
    "Question",
    "Secret",
    "SpeechBoundaries",
    "SpeechKind",
    "SpokenPart",
    "StampKind",
    "Task",
    "TurnMode",
    "Usage",
    "Variant",
]


class Variant(StrEnum):
    """The style in which a script is spoken."""

    TARGET = "target"
    NEUTRAL = "neutral"
    ALTERNATIVE = "alternative"


class Task(StrEnum):
    """What the endpoint is asked to do with a recording: EchoMind's three levels, the first in two tasks."""

    TRANSCRIPTION = "transcription"
    """Transcribe the speech."""
    UNDERSTANDING = "understanding"
    """Answer a multiple-choice question about the recording."""
    REASONING = "reasoning"
    """Answer a multiple-choice question that needs inference from the recording."""
    CONVERSATION = "conversation"
    """Reply."""

    @property
    def asks(self) -> bool:
        """Whether the task is a multiple-choice question."""
        return self in (Task.UNDERSTANDING, Task.REASONING)


class CoarseDimension(StrEnum):
    """EchoMind's three coarse dimensions of vocal cues."""

    SPEAKER = "speaker"
    PARALINGUISTIC = "paralinguistic"
    ENVIRONMENT = "environment"


class TurnMode(StrEnum):
    """What ends the user's turn."""

    SERVER_VAD = "server_vad"
    """The endpoint's own detector."""
    MANUAL = "manual"
    """Our commit after the recording's last frame."""
    FULL_DUPLEX = "full_duplex"
    """Nothing: both sides may speak at any time."""


class SpeechKind(StrEnum):
    """How the endpoint should react to an utterance."""

    TURN = "turn"
    """Speech to the endpoint, to be answered; over a reply, an interruption."""
    BACKCHANNEL = "backchannel"
    """The user follows the reply ("mm-hmm"); the reply should continue."""
    VOCAL_TIC = "vocal_tic"
    """A sound without intent, such as a cough; the endpoint should not react."""
    NON_DIRECTED = "non_directed"
    """Speech to, or by, somebody else; the endpoint should not react."""
    NOISE = "noise"
    """No speech; the endpoint should not react."""


class AnchorKind(StrEnum):
    """The moment from which an utterance of a script is timed."""

    REPLY_ENDED = "reply_ended"
    """The user has heard the last sample of the reply."""
    REPLY_AUDIBLE = "reply_audible"
    """The user hears the first audible sample of the reply."""
    UTTERANCE_ENDED = "utterance_ended"
    """The last sample of the previous utterance, whatever the endpoint does."""


class Modality(StrEnum):
    """The form of the reply that the endpoint is asked for."""

    AUDIO = "audio"
    TEXT = "text"


class OnGreeting(StrEnum):
    """How the user reacts to an endpoint that speaks first."""

    WAIT = "wait"
    """Wait until its greeting has been heard to its end."""
    IGNORE = "ignore"
    """Speak at once."""


class StampKind(StrEnum):
    """Who stamps arrivals."""

    KERNEL = "kernel"
    """The kernel, when it receives a packet."""
    USER = "user"
    """This process, when it reads it."""


@dataclass(frozen=True, slots=True)
class Cue:
    """How a script is spoken, as the benchmark labels it.

    Args:
        phrase: The label as the data spells it ("happy-toned expressive voice").
        attribute: Our canonical name ("happy"), or None if the taxonomy has no such phrase.
    """

    phrase: str
    attribute: str | None = None
    fine: str | None = None
    coarse: CoarseDimension | None = None

    @property
    def name(self) -> str:
        """Our canonical name, or the label as the data spells it."""
        return self.attribute or self.phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechBoundaries:
    """Where the speaker's own sound lies in a recording, from the recording's first sample.

    Args:
        voice_end_ns: Just past the last sample of the speaker's own sound: consonants, breath, sigh and
            laughter included, background not.
        words_end_ns: End of the last word, or None if unknown.
        uncertain: True if `words_end` and `voice_end` differ by more than 100 ms or noise hides them.
        method: How the boundaries were found ("detector", "annotation", "clean_take").
        version: Version of the method; empty for an annotation.
        recogniser: The recogniser that separated words from other sounds, with its version and weights; empty
            without one.
    """

    onset_ns: int
    voice_end_ns: int
    words_end_ns: int | None = None
    uncertain: bool = False
    reason: str = ""
    method: str = "detector"
    version: str = ""
    recogniser: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """When an utterance of a dialogue begins.

    Args:
        after_ns: From that moment to the first sample of the speaker's own sound.
    """

    kind: AnchorKind
    after_ns: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the anchor of a text: a kind, maybe with a duration in ``ms`` or ``s``
        (``reply_audible+900ms``).

        Raises:
            ValueError: The text is not an anchor.
        """
        found = _ANCHOR.fullmatch(text.strip())
        if found is None or found["kind"] not in tuple(AnchorKind):
            raise ValueError(
                f"expected an anchor such as reply_audible+900ms ({', '.join(AnchorKind)}, then + and a "
                f"duration in ms or s), but it is {text!r:.80}"
            )
        unit_ns = 1_000_000_000 if found["unit"] == "s" else 1_000_000
        return cls(AnchorKind(found["kind"]), round(float(found["after"] or 0) * unit_ns))

    def __str__(self) -> str:
        """Return the text that `parse` accepts.

        >>> str(Anchor(AnchorKind.REPLY_AUDIBLE, 900_000_000))
        'reply_audible+900ms'
        """
        return f"{self.kind}+{self.after_ns / 1e6:.12g}ms"


_ANCHOR = re.compile(r"(?P<kind>[a-z_]+)(?:\s*\+\s*(?P<after>[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?P<unit>ms|s))?")


@dataclass(frozen=True, slots=True)
class SpokenPart:
    """A stretch of the speaker's own sound in a recording that pauses, from the recording's first sample.

    Args:
        end_ns: Just past the last sample of its sound.
        text: Its words; empty if unknown.
    """

    onset_ns: int
    end_ns: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A multiple-choice question about a recording.

    Args:
        question_id: Unique among the data's questions.
        options: The options in their order, each a letter and a text.
        answer: The letter of the correct option, or None if the data has no key.
        kind: Its type: one of `live_eval.data.QUESTION_TYPES`, or the spelling in the data.
    """

    question_id: str
    text: str
    options: tuple[tuple[str, str], ...]
    answer: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recording, and the references that its reply is judged by.

    Args:
        case_id: Unique within the data set, for example ``"id_355/target"``.
        script_id: The script; its variants share it, and statistics resample by it.
        audio_path: The recording.
        text: The words of the recording, or None if unknown.
        cue: How this variant is spoken, or None.
        script_cue: The cue that the script was written for; equals `cue` for the target variant.
        clean_audio_path: The clean take from which this recording was mixed, aligned to the sample.
        boundaries: Annotated speech boundaries, which override the detector's.
        source: ``synthesis``, ``human``, ``manifest`` or ``folder``.
        problem: Why the case cannot be run because of the data itself (a missing field, an unreadable row);
            such a case becomes a failed turn and is never dropped.
        lacks_recording: Whether the data names no recording.
        instructions: The system prompt of the session; empty for none.
        dialogue_id: The dialogue of this turn, or None if it has its own session.
        turn_index: Its number in the dialogue, from 0.
        speech: How the endpoint should react to the utterance.
        anchor: When it begins in its dialogue; None for a natural pause after the previous reply.
        parts: Annotated stretches of sound between the pauses of the recording, in order; empty without
            annotation.
    """

    case_id: str
    script_id: str
    variant: Variant
    audio_path: Path
    text: str | None = None
    cue: Cue | None = None
    script_cue: Cue | None = None
    topic: str | None = None
    reference_text: str | None = None
    reference_audio_path: Path | None = None
    clean_audio_path: Path | None = None
    boundaries: SpeechBoundaries | None = None
    source: str = "manifest"
    language: str = "en"
    problem: str | None = None
    lacks_recording: bool = False
    task: Task = Task.CONVERSATION
    question: Question | None = None
    instructions: str = ""
    dialogue_id: str | None = None
    turn_index: int = 0
    speech: SpeechKind = SpeechKind.TURN
    anchor: Anchor | None = None
    parts: tuple[SpokenPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a turn failed, or a warning about it."""

    kind: FailureKind
    message: str
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a response, as the endpoint counts them; None if it does not report them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    cached_tokens: int | None = None


class Secret:
    """A key or token that never prints itself.

    >>> print(Secret("sk-1"))
    ***
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself; call this only to put it on the wire."""
        return self._value

    def redact(self, text: str) -> str:
        """Return `text` with every occurrence of the secret replaced by ``***``."""
        return text.replace(self._value, "***") if self._value else text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
