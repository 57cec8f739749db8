"""Define the columns of the turn table: names, types, and meanings with units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from live_eval.analysis.summary.score_table import ScoreColumn
from live_eval.analysis.summary.vocal_sounds import DEFINITIONS_OF_A_TURN, TITLES_OF_A_TURN

__all__ = ["TOKENS", "ExportColumn", "Kind", "export_columns"]

Kind: TypeAlias = Literal["text", "texts", "integer", "number", "numbers", "boolean", "time", "json"]
"""The type of a value: plurals are lists, ``time`` is in UTC, and ``json`` is a mapping of JSON values."""


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column of the table, or a field of the records in a column.

    Args:
        name: Name, with nested names joined by dots.
        kind: Type of the values, or the fields of the records in lists.
    """

    name: str
    kind: Kind | tuple[ExportColumn, ...]
    meaning: str

    @property
    def is_records(self) -> bool:
        """Whether each value is a list of records."""
        return isinstance(self.kind, tuple)


def _cue(of: str, whose: str) -> tuple[ExportColumn, ...]:
    return (
        ExportColumn(f"case.{of}.phrase", "text", f"{whose}, as spelled in the data"),
        ExportColumn(f"case.{of}.attribute", "text", "canonical name of that cue"),
        ExportColumn(f"case.{of}.fine", "text", "its fine dimension"),
        ExportColumn(f"case.{of}.coarse", "text", "its coarse dimension"),
    )


