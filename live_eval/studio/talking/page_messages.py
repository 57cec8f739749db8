"""Convert updates of a conversation to JSON messages for the page. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from live_eval.live.lines import ShownScore, in_words, main_scores
from live_eval.live.performance import usual_choice
from live_eval.live.updates import (
    DeviceChanged,
    EchoDetected,
    FromEndpoint,
    HeardChanged,
    LatencyMeasured,
    Levels,
    QuickScores,
    RecordStored,
    SpeechDetected,
    StandingChanged,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TakeRepeated,
    TakeUnheard,
    TranscriptPiece,
    Update,
    Voted,
    Xruns,
)
from live_eval.text.wording import counted
from live_eval.types import Failure

__all__ = ["as_json"]

_ECHO_S = 75  # longer than the time between two reports of an echo


def as_json(update: Update) -> dict[str, Any]:
    """Return an update as a JSON object with its ``type`` and fields."""
    match update:
        case StateChanged(state, failure):
            return {"type": "state", "state": state.value, "failure": _failure(failure)}
        case Levels(user, reply, muted, replying):
            levels = {"user": round(user, 1), "reply": round(reply, 1)}
            return {"type": "levels", **levels, "muted": muted, "replying": replying}
        case SpeechDetected(speaking, over):
            return {"type": "speech", "speaking": speaking, "barge_in": over}
        case TranscriptPiece(side, text, final):
            return {"type": "transcript", "side": side.value, "text": text, "final": final}
        case LatencyMeasured():
            return _turn(update)
        case TakeAsked():
            return {"type": "take", **asdict(update)}
        case TakeChecked():
            return {
                "type": "checked",
                "usable": update.usable,
                "enter": usual_choice(update).value,
                "problems": list(update.problems),
                "notes": list(update.notes),
                "text": in_words(update),
            }
        case TakeUnheard():
            return {"type": "note", "about": "unheard", "text": in_words(update), "seconds": 10}
        case TakeRepeated(number, total):
            return {"type": "again", "number": number, "total": total}
        case RecordStored(record):
            return {"type": "kept", "turn": record.turn_id, "failure": _failure(record.failure)}
        case Xruns(underruns=late, overruns=dropped):
            heard, cut = counted(late, "short gap"), counted(dropped, "time")
            texts = [f"The endpoint heard {heard}: the microphone was late."] if late else []
            texts += [f"Audio from the microphone was dropped {cut}."] if dropped else []
            return {"type": "note", "about": "lost", "text": " ".join(texts)}
        case DeviceChanged(side):
            return {"type": "note", "about": side.value, "text": in_words(update)}
        case EchoDetected(delay_ms):
            advice = "use headphones, or mute the microphone during replies"
            return {
                "type": "note",
                "about": "echo",
                "urgent": True,
                "seconds": _ECHO_S,
                "text": f"The microphone picks up the reply {delay_ms:.0f} ms later: {advice}.",
            }
        case QuickScores():
            return {
                "type": "scores",
                "turn": update.turn_id,
                "number": update.number,
                "judge": update.judge,
                "scores": [_score(each) for each in main_scores(update.scores)],
                "problems": [{"judge": judge, "reason": why} for judge, why in update.problems.items()],
                "seconds": round(update.seconds, 2),
                "late": update.late,
                "text": in_words(update),
            }
        case HeardChanged(place):
            return {"type": "heard", "endpoint": place}
        case StandingChanged(place, state):
            return {"type": "standing", "endpoint": place, "state": state}
        case Voted(number, winner, wins):
            return {"type": "vote", "number": number, "winner": winner, "wins": list(wins)}
        case FromEndpoint(place, of_endpoint):
            return {**as_json(of_endpoint), "endpoint": place}


def _turn(turn: LatencyMeasured) -> dict[str, Any]:
    timing = turn.record.timing
    return {
        "type": "turn",
        "number": turn.number,
        "turn": turn.record.turn_id,
        "failure": _failure(turn.record.failure),
        "voice_to_voice_ms": _ms(timing.voice_to_voice.ns),
        "why_not": timing.voice_to_voice.reason,
        "uncertain": timing.uncertain,
        "error_ms": _ms(timing.lag_ns),
        "barge_in_stop_ms": _ms(timing.barge_in_stop.ns),
        "steps": [{"name": name.replace("_", " "), "ms": _ms(ns)} for name, ns in turn.reply_steps.items()],
        "after_ms": _ms(turn.after_ns),
    }


def _score(score: ShownScore) -> dict[str, Any]:
    number = score.value if isinstance(score.value, float) else None
    return {"title": score.title, "value": score.text, "number": number, "unit": score.unit}


def _ms(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 1)


def _failure(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"kind": failure.kind.value, "message": failure.message}
