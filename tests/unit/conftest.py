"""A run with every kind of turn, for tests that read runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.errors import FailureKind
from live_eval.judging import Failed, Judgement, Scored, Unscored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.types import Case, CoarseDimension, Cue, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn

SCRIPTS = 12
CUES = (
    Cue("happy-toned expressive voice", "happy", "emotion", CoarseDimension.PARALINGUISTIC),
    Cue("sound of wind blowing", "wind", "weather", CoarseDimension.ENVIRONMENT),
    Cue("elderly", "elderly", "age", CoarseDimension.SPEAKER),
    Cue("a voice nobody named"),
)
NEUTRAL = Cue("neutral", "neutral")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 'quoted\""
MANIFEST: dict[str, Any] = {
    "live_eval": "0.1.0",
    "endpoint": {"name": "reference", "model": "asked", "voice": "hibari", "turn_mode": "server_vad"},
    "data": {"name": "made up", "cases": 24},
    "turns": 26,
    "seed": 3,
    "machine": {"system": "Linux", "cores": 2},
    "packages": {"numpy": "2.0"},
    "config": {"judges": {"names": ["bleu", "dnsmos", "ves"]}, "turns": {"retries": 2}},
}


def plan(number: int) -> TurnPlan:
    """Return the plan of turn `number` of 24, of which 2 fail, 3 are uncertain and 1 is flagged."""
    usual = TurnPlan(
        endpointing_ms=200.0 + number, first_byte_ms=400.0 + 10 * number, reply_text=f"I hear you, {number}."
    )
    match number:
        case 3:
            return replace(usual, reply_text=HOSTILE)
        case 5:
            return TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "nothing for 15 s"))
        case 6:
            return replace(usual, failure=Failure(FailureKind.CLOSED, HOSTILE))
        case 7 | 8 | 9:
            return replace(usual, uncertain=True)
        case 10:
            return replace(usual, frame_late_ns=35_000_000)
        case 11:
            return replace(usual, cut_off=1, warnings=(Failure(FailureKind.UNKNOWN_EVENT, "what is this"),))
    return usual


def a_case(number: int) -> Case:
    script, target = number // 2, number % 2 == 0
    cue = CUES[script % len(CUES)]
    return Case(
        case_id=f"id_{script}/{'target' if target else 'neutral'}",
        script_id=f"id_{script}",
        variant=Variant.TARGET if target else Variant.NEUTRAL,
        audio_path=Path(f"data/{number}.wav"),
        text=HOSTILE if number == 3 else f"This is script {script}.",
        cue=cue if target else NEUTRAL,
        script_cue=cue,
        topic="family",
        reference_text="A reference.",
        source="synthesis",
    )


def write_run(
    path: Path,
    *,
    slower_ms: float = 0.0,
    finished: bool = True,
    manifest: Mapping[str, Any] = MANIFEST,
) -> Path:
    """Write the run; `slower_ms` delays every first byte."""
    with RunWriter.create(path, manifest) as run:
        passing = Failure(FailureKind.RATE_LIMITED, "429")
        run.attempt_failed(spoken_turn(a_case(0), TurnPlan(first_byte_ms=None, failure=passing)))
        for number in range(2 * SCRIPTS):
            made = plan(number)
            if slower_ms and made.first_byte_ms is not None:
                made = replace(made, first_byte_ms=made.first_byte_ms + slower_ms + number % 3)
            run.commit(spoken_turn(a_case(number), made, attempt=2 if number == 0 else 1))
        run.end(finished=finished)
    with ScoreStore.open(path) as scores:
        for number in range(2 * SCRIPTS):
            turn = a_case(number).case_id
            scores.put("dnsmos", "0", turn, Scored({"ovrl": 9.0, "sig": 9.0}))
            scores.put("dnsmos", "1", turn, Scored({"ovrl": 3 + number / 100, "sig": 4 - slower_ms / 1000}))
            judgement: Judgement = Scored({"": 10.0 * number})
            if number == 1:
                judgement = Unscored("no reference text")
            elif number == 2:
                judgement = Failed(HOSTILE)
            if number != 4:
                scores.put("bleu", "1", turn, judgement)
        reason = "needs the key GEMINI_API_KEY"
        scores.put_all(
            "ves", "1", {a_case(number).case_id: Unscored(reason) for number in range(2 * SCRIPTS)}
        )
        scores.cannot_run("ves", "1", reason)
    return path


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished and scored run of 24 turns, with every kind of turn."""
    return write_run(tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="session")
def slower_run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, 100 ms slower."""
    return write_run(tmp_path_factory.mktemp("runs") / "second", slower_ms=100)
