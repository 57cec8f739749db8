"""Export a run's turns as rows for other programs: JSON lines, or CSV.

One row for each turn, failed ones included. A latency is in milliseconds and empty if there is none, with
the reason next to it; so is a score. The columns are the same in both forms: nested in JSON, dotted in CSV.
Text that a spreadsheet would run as a formula gets a leading apostrophe in CSV, not in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import orjson

from live_eval.analysis.summary import LATENCIES, ScoreTable, judges_asked_for, latency, read_scores
from live_eval.recording import RunReader, ScoreReader, TurnRecord
from live_eval.text.files import csv_line, flattened
from live_eval.timing import Latency
from live_eval.types import Question

__all__ = ["ExportFormat", "export_run", "turn_rows"]

ExportFormat: TypeAlias = Literal["jsonl", "csv"]

_CUE = ("phrase", "attribute", "fine", "coarse")

# JSON does not escape these, but many readers end a line at them (as str.splitlines does).
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def export_run(
    run: RunReader, scores: ScoreReader, form: ExportFormat, to: IO[str], *, retime: bool = False
) -> int:
    """Write one row for each turn.

    Args:
        form: ``jsonl`` or ``csv``.
        to: Text file, opened with ``newline=""``.

    Returns:
        How many rows were written.
    """
    count = 0
    for row in turn_rows(run, scores, retime=retime):
        if form == "jsonl":
            to.write(orjson.dumps(row).decode().translate(_LINE_ENDS) + "\n")
        else:
            flat = dict(flattened(row))
            if not count:
                to.write(csv_line(flat))
            to.write(csv_line(map(_cell, flat.values())))
        count += 1
    return count


def turn_rows(run: RunReader, scores: ScoreReader, *, retime: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the turns of a run as nested mappings of JSON values, all with the same keys."""
    table = read_scores(scores, judges_asked_for(run.manifest))
    for turn in run.turns(retime=retime):
        yield _row(run.path, turn, table)


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
        "case": _case(turn),
        "reply_text": turn.reply_text,
        "chosen": table.chosen(turn.turn_id),
        "heard_text": turn.heard_text,
        "latency_ms": {name: _milliseconds(time) for name, time in times.items()},
        "latency_reason": {name: time.reason or None for name, time in times.items()},
        "lag_ms": round(turn.timing.lag_ns / 1e6, 3),
        "flagged": turn.timing.flagged,
        "uncertain": turn.timing.uncertain,
        "stalls": turn.timing.stalls,
        "stalled_ms": round(turn.timing.stalled_ns / 1e6, 3),
        "premature": turn.timing.premature,
        "scores": {name: cell.value for name, cell in cells.items()},
        "score_reason": {name: cell.reason or None for name, cell in cells.items()},
        "reply_audio": _audio(folder, turn.reply_file),
        "both_sides_audio": _audio(folder, turn.both_file),
        "session_id": turn.session_id,
        "model": turn.model,
        "usage": _usage(turn),
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


def _milliseconds(time: Latency) -> float | None:
    return None if time.ns is None else round(time.ns / 1e6, 3)


def _audio(folder: Path, file: Path | None) -> str | None:
    """Return an audio file relative to the run's folder, so that rows stay valid if the folder moves."""
    return None if file is None else file.relative_to(folder).as_posix()


def _cell(value: Any) -> Any:
    """Return a value as written in CSV."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return " ".join(value)
        case _:
            return value
