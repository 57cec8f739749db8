"""The order in which turns get audio on a page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report.clip_choice import turns_to_hear
from live_eval.report.tables import RunView
from live_eval.types import Case, Cue, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import page_of, sounds_of, summary_of

CUES = ("happy", "sad", "sigh", "cough")


def case(number: int) -> Case:
    """Return one of 40 cases: ten of each cue, grouped by cue."""
    name = CUES[number // 10]
    return Case(
        case_id=f"c{number}",
        script_id=f"c{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        cue=Cue(name, name),
    )


def written(path: Path, *, delays_ms: Mapping[int, int], failed: int, worst: int) -> RunView:
    """Write a run of the 40 cases with VES, the lowest for one of them."""
    with RunWriter.create(path, {"endpoint": {"name": "reference"}}) as run:
        for number in range(40):
            plan = TurnPlan(first_byte_ms=delays_ms.get(number, 400), reply_ms=200)
            if number == failed:
                plan = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "none"))
            run.commit(spoken_turn(case(number), plan))
        run.end(finished=True)
    with ScoreStore.open(path) as store:
        for number in range(40):
            store.put("ves", "1", f"c{number}", Scored({"": 1.0 if number == worst else 4.0}))
    return RunView(0, "a", summary_of(path))


def test_failed_slow_and_badly_scored_turns_and_each_cue_come_first(tmp_path: Path) -> None:
    view = written(tmp_path / "a", delays_ms={17: 3_000, 5: 2_000}, failed=23, worst=31)
    order = [case_id for case_id, _ in turns_to_hear([view], ["ves"])]
    assert sorted(order) == sorted(f"c{number}" for number in range(40)), "every turn, once"
    assert set(order[:4]) == {"c23", "c17", "c31", "c0"}, "failed, slowest, lowest score, a cue"
    assert "c5" in order[:8]
    assert {"c0", "c10", "c20", "c30"} <= set(order[:20]), "all cues, though the first has ten turns"


def test_a_turn_that_one_run_needs_is_heard_in_the_others_too(tmp_path: Path) -> None:
    first = written(tmp_path / "a", delays_ms={17: 3_000}, failed=23, worst=31)
    second = written(tmp_path / "b", delays_ms={29: 3_000}, failed=23, worst=31)
    order = [case_id for case_id, _ in islice(turns_to_hear([first, second], []), 6)]
    assert {"c17", "c29"} <= set(order)
    page = page_of(tmp_path / "a", tmp_path / "b", audio_mb=0.2)
    embedded = {attributes["id"] for attributes, _ in page.scripts if attributes.get("type") == "text/plain"}
    assert 4 <= len(sounds_of(page)) < 78
    slowest = [row["id"] for row in page.rows() if (row["data-values"] or "").startswith("3")]
    assert len(slowest) == 2
    assert {f"sound-{row}" for row in slowest} <= embedded


def test_only_a_clip_has_a_detailed_waveform(tmp_path: Path) -> None:
    written(tmp_path / "a", delays_ms={17: 3_000}, failed=23, worst=31)
    page = page_of(tmp_path / "a")
    detailed = [len(clip["data-user"] or "") for clip, _ in page.scripts if clip.get("data-mime")]
    assert max(len(str(turn["envelope"])) for turn in page.details()) < 250 < max(detailed)
