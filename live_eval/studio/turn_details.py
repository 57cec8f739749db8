"""Return a turn as JSON values: marks, latencies, responses, transcript, scores with reasons, messages.

Times are in seconds from the first sample of the audio or, for a turn without audio, from dialling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from live_eval.analysis.licences import licence_of
from live_eval.analysis.summary.score_table import run_scores
from live_eval.analysis.summary.vocal_sounds import TITLES_OF_A_TURN
from live_eval.analysis.turn_view import TurnView, milliseconds
from live_eval.judging import Need
from live_eval.recording import RunReader, TurnRecord
from live_eval.registry import installed_judges
from live_eval.studio.transcript import seconds_after, transcript_of, zero_ns_of
from live_eval.types import Failure

__all__ = ["turn_details", "turn_events"]


def turn_details(run: RunReader, turn_id: str, most_events: int) -> dict[str, Any]:
    """Return the details of a turn, with at most `most_events` messages.

    If the scores cannot be read, there are none, and ``unread_scores`` is the reason.

    Raises:
        StoreError: The turn is damaged.
    """
    turn = run.turn(turn_id)
    view = TurnView(turn, run_scores(run, turn_ids=[turn_id]), run.path, run.lost_audio_of(turn))
    since = partial(seconds_after, zero_ns_of(turn))
    transcript, problem = transcript_of(run, turn)
    problem = view.lost_audio or problem
    case, timing = turn.case, turn.timing
    return {
        "turn_id": turn.turn_id,
        "status": view.status,
        "failure": None if turn.failure is None else _failure(turn, turn.failure),
        "warnings": [_failure(turn, warning) for warning in turn.warnings],
        "task": case.task.value,
        "variant": case.variant.value,
        "cue": None if case.cue is None else asdict(case.cue),
        "topic": case.topic,
        "question": None if case.question is None else asdict(case.question),
        "chosen": view.chosen,
        "dialogue_id": case.dialogue_id,
        "turn_index": view.dialogue_index,
        "text": case.text,
        "heard_text": turn.heard_text,
        "reply_text": turn.reply_text,
        "reference_text": case.reference_text,
        "texts": [list(text) for text in view.texts],
        "latencies": [
            {
                "name": name,
                "title": TITLES_OF_A_TURN[name],
                "ms": milliseconds(found.ns),
                "reason": found.reason or None,
            }
            for name, found in view.shown_latencies.items()
        ],
        "lag_ms": milliseconds(timing.lag_ns),
        "flagged": timing.flagged,
        "uncertain": timing.uncertain,
        "marks": [
            {"kind": mark.kind, "title": mark.title, "at_s": round(mark.at_s, 6)} for mark in view.marks
        ],
        "responses": [
            {
                **values,
                "answers": marks is turn.headline,
                "usage": None if marks.usage is None else asdict(marks.usage),
            }
            for marks, values in view.responses("s", since)
        ],
        "transcript": transcript,
        "scores": _scores(view),
        "unread_scores": view.table.unread,
        "judgements": view.judgements,
        "audio": {
            "available": not problem and turn.both_file is not None,
            "problem": problem,
            "rate_hz": turn.both_rate_hz,
        },
        "licence": licence_of(run.manifest),
        "notes": [{"name": name, "text": text} for name, text in view.notes.items()],
        "events": turn_events(run, turn, 0, most_events),
    }


def turn_events(run: RunReader, turn: TurnRecord, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of a turn's received (``in``) and sent (``out``) messages in chronological order."""
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
    """Return the type of a message or, for Gemini, its first field."""
    kind = body.get("type")
    return kind if isinstance(kind, str) else next(iter(body), None)


def _failure(turn: TurnRecord, failure: Failure) -> dict[str, Any]:
    at_s = seconds_after(zero_ns_of(turn), failure.at_ns)
    return {"kind": failure.kind.value, "message": failure.message, "at_s": at_s}


def _scores(view: TurnView) -> list[dict[str, Any]]:
    reply = {Need.REPLY_AUDIO, Need.REPLY_TEXT}
    of_the_user = {
        spec.name
        for spec in installed_judges()
        if Need.HEARD_TEXT in spec.needs and not reply & (spec.needs | spec.uses)
    }
    return [
        {
            **column.as_json(),
            "side": "user" if column.judge in of_the_user else "reply",
            "status": cell.status,
            "value": cell.value,
            "reason": cell.reason or None,
        }
        for column, cell in zip(view.table.columns, view.scores.values(), strict=True)
    ]