TOKENS = ("input_tokens", "output_tokens", "input_audio_tokens", "output_audio_tokens", "cached_tokens")
_RESPONSE = (
    ExportColumn("response_id", "text", "identifier of the response"),
    ExportColumn("status", "text", "how it ended"),
    ExportColumn("reason", "text", "why it did not complete"),
    ExportColumn("text", "text", "its transcript"),
    ExportColumn("created_ms", "number", "the endpoint announced it, ms since `started_at`"),
    ExportColumn("first_text_ms", "number", "its first text arrived, ms since `started_at`"),
    ExportColumn("first_audio_ms", "number", "its first audio arrived, ms since `started_at`"),
    ExportColumn("done_ms", "number", "the endpoint ended it, ms since `started_at`"),
    ExportColumn("interrupted_ms", "number", "the endpoint interrupted it, ms since `started_at`"),
    ExportColumn("audio_ms", "number", "length of its audio, ms"),
    ExportColumn("rate_hz", "integer", "sample rate of its audio, Hz"),
    ExportColumn("audio", "text", "its audio, a path within the run folder"),
    *(ExportColumn(name, "integer", f"{name.replace('_', ' ')} reported by the endpoint") for name in TOKENS),
)
_JUDGEMENT = (
    ExportColumn("judge", "text", "the judge"),
    ExportColumn("version", "text", "its version"),
    ExportColumn("status", "text", "`scored`, `unscored` or `failed`"),
    ExportColumn("reason", "text", "why it was not scored"),
    ExportColumn("detail", "json", "evidence for the scores, as JSON"),
)
_FIRST = (
    ExportColumn("turn_id", "text", "unique in the run"),
    ExportColumn("captured", "boolean", "whether the turn ended normally with a reply"),
    ExportColumn("failure.kind", "text", "kind of failure"),
    ExportColumn("failure.message", "text", "what happened"),
    ExportColumn("warnings", "texts", "kinds of warnings"),
    ExportColumn("repeat", "integer", "0 for the first repetition of the case"),
    ExportColumn("attempt", "integer", "1 for the first attempt"),
    ExportColumn("started_at", "time", "when dialling began, UTC"),
    ExportColumn("case.case_id", "text", "the case"),
    ExportColumn("case.script_id", "text", "its script, which its variants share"),
    ExportColumn("case.variant", "text", "style in which the script is spoken"),
    ExportColumn("case.source", "text", "kind of data"),
    ExportColumn("case.task", "text", "task of the endpoint"),
    ExportColumn("case.question.question_id", "text", "the multiple-choice question"),
    ExportColumn("case.question.kind", "text", "its type"),
    ExportColumn("case.question.text", "text", "its text"),
    ExportColumn("case.question.options", "texts", "its options, each with its letter"),
    ExportColumn("case.question.answer", "text", "letter of the correct option"),
    ExportColumn("case.dialogue_id", "text", "the dialogue to which the turn belongs"),
    ExportColumn("case.turn_index", "integer", "its number in the dialogue, from 0"),
    ExportColumn("case.speech", "text", "kind of speech, such as a turn or a backchannel"),
    ExportColumn("case.anchor", "text", "when it begins in its dialogue"),
    ExportColumn("case.topic", "text", "topic of the script"),
    ExportColumn("case.language", "text", "language of the speech, BCP 47"),
    ExportColumn("case.text", "text", "text of the recording"),
    *_cue("cue", "cue of the recording"),
    *_cue("script_cue", "cue for which the script was written"),
    ExportColumn("case.reference_text", "text", "a reference reply"),
    ExportColumn("case.audio", "text", "path of the recording"),
    ExportColumn("case.reference_audio", "text", "path of a spoken reference reply"),
    ExportColumn("reply_text", "text", "the endpoint's transcript of the reply"),
    ExportColumn("chosen", "text", "letter of the option that the reply chooses"),
    ExportColumn("heard_text", "text", "the endpoint's transcript of the user's speech"),
    *(
        ExportColumn(f"latency_ms.{name}", "number", f"{title}, ms: {DEFINITIONS_OF_A_TURN[name]}")
        for name, title in TITLES_OF_A_TURN.items()
    ),
    *(
        ExportColumn(f"latency_reason.{name}", "text", f"why there is no {title}")
        for name, title in TITLES_OF_A_TURN.items()
    ),
    ExportColumn("lag_ms", "number", "error bar of the latencies, ms"),
    ExportColumn("flagged", "boolean", "whether the lag exceeds 20 ms"),
    ExportColumn("uncertain", "boolean", "whether the end of the user's speech is uncertain"),
    ExportColumn("stalls", "integer", "playout underruns of the reply"),
    ExportColumn("stalled_ms", "number", "their total length, ms"),
    ExportColumn("premature", "integer", "responses cut off because the same utterance continued"),
    ExportColumn("marks_ms.ready", "number", "the session was ready, ms since `started_at`"),
    ExportColumn("marks_ms.audio_start", "number", "first sample of the user's audio, ms since `started_at`"),
    ExportColumn("marks_ms.speech_onset", "number", "the user's speech begins, ms since `started_at`"),
    ExportColumn("marks_ms.speech_end", "number", "the user's speech ends, ms since `started_at`"),
    ExportColumn("marks_ms.committed", "number", "the endpoint accepted the commit, ms since `started_at`"),
    ExportColumn("marks_ms.barge_in", "number", "the user spoke over the reply, ms since `started_at`"),
    ExportColumn("marks_ms.speech_started", "numbers", "the endpoint reported speech, ms since `started_at`"),
    ExportColumn(
        "marks_ms.speech_stopped", "numbers", "the endpoint reported the end of speech, ms since `started_at`"
    ),
)
_LAST = (
    ExportColumn("reply_audio", "text", "the reply as it arrived, a path within the run folder"),
    ExportColumn(
        "both_sides_audio",
        "text",
        "user left, endpoint as heard right; begins at `audio_start`, a path within the run folder",
    ),
    ExportColumn("labels", "texts", "labels of reviewers"),
    ExportColumn("note", "text", "note of reviewers"),
    ExportColumn("session_id", "text", "the endpoint's identifier of the session"),
    ExportColumn("model", "text", "model that the endpoint reports"),
    ExportColumn("usage.input_tokens", "integer", "of all responses"),
    ExportColumn("usage.output_tokens", "integer", "of all responses"),
    ExportColumn("responses", _RESPONSE, "responses in the order in which they began"),
    ExportColumn("judgements", _JUDGEMENT, "judgements of the turn"),
)


def export_columns(scores: Sequence[ScoreColumn]) -> tuple[ExportColumn, ...]:
    """Return the columns in order, including two for each of the run's scores."""
    return (
        *_FIRST,
        *(ExportColumn(f"scores.{score.name}", "number", _score_meaning(score)) for score in scores),
        *(
            ExportColumn(f"score_reason.{score.name}", "text", f"why there is no {score.heading}")
            for score in scores
        ),
        *_LAST,
    )


def _score_meaning(column: ScoreColumn) -> str:
    return (
        column.definition
        if column.definition.startswith(column.heading)
        else f"{column.heading}: {column.definition}"
    )
