"""Create two runs for a listening test, and a listener who votes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from live_eval.recording import RunWriter
from live_eval.studio.listening.listening_test import ListeningTrial
from live_eval.studio.listening.trial_desk import GivenTrial, Opinion, TrialDesk
from live_eval.studio.listening.votes import VoteFile
from live_eval.testing.fake_clock import FakeClock
from live_eval.types import Case, Cue, Variant
from tests.support.records import TurnPlan, spoken_turn, tone

__all__ = ["played_in_full", "vote_on_all", "write_listened_run"]


def write_listened_run(
    folder: Path,
    *,
    hz: float,
    cases: int = 10,
    reply_ms: float = 200.0,
    level: float = 0.3,
    reference: Path | None = None,
) -> Path:
    """Write a run whose replies are tones."""
    with RunWriter.create(folder, {"data": {"fingerprint": "f" * 64}}) as run:
        for number in range(cases):
            case = Case(
                case_id=f"id_{number}/target",
                script_id=f"id_{number}",
                variant=Variant.TARGET,
                audio_path=Path("a.wav"),
                text="I missed the bus again.",
                cue=Cue("sigh sound", "sigh"),
                reference_audio_path=reference,
            )
            reply = tone(reply_ms, hz=hz, level=level)
            run.commit(spoken_turn(case, TurnPlan(reply_text=f"reply of {hz:g}"), reply=reply))
        run.end()
    return folder


def played_in_full(given: GivenTrial) -> dict[str, list[tuple[float, float]]]:
    """Return the report of a browser that played everything completely."""
    return {label: [(0.0, given.sounds[name].seconds)] for label, name in given.replies.items()}


def vote_on_all(
    desk: TrialDesk,
    clock: FakeClock,
    file: VoteFile,
    listener: str,
    decide: Callable[[ListeningTrial], str | dict[str, int]],
) -> list[ListeningTrial]:
    """Vote on every trial, with a choice or ratings for each; return the trials."""
    trials = []
    while (given := desk.next(file, listener)[1]) is not None:
        clock.advance(60_000_000_000)
        said = decide(given.trial)
        desk.vote(
            given,
            Opinion(
                trial=given.name,
                choice=said if isinstance(said, str) else "",
                ratings={} if isinstance(said, str) else said,
                played=played_in_full(given),
            ),
        )
        trials.append(given.trial)
    return trials
