"""Core data types: cases, cues, boundaries, failures. Data only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from live_eval.errors import FailureKind

__all__ = [
    "RUN_TASKS",
    "SHORTEST_SECRET",
    "Anchor",
    "AnchorKind",
    "BenchmarkItem",
    "Case",
    "CoarseDimension",
    "Cue",
    "Failure",
    "History",
    "Modality",
    "OnGreeting",
    "Question",
    "ScoringRule",
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
    """The endpoint's task for a recording: one of EchoMind's three levels (the first has two tasks), or an
    item of another benchmark."""

    TRANSCRIPTION = "transcription"
    """Transcribe the speech."""
    UNDERSTANDING = "understanding"
    """Answer a multiple-choice question about the recording."""
    REASONING = "reasoning"
    """Answer a multiple-choice question that requires inference from the recording."""
    CONVERSATION = "conversation"
    """Reply."""
    BENCHMARK = "benchmark"
    """Reply to an item of another benchmark, which has a scoring rule of its own."""

    @property
    def asks(self) -> bool:
        """Whether the task is a multiple-choice question."""
        return self in (Task.UNDERSTANDING, Task.REASONING)


RUN_TASKS = tuple(task for task in Task if task is not Task.BENCHMARK)
"""The tasks that a run can request; a benchmark's items keep their own task."""


class ScoringRule(StrEnum):
    """How a benchmark scores a reply to one of its items."""

    CHOICE = "choice"
    """The letter of a spoken option, A to D."""
    BBH = "bbh"
    """Yes or no, or option A or B, by the task of BIG-Bench Hard."""
    REFUSAL = "refusal"
    """Whether the reply declines a harmful request."""
    INSTRUCTIONS = "instructions"
    """Whether the reply follows verifiable instructions (IFEval)."""
    RATING = "rating"
    """A language model's rating of the reply."""
    GUIDED_RATING = "guided rating"
    """A language model's rating of the reply, with a suggested answer or another text of the item."""
    REFERENCE = "reference answer"
    """A language model's verdict on whether the reply agrees with a reference answer."""
    FINAL_ANSWER = "final answer"
    """The final answer: a number, valid or invalid, yes or no."""
    REPETITION = "repetition"
    """The share of the words, or Chinese characters, that the reply repeats correctly."""
    RUBRICS = "rubrics"
    """A language model's verdict on each of several criteria."""
    OPTION = "option"
    """The letter or text of one of the item's options."""
    TURN_TAKING = "turn-taking"
    """The rules of ``live-eval duplex``."""
    NONE = "none"
    """The benchmark publishes no scorer for the item, or one that live-eval does not have."""


class CoarseDimension(StrEnum):
    """EchoMind's three coarse dimensions of vocal cues."""

    SPEAKER = "speaker"
    PARALINGUISTIC = "paralinguistic"
    ENVIRONMENT = "environment"


class TurnMode(StrEnum):
    """How the user's turn ends."""

    SERVER_VAD = "server_vad"
    """The endpoint's own detector."""
    MANUAL = "manual"
    """The client's commit after the recording's last frame."""
    FULL_DUPLEX = "full_duplex"
    """No event: both sides may speak at any time."""


class History(StrEnum):
    """Where the earlier replies of a dialogue come from, and how the endpoint learns of them."""

    OWN = "own"
    """The endpoint's own replies: a dialogue is one session."""
    INJECT_TEXT = "inject-text"
    """The data's replies and transcripts, sent as text before each turn's session begins."""
    INJECT_AUDIO = "inject-audio"
    """The data's replies as text and the user's recordings, sent before each turn's session begins."""


class SpeechKind(StrEnum):
    """The kind of an utterance; it determines how the endpoint should react."""

    TURN = "turn"
    """Speech to the endpoint that expects an answer; over a reply, an interruption."""
    BACKCHANNEL = "backchannel"
    """A sign of listening to the reply ("mm-hmm"); the reply should continue."""
    VOCAL_TIC = "vocal_tic"
    """A non-speech vocalisation without intent, such as a cough; the endpoint should not react."""
    NON_DIRECTED = "non_directed"
    """Speech to or from another person; the endpoint should not react."""
    NOISE = "noise"
    """No speech; the endpoint should not react."""


class AnchorKind(StrEnum):
    """The reference time for a scripted utterance."""

    REPLY_ENDED = "reply_ended"
    """The user has heard the last sample of the reply."""
    REPLY_AUDIBLE = "reply_audible"
    """The user hears the first audible sample of the reply."""
    UTTERANCE_ENDED = "utterance_ended"
    """The last sample of the previous utterance, regardless of the endpoint."""


class Modality(StrEnum):
    """The reply modality requested from the endpoint."""

    AUDIO = "audio"
    TEXT = "text"


class OnGreeting(StrEnum):
    """How the user reacts to an endpoint that speaks first."""

    WAIT = "wait"
    """Wait for the end of the greeting."""
    IGNORE = "ignore"
    """Speak immediately."""


class StampKind(StrEnum):
    """The source of arrival timestamps."""

    KERNEL = "kernel"
    """The kernel, on packet reception."""
    USER = "user"
    """This process, on reading the packet."""


