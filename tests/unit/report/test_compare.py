"""Reports of several runs: prompts and pairing."""

import json
from pathlib import Path
from typing import Any

from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report import write_report
from live_eval.types import Case, Variant
from tests.support.records import TurnPlan, spoken_turn


def run_of(
    path: Path, prompt: str, c4: float, *, data: str = "f", cases: range = range(10), **endpoint: Any
) -> Path:
    manifest = {
        "endpoint": {"name": "reference", "model": "m", "turn_mode": "server_vad", **endpoint},
        "data": {"name": f"data {data}", "fingerprint": data},
        "prompt": {"name": prompt, "sha256": prompt, "text": ""},
    }
    played = [
        Case(case_id=f"c{n}", script_id=f"c{n}", variant=Variant.TARGET, audio_path=Path("x.wav"), text="a")
        for n in cases
    ]
    with RunWriter.create(path, manifest) as writer:
        for case in played:
            writer.commit(spoken_turn(case, TurnPlan(reply_ms=100)))
        writer.end(finished=True)
    with ScoreStore.open(path) as store:
        for case in played:
            store.put("rubric", "1", case.case_id, Scored({"c1": 3.0, "c2": 3.0, "c3": 3.0, "c4": c4}))
    return path


def test_runs_with_different_prompts_show_its_effect_and_the_best(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", "no", 2.0), run_of(tmp_path / "b", "enhance", 3.5)]
    for form in ("html", "md"):
        text = write_report(runs, form="html" if form == "html" else "md")
        assert text is not None
        assert "differ only in the prompt" in text
        assert "table: enhance (enhance 3.50, no 2.00; 10 turns" in text.replace("\\", "")


def test_runs_of_different_models_show_no_effect_of_prompts(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", "no", 2.0), run_of(tmp_path / "b", "enhance", 3.5, model="n")]
    text = write_report(runs)
    assert text is not None
    assert "no setting but the prompt" not in text


def test_runs_of_different_data_are_not_paired(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", "no", 2.0), run_of(tmp_path / "b", "no", 3.5, data="g")]
    words = "cannot compare a and b: their data differ: data f (fingerprint f) and data g (fingerprint g)"
    for form in ("html", "md"):
        text = write_report(runs, form="html" if form == "html" else "md")
        assert text is not None
        assert words in text
        assert "against a, paired" not in text
    [comparison] = json.loads(write_report(runs, form="json") or "")["comparisons"]
    assert (comparison["problem"], comparison["scores"], comparison["latency_ms"]) == (words, {}, {})


def test_a_note_counts_the_paired_turns(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", "no", 2.0), run_of(tmp_path / "b", "no", 3.5, cases=range(4, 16))]
    for form in ("html", "md"):
        text = write_report(runs, form="html" if form == "html" else "md")
        assert text is not None
        assert "b: only the 6 turns present in both runs are paired; 4 are only in a, 6 only in b" in text
        assert "against a, paired" in text
    alike = write_report([runs[0], run_of(tmp_path / "c", "no", 3.5)], form="md")
    assert "are paired" not in (alike or "")


def test_runs_without_a_case_in_common_are_not_paired(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", "no", 2.0), run_of(tmp_path / "b", "no", 3.5, cases=range(10, 20))]
    text = write_report(runs, form="md")
    assert "cannot compare a and b: they have no case in common" in (text or "")
    assert "against a, paired" not in (text or "")
