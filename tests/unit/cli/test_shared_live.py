"""Judges of a conversation in the terminal."""

import pytest

from live_eval.cli._shared_live import judges_of, print_missing
from live_eval.live.quick_scores import live_options
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import judge_options


def test_a_judge_that_cannot_run_is_named_and_the_others_score(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    config = validate({"endpoint": {"name": "reference"}, "judges": {"names": ["ves", "prosody"]}})
    options = live_options(judge_options(config.judges))
    chosen = judges_of(config, options, score=False)
    assert chosen.able == ["prosody"]
    assert chosen.missing["ves"].startswith("cue (only in performed scripts)")
    assert "GEMINI_API_KEY" in chosen.missing["ves"]
    assert "cue" not in judges_of(config, options, score=False, scripted=True).missing["ves"]
    print_missing(chosen.missing)
    assert capsys.readouterr().err.startswith("note: judge ves cannot score, missing: cue")