@dataclass(frozen=True, slots=True)
class Cue:
    """The benchmark's label for how a script is spoken.

    Args:
        phrase: Label as spelled in the data ("happy-toned expressive voice").
        attribute: Canonical name ("happy"), or None if the phrase is not in the taxonomy.
    """

    phrase: str
    attribute: str | None = None
    fine: str | None = None
    coarse: CoarseDimension | None = None

    @property
    def name(self) -> str:
        """The canonical name, or the label as spelled in the data."""
        return self.attribute or self.phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechBoundaries:
    """Boundaries of the speaker's audio in a recording, relative to its first sample.

    Args:
        voice_end_ns: Exclusive end of the speaker's audio, including consonants, breath, sigh and laughter,
            but not background.
        words_end_ns: End of the last word, or None if unknown.
        uncertain: Whether `words_end` and `voice_end` differ by more than 100 ms or noise hides them.
        method: Method that found the boundaries ("detector", "annotation", "clean_take").
        version: Version of the method; empty for an annotation.
        recogniser: The recogniser that separated words from other sounds, with version and weights; empty if
            no recogniser was used.
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
    """Start of an utterance in a dialogue.

    Args:
        after_ns: Delay from the reference time to the first sample of the speaker's audio.
    """

    kind: AnchorKind
    after_ns: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an anchor: a kind, optionally with a duration in ``ms`` or ``s``
        (``reply_audible+900ms``).

        Raises:
            ValueError: The text is not an anchor.
        """
        found = _ANCHOR.fullmatch(text.strip())
        if found is None or found["kind"] not in tuple(AnchorKind):
            raise ValueError(
                f"expected an anchor such as reply_audible+900ms ({', '.join(AnchorKind)}, then + and a "
                f"duration in ms or s), got {text!r:.80}"
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
    """A stretch of the speaker's audio between pauses, relative to the recording's first sample.

    Args:
        end_ns: Exclusive end of the stretch.
        text: Words in the stretch; empty if unknown.
    """

    onset_ns: int
    end_ns: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A multiple-choice question about a recording.

    Args:
        question_id: ID that is unique among the data set's questions.
        options: Options in order, each a letter and a text.
        answer: Letter of the correct option, or None if the data set has no answer key.
        kind: Question type: one of `live_eval.data.QUESTION_TYPES`, or the spelling in the data.
    """

    question_id: str
    text: str
    options: tuple[tuple[str, str], ...]
    answer: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkItem:
    """An item of another benchmark, with the data that its scoring rule needs.

    Args:
        benchmark: Name of the data set, such as ``voicebench``.
        part: Part of the data set, such as ``openbookqa``; empty if it has no parts.
        answer: Reference answer as spelled in the data, or None.
        details: Further data for the rule, as in the data set (JSON values only).
    """

    benchmark: str
    part: str
    rule: ScoringRule
    answer: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recording, with references for judging the reply.

    Args:
        case_id: ID that is unique in the data set, such as ``"id_355/target"``.
        script_id: Script ID, shared by the script's variants; statistics resample by script.
        audio_path: Path of the recording.
        text: Transcript of the recording, or None if unknown.
        cue: Cue of this recording, or None.
        script_cue: Cue that the script was written for; equals `cue` for the target variant.
        clean_audio_path: Clean take from which this recording was mixed, sample-aligned.
        boundaries: Annotated speech boundaries, which override the detector's.
        source: ``synthesis``, ``human``, ``manifest``, ``folder``, or the name of a benchmark.
        problem: Data error that prevents running the case (a missing field, an unreadable row); such a case
            becomes a failed turn and is never dropped.
        lacks_recording: Whether the data does not specify a recording.
        instructions: System prompt of the session, or empty.
        dialogue_id: Dialogue of this turn, or None if the turn has a separate session.
        turn_index: Number of the turn in the dialogue, from 0.
        speech: Expected reaction of the endpoint to the utterance.
        anchor: Start of the utterance in its dialogue; None for a natural pause after the previous reply.
        parts: Annotated stretches of audio between the recording's pauses, in order; empty without
            annotation.
        item: The item of another benchmark, or None.
        history: The user's words and the data's reply of each earlier turn, if they are sent to the endpoint
            before this turn (`History`).
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
    item: BenchmarkItem | None = None
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a turn's failure, or a warning about the turn."""

    kind: FailureKind
    message: str
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a response as reported by the endpoint; None if not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    cached_tokens: int | None = None


SHORTEST_SECRET = 8
"""Minimum length of secrets that are redacted in text; shorter ones occur in ordinary words."""


class Secret:
    """A key or token that is never printed.

    >>> print(Secret("sk-1"))
    ***
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret in plain text; call this only to send it."""
        return self._value

    def redact(self, text: str) -> str:
        """Return `text` with every occurrence of the secret replaced by ``***``.

        A secret shorter than `SHORTEST_SECRET` is not replaced.

        >>> Secret("e").redact("connection refused"), Secret("sk-12345").redact("wrong key sk-12345")
        ('connection refused', 'wrong key ***')
        """
        return text if len(self._value) < SHORTEST_SECRET else text.replace(self._value, "***")

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
