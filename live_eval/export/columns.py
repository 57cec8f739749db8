"""The columns of the table of turns: names, types, meanings with units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from live_eval.analysis.summary import LATENCIES, ScoreColumn

__all__ = ["TOKENS", "Column", "Kind", "turn_columns"]

Kind: TypeAlias = Literal["text", "texts", "integer", "number", "numbers", "boolean", "time", "json"]
"""The type of a value; the plural forms are lists, ``time`` is UTC, ``json`` is a mapping of JSON values."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, or a field of the records in one.

    Args:
        name: The parts of its name, joined with dots.
        kind: Its type; fields for a list of records.
        meaning: What it holds, with the unit.
    """

    name: str
    kind: Kind | tuple[Column, ...]
    meaning: str

    @property
    def is_records(self) -> bool:
        """Whether each value is a list of records."""
        return isinstance(self.kind, tuple)


def _cue(of: str, whose: str) -> tuple[Column, ...]:
    return (
        Column(f"case.{of}.phrase", "text", f"{whose}, as the data spells it"),
        Column(f"case.{of}.attribute", "text", "canonical name of that cue"),
        Column(f"case.{of}.fine", "text", "its fine dimension"),
        Column(f"case.{of}.coarse", "text", "its coarse dimension"),
    )


_LATENCY_MEANINGS = {
    "connect": "dialling to session ready",
    "endpointing": "end of the user's speech to the endpoint's report that it stopped",
    "first_byte": "end of the user's speech to the first audio of the reply",
    "voice_to_voice": "end of the user's speech to the first audible sample of the reply",
    "lead_silence": "`first_byte` to `voice_to_voice`",
    "transcript": "end of the user's speech to the first text of the reply",
    "barge_in_stop": "the user speaks over the reply to its last audible sample",
}
TOKENS = ("input_tokens", "output_tokens", "input_audio_tokens", "output_audio_tokens", "cached_tokens")
_RESPONSE = (
    Column("response_id", "text", "name of the response"),
    Column("status", "text", "how it ended"),
    Column("reason", "text", "why it did not complete"),
    Column("text", "text", "what it says"),
    Column("created_ms", "number", "the endpoint announced it, ms since `started_at`"),
    Column("first_text_ms", "number", "its first text arrived, ms since `started_at`"),
    Column("first_audio_ms", "number", "its first audio arrived, ms since `started_at`"),
    Column("done_ms", "number", "the endpoint ended it, ms since `started_at`"),
    Column("interrupted_ms", "number", "the endpoint interrupted it, ms since `started_at`"),
    Column("audio_ms", "number", "length of its audio, ms"),
    Column("rate_hz", "integer", "sample rate of its audio, Hz"),
    Column("audio", "text", "its audio, a path within the run's folder"),
    *(Column(name, "integer", f"{name.replace('_', ' ')}, as the endpoint counts them") for name in TOKENS),
)
_JUDGEMENT = (
    Column("judge", "text", "the judge"),
    Column("version", "text", "its version"),
    Column("status", "text", "`scored`, `unscored` or `failed`"),
    Column("reason", "text", "why it was not scored"),
    Column("detail", "json", "evidence for the scores, as JSON"),
)
_FIRST = (
    Column("turn_id", "text", "unique in the run"),
    Column("captured", "boolean", "whether the turn ended normally with a reply"),
    Column("failure.kind", "text", "kind of failure"),
    Column("failure.message", "text", "what happened"),
    Column("warnings", "texts", "kinds of oddities that did not fail the turn"),
    Column("repeat", "integer", "0 for the first playing of the case"),
    Column("attempt", "integer", "1 for the first attempt"),
    Column("started_at", "time", "when dialling began, UTC"),
    Column("case.case_id", "text", "the case"),
    Column("case.script_id", "text", "its script, which its variants share"),
    Column("case.variant", "text", "style in which the script is spoken"),
    Column("case.source", "text", "kind of data"),
    Column("case.task", "text", "what the endpoint was asked to do"),
    Column("case.question.question_id", "text", "the multiple-choice question"),
    Column("case.question.kind", "text", "its type"),
    Column("case.question.text", "text", "its words"),
    Column("case.question.options", "texts", "its options, each with its letter"),
    Column("case.question.answer", "text", "letter of the correct option"),
    Column("case.dialogue_id", "text", "the dialogue to which the turn belongs"),
    Column("case.turn_index", "integer", "its number in the dialogue, from 0"),
    Column("case.speech", "text", "what the utterance is to the endpoint"),
    Column("case.anchor", "text", "when it begins in its dialogue"),
    Column("case.topic", "text", "topic of the script"),
    Column("case.language", "text", "language of the speech, BCP 47"),
    Column("case.text", "text", "words of the recording"),
    *_cue("cue", "how the recording is spoken"),
    *_cue("script_cue", "cue that the script was written for"),
    Column("case.reference_text", "text", "a reference reply"),
    Column("case.audio", "text", "path of the recording"),
    Column("case.reference_audio", "text", "path of a spoken reference reply"),
    Column("reply_text", "text", "what the reply says, as the endpoint transcribes it"),
    Column("chosen", "text", "letter of the option that the reply chooses"),
    Column("heard_text", "text", "what the endpoint's transcriber heard"),
    *(Column(f"latency_ms.{name}", "number", f"{_LATENCY_MEANINGS[name]}, ms") for name in LATENCIES),
    *(Column(f"latency_reason.{name}", "text", f"why there is no `{name}`") for name in LATENCIES),
    Column("lag_ms", "number", "error bar of the latencies, ms"),
    Column("flagged", "boolean", "whether the lag exceeds 20 ms"),
    Column("uncertain", "boolean", "whether the end of the user's speech is uncertain"),
    Column("stalls", "integer", "playout underruns of the reply"),
    Column("stalled_ms", "number", "their total length, ms"),
    Column("premature", "integer", "responses cut off because the same utterance went on"),
    Column("marks_ms.ready", "number", "the session was ready, ms since `started_at`"),
    Column("marks_ms.audio_start", "number", "first sample of the user's audio, ms since `started_at`"),
    Column("marks_ms.speech_onset", "number", "the user's own sound begins, ms since `started_at`"),
    Column("marks_ms.speech_end", "number", "the user's own sound ends, ms since `started_at`"),
    Column("marks_ms.committed", "number", "the endpoint accepted the commit, ms since `started_at`"),
    Column("marks_ms.barge_in", "number", "the user spoke over the reply, ms since `started_at`"),
    Column("marks_ms.speech_started", "numbers", "the endpoint's reports of speech, ms since `started_at`"),
    Column("marks_ms.speech_stopped", "numbers", "its reports that speech stopped, ms since `started_at`"),
)
_LAST = (
    Column("reply_audio", "text", "the reply as it arrived, a path within the run's folder"),
    Column("both_sides_audio", "text", "left the user, right the endpoint as heard; sample 0 at `audio_start`"),
    Column("session_id", "text", "the endpoint's name for the session"),
    Column("model", "text", "model that the endpoint says it runs"),
    Column("usage.input_tokens", "integer", "tokens of all responses of the turn"),
    Column("usage.output_tokens", "integer", "tokens of all responses of the turn"),
    Column("responses", _RESPONSE, "responses in the order in which they began"),
    Column("judgements", _JUDGEMENT, "judgements of the turn"),
)


def turn_columns(scores: Sequence[ScoreColumn]) -> tuple[Column, ...]:
    """Return the columns in order, with two for each score of the run."""
    return (
        *_FIRST,
        *(Column(f"scores.{score.name}", "number", _score_meaning(score)) for score in scores),
        *(Column(f"score_reason.{score.name}", "text", f"why there is no {score.name}") for score in scores),
        *_LAST,
    )


def _score_meaning(column: ScoreColumn) -> str:
    return f"{column.title}, {column.unit}" if column.unit else column.title
