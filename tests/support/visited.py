"""Write runs for tests of the studio: several pages of turns, scores with reasons, hostile texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore, TurnRecord
from live_eval.types import Case, Cue, Failure, Variant
from tests.support.campaigns import point, turns_at, write_campaign
from tests.support.duplex_campaigns import barge_in, write_duplex_campaign
from tests.support.records import TurnPlan, spoken_turn, tone

__all__ = ["HOSTILE", "REASON", "visited_turn", "write_visited"]

HOSTILE = '<img src="x" onerror="document.title=1"><b>bold</b>'
REASON = "It hears that the user is out of breath."
_TURNS = 130


def visited_turn(number: int, first_byte_ms: float = 500) -> TurnRecord:
    """A turn with audio; every tenth failed, and the second reply is HTML."""
    case = Case(
        case_id=f"id_{number:03}/target",
        script_id=f"id_{number:03}",
        variant=Variant.TARGET,
        audio_path=Path("a.wav"),
        text=f"I missed bus number {number} again.",
        cue=Cue("sigh sound", "sigh"),
    )
    failure = Failure(FailureKind.NO_RESPONSE, HOSTILE) if number % 10 == 9 else None
    plan = TurnPlan(
        first_byte_ms=first_byte_ms + number,
        reply_ms=300,
        reply_text=HOSTILE if number == 1 else "Oh no. Is there another one?",
        failure=failure,
    )
    return spoken_turn(case, plan, user=tone(300), reply=tone(300, hz=330))


@contextmanager
def write_visited(recordings: Path) -> Iterator[Callable[[], None]]:
    """Write two runs of the same cases, campaigns of both kinds, a damaged run, and a run in progress.

    Args:
        recordings: Folder for the runs.

    Yields:
        A function that records the last turn of the run in progress and ends it.
    """
    for name, first_byte_ms in (("amber", 500), ("birch", 700)):
        manifest = {"endpoint": {"name": name}, "turns": _TURNS, "data": {"fingerprint": "f" * 64}}
        with RunWriter.create(recordings / name, manifest) as run:
            for number in range(_TURNS):
                run.commit(visited_turn(number, first_byte_ms))
            run.end()
        with ScoreStore.open(recordings / name) as scores:
            scores.put("taste", "1", "id_000/target", Scored({"": 4.0}, {"reason": REASON}))
    write_campaign(recordings / "campaign", [(point("c1"), turns_at([400.0] * 10))])
    stops, talks = barge_in("one", stop_ms=300), barge_in("two", stop_ms=None)
    trials = [("barge-in", "900 ms", stops), ("barge-in", "900 ms", talks)]
    more = [("barge-in", "900 ms", barge_in("three", stop_ms=500))]
    write_duplex_campaign(recordings / "duplex", {"clean": trials, "noisy": more})
    damaged = recordings / "damaged"
    damaged.mkdir()
    (damaged / "run.sqlite").write_bytes(b"no database")
    with RunWriter.create(recordings / "live", {"endpoint": {"name": "amber"}, "turns": 2}) as live:
        live.commit(visited_turn(0))

        def finish() -> None:
            live.commit(visited_turn(1))
            live.end()

        yield finish
