"""The command `weights`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from live_eval.cli.weights import command
from live_eval.errors import JudgeError, UsageError
from live_eval.judging import JudgeKind, JudgeSpec, Need, OptionSpec, OutputSpec
from live_eval.registry import JUDGES, Plugin
from tests.loopback.weights.publisher import Publisher, hub_spec, sha256

CONTENT = bytes(range(251)) * 20_000  # 5 MB; the prime period makes aligned blocks differ


TOKEN = "hf_neverprinted5e4f1b"


class Stranger:
    """Accepts all weights except one."""

    def __init__(self, *, weights: str) -> None:
        if Path(weights).read_bytes() == b"another's":
            raise JudgeError(f"{weights}: expected a toy")


@pytest.fixture
def judges(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> JudgeSpec:
    """A single third-party judge, whose weights are on a hub with credentials in its URL."""
    toy = hub_spec(publisher)
    judge = JudgeSpec(
        name="stranger",
        version="1",
        title="a stranger's",
        kind=JudgeKind.LOCAL,
        implementation=f"{__name__}:Stranger",
        outputs=(OutputSpec(name="", title="a number"),),
        needs=frozenset({Need.REPLY_AUDIO}),
        options=(OptionSpec(name="weights", help="which", default="toy", weights=(toy,)),),
    )
    found = (Plugin(JUDGES, "stranger", "theirs", judge, None),)
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda _: found)
    monkeypatch.setenv("HF_ENDPOINT", publisher.address.replace("//", f"//me:{TOKEN}@"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return judge


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert TOKEN not in result.output + str(result.exception)
    return result


@pytest.mark.usefixtures("judges")
def test_the_command_describes_fetches_and_lists(publisher: Publisher, folder: Path) -> None:
    before = json.loads(invoke("list", "--json").output)
    assert [(row["name"], row["judges"], row["here"], row["sha256"]) for row in before] == [
        ("toy", ["stranger"], False, None)
    ]
    result = invoke("fetch", "toy")
    assert result.exit_code == 0, result.output
    for words in (
        "a toy, about 5 MB",
        "licence: of toys",
        "https://example.org/toy",
        sha256(CONTENT),
        "recorded",
    ):
        assert words in result.output
    assert publisher.asked[0].token
    assert publisher.asked[0].token.startswith("Basic ")
    [row] = json.loads(invoke("list", "--json", "--check").output)
    assert (row["here"], row["path"]) == (True, str(folder / "toy/a.bin"))
    assert f"toy: {folder / 'toy/a.bin'} (SHA-256 {sha256(CONTENT)[:12]})" in invoke("list").output
    assert invoke("path", "toy").output.strip() == str(folder / "toy/a.bin")
    assert invoke("path").output.strip() == str(folder)


@pytest.mark.usefixtures("judges")
def test_the_command_reports_damaged_files(publisher: Publisher, folder: Path) -> None:
    invoke("fetch", "toy")
    (folder / "toy/a.bin").write_bytes(b"damaged")
    [row] = json.loads(invoke("list", "--json", "--check").output)
    assert not row["here"]
    assert "expected the weights toy with SHA-256" in row["problem"]
    assert f"toy: {row['problem']}" in invoke("list", "--check").output


@pytest.mark.usefixtures("judges")
def test_the_command_adds_a_local_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"mine")
    result = invoke("add", "toy", str(mine))
    assert result.exit_code == 0, result.output
    assert str(mine) in result.output
    assert invoke("path", "toy").output.strip() == str(mine)


@pytest.mark.usefixtures("judges")
def test_weights_that_their_judge_cannot_load_are_not_added(tmp_path: Path, folder: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    result = invoke("add", "toy", str(mine))
    assert isinstance(result.exception, JudgeError)
    assert str(result.exception) == f"cannot add toy: judge stranger: {mine}: expected a toy"
    assert not folder.exists()
    absent = invoke("add", "toy", str(tmp_path / "absent"))
    assert isinstance(absent.exception, JudgeError)
    assert "expected a file with the weights toy" in str(absent.exception)


@pytest.mark.usefixtures("judges")
def test_a_file_named_like_the_weights_is_loaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy").write_bytes(b"another's")
    result = invoke("add", "toy", "toy")
    assert isinstance(result.exception, JudgeError)
    assert str(result.exception) == f"cannot add toy: judge stranger: {tmp_path / 'toy'}: expected a toy"


def test_weights_without_an_installed_judge_are_added_untested(
    judges: JudgeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    lacking = replace(judges, packages=("no_such_package",))
    found = (Plugin(JUDGES, "stranger", "theirs", lacking, None),)
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda _: found)
    result = invoke("add", "toy", str(mine))
    assert result.exit_code == 0, result.output
    assert "toy: not verified: judge stranger cannot run: package no_such_package" in result.stderr
    assert invoke("path", "toy").output.strip() == str(mine)


def test_weights_with_a_known_hash_are_not_loaded(
    judges: JudgeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    [option] = judges.options
    [toy] = option.weights
    pinned = replace(toy, files=(replace(toy.files[0], sha256=sha256(b"another's")),))
    judge = replace(judges, options=(replace(option, weights=(pinned,)),))
    found = (Plugin(JUDGES, "stranger", "theirs", judge, None),)
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda _: found)
    assert invoke("add", "toy", str(mine)).exit_code == 0, "its judge would not have loaded it"


@pytest.mark.usefixtures("judges")
@pytest.mark.parametrize("arguments", [("fetch", "toys"), ("add", "toys", "x"), ("path", "toys")])
def test_an_unknown_name_lists_the_known_ones(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, UsageError)
    assert "unknown weights 'toys' (did you mean toy?), expected one of: toy" in str(result.exception)


def test_an_ambiguous_name_is_reported(judges: JudgeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    [option] = judges.options
    other = replace(option.weights[0], title="another")
    second = replace(judges, name="second", options=(replace(option, weights=(other,)),))
    found = [Plugin(JUDGES, spec.name, "theirs", spec, None) for spec in (judges, second)]
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda _: found)
    result = invoke("list")
    assert isinstance(result.exception, UsageError)
    assert "stranger and second use the name 'toy' for different weights" in str(result.exception)
