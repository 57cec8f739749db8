"""The table of a run's turns that every export writes and `RecordedRun.turns` returns.

One row for each turn, failed ones included. Names are nested in JSON lines and joined with dots in every flat
form (``case.cue.attribute``, ``scores.dnsmos.ovrl``). A missing value is null, with the reason next to it
where there is one; it is never NaN and never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from live_eval.analysis.summary import LATENCIES, ScoreTable, judges_asked_for, latency, read_scores
from live_eval.export.columns import TOKENS, TurnColumn, turn_columns
from live_eval.recording import RunReader, ScoreReader, ScoreRow, TurnRecord
from live_eval.redaction import SECRETS
from live_eval.timing import Latency, ResponseRecord
from live_eval.types import Question

__all__ = ["TurnTable"]

_CUE = ("phrase", "attribute", "fine", "coarse")


class TurnTable:
    """The turns of a run as rows with named columns.

    Args:
        run: The run.
        scores: Its scores.
        retime: Recompute the latencies with the current definitions; reads every reply's audio.
    """

    def __init__(self, run: RunReader, scores: ScoreReader, *, retime: bool = False) -> None:
        self.run = run
        """The run."""
        self.scores: ScoreTable = read_scores(scores, judges_asked_for(run.manifest))
        """Its scores."""
        self._retime = retime

    @property
    def columns(self) -> tuple[TurnColumn, ...]:
        """The columns in order, with two for each score of the run."""
        return turn_columns(self.scores.columns)

    def turns(self) -> Iterator[tuple[TurnRecord, dict[str, Any]]]:
        """Yield each turn with its row: nested mappings, all with the same keys."""
        for turn in self.run.turns(retime=self._retime):
            row = _row(self.run.path, turn, self.scores)
            # A run of an earlier version may hold a secret that is known only now.
            yield turn, SECRETS.values(row) if SECRETS.suspects(orjson.dumps(row).decode()) else row

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the row of each turn."""
        return (row for _, row in self.turns())


def _row(folder: Path, turn: TurnRecord, table: ScoreTable) -> dict[str, Any]:
    cells = {column.name: table.cell(turn.turn_id, turn.case.task, column) for column in table.columns}
    times = {name: latency(turn.timing, name) for name in LATENCIES}
    return {
        "turn_id": turn.turn_id,
        "captured": turn.captured,
        "failure": _fields(turn.failure, "kind", "message"),
        "warnings": [warning.kind.value for warning in turn.warnings],
        "repeat": turn.repeat,
        "attempt": turn.attempt,
        "started_at": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=turn.wall_ns // 1000),
        "case": _case(turn),
        "reply_text": turn.reply_text,
        "chosen": table.chosen(turn.turn_id),
        "heard_text": turn.heard_text,
        "latency_ms": {name: _latency_ms(time) for name, time in times.items()},
        "latency_reason": {name: time.reason or None for name, time in times.items()},
        "lag_ms": _milliseconds(turn.timing.lag_ns),
        "flagged": turn.timing.flagged,
        "uncertain": turn.timing.uncertain,
        "stalls": turn.timing.stalls,
        "stalled_ms": _milliseconds(turn.timing.stalled_ns),
        "premature": turn.timing.premature,
        "marks_ms": _marks(turn),
        "scores": {name: cell.value for name, cell in cells.items()},
        "score_reason": {name: cell.reason or None for name, cell in cells.items()},
        "reply_audio": _audio(folder, turn.reply_file),
        "both_sides_audio": _audio(folder, turn.both_file),
        "session_id": turn.session_id,
        "model": turn.model,
        "usage": _usage(turn),
        "responses": [_response(folder, turn, response) for response in turn.responses],
        "judgements": [_judgement(row) for row in table.rows.get(turn.turn_id, {}).values()],
    }


