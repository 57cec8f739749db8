"""The output of every command with ``--json``, on a calibrated machine, compared with its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner

from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.cli import cli
from live_eval.recording import RunWriter, ScoreStore
from live_eval.recording.calibrations import KeptCalibration
from tests.support.duplex_campaigns import pause, write_duplex_campaign
from tests.support.records import spoken_turn
from tests.unit.conftest import MANIFEST, SCRIPTS, a_case, write_run

GOLDEN = Path(__file__).parents[2] / "conformance" / "golden" / "openai" / "ordinary_turn.jsonl"
CALIBRATION = KeptCalibration(
    date="2026-11-01T12:00:00+00:00",
    transport="websocket",
    sessions=1,
    noise=False,
    stamps="kernel",
    errors_p99_ms={"first_byte": 0.2, "voice_to_voice": 0.3},
    floor_p99_ms=0.2,
    turns=60,
)
ELSEWHERE = {
    "calibrate": "tests/unit/cli/test_calibrate.py",
    "doctor": "tests/loopback/cli/test_doctor.py",
    "run": "tests/unit/cli/test_run.py",
    "latency": "tests/loopback/campaigns/latency/test_campaign.py, against a schema of its own",
}
"""Commands that run conversations, with the tests that validate their output."""


DOCUMENT = json.loads(resources.files("live_eval.cli").joinpath("json_output.json").read_text("utf-8"))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT)


def validate(printed: Any, command: str) -> None:
    """Check a command's output; `jsonschema.validate` would also check the large schema each time."""
    assert command in DOCUMENT["$defs"], f"{command} --json has no schema in live_eval/cli/json_output.json"
    jsonschema.Draft202012Validator({**DOCUMENT, "$ref": f"#/$defs/{command}"}).validate(printed)


def validated(command: str, arguments: Sequence[object]) -> Any:
    done = CliRunner().invoke(cli, [*command.split(), *map(str, arguments)], catch_exceptions=False)
    printed = json.loads(done.stdout)
    validate(printed, command)
    return printed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of a calibrated machine, the second one small."""
    folder = tmp_path_factory.mktemp("calibrated") / "runs"
    machine = {**MANIFEST["machine"], "calibration": CALIBRATION.model_dump(mode="json")}
    first = write_run(folder / "first", manifest={**MANIFEST, "machine": machine})
    with RunWriter.create(folder / "second", {**MANIFEST, "machine": machine}) as run:
        for number in range(2 * SCRIPTS):
            run.commit(spoken_turn(a_case(number)))
        run.end(finished=True)
    ScoreStore.open(folder / "second").close()
    return [first, folder / "second"]


@pytest.fixture
def arguments(runs: list[Path], tmp_path: Path) -> dict[str, list[Sequence[object]]]:
    """The arguments for each command."""
    votes = tmp_path / "votes.csv"
    rows = [f"id_{number}/target,first,second,second,ann" for number in range(SCRIPTS)]
    votes.write_text("\n".join(["case_id,first,second,winner,rater", *rows, ""]), "utf-8")
    data = tmp_path / "data"
    data.mkdir()
    (data / "broken.wav").write_bytes(b"no audio")
    first, second = runs
    spoken = {"clean": [("pause", "600 ms", pause("one", 600, waits=True))]}
    duplex, again = (write_duplex_campaign(tmp_path / name, spoken) for name in ("duplex", "again"))
    return {
        "arena": [[first, second, "--votes", votes, "--no-judge", "--out", tmp_path / "arena.jsonl"]],
        "audit": [["bleu", first, "--parts", "consistency"]],
        "compare": [[first, second]],
        "cue-sensitivity": [[first, "--words"]],
        "data check": [[data]],
        "data list": [[]],
        "duplex compare": [[duplex, again]],
        "duplex measure": [["--list"]],
        "endpoint": [["--list-faults"]],
        "endpoints": [[], ["openai"]],
        "impair": [["delay=300ms"], ["--list"]],
        "judges": [[], ["nisqa"]],
        "leaderboard": [[first], [first, second, "--all-prompts"]],
        "plan": [["--detect", "50", "--metric", "first_byte", "--from", first]],
        "plugins": [[]],
        "replay": [[GOLDEN, "--endpoint", "openai"]],
        "runs gc": [[first.parent, "--dry-run"]],
        "runs list": [[first.parent]],
        "score": [[first, "--judges", "bleu"]],
        "show": [[first], [first, "--retime"], [second]],
        "weights list": [[]],
    }


def commands_with_json(command: click.Command = cli, *path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands_with_json(inner, *path, name)
    elif any("--json" in option.opts for option in command.params):
        yield " ".join(path)


def test_every_command_with_json_is_tried(arguments: dict[str, list[Sequence[object]]]) -> None:
    assert sorted(commands_with_json()) == sorted([*arguments, *ELSEWHERE])


@pytest.mark.parametrize("command", sorted(set(commands_with_json()) - set(ELSEWHERE)))
def test_the_output_follows_its_schema(command: str, arguments: dict[str, list[Sequence[object]]]) -> None:
    for each in arguments[command]:
        validated(command, [*each, "--json"])


def test_a_duplex_campaign_follows_its_schema(tmp_path: Path) -> None:
    trials = {"clean": [("pause", "600 ms", pause("one", 600, waits=True))]}
    summary = duplex_summary(read_duplex(write_duplex_campaign(tmp_path / "duplex", trials))).as_json()
    validate(summary, "duplex measure")


def test_the_calibration_is_part_of_the_summary(runs: list[Path]) -> None:
    kept = CALIBRATION.model_dump(mode="json")
    assert validated("show", [runs[0], "--json"])["run"]["calibration"] == kept
    report = validated("report", [*runs, "--format", "json", "--output", "-"])
    assert [each["run"]["calibration"] for each in report["runs"]] == [kept, kept]
    done = CliRunner().invoke(cli, ["report", str(runs[0]), "--format", "csv", "--output", "-"])
    assert "first,run.calibration.errors_p99_ms.first_byte,0.2" in done.stdout
