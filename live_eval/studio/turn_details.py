"""One turn as JSON: marks, latencies, responses, transcript, scores with reasons, messages.

Times are in seconds from the first sample of the audio of both sides; of a turn without audio, from dialling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from live_eval.analysis.summary import LATENCIES, ScoreTable, latency
from live_eval.judging import Need
from live_eval.recording import RunReader, TurnRecord
from live_eval.registry import installed_judges
from live_eval.report.tables import LATENCY_TITLES
from live_eval.report.turns import turn_marks, turn_notes
from live_eval.studio.transcript import seconds_after, transcript_of, zero_ns_of
from live_eval.studio.turn_index import score_columns
from live_eval.types import Failure

__all__ = ["turn_details", "turn_events"]


def turn_details(run: RunReader, table: ScoreTable, turn_id: str, most_events: int) -> dict[str, Any]:
    """Return all there is to show of a turn, and the first of its messages.

    Args:
        run: The run.
        table: Its scores.
        turn_id: The turn.
        most_events: Most messages to return.

    Raises:
        StoreError: The turn is damaged.
    """
    turn = run.turn(turn_id)
    zero_ns = zero_ns_of(turn)
    transcript, problem = transcript_of(run, turn)
    case, timing = turn.case, turn.timing
    return {
        "turn_id": turn.turn_id,
        "status": "captured" if turn.captured else "failed",
        "failure": None if turn.failure is None else _failure(turn.failure, zero_ns),
        "warnings": [_failure(warning, zero_ns) for warning in turn.warnings],
        "task": case.task.value,
        "variant": case.variant.value,
        "cue": None if case.cue is None else asdict(case.cue),
        "topic": case.topic,
        "question": None if case.question is None else asdict(case.question),
        "chosen": table.chosen(turn.turn_id),
        "dialogue_id": case.dialogue_id,
        "turn_index": None if case.dialogue_id is None else case.turn_index,
        "text": case.text,
        "heard_text": turn.heard_text,
        "reply_text": turn.reply_text,
        "reference_text": case.reference_text,
        "latencies": [
            {
                "name": name,
                "title": LATENCY_TITLES[name],
                "ms": None if (found := latency(timing, name)).ns is None else round(found.ns / 1e6, 3),
                "reason": found.reason or None,
            }
            for name in LATENCIES
        ],
        "lag_ms": round(timing.lag_ns / 1e6, 3),
        "flagged": timing.flagged,
        "uncertain": timing.uncertain,
        "marks": [
            {"kind": kind, "title": title, "at_s": round(at_s, 6)} for kind, title, at_s in turn_marks(turn)
        ],
        "responses": _responses(turn, zero_ns),
        "transcript": transcript,
        "scores": _scores(table, turn),
        "judgements": [
            {
                "judge": row.judge,
                "version": row.version,
                "status": row.status,
                "reason": row.reason or None,
                "detail": row.detail,
            }
            for row in table.rows.get(turn.turn_id, {}).values()
        ],
        "audio": {
            "available": problem is None and turn.both_file is not None,
            "problem": problem,
            "rate_hz": turn.both_rate_hz,
        },
        "notes": [{"name": name, "text": text} for name, text in turn_notes(run, turn).items() if text],
        "events": turn_events(run, turn, 0, most_events),
    }


def turn_events(run: RunReader, turn: TurnRecord, offset: int, limit: int) -> dict[str, Any]:
    """Return messages of a turn in the order of time: ``in`` from the endpoint, ``out`` to it.

    Args:
        run: The run.
        turn: The turn.
        offset: Messages to skip.
        limit: Most messages to return.
    """
    log = run.log(turn.turn_id)
    zero_ns = zero_ns_of(turn)
    return {
        "total": len(log),
        "offset": offset,
        "rows": [
            {
                "at_s": seconds_after(zero_ns, message.at_ns),
                "direction": message.direction,
                "type": _type_of(message.body),
                "body": message.body,
            }
            for message in log[offset : offset + limit]
        ],
    }


def _type_of(body: Mapping[str, Any]) -> str | None:
    """Return the type of a message; where it has none, its first field says what it is (Gemini)."""
    kind = body.get("type")
    return kind if isinstance(kind, str) else next(iter(body), None)


def _failure(failure: Failure, zero_ns: int) -> dict[str, Any]:
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "at_s": seconds_after(zero_ns, failure.at_ns),
    }


def _responses(turn: TurnRecord, zero_ns: int) -> list[dict[str, Any]]:
    rows = []
    for response in turn.responses:
        arrivals = response.chunk_arrival_ns[:1].tolist()
        first_ns = response.first_audio_ns or (arrivals[0] if arrivals else None)
        rows.append(
            {
                "response_id": response.response_id,
                "answers": response is turn.headline,
                "status": response.status.value,
                "reason": response.reason or None,
                "text": response.text,
                "created_s": seconds_after(zero_ns, response.created_ns),
                "first_text_s": seconds_after(zero_ns, response.first_text_ns),
                "first_audio_s": seconds_after(zero_ns, first_ns),
                "interrupted_s": seconds_after(zero_ns, response.interrupted_ns),
                "done_s": seconds_after(zero_ns, response.done_ns),
                "usage": None if response.usage is None else asdict(response.usage),
            }
        )
    return rows


def _scores(table: ScoreTable, turn: TurnRecord) -> list[dict[str, Any]]:
    rows = []
    of_the_user = _judges_of_the_user()
    for column, described in zip(table.columns, score_columns(table.columns), strict=True):
        cell = table.cell(turn.turn_id, turn.case.task, column)
        rows.append(
            {
                **described,
                "side": "user" if column.judge in of_the_user else "reply",
                "status": cell.status,
                "value": cell.value,
                "reason": cell.reason or None,
            }
        )
    return rows


def _judges_of_the_user() -> set[str]:
    """Return the judges that look at what was heard of the user, and at nothing of the reply."""
    reply = {Need.REPLY_AUDIO, Need.REPLY_TEXT}
    return {
        spec.name
        for spec in installed_judges()
        if Need.HEARD_TEXT in spec.needs and not reply & (spec.needs | spec.uses)
    }
