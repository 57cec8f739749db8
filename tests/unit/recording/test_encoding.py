"""Cases as stored in a run."""

import json
from pathlib import Path

from live_eval.recording._encoding import case_from, case_json
from tests.support.scripts import PARTS, row, script


def test_a_case_is_stored_and_read_back(tmp_path: Path) -> None:
    _, case = script(tmp_path, {}, {"speech": "noise", "anchor": "utterance_ended+5ms", "parts": PARTS})
    assert case_from(case_json(case), tmp_path) == case


def test_a_case_of_an_older_run_is_a_turn(tmp_path: Path) -> None:
    case = row(tmp_path)
    stored = json.loads(case_json(case))
    for name in ("speech", "anchor", "parts"):
        del stored[name]
    assert case_from(json.dumps(stored), tmp_path) == case