def _case(turn: TurnRecord) -> dict[str, Any]:
    case = turn.case
    return {
        "case_id": case.case_id,
        "script_id": case.script_id,
        "variant": case.variant.value,
        "source": case.source,
        "task": case.task.value,
        "question": {
            **_fields(case.question, "question_id", "kind", "text"),
            "options": _options(case.question),
            **_fields(case.question, "answer"),
        },
        "dialogue_id": case.dialogue_id,
        "turn_index": None if case.dialogue_id is None else case.turn_index,
        "speech": case.speech.value,
        "anchor": None if case.anchor is None else str(case.anchor),
        "topic": case.topic,
        "language": case.language,
        "text": case.text,
        "cue": _fields(case.cue, *_CUE),
        "script_cue": _fields(case.script_cue, *_CUE),
        "reference_text": case.reference_text,
        "audio": str(case.audio_path),
        "reference_audio": None if case.reference_audio_path is None else str(case.reference_audio_path),
    }


def _marks(turn: TurnRecord) -> dict[str, Any]:
    trace = turn.trace
    marks = {
        "ready": trace.ready_ns,
        "audio_start": trace.t0_ns,
        "speech_onset": trace.onset_ns,
        "speech_end": trace.voice_end_ns,
        "committed": trace.committed_ns,
        "barge_in": trace.barge_in_ns,
    }
    return {
        **{name: _since_dial(turn, at_ns) for name, at_ns in marks.items()},
        "speech_started": [_since_dial(turn, at_ns) for at_ns in trace.speech_started_ns],
        "speech_stopped": [_since_dial(turn, at_ns) for at_ns in trace.speech_stopped_ns],
    }


def _response(folder: Path, turn: TurnRecord, response: ResponseRecord) -> dict[str, Any]:
    first_audio_ns = response.first_audio_ns
    if first_audio_ns is None and len(response.chunk_arrival_ns):
        first_audio_ns = int(response.chunk_arrival_ns[0])
    samples = int(response.chunk_samples.sum())
    return {
        "response_id": response.response_id,
        "status": response.status.value,
        "reason": response.reason or None,
        "text": response.text,
        "created_ms": _since_dial(turn, response.created_ns),
        "first_text_ms": _since_dial(turn, response.first_text_ns),
        "first_audio_ms": _since_dial(turn, first_audio_ns),
        "done_ms": _since_dial(turn, response.done_ns),
        "interrupted_ms": _since_dial(turn, response.interrupted_ns),
        "audio_ms": round(1000 * samples / response.rate_hz, 3) if response.rate_hz else None,
        "rate_hz": response.rate_hz,
        "audio": _audio(folder, response.audio_file),
        **_fields(response.usage, *TOKENS),
    }


def _judgement(row: ScoreRow) -> dict[str, Any]:
    return {
        "judge": row.judge,
        "version": row.version,
        "status": row.status,
        "reason": row.reason or None,
        "detail": dict(row.detail),
    }


def _options(question: Question | None) -> list[str] | None:
    return None if question is None else [f"{letter}. {text}" for letter, text in question.options]


def _fields(value: object, *names: str) -> dict[str, Any]:
    """Return attributes by name; None for each if there is no value."""
    return {name: getattr(value, name, None) for name in names}


def _usage(turn: TurnRecord) -> dict[str, int | None]:
    """Return the tokens of all responses of the turn; None if the endpoint never reported them."""
    usages = [response.usage for response in turn.responses if response.usage is not None]

    def total(counts: list[int | None]) -> int | None:
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    return {
        "input_tokens": total([usage.input_tokens for usage in usages]),
        "output_tokens": total([usage.output_tokens for usage in usages]),
    }


def _latency_ms(time: Latency) -> float | None:
    return None if time.ns is None else _milliseconds(time.ns)


def _since_dial(turn: TurnRecord, at_ns: int | None) -> float | None:
    return None if at_ns is None else _milliseconds(at_ns - turn.trace.dial_ns)


def _milliseconds(ns: int) -> float:
    return round(ns / 1e6, 3)


def _audio(folder: Path, file: Path | None) -> str | None:
    """Return an audio file relative to the run's folder, so that rows stay valid if the folder moves."""
    return None if file is None else file.relative_to(folder).as_posix()
