"""Messages of Talk for each update."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from live_eval.errors import FailureKind
from live_eval.live.updates import (
    AudioSide,
    EchoDetected,
    FromEndpoint,
    HeardChanged,
    LatencyMeasured,
    Levels,
    QuickScores,
    RecordStored,
    SpeechDetected,
    StandingChanged,
    State,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TakeRepeated,
    TranscriptPiece,
    Voted,
    Xruns,
)
from live_eval.studio.talking.page_messages import as_json
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn

MS = 1_000_000


def test_every_update_becomes_a_json_message() -> None:
    case = Case(case_id="turn-0001", script_id="turn-0001", variant=Variant.TARGET, audio_path=Path("a.flac"))
    record = spoken_turn(case)
    failed = spoken_turn(
        case, TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "no response came"))
    )
    turn = as_json(LatencyMeasured(1, record, 12 * MS))
    assert turn["voice_to_voice_ms"] == round((record.timing.voice_to_voice.ns or 0) / 1e6, 1)
    assert sum(step["ms"] for step in turn["steps"]) == pytest.approx(turn["voice_to_voice_ms"], abs=0.3)
    assert turn["after_ms"] == 12
    silent = as_json(LatencyMeasured(2, failed, 0))
    assert silent["voice_to_voice_ms"] is None
    assert silent["failure"] == {"kind": "no_response", "message": "no response came"}
    lost = Failure(FailureKind.CLOSED, "the session has ended")
    messages = [
        turn,
        silent,
        as_json(StateChanged(State.DISCONNECTED, lost)),
        as_json(Levels(-20.04, -90, muted=True)),
        as_json(SpeechDetected(speaking=True, barge_in=True)),
        as_json(TranscriptPiece(AudioSide.USER, "Hello.", final=True)),
        as_json(RecordStored(record)),
        as_json(QuickScores("turn-0001", {"dnsmos.p808": 3.2}, judge="dnsmos", seconds=0.25, late=True)),
        as_json(EchoDetected(12.0, 0.9)),
        as_json(Xruns(underruns=2)),
        as_json(FromEndpoint(1, StateChanged(State.DISCONNECTED, lost))),
        as_json(StandingChanged(1, "thinking")),
        as_json(HeardChanged(None)),
        as_json(Voted(3, 1, (0, 2))),
        as_json(TakeAsked(1, 15, "I am home.", "with a sigh")),
        as_json(TakeChecked("I am", -23.21, 1.234, ("too quiet",), ("a note",))),
        as_json(TakeRepeated(1, 15)),
    ]
    assert json.loads(json.dumps(messages)) == messages
    assert [each["type"] for each in messages] == [
        "turn",
        "turn",
        "state",
        "levels",
        "speech",
        "transcript",
        "kept",
        "scores",
        "note",
        "note",
        "state",
        "standing",
        "heard",
        "vote",
        "take",
        "checked",
        "again",
    ]
    assert [each["endpoint"] for each in messages[10:13]] == [1, 1, None]
    assert messages[13] == {"type": "vote", "number": 3, "winner": 1, "wins": [0, 2]}
    assert messages[15]["problems"] == ["too quiet"]
    assert messages[7]["scores"] == [{"title": "DNSMOS", "value": "3.2 MOS", "number": 3.2, "unit": "MOS"}]
    assert (messages[7]["seconds"], messages[7]["late"]) == (0.25, True)
    assert "12 ms later" in messages[8]["text"]
    assert messages[9]["text"] == "The endpoint heard 2 short gaps: the microphone was late."
    assert messages[3] == {"type": "levels", "user": -20.0, "reply": -90, "muted": True, "replying": False}
