"""Build the turn table of a run, the basis of every export and of `RecordedRun.turns`.

Each turn has a row, including failed turns. Names are nested in JSON lines and joined with dots in flat
formats (``case.cue.attribute``, ``scores.dnsmos.ovrl``). A missing value is null, never NaN or 0; a separate
column contains the reason, if known.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson

from live_eval.analysis.summary.score_table import ScoreTable, run_scores
from live_eval.analysis.turn_view import TurnView, milliseconds
from live_eval.export.columns import TOKENS, ExportColumn, export_columns
from live_eval.recording import Review, RunReader, TurnRecord, read_reviews
from live_eval.redaction import SECRETS
from live_eval.timing import ResponseRecord

__all__ = ["ExportTable"]

_CUE = ("phrase", "attribute", "fine", "coarse")


class ExportTable:
    """The turns of a run as rows with named columns.

    Args:
        retime: Whether to recompute the latencies from the audio with the current definitions.
    """

    def __init__(self, run: RunReader, *, retime: bool = False) -> None:
        self.run = run
        self.scores: ScoreTable = run_scores(run)
        self._reviews = read_reviews(run.path)
        self._retime = retime

    @property
    def columns(self) -> tuple[ExportColumn, ...]:
        """The columns in order, including two for each score of the run."""
        return export_columns(self.scores.columns)

    def turns(self) -> Iterator[tuple[TurnView, dict[str, Any]]]:
        """Yield each turn with its row: nested mappings with the same keys for every turn."""
        for turn in self.run.turns(retime=self._retime):
            view = TurnView(turn, self.scores, self.run.path)
            row = _row(view, self._reviews.get(view.turn_id))
            # Runs by earlier versions may contain secrets that were not recognised as such.
            yield view, SECRETS.values(row) if SECRETS.suspects(orjson.dumps(row).decode()) else row

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the row of each turn."""
        return (row for _, row in self.turns())


def _row(view: TurnView, review: Review | None) -> dict[str, Any]:
    turn, cells = view.record, view.scores
    latencies = view.latencies | view.vocal_sounds
    return {
        "turn_id": turn.turn_id,
        "captured": turn.captured,
        "failure": _fields(turn.failure, "kind", "message"),
        "warnings": view.warnings,
        "repeat": turn.repeat,
        "attempt": turn.attempt,
        "started_at": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=turn.wall_ns // 1000),
        "case": _case(view),
        "reply_text": turn.reply_text,
        "chosen": view.chosen,
        "heard_text": turn.heard_text,
        "latency_ms": {name: milliseconds(found.ns) for name, found in latencies.items()},
        "latency_reason": {name: found.reason or None for name, found in latencies.items()},
        "lag_ms": milliseconds(turn.timing.lag_ns),
        "flagged": turn.timing.flagged,
        "uncertain": turn.timing.uncertain,
        "stalls": turn.timing.stalls,
        "stalled_ms": milliseconds(turn.timing.stalled_ns),
        "premature": turn.timing.premature,
        "marks_ms": _marks(turn),
        "scores": {name: cell.value for name, cell in cells.items()},
        "score_reason": {name: cell.reason or None for name, cell in cells.items()},
        "reply_audio": view.audio_path(turn.reply_file),
        "both_sides_audio": view.audio_path(turn.both_file),
        "labels": review.labels if review else [],
        "note": (review.note or None) if review else None,
        "session_id": turn.session_id,
        "model": turn.model,
        "usage": _usage(turn),
        "responses": [
            {**values, **_audio(view, marks), **_fields(marks.usage, *TOKENS)}
            for marks, values in view.responses("ms", partial(_since_dial, turn))
        ],
        "judgements": view.judgements,
    }


def _case(view: TurnView) -> dict[str, Any]:
    case, question = view.record.case, view.record.case.question
    return {
        **_fields(case, "case_id", "script_id", "variant", "source", "task"),
        "question": {
            **_fields(question, "question_id", "kind", "text"),
            "options": None
            if question is None
            else [f"{letter}. {text}" for letter, text in question.options],
            **_fields(question, "answer"),
        },
        "dialogue_id": case.dialogue_id,
        "turn_index": view.dialogue_index,
        "speech": case.speech.value,
        "anchor": None if case.anchor is None else str(case.anchor),
        **_fields(case, "topic", "language", "text"),
        "cue": _fields(case.cue, *_CUE),
        "script_cue": _fields(case.script_cue, *_CUE),
        "reference_text": case.reference_text,
        "audio": str(case.audio_path),
        "reference_audio": None if case.reference_audio_path is None else str(case.reference_audio_path),
    }


def _marks(turn: TurnRecord) -> dict[str, Any]:
    trace, since = turn.trace, partial(_since_dial, turn)
    return {
        "ready": since(trace.ready_ns),
        "audio_start": since(trace.t0_ns),
        "speech_onset": since(trace.onset_ns),
        "speech_end": since(trace.voice_end_ns),
        "committed": since(trace.committed_ns),
        "barge_in": since(trace.barge_in_ns),
        "speech_started": [since(at_ns) for at_ns in trace.speech_started_ns],
        "speech_stopped": [since(at_ns) for at_ns in trace.speech_stopped_ns],
    }


def _audio(view: TurnView, marks: ResponseRecord) -> dict[str, Any]:
    samples, rate_hz = int(marks.chunk_samples.sum()), marks.rate_hz
    return {
        "audio_ms": round(1000 * samples / rate_hz, 3) if rate_hz else None,
        "rate_hz": rate_hz,
        "audio": view.audio_path(marks.audio_file),
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    """Return attributes of a value by name; all are None if the value is None."""
    return {name: getattr(value, name, None) for name in names}


def _usage(turn: TurnRecord) -> dict[str, int | None]:
    """Return the total tokens of all responses; None if the endpoint reported no tokens."""
    totals: dict[str, int | None] = {}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(response.usage, name, None) for response in turn.responses]
        known = [count for count in counts if count is not None]
        totals[name] = sum(known) if known else None
    return totals


def _since_dial(turn: TurnRecord, at_ns: int | None) -> float | None:
    return None if at_ns is None else milliseconds(at_ns - turn.trace.dial_ns)
