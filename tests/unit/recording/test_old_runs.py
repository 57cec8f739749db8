"""A run of an earlier version can be read and has the same values as in that version."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.types import SpeechBoundaries

KEPT = Path(__file__).with_name("run_of_version_2")


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT, tmp_path / KEPT.name))


def output(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def without_new_keys(found: Any, former: Any) -> Any:
    """Return the values without keys that were added later."""
    match found, former:
        case dict(), dict():
            return {key: without_new_keys(found[key], value) for key, value in former.items() if key in found}
        case list(), list() if len(found) == len(former):
            return [without_new_keys(*pair) for pair in zip(found, former, strict=True)]
    return found


def test_its_summary_is_equal_except_for_new_keys(old_run: Path) -> None:
    former = json.loads((KEPT / "show.json").read_text())
    found = json.loads(output("show", "--json", str(old_run)))
    # Since then, the time to connect includes turns that failed later.
    connects = [each["latency_ms"].pop("connect")["n"] for each in (former, found)]
    assert connects == [1, 2]
    assert without_new_keys(found, former) == former


def test_its_exported_turns_are_equal_except_for_new_keys(old_run: Path) -> None:
    rows = [*map(json.loads, output("export", str(old_run)).splitlines())]
    former = [*map(json.loads, (KEPT / "export.jsonl").read_text().splitlines())]
    assert without_new_keys(rows, former) == former


def test_its_turns_are_timed_again_with_the_definitions_of_today(old_run: Path) -> None:
    rows = [*map(json.loads, output("export", str(old_run), "--retime").splitlines())]
    former = [*map(json.loads, (KEPT / "export.jsonl").read_text().splitlines())]
    # Since version 5 of the definitions, a response that begins before the user is a greeting.
    assert [row.pop("premature") for row in former] == [1, 0]
    assert [row["premature"] for row in rows] == [0, 0]
    for row in former:  # the reason was reworded
        row["latency_reason"]["transcript"] = row["latency_reason"]["transcript"] and "no reply text"
    assert without_new_keys(rows, former) == former


def test_its_speech_boundaries_are_read_under_their_former_name(old_run: Path) -> None:
    with RunReader.open(old_run) as run:
        turn = run.turn("id_1/target")
        reply = run.reply(turn)
    assert turn.trace.boundaries == SpeechBoundaries(
        onset_ns=20_000_000,
        voice_end_ns=180_000_000,
        words_end_ns=150_000_000,
        uncertain=True,
        reason="noise hides the end",
        method="detector",
        version="7",
        recogniser="tiny",
    )
    assert turn.trace.boundaries_uncertain
    assert turn.case.boundaries is not None
    assert (turn.case.boundaries.method, turn.case.boundaries.voice_end_ns) == ("annotation", 180_000_000)
    assert reply is not None
    assert len(reply.samples) == round(0.23 * 24_000)


def test_its_failed_attempts_are_read(old_run: Path) -> None:
    with RunReader.open(old_run) as run:
        failed: list[TurnRecord] = [turn for turn in run.turns() if not turn.captured]
        attempts = [(one.turn_id, one.attempt, one.retried) for one in run.failures()]
    assert [turn.attempt for turn in failed] == [2]
    assert attempts == [("id_2/target", 1, True), ("id_2/target", 2, False)]


def test_it_is_continued_with_the_tables_of_this_version(old_run: Path) -> None:
    with RunReader.open(old_run) as run:
        assert run.replaced("id_2/target") == []
        failed = run.turn("id_2/target")
    with RunWriter.resume(old_run, ended=True) as writer:
        writer.commit(replace(failed, attempt=3))
        writer.end(finished=True)
    with RunReader.open(old_run) as run:
        assert [turn.attempt for turn in run.replaced("id_2/target")] == [2]
